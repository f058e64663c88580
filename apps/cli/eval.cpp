// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <optional>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/confusion_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/apps/cli/outputs_internal.h"
#include "belfry/apps/cli/sample_internal.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/loss_text.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

struct EvalArguments {
  ConfigArguments config;
  std::string checkpoint, predictions, confusion;
  bool ema = false;
  SampleArguments sample;
};

struct RowResults {
  std::string predictions;
  std::optional<Confusion> confusion;
};

RowResults results_of_rows(TrainSession& session, bool ema, bool confusion) {
  const std::shared_ptr<const Dataset> data = session.test_data();
  const std::int64_t rows = data->rows(), each = answers_of(*data);
  const bool numbers = session.regression();
  RowResults out;
  const RowCells place(*data);
  out.predictions = place.header() +
                    (each == 1 ? ""
                     : numbers ? "output,"
                               : "position,") +
                    (numbers ? "target,prediction\n" : "label,prediction,probability\n");
  if (confusion) out.confusion.emplace(session.data(), session.config().test->ignore);
  for (std::int64_t first = 0; first < rows; first += rows_at_once(*data)) {
    const Outputs part =
        outputs_of(session, data, first, std::min(rows_at_once(*data), rows - first), ema);
    for (std::size_t i = 0; i < part.answers.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      out.predictions += place.of(first + at / each);
      if (each != 1) out.predictions += std::to_string(at % each) + ",";
      if (numbers) {
        out.predictions += fmt::format("{:.7g},{:.7g}\n", part.answers[i], part.values[i]);
        continue;
      }
      const Prediction p =
          predicted(part.answers[i], std::span(part.values).subspan(i * part.width, part.width));
      out.predictions += fmt::format("{},{},{:.6f}\n", static_cast<std::int64_t>(p.label),
                                     p.predicted, p.probability);
      if (out.confusion) out.confusion->add(p);
    }
  }
  return out;
}

int eval(CliContext& outer, const EvalArguments& arguments) {
  arguments.sample.check();
  if (arguments.sample.wanted() && !(arguments.predictions + arguments.confusion).empty())
    throw ConfigError("--sample and --predictions or --confusion are two commands");
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
  require_checkpoint(where, arguments.checkpoint.empty());
  if (arguments.sample.wanted())
    return sample(outer, std::move(config), where, arguments.ema, arguments.sample);
  const bool fallback = config.fallback;
  if (!config.test) throw no_test();
  const std::string path = find_checkpoint(where, fallback, context.log);
  TrainSession session(std::move(config), context.log, {.saved = read_manifest(path).run.data});
  if (matrix.wanted()) Confusion::require(session.data());
  const Manifest saved =
      Checkpoint(path, session.group()).load({.optimizer = false, .ema = arguments.ema});
  const EvalReport report = session.evaluate_test(arguments.ema);
  std::string text = fmt::format("{} at update {}: {}", path, saved.clocks.update,
                                 loss_text(report.loss, session.data().label_unit()));
  for (const auto& [name, value] : report.metrics) text += fmt::format(" {} {:.4f}", name, value);
  context.print("{} ({}, {:.1f} s)\n", text, count_text(report.rows, "row"), report.seconds);
  if (!file.wanted() && !matrix.wanted()) return kExitOk;
  const RowResults results = results_of_rows(session, arguments.ema, matrix.wanted());
  file.write(results.predictions, outer.io);
  if (results.confusion) matrix.write(results.confusion->text(), outer.io);
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
  command
      ->add_option("--predictions", arguments->predictions,
                   "CSV file of row, label, prediction, probability (of numbers: row, target, "
                   "prediction; of several a row: row, output, ...); -: stdout")
      ->check(file_name_fault);
  command
      ->add_option("--confusion", arguments->confusion,
                   "CSV file of how often each label was given each class; -: stdout")
      ->check(file_name_fault);
  command->add_flag("--ema", arguments->ema, "with the averaged parameters");
  arguments->sample.declare(*command);
  command->callback([&context, &code, arguments] { code = eval(context, *arguments); });
}

}  // namespace belfry
