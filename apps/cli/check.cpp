// SPDX-License-Identifier: MIT
#include <memory>

#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/towers/session.h"

namespace belfry {
namespace {

double mebibytes(double bytes) { return bytes / (1 << 20); }

// Bytes of each kind of array, and of what every tower has besides.
void print_memory(CliContext& context, TrainSession& session) {
  std::vector<std::pair<std::string, double>> kinds;
  double parameters = 0, total = 0;
  for (const GroupArray& a : session.group().arrays()) {
    const double bytes = 4.0 * static_cast<double>(a.shape.size());
    if (kinds.empty() || kinds.back().first != a.kind) kinds.emplace_back(a.kind, 0);
    kinds.back().second += bytes;
    if (a.kind == "parameter") parameters += bytes;
  }
  const int towers = session.context().towers();
  const bool replicated = session.config().variables == "replicated";
  context.print("memory plan, without activations:\n");
  for (const auto& [kind, bytes] : kinds) {
    const bool copies = replicated && kind == "parameter" && towers > 1;
    context.print("  {:<12} {:9.2f} MiB{}\n", kind, mebibytes(bytes),
                  copies ? fmt::format(" x {} towers", towers) : "");
    total += bytes * (copies ? towers : 1);
  }
  context.print("  {:<12} {:9.2f} MiB x {} towers\n", "gradient", mebibytes(parameters), towers);
  total += parameters * towers + (towers > 1 ? parameters : 0);
  if (towers > 1) context.print("  {:<12} {:9.2f} MiB\n", "mean", mebibytes(parameters));
  context.print("  {:<12} {:9.2f} MiB\n", "total", mebibytes(total));
}

void print_shards(CliContext& context, TrainSession& session) {
  const Loader& loader = session.loader();
  const std::int64_t towers = session.context().towers(), batch = loader.options().batch;
  const auto shards = [towers](std::int64_t rows) {
    std::string out;
    for (std::int64_t t = 0; t < towers; ++t)
      out += (t == 0 ? "" : " ") + std::to_string(rows / towers + (t < rows % towers ? 1 : 0));
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
  TrainSession session(arguments.load(context.registry), context.log);
  context.print("{}\n", session.context().describe());
  std::int64_t parameters = 0;
  for (const GroupArray& a : session.group().arrays()) {
    if (a.kind != "parameter") continue;
    context.print("  {:<24} {}\n", a.variable, a.shape.text());
    parameters += a.shape.size();
  }
  context.print("model {}: {} parameters\n", session.config().model_name, parameters);
  print_memory(context, session);
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
