// SPDX-License-Identifier: MIT
#include <memory>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/apps/cli/outputs_internal.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"

namespace belfry {
namespace {

struct PredictArguments {
  ConfigArguments config;
  std::string checkpoint, to = "-";
  bool ema = false;
};

// A line a row, or a line a number of rows with several.
std::string text_of(TrainSession& session, bool ema) {
  const std::shared_ptr<const Dataset> data = session.predict_data();
  const std::int64_t rows = data->rows(), each = answers_of(*data);
  const std::vector<std::string> names = session.data().class_names();
  const bool numbers = session.regression();
  const RowCells place(*data);
  std::string out = place.header() + (each > 1 ? "output," : "") + "prediction" +
                    (numbers ? "" : ",probability") + (names.empty() ? "" : ",name") + "\n";
  for (std::int64_t first = 0; first < rows; first += rows_at_once(*data)) {
    const std::int64_t count = std::min(rows_at_once(*data), rows - first);
    const Outputs o = outputs_of(session, data, first, count, ema);
    for (std::size_t i = 0; i < o.answers.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      out += place.of(first + at / each);
      if (each > 1) out += std::to_string(at % each) + ",";
      if (numbers) {
        out += fmt::format("{:.7g}\n", o.values[i]);
        continue;
      }
      const Prediction p = predicted(0, std::span(o.values).subspan(i * o.width, o.width));
      out += fmt::format("{},{:.6f}", p.predicted, p.probability);
      if (!names.empty()) out += "," + csv_cell(names[static_cast<std::size_t>(p.predicted)]);
      out += "\n";
    }
  }
  return out;
}

int predict(CliContext& outer, const PredictArguments& arguments) {
  TrainConfig config = arguments.config.load(outer.registry);
  const OutputFile file("--to", arguments.to, arguments.config.inputs(config));
  const CliContext context = beside(outer, file.to_stdout());
  if (!config.predict)
    throw ConfigError(ErrorText{
        .what = "the config has no table [predict]",
        .fix = "add one that names the file of the rows, or --set predict.KEY=FILE: what it does "
               "not say it takes from [data]"});
  if (arguments.ema && !(config.optimizer.ema > 0))
    throw ConfigError(
        ErrorText{.what = "--ema needs averaged parameters", .found = "optimizer.ema = 0"});
  const std::string where = arguments.checkpoint.empty() ? config.output : arguments.checkpoint;
  if (where.empty())
    throw ConfigError(ErrorText{.what = "nothing to predict with",
                                .found = "no output folder in the config",
                                .fix = "give --checkpoint PATH"});
  require_checkpoint(where, arguments.checkpoint.empty());
  const std::string path = find_checkpoint(where, config.fallback, context.log);
  TrainSession session(std::move(config), context.log,
                       {.saved = read_manifest(path).run.data, .predict = true});
  const Manifest saved =
      Checkpoint(path, session.group()).load({.optimizer = false, .ema = arguments.ema});
  file.write(text_of(session, arguments.ema), outer.io);
  context.print("{} at update {}: {} of {}\n", path, saved.clocks.update,
                count_text(session.predict_data()->rows(), "prediction"),
                file.to_stdout() ? "[predict]" : "[predict] written to " + file.path());
  return kExitOk;
}

}  // namespace

void add_predict(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command =
      app.add_subcommand("predict", "predict the rows of the config's [predict], without labels");
  const auto arguments = std::make_shared<PredictArguments>();
  arguments->config.declare(*command);
  command->add_option("--checkpoint", arguments->checkpoint,
                      "a checkpoint or a folder of them; default: the output folder");
  command
      ->add_option("--to", arguments->to,
                   "CSV file of row, output where a row has several, prediction and, of classes, "
                   "probability; default -: stdout")
      ->type_name("FILE")
      ->check(file_name_fault);
  command->add_flag("--ema", arguments->ema, "with the averaged parameters");
  command->callback([&context, &code, arguments] { code = predict(context, *arguments); });
}

}  // namespace belfry
