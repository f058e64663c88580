// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/idx/idx.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"

namespace belfry {
namespace {

constexpr std::uint32_t kImages = 0x00000803;  // u8, 3 dimensions
constexpr std::uint32_t kLabels = 0x00000801;  // u8, 1 dimension

std::uint32_t big_endian(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}

std::string hex(std::uint32_t v) {
  static const char* kDigits = "0123456789abcdef";
  std::string out = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) out += kDigits[(v >> shift) & 15u];
  return out;
}

// What a wrong magic number probably is, to name the mistake and not just the number.
std::string explain(std::uint32_t magic, const std::uint8_t* head) {
  if (magic == kImages) return "an images file";
  if (magic == kLabels) return "a labels file";
  const std::uint32_t swapped =
      big_endian(std::array<std::uint8_t, 4>{head[3], head[2], head[1], head[0]}.data());
  if (swapped == kImages || swapped == kLabels) return "an IDX file with its bytes swapped";
  if (const std::string known = guess_format(head, 4); !known.empty()) return known;
  const std::uint32_t type = magic >> 8, rank = magic & 0xffu;
  if (magic >> 16 == 0 && type >= 0x08 && type <= 0x0e)
    return "an IDX file of type " + hex(type).substr(8) + " with " + count_text(rank, "dimension");
  return "not an IDX file";
}

[[noreturn]] void throw_idx(const ByteFile& file, std::string what, std::string found,
                            std::string expected, std::string fix) {
  throw DataError(ErrorText{.what = std::move(what),
                            .found = std::move(found),
                            .expected = std::move(expected),
                            .fix = std::move(fix),
                            .file = file.path()});
}

struct Content {
  std::array<std::uint32_t, 3> extents{1, 1, 1};
  ByteBlock bytes;
};

void read_header(ByteFile& file, std::uint32_t magic, int rank, Content& out) {
  std::array<std::uint8_t, 16> head{};
  const std::size_t wanted = 4 + 4 * static_cast<std::size_t>(rank);
  const std::size_t got = file.read(head.data(), wanted);
  if (got == 0)
    throw_idx(file, "the data set is empty", "0 rows (0 bytes)", "at least 1 row",
              "fetch the file again");
  const std::uint32_t found = big_endian(head.data());
  if (got >= 4 && found != magic)
    throw_idx(file, "wrong magic number", hex(found) + " (" + explain(found, head.data()) + ")",
              hex(magic) + (magic == kImages ? " (an images file)" : " (a labels file)"),
              "check that `images` and `labels` name the right files");
  if (got < wanted)
    throw_idx(file, "the IDX header is cut", count_text(static_cast<std::int64_t>(got), "byte"),
              std::to_string(wanted), "fetch the file again");
  for (int d = 0; d < rank; ++d)
    out.extents[static_cast<std::size_t>(d)] =
        big_endian(&head[4 + 4 * static_cast<std::size_t>(d)]);
}

// Reads a whole file. Its sizes are checked against what the file can hold before memory is taken.
Content read_idx(const std::string& path, std::uint32_t magic, int rank) {
  ByteFile file(path);
  Content out;
  read_header(file, magic, rank, out);
  const auto [n, h, w] = out.extents;
  if (n == 0)
    throw_idx(file, "the data set is empty", "0 rows", "at least 1 row",
              "check that the right file is named");
  if (h == 0 || w == 0)
    throw_idx(file, "an image has no pixels", std::to_string(h) + " x " + std::to_string(w),
              "at least 1 x 1", "");
  std::uint64_t payload = 0;
  const bool overflow = __builtin_mul_overflow(std::uint64_t{h} * w, std::uint64_t{n}, &payload);
  const std::uint64_t header = 4 + 4 * static_cast<std::uint64_t>(rank);
  const std::string claim =
      (overflow ? "more than 2^64" : std::to_string(payload)) + " bytes for " +
      count_text(n, "row") +
      (rank == 3 ? " of " + std::to_string(h) + " x " + std::to_string(w) : "");
  const std::string fix = "the file was cut or its header is damaged; fetch it again";
  if (overflow || payload > file.max_bytes() ||
      (!file.compressed() && payload + header > file.file_bytes()))
    throw_idx(file, "the file is too short for its header",
              file.compressed() ? std::to_string(file.file_bytes()) + " bytes of gzip"
                                : std::to_string(file.file_bytes() - header) + " bytes",
              claim, fix);
  out.bytes = file.rest(payload);
  if (const std::size_t got = out.bytes.size(); got < payload)
    throw_idx(file, "the file is too short for its header", std::to_string(got) + " bytes", claim,
              fix);
  if (const std::uint64_t extra = file.skip(1u << 20); extra > 0)
    throw_idx(file, "bytes follow the last row",
              (extra == 1u << 20 ? "at least " : "") + std::to_string(extra) + " more bytes", claim,
              "the header is damaged or the file is not what it seems; fetch it again");
  return out;
}

class IdxFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("images", images_, {.path = true, .help = "IDX file of images, plain or gzip"})
        .key("labels", labels_, {.path = true, .help = "IDX file of labels, plain or gzip"})
        .key("mean", options_.mean,
             {.min = -1e6, .max = 1e6, .help = "subtracted from pixel / 255"})
        .key("std", options_.stddev,
             {.min = 0, .max = 1e6, .exclusive_min = true, .help = "divides what is left"});
    options_.labels.declare(schema);
    options_.rows.declare(schema);
    schema.rule([this] {
      return images_.empty() || labels_.empty() ? std::string("`images` and `labels` are needed")
                                                : "";
    });
  }
  bool without_labels() override { return options_.unlabelled = true; }
  std::vector<std::string> label_files() const override { return {"labels"}; }
  std::vector<std::string> row_keys() const override { return {"mean", "std"}; }
  bool stands_alone() const override { return true; }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    return idx(path_in(base, images_), path_in(base, labels_), options_);
  }

 private:
  std::string images_, labels_;
  IdxOptions options_;
};

}  // namespace

std::shared_ptr<const Dataset> idx(const std::string& images, const std::string& labels,
                                   const IdxOptions& options) {
  check_normalisation({options.mean}, {options.stddev}, 1);
  Content label;
  if (!options.unlabelled) label = read_idx(labels, kLabels, 1);
  Content image = read_idx(images, kImages, 3);
  const auto [n, h, w] = image.extents;
  if (options.unlabelled) {
    label.extents[0] = n;
    label.bytes = ByteBlock(std::vector<std::uint8_t>(n));
  }
  if (n != label.extents[0])
    throw DataError(
        ErrorText{.what = "images and labels do not belong together",
                  .found = count_text(n, "image"),
                  .expected = count_text(label.extents[0], "label") + " as in " + labels,
                  .fix = "name the two files of the same set",
                  .file = images});
  const auto label_of = [&](std::int64_t r) {
    return static_cast<std::int64_t>(label.bytes[static_cast<std::size_t>(r)]);
  };
  const std::int64_t classes = check_labels(labels, n, options.labels, label_of);
  const std::int64_t count = options.rows.resolve(images, n), first = options.rows.first;
  const std::size_t pixels = static_cast<std::size_t>(h) * w;
  image.bytes.cut(static_cast<std::size_t>(first) * pixels,
                  static_cast<std::size_t>(count) * pixels);
  return std::make_shared<ByteImages>(ByteImages::Content{
      .shape = Shape{h, w, 1},
      .pixels = std::move(image.bytes),
      .labels = {label.bytes.data() + first, label.bytes.data() + first + count},
      .classes = classes,
      .mean = {options.mean},
      .stddev = {options.stddev},
      .kind = "idx",
      .warning = options.unlabelled ? "" : label_gaps(labels, n, options.labels, label_of),
      .first = first,
      .unlabelled = options.unlabelled});
}

void register_dataset_idx(Registry& registry) {
  registry.table<DatasetEntry>().add(
      "idx", {[] { return std::make_unique<IdxFactory>(); }, "MNIST's IDX format, plain or gzip"});
}

}  // namespace belfry
