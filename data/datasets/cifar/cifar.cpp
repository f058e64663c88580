// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/cifar/cifar.h"

#include <cstdint>
#include <limits>

#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"

namespace belfry {
namespace {

constexpr std::size_t kPlane = 32 * 32;
constexpr std::size_t kPixels = 3 * kPlane;

// A record is the label bytes, then the red, green and blue plane.
struct Format {
  std::string name;
  std::size_t label_bytes;
  std::size_t label_at;
  std::int64_t classes;
  std::size_t record() const { return label_bytes + kPixels; }
};

Format format_of(const CifarOptions& options) {
  if (options.kind == "cifar10") return {"cifar10", 1, 0, 10};
  if (options.kind != "cifar100")
    throw ConfigError(ErrorText{.what = "`kind` is unknown",
                                .found = "'" + options.kind + "'",
                                .expected = "'cifar10' or 'cifar100'"});
  if (options.label == "coarse") return {"cifar100", 2, 0, 20};
  if (options.label == "fine") return {"cifar100", 2, 1, 100};
  throw ConfigError(ErrorText{.what = "`label` must be chosen for cifar100",
                              .found = "'" + options.label + "'",
                              .expected = "'fine' (100 classes) or 'coarse' (20 classes)"});
}

void check_size(const std::string& path, std::uint64_t bytes, const Format& format,
                const std::string& head) {
  if (bytes == 0)
    throw DataError(ErrorText{.what = "the data set is empty",
                              .found = "0 rows (0 bytes)",
                              .expected = "at least 1 row",
                              .fix = "fetch the file again",
                              .file = path});
  const std::uint64_t rest = bytes % format.record();
  if (rest == 0) return;
  const std::size_t other = format.label_bytes == 1 ? kPixels + 2 : kPixels + 1;
  std::string fix = "the file was cut; fetch it again";
  if (bytes % other == 0)
    fix = "the size is a multiple of " + std::to_string(other) + ": set kind = \"" +
          (other == kPixels + 2 ? "cifar100" : "cifar10") + "\"";
  else if (!head.empty())
    fix = "this looks like " + head + "; unpack it and name the .bin files";
  throw DataError(
      ErrorText{.what = "the file does not hold whole records of " + format.name,
                .found = std::to_string(bytes) + " bytes, remainder " + std::to_string(rest),
                .expected = "a multiple of the record size " + std::to_string(format.record()),
                .fix = fix,
                .file = path});
}

ByteBlock read_records(const std::string& path, const Format& format) {
  ByteFile file(path);
  if (!file.compressed() && file.file_bytes() % format.record() != 0) {
    std::uint8_t start[8] = {};
    const std::size_t got = file.read(start, sizeof start);
    check_size(path, file.file_bytes(), format, guess_format(start, got));
  }
  ByteBlock raw = file.rest(std::numeric_limits<std::uint64_t>::max());
  check_size(path, raw.size(), format, guess_format(raw.data(), raw.size()));
  return raw;
}

// Appends the file's rows with channels last.
void append_rows(const ByteBlock& raw, const Format& format, std::size_t count,
                 std::vector<std::uint8_t>& pixels, std::vector<std::int32_t>& labels) {
  const std::size_t old = pixels.size();
  pixels.resize(old + count * kPixels);
  std::uint8_t* to = pixels.data() + old;
  for (std::size_t r = 0; r < count; ++r) {
    const std::uint8_t* record = raw.data() + r * format.record();
    labels.push_back(record[format.label_at]);
    const std::uint8_t* planes = record + format.label_bytes;
    for (std::size_t p = 0; p < kPlane; ++p, to += 3)
      for (std::size_t c = 0; c < 3; ++c) to[c] = planes[c * kPlane + p];
  }
}

class CifarFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema
        .key("files", files_,
             {.path = true, .help = "binary files, plain or gzip, read one after the other"})
        .key("kind", options_.kind, {.choices = {"cifar10", "cifar100"}, .help = "record format"})
        .key("label", options_.label,
             {.choices = {"", "fine", "coarse"}, .help = "which label of cifar100"})
        .key("mean", options_.mean,
             {.min = -1e6, .max = 1e6, .help = "subtracted from pixel / 255; 1 value or R, G, B"})
        .key("std", options_.stddev,
             {.min = 0,
              .max = 1e6,
              .exclusive_min = true,
              .help = "divides what is left; 1 value or R, G, B"});
    options_.rows.declare(schema);
    schema.rule([this] { return files_.empty() ? std::string("`files` is needed") : ""; });
    schema.rule([this] {
      return options_.kind == "cifar100" && options_.label.empty()
                 ? std::string("`label` must be \"fine\" or \"coarse\" for cifar100")
                 : "";
    });
    schema.rule([this] {
      const bool fit = (options_.mean.size() == 1 || options_.mean.size() == 3) &&
                       (options_.stddev.size() == 1 || options_.stddev.size() == 3);
      return fit ? "" : std::string("`mean` and `std` hold 1 or 3 values");
    });
  }
  std::vector<std::string> row_keys() const override { return {"kind", "label", "mean", "std"}; }
  bool stands_alone() const override { return true; }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    std::vector<std::string> paths;
    for (const std::string& f : files_) paths.push_back(path_in(base, f));
    return cifar(paths, options_);
  }

 private:
  std::vector<std::string> files_;
  CifarOptions options_;
};

}  // namespace

std::shared_ptr<const Dataset> cifar(const std::vector<std::string>& files,
                                     const CifarOptions& options) {
  const Format format = format_of(options);
  check_normalisation(options.mean, options.stddev, 3);
  if (files.empty()) throw ConfigError("`files` names no file");
  for (const std::string& path : files)
    ByteFile check(path);  // a missing one is named before work starts
  ByteImages::Content content{.shape = Shape{32, 32, 3},
                              .classes = format.classes,
                              .mean = options.mean,
                              .stddev = options.stddev,
                              .kind = format.name};
  std::vector<std::uint8_t> pixels;
  for (const std::string& path : files) {
    const ByteBlock raw = read_records(path, format);
    const std::size_t count = raw.size() / format.record();
    check_labels(
        path, static_cast<std::int64_t>(count), {.classes = format.classes, .fixed = true},
        [&](std::int64_t r) {
          return std::int64_t{raw[static_cast<std::size_t>(r) * format.record() + format.label_at]};
        });
    content.files.emplace_back(path, std::ssize(content.labels) + static_cast<std::int64_t>(count));
    append_rows(raw, format, count, pixels, content.labels);
  }
  const auto rows = static_cast<std::int64_t>(content.labels.size());
  const std::int64_t count = options.rows.resolve(files.front(), rows), first = options.rows.first;
  content.first = first;
  content.pixels = ByteBlock(std::move(pixels));
  content.pixels.cut(static_cast<std::size_t>(first) * kPixels,
                     static_cast<std::size_t>(count) * kPixels);
  content.labels = {content.labels.begin() + first, content.labels.begin() + first + count};
  return std::make_shared<ByteImages>(std::move(content));
}

void register_dataset_cifar(Registry& registry) {
  registry.table<DatasetEntry>().add("cifar",
                                     {[] { return std::make_unique<CifarFactory>(); },
                                      "CIFAR-10 and CIFAR-100 binary files, plain or gzip"});
}

}  // namespace belfry
