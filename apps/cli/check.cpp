// SPDX-License-Identifier: MIT
#include <memory>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/data/byte_file.h"
#include "belfry/towers/checkpoint/checkpoint.h"
#include "belfry/towers/checkpoint/folder.h"
#include "belfry/towers/run_position.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

double mebibytes(double bytes) { return bytes / (1 << 20); }

void print_memory(CliContext& context, const MemoryPlan& plan, const Context& devices) {
  context.print("memory plan, without activations:\n");
  for (const MemoryPlan::Line& line : plan.lines)
    context.print("  {:<17} {:9.2f} MiB{}\n", line.kind, mebibytes(line.bytes),
                  line.copies > 1 ? fmt::format(" x {}", line.copies) : "");
  context.print("  {:<17} {:9.2f} MiB\n", "total", mebibytes(plan.total()));
  for (const GpuShare& s : gpu_shares(plan, devices))
    context.print("  {:<17} {:9.2f} MiB of {:.2f} that are free\n", "on " + name_of(s.gpu),
                  mebibytes(s.needed), mebibytes(static_cast<double>(s.memory.free)));
}

void print_shards(CliContext& context, TrainSession& session) {
  const Loader& loader = session.loader();
  const std::int64_t batch = loader.options().batch;
  const LeafPlan plan = leaf_plan(session.config().optimizer, session.context().towers());
  const auto shards = [&plan](std::int64_t rows) {
    std::string out;
    for (int t = 0; t < plan.towers; ++t)
      out += (t == 0 ? "" : " ") + std::to_string(plan.rows_of(t, rows).count);
    return out;
  };
  const std::int64_t full = std::min(batch, loader.rows_per_epoch()),
                     tail = loader.rows_per_epoch() % batch;
  context.print("global batch {}: shards {}\n", full, shards(full));
  if (tail != 0 && tail != full)
    context.print("last batch of an epoch {}: shards {}\n", tail, shards(tail));
  context.print("updates per epoch {}, in total {}\n", loader.batches_per_epoch(),
                loader.batches_per_epoch() * loader.options().epochs);
}

struct CheckArguments {
  ConfigArguments config;
  std::string resume;
  bool resuming = false, partial = false;
};

// The checkpoint that a run would go on from, "" for none.
std::string resumed_from(CliContext& context, const CheckArguments& arguments,
                         const TrainConfig& config) {
  std::string path;
  if (arguments.partial && !arguments.resuming)
    throw ConfigError(ErrorText{.what = "--partial needs --resume",
                                .found = "a fresh run",
                                .fix = "add --resume or --resume PATH"});
  if (arguments.resuming && config.output.empty())
    throw ConfigError(ErrorText{.what = "--resume needs an output folder to go on in",
                                .found = "output = \"\"",
                                .fix = "set output in the config"});
  if (arguments.resuming)
    path = arguments.resume.empty()
               ? newest_checkpoint(config.output, config.fallback, context.log)
               : find_checkpoint(arguments.resume, config.fallback, context.log);
  if (arguments.resuming && path.empty())
    context.log.warn("no checkpoint in '{}': training starts from the beginning", config.output);
  return path;
}

// Loads it, as the run would: whatever does not fit is thrown.
void print_resume(CliContext& context, TrainSession& session, const std::string& path,
                  bool partial) {
  const Manifest saved = Checkpoint(path, session.group()).load({.partial = partial});
  for (const std::string& change : data_changes(saved.run.data, record_of(session.data())))
    context.log.warn("the data set is not that of the checkpoint: {}", change);
  const Loader& loader = session.loader();
  const std::int64_t done = updates_before(loader, resume_position(loader, saved.run, context.log));
  const std::int64_t left = loader.batches_per_epoch() * loader.options().epochs - done;
  context.print("would go on from {} at update {}, {}; {} left\n", path, saved.clocks.attempts,
                count_text(saved.run.rows, "row"), count_text(left, "update"));
}

// The memory of recorded passes is known once they have run: the group says what it has planned
// when it records the second of two updates of the same rows. Nothing of them is kept.
void print_recorded(TrainSession& session) {
  Batch batch;
  if (!session.loader().next(batch)) return;
  const LossFn loss = session.loss(session.config().data);
  for (int update = 0; update < 2; ++update) session.group().step(batch, loss);
}

int check(CliContext& context, const CheckArguments& arguments) {
  TrainConfig config = arguments.config.load(context.registry);
  require_output_folder(config.output);
  const std::string resumed = resumed_from(context, arguments, config);
  const bool capture = config.capture;
  TrainSession session(std::move(config), context.log, {.plan_only = !capture && resumed.empty()});
  const MemoryPlan& plan = session.plan();
  context.print("{}\n", session.context().describe());
  for (const auto& [name, shape] : plan.variables)
    context.print("  {:<24} {}\n", name, shape.text());
  context.print("model {}: {:.0f} parameters\n", session.config().model_name, plan.parameters);
  print_memory(context, plan, session.context());
  print_shards(context, session);
  if (capture) print_recorded(session);
  if (!resumed.empty()) print_resume(context, session, resumed, arguments.partial);
  session.try_predict();
  refuse_other_run(session.config().output, resumed);  // last: it hides no fault of the config
  context.print("{}: ok\n", arguments.config.path);
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command =
      app.add_subcommand("check", "check a config and its data, print the plan, train nothing");
  const auto arguments = std::make_shared<CheckArguments>();
  arguments->config.declare(*command);
  CLI::Option* const resume =
      command
          ->add_option("--resume", arguments->resume,
                       "as train --resume would go on; without it a folder that holds a run is a "
                       "fault")
          ->expected(0, 1)
          ->type_name("[PATH]");
  command->add_flag("--partial", arguments->partial,
                    "with --resume: as train --resume --partial would go on");
  command->callback([&context, &code, arguments, resume] {
    arguments->resuming = resume->count() > 0;
    code = check(context, *arguments);
  });
}

}  // namespace belfry
