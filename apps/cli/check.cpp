// SPDX-License-Identifier: MIT
#include <memory>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

double mebibytes(double bytes) { return bytes / (1 << 20); }

void print_memory(CliContext& context, const MemoryPlan& plan) {
  context.print("memory plan, without activations:\n");
  for (const MemoryPlan::Line& line : plan.lines)
    context.print("  {:<12} {:9.2f} MiB{}\n", line.kind, mebibytes(line.bytes),
                  line.copies > 1 ? fmt::format(" x {}", line.copies) : "");
  context.print("  {:<12} {:9.2f} MiB\n", "total", mebibytes(plan.total()));
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

int check(CliContext& context, const ConfigArguments& arguments) {
  TrainConfig config = arguments.load(context.registry);
  require_output_folder(config.output);
  TrainSession session(std::move(config), context.log, {.plan_only = true});
  const MemoryPlan& plan = session.plan();
  context.print("{}\n", session.context().describe());
  for (const auto& [name, shape] : plan.variables)
    context.print("  {:<24} {}\n", name, shape.text());
  context.print("model {}: {:.0f} parameters\n", session.config().model_name, plan.parameters);
  print_memory(context, plan);
  print_shards(context, session);
  context.print("{}: ok\n", arguments.path);
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command =
      app.add_subcommand("check", "check a config and its data, print the plan, train nothing");
  const auto arguments = std::make_shared<ConfigArguments>();
  arguments->declare(*command);
  command->callback([&context, &code, arguments] { code = check(context, *arguments); });
}

}  // namespace belfry
