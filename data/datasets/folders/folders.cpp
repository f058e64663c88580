// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/folders/folders.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <span>

#include "belfry/core/atomic_file.h"
#include "belfry/core/error.h"
#include "belfry/core/names_text.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"
#include "belfry/data/datasets/folders/decode_internal.h"

namespace belfry {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLargestFile = std::uint64_t{256} << 20;

std::vector<std::uint8_t> bytes_of(const std::string& path,
                                   std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
  const InputFile file(path, ErrorClass::data);
  if (file.size() > kLargestFile)
    refuse_image(path, "the file is too large for an image", std::to_string(file.size()) + " bytes",
                 "at most " + std::to_string(kLargestFile));
  std::vector<std::uint8_t> out(static_cast<std::size_t>(std::min(file.size(), most)));
  file.read_at(0, std::as_writable_bytes(std::span(out)));
  return out;
}

// Of its header alone, or of all of it where the sizes come late.
DecodedImage size_of_image(const std::string& path) {
  constexpr std::uint64_t kHeader = 1 << 16;
  const std::vector<std::uint8_t> head = bytes_of(path, kHeader);
  try {
    return decode_size(head, path);
  } catch (const DataError&) {
    if (head.size() < kHeader) throw;
  }
  return decode_size(bytes_of(path), path);
}

std::string size_text(std::int64_t rows, std::int64_t columns) {
  return std::to_string(rows) + " x " + std::to_string(columns);
}

bool hidden(const fs::path& path) { return path.filename().string().starts_with("."); }

bool is_image(const fs::path& path) {
  if (hidden(path)) return false;
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".jpg" || end == ".jpeg" || end == ".png";
}

struct Files {
  std::vector<std::string> names;  // of the classes
  std::vector<std::string> paths;
  std::vector<std::int32_t> labels;
};

[[noreturn]] void refuse_folder(const std::string& root, const std::string& what,
                                const std::string& found, const std::string& expected,
                                const std::string& fix = "") {
  throw DataError(
      ErrorText{.what = what, .found = found, .expected = expected, .fix = fix, .file = root});
}

void require_folder(const std::string& root, const std::string& expected) {
  std::error_code code;
  if (!fs::is_directory(root, code))
    refuse_folder(root, "the data folder does not exist",
                  fs::exists(root, code) ? "a file" : "nothing", expected,
                  "check the path; it is relative to the config file");
}

void refuse_none(const std::string& root, const Files& files) {
  if (files.paths.empty())
    refuse_folder(root, "the data set is empty", "0 rows: no .jpg, .jpeg or .png file",
                  "at least 1 image");
}

std::vector<std::string> class_folders(const std::string& root) {
  require_folder(root, "a folder with one folder a class");
  std::error_code code;
  std::vector<std::string> out;
  for (fs::directory_iterator it(root, code), end; !code && it != end; it.increment(code))
    if (it->is_directory(code) && !hidden(it->path()))
      out.push_back(it->path().filename().string());
  if (code) refuse_folder(root, "the folder cannot be read", code.message(), "");
  std::sort(out.begin(), out.end());
  if (out.empty())
    refuse_folder(root, "the folder holds no folders", "0 classes",
                  "one folder a class, with its images inside");
  return out;
}

// All images below the folder of class `label`, sorted.
void add_class(const std::string& folder, std::int32_t label, Files& out) {
  std::vector<std::string> paths;
  std::error_code code;
  for (fs::recursive_directory_iterator it(folder, code), end; !code && it != end;
       it.increment(code)) {
    if (hidden(it->path())) it.disable_recursion_pending();
    if (is_image(it->path()) && it->is_regular_file(code)) paths.push_back(it->path().string());
  }
  if (code) refuse_folder(folder, "the folder cannot be read", code.message(), "");
  std::sort(paths.begin(), paths.end());
  out.labels.insert(out.labels.end(), paths.size(), label);
  out.paths.insert(out.paths.end(), paths.begin(), paths.end());
}

Files find_files(const std::string& root, const FoldersOptions& options) {
  Files out;
  const std::vector<std::string>& names = options.names;
  if (options.unlabelled) {
    require_folder(root, "a folder with images");
    add_class(root, 0, out);
    out.names = names;
    refuse_none(root, out);
    return out;
  }
  const std::vector<std::string> there = class_folders(root);
  out.names = names.empty() ? there : names;
  for (const std::string& folder : there)
    if (std::find(out.names.begin(), out.names.end(), folder) == out.names.end())
      refuse_folder(root, "a folder is no class of `names`", "'" + folder + "'",
                    "folders that `names` lists", "add it to `names` or move it away");
  for (std::size_t c = 0; c < out.names.size(); ++c)
    if (std::find(there.begin(), there.end(), out.names[c]) != there.end())
      add_class((fs::path(root) / out.names[c]).string(), static_cast<std::int32_t>(c), out);
  refuse_none(root, out);
  return out;
}

class FolderImages final : public Dataset {
 public:
  FolderImages(Files files, const FoldersOptions& options)
      : files_(std::move(files)), options_(options) {
    check_normalisation(options.mean, options.stddev, static_cast<std::size_t>(options.channels));
    std::vector<std::int64_t> size = options.size;
    if (size.empty()) size = common_size();
    const Shape shape{size[0], size[1], options.channels};
    fields_ = {{"image", shape, DType::f32}, {"label", Shape{}, DType::i32}};
    for (std::size_t c = 0; c < static_cast<std::size_t>(options.channels); ++c) {
      mean_[c] = 255 * options.mean[options.mean.size() == 1 ? 0 : c];
      factor_[c] = 1 / (255 * options.stddev[options.stddev.size() == 1 ? 0 : c]);
    }
  }
  std::int64_t rows() const override { return static_cast<std::int64_t>(files_.paths.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return static_cast<std::int64_t>(files_.names.size()); }
  std::vector<std::string> class_names() const override { return files_.names; }
  std::string describe() const override {
    const bool labelled = !options_.unlabelled;
    return "folders: " + fields_text(rows(), fields_, labelled) +
           (labelled ? classes_text(classes(), 0) : "");
  }
  std::string warning() const override {
    if (options_.unlabelled) return "";
    std::vector<std::string> without;
    for (std::size_t c = 0; c < files_.names.size(); ++c)
      if (std::find(files_.labels.begin(), files_.labels.end(), static_cast<std::int32_t>(c)) ==
          files_.labels.end())
        without.push_back(files_.names[c]);
    return without.empty() ? "" : "classes without images: " + names_text(without);
  }
  RowPlace place(std::int64_t row) const override {
    return {files_.paths[static_cast<std::size_t>(row)], row};
  }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    check_read(rows, this->rows(), out.size(), fields_.size());
    auto* image = static_cast<float*>(out[0]);
    auto* label = static_cast<std::int32_t*>(out[1]);
    for (const std::int64_t row : rows) {
      read_image(files_.paths[static_cast<std::size_t>(row)], image);
      image += fields_[0].shape.size();
      *label++ = files_.labels[static_cast<std::size_t>(row)];
    }
  }

 private:
  // That of the first image; the others are looked at now, not in the middle of an epoch.
  std::vector<std::int64_t> common_size() const {
    const DecodedImage first = size_of_image(files_.paths[0]);
    std::string found, path;
    std::int64_t others = 0;
    for (const std::string& p : std::span(files_.paths).subspan(1)) {
      const DecodedImage image = size_of_image(p);
      if (image.rows == first.rows && image.columns == first.columns) continue;
      if (others++ == 0) found = size_text(image.rows, image.columns), path = p;
    }
    if (others > 1) found += " (and " + count_text(others - 1, "other image") + " of another size)";
    if (others > 0) refuse_size(path, found, first.rows, first.columns);
    return {first.rows, first.columns};
  }
  [[noreturn]] static void refuse_size(const std::string& path, const std::string& found,
                                       std::int64_t rows, std::int64_t columns) {
    throw DataError(ErrorText{.what = "the image has another size than the first",
                              .found = found,
                              .expected = size_text(rows, columns),
                              .fix = "give the data a `size` to bring all to, e.g. [" +
                                     std::to_string(rows) + ", " + std::to_string(columns) + "]",
                              .file = path});
  }
  void read_image(const std::string& path, float* out) const {
    const Shape& shape = fields_[0].shape;
    const DecodedImage decoded = decode_image(bytes_of(path), path, options_.channels);
    const bool fits = decoded.rows == shape[0] && decoded.columns == shape[1];
    if (!fits && options_.size.empty())
      refuse_size(path, size_text(decoded.rows, decoded.columns), shape[0], shape[1]);
    const auto channels = static_cast<std::size_t>(options_.channels);
    const auto bring = [&](const auto& values) {
      for (std::size_t i = 0; i < values.size(); i += channels)
        for (std::size_t c = 0; c < channels; ++c)
          out[i + c] =
              static_cast<float>((static_cast<double>(values[i + c]) - mean_[c]) * factor_[c]);
    };
    fits ? bring(decoded.pixels)
         : bring(resized(decoded, shape[0], shape[1], options_.fit == "crop"));
  }

  Files files_;
  FoldersOptions options_;
  std::vector<Field> fields_;
  std::array<double, 3> mean_{}, factor_{};  // of values up to 255, a channel
};

class FoldersFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("folder", folder_, {.path = true, .help = "one folder a class in it, with images"});
    schema.rule([this] { return folder_.empty() ? std::string("`folder` is needed") : ""; });
    options_.declare(schema);
  }
  bool without_labels() override { return options_.unlabelled = true; }
  bool stands_alone() const override { return !options_.unlabelled; }
  std::shared_ptr<const Dataset> open_beside(const std::string& base,
                                             const Dataset& train) const override {
    FoldersFactory out(*this);
    if (options_.unlabelled && options_.names.empty()) out.options_.names = train.class_names();
    return out.open(base);
  }
  std::vector<std::string> row_keys() const override { return {"fit", "channels", "mean", "std"}; }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    return folders(path_in(base, folder_), options_);
  }

 private:
  std::string folder_;
  FoldersOptions options_;
};

}  // namespace

void FoldersOptions::declare(Schema& schema) {
  schema
      .key("size", size,
           {.min = 1,
            .max = 16384,
            .help = "[rows, columns] to which images are brought; empty: all are as the first"})
      .key("fit", fit,
           {.choices = {"crop", "stretch"},
            .help = "crop: the middle of the image in the ratio of `size`; stretch: all of it"})
      .key("channels", channels, {.min = 1, .max = 3, .help = "3: colour, 1: grey"})
      .key("names", names,
           {.help = "the classes in the order of their labels; empty: the folders, sorted"})
      .key("mean", mean,
           {.min = -1e6, .max = 1e6, .help = "subtracted from pixel / 255; 1 value or 1 a channel"})
      .key("std", stddev,
           {.min = 0,
            .max = 1e6,
            .exclusive_min = true,
            .help = "divides what is left; 1 value or 1 a channel"});
  schema.rule([this] {
    return size.empty() || size.size() == 2
               ? std::string()
               : "`size` is [rows, columns], found " + std::to_string(size.size()) + " values";
  });
  schema.rule([this] {
    return channels == 2 ? std::string("`channels`: found 2, expected 1 or 3") : std::string();
  });
  schema.rule([this] { return names_fault(names); });
}

std::shared_ptr<const Dataset> folders(const std::string& root, const FoldersOptions& options) {
  FoldersOptions checked = options;
  Schema schema;
  checked.declare(schema);
  schema.validate("folders");
  return std::make_shared<FolderImages>(find_files(root, options), options);
}

void register_dataset_folders(Registry& registry) {
  registry.table<DatasetEntry>().add("folders", {[] { return std::make_unique<FoldersFactory>(); },
                                                 "JPEG and PNG images, a folder a class"});
}

}  // namespace belfry
