// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <memory>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

struct EvalArguments {
  ConfigArguments config;
  std::string checkpoint, predictions, confusion;
  bool ema = false;
};

// One evaluation of rows [first, first + count): their logits and labels, in order.
struct RowsOut {
  std::vector<double> logits, labels;
};

RowsOut logits_of(TrainSession& session, std::int64_t first, std::int64_t count, bool ema) {
  const std::int64_t classes = session.data().classes();
  RowsOut out{std::vector<double>(static_cast<std::size_t>(count * classes)),
              std::vector<double>(static_cast<std::size_t>(count))};
  Loader loader(session.context(), subset(session.test_data(), first, count),
                {.batch = count, .shuffle = false, .prefetch = 0});
  const LossFn loss = classifier_loss(session.config().test->ignore);
  session.group().evaluate(
      loader,
      [&](Module& module, const Batch& rows, Step& step) {
        const auto logits = static_cast<Classifier&>(module).forward(rows["image"]).to_vector();
        const auto labels = rows["label"].to_vector();
        std::copy(logits.begin(), logits.end(),
                  out.logits.begin() + rows.first_row * classes);  // towers write apart
        std::copy(labels.begin(), labels.end(), out.labels.begin() + rows.first_row);
        return loss(module, rows, step);
      },
      ema);
  return out;
}

// Row, label, predicted class and its softmax probability.
std::string prediction_line(std::int64_t row, double label, std::span<const double> logits) {
  const auto best = std::max_element(logits.begin(), logits.end());
  double total = 0;
  for (const double z : logits) total += std::exp(z - *best);
  return fmt::format("{},{},{},{:.6f}\n", row, static_cast<std::int64_t>(label),
                     best - logits.begin(), 1 / total);
}

// A CSV cell; what holds a comma, quote or line end is quoted.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == text.npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

// How often rows of each label were given each class; rows of ignored labels do not count.
class Confusion {
 public:
  Confusion(const Dataset& data, std::int64_t ignore)
      : classes_(static_cast<std::size_t>(data.classes())),
        ignore_(ignore),
        names_(data.class_names()),
        counts_(classes_ * classes_, 0) {
    for (std::size_t c = names_.size(); c < classes_; ++c) names_.push_back(std::to_string(c));
  }
  void add(double label, std::span<const double> logits) {
    const auto row = static_cast<std::int64_t>(label);
    if (row == ignore_ || row < 0 || row >= static_cast<std::int64_t>(classes_)) return;
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    ++counts_[static_cast<std::size_t>(row) * classes_ + static_cast<std::size_t>(best)];
  }
  // A line a label: how often each class was predicted, and the share that was right.
  std::string text() const {
    std::string out = "label";
    for (const std::string& name : names_) out += "," + cell(name);
    out += ",recall\n";
    for (std::size_t r = 0; r < classes_; ++r) {
      const std::int64_t* const row = counts_.data() + r * classes_;
      std::int64_t all = 0;
      out += cell(names_[r]);
      for (std::size_t c = 0; c < classes_; ++c) {
        all += row[c];
        out += "," + std::to_string(row[c]);
      }
      out += all == 0
                 ? ",\n"
                 : fmt::format(",{:.4f}\n", static_cast<double>(row[r]) / static_cast<double>(all));
    }
    return out;
  }

 private:
  std::size_t classes_;
  std::int64_t ignore_;
  std::vector<std::string> names_;
  std::vector<std::int64_t> counts_;
};

struct RowResults {
  std::string predictions = "row,label,prediction,probability\n";
  Confusion confusion;
};

RowResults results_of_rows(TrainSession& session, bool ema) {
  constexpr std::int64_t kRows = 1024;
  const std::int64_t rows = session.test_data()->rows();
  const auto classes = static_cast<std::size_t>(session.data().classes());
  RowResults out{.confusion = Confusion(session.data(), session.config().test->ignore)};
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t count = std::min(kRows, rows - first);
    const RowsOut part = logits_of(session, first, count, ema);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      const auto logits = std::span(part.logits).subspan(i * classes, classes);
      out.predictions +=
          prediction_line(first + static_cast<std::int64_t>(i), part.labels[i], logits);
      out.confusion.add(part.labels[i], logits);
    }
  }
  return out;
}

int eval(CliContext& outer, const EvalArguments& arguments) {
  TrainConfig config = arguments.config.load(outer.registry);
  const std::vector<std::string> inputs = arguments.config.inputs(config);
  const OutputFile file("--predictions", arguments.predictions, inputs);
  const OutputFile matrix("--confusion", arguments.confusion, inputs);
  if (file.wanted() && matrix.wanted() && file.path() == matrix.path())
    throw ConfigError(ErrorText{.what = "--predictions and --confusion name one file",
                                .found = file.path(),
                                .fix = "give each its own"});
  const CliContext context = beside(outer, file.to_stdout() || matrix.to_stdout());
  if (arguments.ema && !(config.optimizer.ema > 0))
    throw ConfigError(
        ErrorText{.what = "--ema needs averaged parameters", .found = "optimizer.ema = 0"});
  const std::string where = arguments.checkpoint.empty() ? config.output : arguments.checkpoint;
  if (where.empty())
    throw ConfigError(ErrorText{.what = "nothing to evaluate",
                                .found = "no output folder in the config",
                                .fix = "give --checkpoint PATH"});
  require_path(where);
  const bool fallback = config.fallback;
  TrainSession session(std::move(config), context.log);
  session.test_data();
  const std::string path = find_checkpoint(where, fallback, context.log);
  const Manifest saved =
      Checkpoint(path, session.group()).load({.optimizer = false, .ema = arguments.ema});
  const EvalReport report = session.evaluate_test(arguments.ema);
  std::string text =
      fmt::format("{} at update {}: loss {:.4f}", path, saved.clocks.update, report.loss);
  for (const auto& [name, value] : report.metrics) text += fmt::format(" {} {:.4f}", name, value);
  context.print("{} ({} rows, {:.1f} s)\n", text, report.rows, report.seconds);
  if (!file.wanted() && !matrix.wanted()) return kExitOk;
  const RowResults results = results_of_rows(session, arguments.ema);
  file.write(results.predictions, outer.io);
  matrix.write(results.confusion.text(), outer.io);
  if (file.wanted() && !file.to_stdout()) context.print("predictions written to {}\n", file.path());
  if (matrix.wanted() && !matrix.to_stdout())
    context.print("confusion matrix written to {}\n", matrix.path());
  return kExitOk;
}

}  // namespace

void add_eval(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command =
      app.add_subcommand("eval", "evaluate a checkpoint on the config's [test] set");
  const auto arguments = std::make_shared<EvalArguments>();
  arguments->config.declare(*command);
  command->add_option("--checkpoint", arguments->checkpoint,
                      "a checkpoint or a folder of them; default: the output folder");
  command->add_option("--predictions", arguments->predictions,
                      "CSV file of row, label, prediction, probability; -: stdout");
  command->add_option("--confusion", arguments->confusion,
                      "CSV file of how often each label was given each class; -: stdout");
  command->add_flag("--ema", arguments->ema, "with the averaged parameters");
  command->callback([&context, &code, arguments] { code = eval(context, *arguments); });
}

}  // namespace belfry
