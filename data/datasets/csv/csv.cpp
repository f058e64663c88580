// SPDX-License-Identifier: MIT
#include "belfry/data/datasets/csv/csv.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "belfry/core/key_error.h"
#include "belfry/core/registry.h"
#include "belfry/data/byte_file.h"
#include "belfry/data/byte_rows.h"
#include "belfry/data/dataset_view.h"
#include "belfry/data/datasets/csv/table_internal.h"
#include "belfry/data/memory.h"

namespace belfry {
namespace {

constexpr const char *kMean = "standardize.mean", *kDeviation = "standardize.deviation";
constexpr const char* kColumn = "column.";  // and its name: its place among the features

// What a model knows of each column: its name, where there is a header, and what standardize took
// from it.
struct Columns {
  std::vector<std::string> names;
  std::vector<double> mean, deviation;
};

Columns columns_of(const Figures& figures) {
  Columns out;
  for (const auto& [key, values] : figures) {
    if (key == kMean) out.mean = values;
    if (key == kDeviation) out.deviation = values;
    if (key.rfind(kColumn, 0) != 0 || values.size() != 1) continue;
    if (!(values[0] >= 0 && values[0] < static_cast<double>(figures.size()))) continue;
    const auto place = static_cast<std::size_t>(values[0]);
    if (out.names.size() <= place) out.names.resize(place + 1);
    out.names[place] = key.substr(std::string(kColumn).size());
  }
  // Two columns of one name, or a name that is missing, say nothing.
  if (std::find(out.names.begin(), out.names.end(), "") != out.names.end()) out.names.clear();
  return out;
}

// In-memory rows with a description of their own.
class CsvDataset final : public DatasetView {
 public:
  // `numbers` are the rows' in the file.
  CsvDataset(std::shared_ptr<const Dataset> rows, std::string text, std::string warning,
             Columns columns, std::vector<std::int64_t> numbers, std::vector<std::string> names)
      : DatasetView(std::move(rows)),
        text_(std::move(text)),
        warning_(std::move(warning)),
        columns_(std::move(columns)),
        numbers_(std::move(numbers)),
        names_(std::move(names)) {}
  std::vector<std::string> class_names() const override { return names_; }
  RowPlace place(std::int64_t row) const override {
    return {"", numbers_[static_cast<std::size_t>(row)]};
  }
  std::string describe() const override { return text_; }
  std::string warning() const override { return warning_; }
  Figures figures() const override {
    Figures out;
    if (!columns_.mean.empty()) out = {{kMean, columns_.mean}, {kDeviation, columns_.deviation}};
    for (std::size_t c = 0; c < columns_.names.size(); ++c)
      out[kColumn + columns_.names[c]] = {static_cast<double>(c)};
    return out;
  }

 private:
  std::string text_, warning_;
  Columns columns_;
  std::vector<std::int64_t> numbers_;
  std::vector<std::string> names_;  // of the classes
};

Columns measure(const std::vector<double>& values, std::size_t width) {
  Columns out{{}, std::vector<double>(width), std::vector<double>(width)};
  const double rows = static_cast<double>(values.size()) / static_cast<double>(width);
  for (std::size_t i = 0; i < values.size(); ++i) out.mean[i % width] += values[i] / rows;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double away = values[i] - out.mean[i % width];
    out.deviation[i % width] += away * away / rows;
  }
  for (std::size_t c = 0; c < width; ++c) {
    out.deviation[c] = std::sqrt(out.deviation[c]);
    // A column of one value keeps rounding in its mean: nothing to be scaled up.
    if (out.deviation[c] <= 1e-12 * std::abs(out.mean[c]) || out.deviation[c] == 0)
      out.deviation[c] = 0;
  }
  return out;
}

std::vector<float> standardized(const std::vector<double>& values, const Columns& columns) {
  const std::size_t width = columns.mean.size();
  std::vector<float> out;
  out.reserve(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double away = values[i] - columns.mean[i % width], by = columns.deviation[i % width];
    out.push_back(by == 0 ? 0 : static_cast<float>(away / by));
  }
  return out;
}

std::shared_ptr<const Dataset> open_csv(const std::string& path, const CsvOptions& options,
                                        const Columns* like);

class CsvFactory final : public DatasetFactory {
 public:
  void declare(Schema& schema) override {
    schema.key("file", file_, {.path = true, .help = "CSV file, plain or gzip"});
    schema.rule([this] { return file_.empty() ? std::string("`file` is needed") : ""; });
    options_.declare(schema);
  }
  bool without_labels() override { return options_.unlabelled = true; }
  std::vector<std::string> row_keys() const override {
    return {"label", "targets", "features", "scale", "mean", "std", "standardize"};
  }
  std::shared_ptr<const Dataset> open(const std::string& base) const override {
    return csv(path_in(base, file_), options_);
  }
  std::shared_ptr<const Dataset> open_beside(const std::string& base,
                                             const Dataset& train) const override {
    const Columns columns = columns_of(train.figures());
    const bool known = !columns.mean.empty() && columns.mean.size() == columns.deviation.size();
    if (options_.standardize != known)
      throw KeyError(
          "standardize",
          ErrorText{.what = known ? "the model's columns were standardized"
                                  : "standardize = true needs it in [data], too",
                    .found = known ? "standardize = false" : "the rows of [data] as they are",
                    .expected = known ? "standardize = true, as in the model's [data]"
                                      : "columns whose mean and deviation are known",
                    .fix = "say the same as the [data] that the model was trained on"});
    return open_csv(path_in(base, file_), options_, &columns);
  }

 private:
  std::string file_;
  CsvOptions options_;
};

}  // namespace

void CsvOptions::declare(Schema& schema) {
  schema
      .key("label", label,
           {.index = true,
            .help = "label column, by name or index from 0; negative counts from the end; empty: "
                    "the last"})
      .key("names", names,
           {.help = "the classes in the order of their labels, where the label column holds words; "
                    "empty: it holds integers"})
      .key("targets", targets,
           {.index = true,
            .help = "instead of a label: columns of numbers to be predicted, by name or index"})
      .key("features", features,
           {.index = true, .help = "feature columns, by name or index; empty: all others"})
      .key("shape", shape,
           {.min = 1,
            .max = 2147483647.0,
            .help = "shape of one row, e.g. [8, 8, 1]; empty: [features]"})
      .key("field", field, {.help = "name of the features in a batch"})
      .key("header", header,
           {.choices = {"auto", "yes", "no"}, .help = "whether the first row holds names"})
      .key("missing", missing,
           {.choices = {"error", "drop"}, .help = "what to do with rows that lack a value"})
      .key("delimiter", delimiter, {.help = "one character, or tab"})
      .key("scale", scale,
           {.min = 0, .max = 1e30, .exclusive_min = true, .help = "divides the values"})
      .key("mean", mean, {.min = -1e30, .max = 1e30, .help = "subtracted after scaling"})
      .key("std", stddev,
           {.min = 0, .max = 1e30, .exclusive_min = true, .help = "divides what is left"})
      .key("standardize", standardize,
           {.help = "then each column to mean 0 and deviation 1, by the figures of [data]"});
  labels.declare(schema);
  rows.declare(schema);
  add_rules(schema);
}

void CsvOptions::add_rules(Schema& schema) const {
  schema.rule([this] {
    if (delimiter == "tab") return std::string();
    const bool fit =
        delimiter.size() == 1 && std::string("\"\r\n ").find(delimiter[0]) == std::string::npos;
    return fit ? std::string()
               : "`delimiter` is one character or \"tab\", found '" + delimiter + "'";
  });
  schema.rule([this] {
    return field.empty() || field == "label" || field == "target"
               ? "`field` needs a name other than 'label' and 'target', found '" + field + "'"
               : std::string();
  });
  schema.rule([this] {
    const bool classed =
        !label.empty() || labels.classes != 0 || labels.ignore != kNoLabel || !names.empty();
    return !targets.empty() && classed
               ? std::string(
                     "`targets` are numbers: leave out `label`, `names`, `classes` and `ignore`")
               : std::string();
  });
  schema.rule([this] { return names_fault(names); });
  schema.rule([this] {
    return !names.empty() && labels.classes != 0
               ? std::string("`names` are the classes: leave out `classes`")
               : std::string();
  });
  schema.rule([this] {
    return shape.size() >= Shape::kMaxRank
               ? "`shape` holds at most " + std::to_string(Shape::kMaxRank - 1) + " extents"
               : std::string();
  });
}

std::shared_ptr<const Dataset> csv(const std::string& path, const CsvOptions& options) {
  return open_csv(path, options, nullptr);
}

namespace {

// Standardized values: by `like`, or by what is measured on them and put into `columns`.
std::vector<float> brought(const std::vector<double>& values, std::size_t width,
                           const std::string& path, const Columns* like, Columns& columns) {
  if (like == nullptr) columns = measure(values, width);
  if (columns.mean.size() != width)
    throw DataError(ErrorText{.what = "the file has other columns than [data]",
                              .found = count_text(static_cast<std::int64_t>(width), "feature"),
                              .expected = std::to_string(columns.mean.size()),
                              .file = path});
  return standardized(values, columns);
}

std::shared_ptr<const Dataset> open_csv(const std::string& path, const CsvOptions& options,
                                        const Columns* like) {
  CsvOptions checked = options;
  Schema schema;
  checked.declare(schema);
  schema.validate("csv");
  const ByteBlock bytes = ByteFile(path).rest(std::numeric_limits<std::uint64_t>::max());
  if (const std::string known = guess_format(bytes.data(), bytes.size()); !known.empty())
    throw DataError(ErrorText{.what = "the file is not CSV text",
                              .found = known,
                              .expected = "CSV, plain or gzip",
                              .file = path});
  const CsvTable table =
      read_csv(path, options, {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
               like != nullptr ? like->names : std::vector<std::string>());
  const auto all = static_cast<std::int64_t>(table.labels.size());
  const std::string dropped =
      table.dropped > 0 ? count_text(table.dropped, "row") + " with missing values dropped" : "";
  if (all == 0 && table.dropped > 0)
    throw DataError(ErrorText{.what = "the data set is empty",
                              .found = "0 rows, " + dropped,
                              .expected = "at least 1 row",
                              .file = path});
  const std::int64_t count = options.rows.resolve(path, all), first = options.rows.first;
  const auto label = [&](std::int64_t r) {
    return std::int64_t{table.labels[static_cast<std::size_t>(r)]};
  };
  const auto line = [&](std::int64_t r) { return table.lines[static_cast<std::size_t>(r)]; };
  LabelOptions labels = options.labels;
  if (!options.names.empty()) labels.classes = std::ssize(options.names);
  const std::int64_t classes = check_labels(path, all, labels, label, line);
  const auto width = static_cast<std::int64_t>(table.features);
  const Shape shape = options.shape.empty() ? Shape{width} : Shape(options.shape);
  const auto part = [&](const auto& values, std::int64_t each) {
    return std::vector(values.begin() + first * each, values.begin() + (first + count) * each);
  };
  Columns columns = like != nullptr ? *like : Columns();
  std::vector<float> values =
      options.standardize ? brought(part(table.exact, width), table.features, path, like, columns)
                          : part(table.values, width);
  columns.names = std::set(table.names.begin(), table.names.end()).size() == table.names.size()
                      ? table.names
                      : std::vector<std::string>();
  std::vector<MemoryField> fields;
  fields.push_back({options.field, shape, std::move(values)});
  const auto targets = static_cast<std::int64_t>(table.targets);
  if (targets > 0)
    fields.push_back({"target", Shape{targets}, part(table.target_values, targets)});
  else
    fields.push_back({"label", Shape{}, part(table.labels, 1)});
  auto rows = memory_dataset(std::move(fields), LabelOptions{classes, labels.ignore});
  const bool classed = targets == 0 && !options.unlabelled;
  std::string text = "csv: " + fields_text(count, rows->fields(), !options.unlabelled);
  if (classed)
    text += classes_text(classes, *std::min_element(table.labels.begin(), table.labels.end()));
  return std::make_shared<CsvDataset>(std::move(rows),
                                      text + (dropped.empty() ? "" : "; " + dropped),
                                      classed ? label_gaps(path, all, labels, label, line) : "",
                                      std::move(columns), part(table.numbers, 1), options.names);
}

}  // namespace

void register_dataset_csv(Registry& registry) {
  registry.table<DatasetEntry>().add(
      "csv", {[] { return std::make_unique<CsvFactory>(); },
              "comma-separated numbers with a label column, plain or gzip"});
}

}  // namespace belfry
