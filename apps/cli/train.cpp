// SPDX-License-Identifier: MIT
#include <filesystem>
#include <memory>
#include <optional>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/apps/cli/signals_internal.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/loss_text.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

struct TrainArguments {
  ConfigArguments config;
  std::string resume;
  bool resuming = false, partial = false, print_config = false, log_placement = false;
};

void print_start(CliContext& context, TrainSession& session) {
  const LoaderOptions& o = session.loader().options();
  context.print("{}\n", session.context().describe());
  context.print("model {}: {:.0f} parameters in {}; batch {}, {} an epoch, {}\n",
                session.config().model_name, session.plan().parameters,
                count_text(static_cast<std::int64_t>(session.plan().variables.size()), "variable"),
                o.batch, count_text(session.loader().batches_per_epoch(), "update"),
                count_text(o.epochs, "epoch"));
  if (session.config().output.empty()) context.print("no output folder: nothing will be saved\n");
}

void print_test(CliContext& context, TrainSession& session, bool ema) {
  const EvalReport report = session.evaluate_test(ema);
  std::string text = fmt::format("test{}: {}", ema ? " (ema)" : "",
                                 loss_text(report.loss, session.data().label_unit()));
  for (const auto& [name, value] : report.metrics) text += fmt::format(" {} {:.4f}", name, value);
  context.print("{} ({}, {:.1f} s)\n", text, count_text(report.rows, "row"), report.seconds);
}

// Flags that would silently do nothing.
void check_resume(const TrainArguments& arguments, const TrainConfig& config) {
  if (arguments.partial && !arguments.resuming)
    throw ConfigError(ErrorText{.what = "--partial needs --resume",
                                .found = "a fresh run",
                                .fix = "add --resume or --resume PATH"});
  if (arguments.resuming && config.output.empty())
    throw ConfigError(ErrorText{.what = "--resume needs an output folder to go on in",
                                .found = "output = \"\"",
                                .fix = "set output in the config"});
}

// Its rows may come after training, but a path that is wrong is better known now.
void warn_predict(CliContext& context, const TrainConfig& config) {
  if (!config.predict) return;
  for (const std::string& file : config.predict->files) {
    const std::string path = path_in(config.base, file);
    std::error_code code;
    if (!file.empty() && !std::filesystem::exists(path, code))
      context.log.warn("[predict] names {}, which does not exist: belfry predict will need it",
                       path);
  }
}

int train(CliContext& context, const TrainArguments& arguments) {
  TrainConfig config = arguments.config.load(context.registry);
  check_resume(arguments, config);
  if (arguments.print_config) {
    context.put(config.described);
    return kExitOk;
  }
  warn_predict(context, config);
  require_output_folder(config.output);  // now, not when all data has been read
  std::optional<SignalWatch> watch;  // before the work starts: a signal while data is read counts
  if (!context.io.signal) watch.emplace();
  TrainSession session(std::move(config), context.log, {.log_placement = arguments.log_placement});
  print_start(context, session);
  TrainerOptions options;
  options.resume = !arguments.resuming        ? ""
                   : arguments.resume.empty() ? "newest"
                                              : arguments.resume;
  options.partial = arguments.partial;
  options.out = context.io.out;
  options.live = context.io.live;
  options.signal = context.io.signal ? context.io.signal : SignalWatch::pending;
  const std::function<int()> signal = options.signal;
  const TrainResult result = session.trainer(std::move(options)).run();
  if (result.signal != 0) return kExitSignal + result.signal;
  if (session.has_test()) {
    print_test(context, session, false);
    if (session.config().optimizer.ema > 0) print_test(context, session, true);
  }
  // One that came after the last update: everything is saved, but whoever sent it is told.
  if (const int number = signal(); number != 0) return kExitSignal + number;
  return kExitOk;
}

}  // namespace

void add_train(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command = app.add_subcommand("train", "train the model of a config file");
  const auto arguments = std::make_shared<TrainArguments>();
  arguments->config.declare(*command);
  CLI::Option* const resume =
      command
          ->add_option("--resume", arguments->resume,
                       "go on from the newest checkpoint of the output folder, or from PATH")
          ->expected(0, 1)
          ->type_name("[PATH]");
  command->add_flag("--partial", arguments->partial,
                    "resume from what fits of another model or optimizer");
  command->add_flag("--print-config", arguments->print_config,
                    "print the effective config and end");
  command->add_flag("--log-placement", arguments->log_placement,
                    "list every op of the first update with its devices");
  command->callback([&context, &code, arguments, resume] {
    arguments->resuming = resume->count() > 0;
    code = train(context, *arguments);
  });
}

}  // namespace belfry
