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
  std::string checkpoint, predictions;
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
  const LossFn loss = session.loss(*session.config().test);
  const std::string field = session.config().model->input().field;
  session.group().evaluate(
      loader,
      [&](Module& module, const Batch& rows, Step& step) {
        const auto logits = static_cast<Classifier&>(module).forward(rows[field]).to_vector();
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

std::string predictions(TrainSession& session, bool ema) {
  constexpr std::int64_t kRows = 1024;
  const std::int64_t rows = session.test_data()->rows();
  const auto classes = static_cast<std::size_t>(session.data().classes());
  std::string out = "row,label,prediction,probability\n";
  for (std::int64_t first = 0; first < rows; first += kRows) {
    const std::int64_t count = std::min(kRows, rows - first);
    const RowsOut part = logits_of(session, first, count, ema);
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
      out += prediction_line(first + static_cast<std::int64_t>(i), part.labels[i],
                             std::span(part.logits).subspan(i * classes, classes));
  }
  return out;
}

int eval(CliContext& outer, const EvalArguments& arguments) {
  TrainConfig config = arguments.config.load(outer.registry);
  const OutputFile file("--predictions", arguments.predictions, arguments.config.inputs(config));
  const CliContext context = beside(outer, file.to_stdout());
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
  if (file.wanted()) {
    file.write(predictions(session, arguments.ema), outer.io);
    if (!file.to_stdout()) context.print("predictions written to {}\n", file.path());
  }
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
  command->add_flag("--ema", arguments->ema, "with the averaged parameters");
  command->callback([&context, &code, arguments] { code = eval(context, *arguments); });
}

}  // namespace belfry
