// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/npy/npy.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "belfry/core/error.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"
#include "belfry/data/datasets/npy/array_internal.h"

namespace belfry {
namespace {

class NpyDataset final : public Dataset {
 public:
  NpyDataset(NpyArray x, const Shape& row, const NpyOptions& o) : x_(std::move(x)), options_(o) {
    fields_ = {{o.field, row, DType::f32}, {"label", Shape{}, DType::i32}};
    const auto channels = static_cast<std::size_t>(row[-1]);
    check_normalisation(o.mean, o.stddev, channels);
    check_number("scale", o.scale, true);
    plain_ = o.scale == 1 && o.mean == std::vector<double>{0} && o.stddev == std::vector<double>{1};
  }
  // `width` numbers a row, in place of labels.
  void set_targets(std::vector<float> values, std::int64_t width) {
    fields_[1] = {"target", Shape{width}, DType::f32};
    targets_ = std::move(values);
    labels_.resize(targets_.size() / static_cast<std::size_t>(width));
  }
  void set_labels(std::vector<std::int32_t> labels, std::int64_t classes, std::string warning) {
    labels_ = std::move(labels);
    classes_ = classes;
    warning_ = std::move(warning);
  }
  std::int64_t rows() const override { return static_cast<std::int64_t>(labels_.size()); }
  const std::vector<Field>& fields() const override { return fields_; }
  std::int64_t classes() const override { return classes_; }
  std::string warning() const override { return warning_; }
  RowPlace place(std::int64_t row) const override { return {"", options_.rows.first + row}; }
  std::string describe() const override {
    const std::string kept = ", kept as " + x_.header.type;
    if (options_.unlabelled) return "npy: " + fields_text(rows(), fields_, false) + kept;
    std::int32_t smallest = std::numeric_limits<std::int32_t>::max();
    for (const std::int32_t l : labels_) smallest = std::min(smallest, l);
    return "npy: " + fields_text(rows(), fields_) + kept + classes_text(classes_, smallest);
  }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    check_read(rows, this->rows(), out.size(), fields_.size());
    const auto width = static_cast<std::size_t>(fields_[0].shape.size());
    auto* x = static_cast<float*>(out[0]);
    auto* label = static_cast<std::int32_t*>(out[1]);
    auto* target = static_cast<float*>(out[1]);
    const auto targets = static_cast<std::size_t>(fields_[1].shape.size());
    for (const std::int64_t row : rows) {
      const auto r = static_cast<std::size_t>(row);
      to_floats(x_, r * width, width, x);
      if (!plain_) normalise(x, width);
      x += width;
      if (targets_.empty())
        *label++ = labels_[r];
      else
        target = std::copy_n(targets_.data() + r * targets, targets, target);
    }
  }

 private:
  void normalise(float* x, std::size_t width) const {
    const auto channels = static_cast<std::size_t>(fields_[0].shape[-1]);
    const std::vector<double>&mean = options_.mean, &stddev = options_.stddev;
    for (std::size_t i = 0; i < width; i += channels)
      for (std::size_t c = 0; c < channels; ++c) {
        const double v = static_cast<double>(x[i + c]) / options_.scale;
        x[i + c] = static_cast<float>((v - mean[mean.size() == 1 ? 0 : c]) /
                                      stddev[stddev.size() == 1 ? 0 : c]);
      }
  }

  NpyArray x_;
  NpyOptions options_;
  bool plain_ = false;
  std::vector<Field> fields_;
  std::vector<std::int32_t> labels_;
  std::vector<float> targets_;
  std::int64_t classes_ = 0;
  std::string warning_;
};

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out;
  for (const std::int64_t e : shape) out += (out.empty() ? "" : ", ") + std::to_string(e);
  return "[" + out + "]";
}

[[noreturn]] void refuse(const NpyArray& a, const std::string& what, const std::string& found,
                         const std::string& expected, const std::string& fix = "") {
  throw DataError(
      ErrorText{.what = what, .found = found, .expected = expected, .fix = fix, .file = a.title});
}

// The shape of a row of x; the array is brought to channels last.
Shape row_shape(NpyArray& x, const NpyOptions& o) {
  std::vector<std::int64_t>& whole = x.header.shape;
  if (whole.empty()) refuse(x, "the array holds a single value", "no axes", "rows along axis 0");
  if (whole.size() > static_cast<std::size_t>(Shape::kMaxRank))
    refuse(x, "the array has too many axes", shape_text(whole),
           "at most " + std::to_string(Shape::kMaxRank));
  if (whole[0] == 0) refuse(x, "the data set is empty", "0 rows", "at least 1 row");
  if (x.header.bytes == 0) refuse(x, "a row has no values", shape_text(whole), "extents above 0");
  if (o.channels_first) {
    if (whole.size() != 4)
      refuse(x, "channels_first needs images", shape_text(whole),
             "[rows of data, channels, rows, columns]");
    transpose(x, {0, 2, 3, 1});
  }
  const std::vector<std::int64_t> own(whole.begin() + 1, whole.end());
  if (o.shape.empty()) return own.empty() ? Shape{1} : Shape(own);
  const Shape wanted(o.shape);
  if (wanted.size() != x.size() / whole[0])
    refuse(x, "`shape` does not fit the rows of the array", shape_text(own), shape_text(o.shape),
           "give a `shape` of " + std::to_string(x.size() / whole[0]) + " values");
  return wanted;
}

void check_label_array(const NpyArray& y, std::int64_t rows, const std::string& x_title) {
  const std::vector<std::int64_t>& shape = y.header.shape;
  if (y.header.kind == 'f')
    refuse(y, "labels are integers", "type " + y.header.type, "an integer type",
           "save y.astype('int64'), or set targets = true for numbers to be predicted");
  const bool column = shape.size() == 2 && shape[1] == 1;
  if (shape.size() != 1 && !column)
    refuse(y, "labels are one number a row", shape_text(shape), "[rows]",
           shape.size() == 2 ? "of one-hot rows save y.argmax(1)" : "");
  if (shape[0] != rows)
    refuse(y, "x and y do not belong together", count_text(shape[0], "label"),
           count_text(rows, "row") + " as in " + x_title);
}

// The part of x that is used, in place.
void cut(NpyArray& x, const Shape& row, std::int64_t first, std::int64_t count) {
  const std::size_t bytes = static_cast<std::size_t>(row.size()) * x.header.item;
  x.values.resize(static_cast<std::size_t>(first + count) * bytes);
  x.values.erase(x.values.begin(), x.values.begin() + first * static_cast<std::ptrdiff_t>(bytes));
}

// [rows] or [rows, k] of y, as [count, k] from `first` on.
std::vector<float> target_values(const NpyArray& y, std::int64_t rows, const std::string& x_title,
                                 std::int64_t first, std::int64_t count) {
  const std::vector<std::int64_t>& shape = y.header.shape;
  if (shape.empty() || shape.size() > 2 || y.header.bytes == 0)
    refuse(y, "targets are numbers a row", shape_text(shape), "[rows] or [rows, numbers]");
  if (shape[0] != rows)
    refuse(y, "x and y do not belong together", count_text(shape[0], "row of targets"),
           count_text(rows, "row") + " as in " + x_title);
  require_finite(y);
  const auto width = static_cast<std::size_t>(y.size() / rows);
  std::vector<float> out(static_cast<std::size_t>(count) * width);
  to_floats(y, static_cast<std::size_t>(first) * width, out.size(), out.data());
  return out;
}

// y null: there are no labels.
std::shared_ptr<const Dataset> make(NpyArray x, const NpyArray* labels_of,
                                    const NpyOptions& options) {
  NpyOptions checked = options;
  Schema schema;
  checked.declare(schema);
  schema.validate("npy");
  const Shape row = row_shape(x, options);
  const std::int64_t all = x.header.shape[0];
  if (options.targets || labels_of == nullptr) {
    require_finite(x);
    const std::int64_t count = options.rows.resolve(x.title, all), first = options.rows.first;
    const std::string title = x.title;
    cut(x, row, first, count);
    const auto out = std::make_shared<NpyDataset>(std::move(x), row, options);
    const auto n = static_cast<std::size_t>(count);
    if (labels_of == nullptr && !options.targets)
      out->set_labels(std::vector<std::int32_t>(n), 0, "");
    else if (labels_of == nullptr)
      out->set_targets(std::vector<float>(n * static_cast<std::size_t>(options.target_width)),
                       options.target_width);
    else
      out->set_targets(target_values(*labels_of, all, title, first, count),
                       labels_of->size() / all);
    return out;
  }
  const NpyArray& y = *labels_of;
  check_label_array(y, all, x.title);
  const auto label = [&](std::int64_t r) { return integer_at(y, static_cast<std::size_t>(r)); };
  const std::int64_t classes = check_labels(y.title, all, options.labels, label);
  require_finite(x);
  const std::int64_t count = options.rows.resolve(x.title, all), first = options.rows.first;
  std::vector<std::int32_t> labels;
  for (std::int64_t r = first; r < first + count; ++r) {
    const std::int64_t v = label(r);
    if (v != static_cast<std::int32_t>(v))
      refuse(y, "a label does not fit 32 bits", std::to_string(v) + " in row " + std::to_string(r),
             "labels below 2^31");
    labels.push_back(static_cast<std::int32_t>(v));
  }
  cut(x, row, first, count);
  const std::string warning = label_gaps(y.title, all, options.labels, label);
  const auto out = std::make_shared<NpyDataset>(std::move(x), row, options);
  out->set_labels(std::move(labels), classes, warning);
  return out;
}

// Archives and arrays mixed up: named by what is to be written instead.
void refuse_other_kind(const std::string& path, std::string_view start, const std::string& found,
                       const std::string& keys) {
  ByteFile file(path);
  std::vector<std::uint8_t> head;
  file.append(head, start.size());
  if (std::string_view(reinterpret_cast<const char*>(head.data()), head.size()) != start) return;
  throw DataError(ErrorText{.what = "the file is of the other kind of numpy",
                            .found = found,
                            .fix = "name it by " + keys,
                            .file = path});
}

class NpyFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("x", x_, {.path = true, .help = "npy file of the rows, plain or gzip"})
        .key("y", y_, {.path = true, .help = "npy file of the labels, plain or gzip"})
        .key("file", file_, {.path = true, .help = "npz archive with both, instead of x and y"})
        .key("x_name", x_name_, {.help = "array of the rows in the archive"})
        .key("y_name", y_name_, {.help = "array of the labels in the archive"});
    options_.declare(schema);
    schema.rule([this] {
      const bool two = !x_.empty() && !y_.empty() && file_.empty();
      const bool one = x_.empty() && y_.empty() && !file_.empty();
      return two || one ? std::string() : "`x` and `y` are needed, or `file` alone";
    });
  }
  bool without_labels() override { return options_.unlabelled = true; }
  std::vector<std::string> label_files() const override { return {"y"}; }
  std::vector<std::string> row_keys() const override {
    return {"channels_first", "targets", "scale", "mean", "std"};
  }
  std::shared_ptr<const Dataset> open_beside(const std::string& base,
                                             const Dataset& train) const override {
    NpyFactory out(*this);
    for (const Field& f : train.fields())
      if (f.name == "target") out.options_.target_width = f.shape.size();
    return out.open(base);
  }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    if (!file_.empty()) return npz(path_in(base, file_), x_name_, y_name_, options_);
    return npy(path_in(base, x_), path_in(base, y_), options_);
  }

 private:
  std::string x_, y_, file_, x_name_ = "x", y_name_ = "y";
  NpyOptions options_;
};

}  // namespace

void NpyOptions::declare(Schema& schema) {
  schema
      .key("shape", shape,
           {.min = 1,
            .max = 2147483647.0,
            .help = "shape of one row, e.g. [28, 28, 1]; empty: the array's"})
      .key("channels_first", channels_first,
           {.help = "rows are [channels, rows, columns], as PyTorch has them"})
      .key("targets", targets,
           {.help = "y holds numbers to be predicted, not classes: [rows] or [rows, numbers]"})
      .key("field", field, {.help = "name of the rows in a batch"})
      .key("scale", scale,
           {.min = 0, .max = 1e30, .exclusive_min = true, .help = "divides the values"})
      .key("mean", mean,
           {.min = -1e30, .max = 1e30, .help = "subtracted after scaling; 1 value or 1 a channel"})
      .key("std", stddev,
           {.min = 0,
            .max = 1e30,
            .exclusive_min = true,
            .help = "divides what is left; 1 value or 1 a channel"});
  labels.declare(schema);
  rows.declare(schema);
  schema.rule([this] {
    return field.empty() || field == "label" || field == "target"
               ? "`field` needs a name other than 'label' and 'target', found '" + field + "'"
               : std::string();
  });
  schema.rule([this] {
    return targets && (labels.classes != 0 || labels.ignore != kNoLabel)
               ? std::string("`targets` are numbers: leave out `classes` and `ignore`")
               : std::string();
  });
  schema.rule([this] {
    return shape.size() >= Shape::kMaxRank
               ? "`shape` holds at most " + std::to_string(Shape::kMaxRank - 1) + " extents"
               : std::string();
  });
}

std::shared_ptr<const Dataset> npy(const std::string& x, const std::string& y,
                                   const NpyOptions& options) {
  if (!options.unlabelled)
    refuse_other_kind(y, "PK\x03\x04", "an npz archive", "`file` instead of `x` and `y`");
  refuse_other_kind(x, "PK\x03\x04", "an npz archive", "`file` instead of `x` and `y`");
  if (options.unlabelled) return make(read_npy(x), nullptr, options);
  const NpyArray labels = read_npy(y);
  return make(read_npy(x), &labels, options);
}

std::shared_ptr<const Dataset> npz(const std::string& file, const std::string& x,
                                   const std::string& y, const NpyOptions& options) {
  refuse_other_kind(file, "\x93NUMPY", "a single npy array", "`x` and `y` instead of `file`");
  if (options.unlabelled) return make(read_npz(file, x), nullptr, options);
  const NpyArray labels = read_npz(file, y);
  return make(read_npz(file, x), &labels, options);
}

void register_dataset_npy(Registry& registry) {
  registry.table<DatasetEntry>().add("npy", {[] { return std::make_unique<NpyFactory>(); },
                                             "arrays of numpy: npy files or an npz archive"});
}

}  // namespace belfry
