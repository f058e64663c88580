// SPDX-License-Identifier: MIT
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "belfry/apps/cli/bench_internal.h"
#include "belfry/apps/cli/commands_internal.h"
#include "belfry/apps/cli/exit_codes.h"
#include "belfry/apps/cli/output_file.h"
#include "belfry/data/byte_file.h"
#include "belfry/device/cpu/cpu_device.h"

namespace belfry {
namespace {

using Json = nlohmann::ordered_json;

struct BenchArguments {
  BenchSetup setup;
  std::vector<int> towers{1, 2};
  int rounds = 5;
  std::string json;
};

void write_json(CliContext& context, const OutputFile& file, const Json& json) {
  if (!file.wanted()) return;
  file.write(json.dump(1) + "\n", context.io);
  if (!file.to_stdout()) context.print("written to {}\n", file.path());
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int bench_step(CliContext& context, const BenchArguments& arguments) {
  const OutputFile file("--json", arguments.json, {});
  const CliContext shown = beside(context, file.to_stdout());
  const BenchSetup& setup = arguments.setup;
  BenchRun run(context.registry, setup);
  const StepTimes times = run.measure(setup.updates);
  const double gemm = best_gemm_rate(setup.threads), step = times.median();
  const double rate = static_cast<double>(setup.batch) / step;
  shown.print("{} batch {}, {} x {}, {}\n", setup.model, setup.batch,
              count_text(setup.towers, "tower"), count_text(setup.threads, "thread"),
              count_text(setup.updates, "update"));
  shown.print("step {:.3f} ms (spread {:.0f}%), {:.0f} samples/s, exposed {:.1f}%\n", 1e3 * step,
              100 * times.spread(), rate, 100 * times.exposed);
  shown.print("best GEMM 512x512x512 on {}: {:.1f} GFLOP/s\n", count_text(setup.threads, "thread"),
              gemm / 1e9);
  Json json = {{"bench", "step"},
               {"model", setup.model},
               {"batch_rows", setup.batch},
               {"towers", setup.towers},
               {"threads_per_tower", setup.threads},
               {"step_seconds", step},
               {"spread_share", times.spread()},
               {"samples_per_second", rate},
               {"exposed_share", times.exposed},
               {"best_gemm_flop_per_second", gemm}};
  if (const std::int64_t flops = run.matrix_product_flops(); flops > 0) {
    const double least = static_cast<double>(flops) / gemm / setup.towers;
    shown.print("its matrix products at that rate: {:.3f} ms; the step takes {:.2f} x as long\n",
                1e3 * least, step / least);
    json["matrix_product_flops"] = flops;
    json["step_over_matrix_products"] = step / least;
  }
  write_json(context, file, json);
  return kExitOk;
}

// Samples/s of n towers in one group, and of n groups of one tower at the same time.
struct ScalingPoint {
  int towers = 1;
  std::vector<double> together, apart;
};

double rate_together(const Registry& registry, const BenchSetup& setup) {
  BenchRun run(registry, setup);
  return static_cast<double>(setup.batch) / run.measure(setup.updates).median();
}

// n runs that know nothing of each other: what the machine itself leaves of n times the speed. All
// are warm before the first is measured.
double rate_apart(const Registry& registry, BenchSetup setup, int n) {
  setup.towers = 1;
  std::vector<std::unique_ptr<BenchRun>> runs;
  for (int i = 0; i < n; ++i) runs.push_back(std::make_unique<BenchRun>(registry, setup));
  const std::unique_ptr<Host> host = make_thread_host();
  std::vector<double> rates(static_cast<std::size_t>(n));
  host->run(n, [&](int i) {
    const auto k = static_cast<std::size_t>(i);
    rates[k] = static_cast<double>(setup.batch) / runs[k]->measure(setup.updates).median();
  });
  double sum = 0;
  for (const double r : rates) sum += r;
  return sum;
}

// a / b of each round: a drift of the machine cancels.
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] / b[i]);
  return out;
}

double median_ratio(const std::vector<double>& a, const std::vector<double>& b) {
  return median_of(ratios(a, b));
}

std::vector<ScalingPoint> measure_scaling(const Registry& registry,
                                          const BenchArguments& arguments) {
  std::vector<ScalingPoint> out;
  for (const int n : arguments.towers) out.push_back({n, {}, {}});
  // Rounds are interleaved, so that a drift of the machine meets all points alike.
  for (int round = 0; round < arguments.rounds; ++round)
    for (ScalingPoint& point : out) {
      BenchSetup setup = arguments.setup;
      setup.towers = point.towers;
      setup.batch = arguments.setup.batch * point.towers;
      point.together.push_back(rate_together(registry, setup));
      point.apart.push_back(rate_apart(registry, arguments.setup, point.towers));
    }
  return out;
}

int bench_scaling(CliContext& context, BenchArguments arguments) {
  const OutputFile file("--json", arguments.json, {});
  const CliContext shown = beside(context, file.to_stdout());
  std::sort(arguments.towers.begin(), arguments.towers.end());
  const BenchSetup& setup = arguments.setup;
  const std::vector<ScalingPoint> points = measure_scaling(context.registry, arguments);
  const std::vector<double>& base = points.front().together;
  const double base_towers = points.front().towers;
  shown.print("weak scaling of {}: {} a tower and update, {} a tower, median of {}\n", setup.model,
              count_text(setup.batch, "row"), count_text(setup.threads, "thread"),
              count_text(arguments.rounds, "round"));
  shown.print(
      "towers  samples/s  per tower  speed-up  efficiency | independent runs: samples/s  "
      "efficiency\n");
  Json rows = Json::array();
  for (const ScalingPoint& p : points) {
    const double rate = median_of(p.together), apart = median_of(p.apart);
    const double speedup = base_towers * median_ratio(p.together, base);
    const double ceiling = base_towers * median_ratio(p.apart, base) / p.towers;
    shown.print("{:6}  {:9.0f}  {:9.0f}  {:8.2f}  {:9.1f}% | {:27.0f}  {:9.1f}%\n", p.towers, rate,
                rate / p.towers, speedup, 100 * speedup / p.towers, apart, 100 * ceiling);
    rows.push_back({{"towers", p.towers},
                    {"samples_per_second", rate},
                    {"efficiency_share", speedup / p.towers},
                    {"independent_samples_per_second", apart},
                    {"independent_efficiency_share", ceiling},
                    {"of_ceiling_share", median_ratio(p.together, p.apart)},
                    {"of_ceiling_share_rounds", ratios(p.together, p.apart)}});
  }
  const ScalingPoint& last = points.back();
  shown.print("{} {} {:.1f}% of {}\n", count_text(last.towers, "tower"),
              last.towers == 1 ? "reaches" : "reach", 100 * median_ratio(last.together, last.apart),
              count_text(last.towers, "independent run"));
  const double gemm = best_gemm_rate(setup.threads);
  shown.print("best GEMM 512x512x512 on {}: {:.1f} GFLOP/s\n", count_text(setup.threads, "thread"),
              gemm / 1e9);
  write_json(context, file,
             {{"bench", "weak_scaling"},
              {"model", setup.model},
              {"rows_per_tower", setup.batch},
              {"threads_per_tower", setup.threads},
              {"points", rows},
              {"best_gemm_flop_per_second", gemm}});
  return kExitOk;
}

void declare_common(CLI::App& command, BenchArguments& arguments) {
  BenchSetup& s = arguments.setup;
  command.add_option("--model", s.model, "model of the registry, on 28x28 images or 128 tokens")
      ->capture_default_str();
  command.add_option("--batch", s.batch, "rows of an update; of a tower in 'scaling'")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  command.add_option("--threads", s.threads, "threads a tower")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command.add_option("--updates", s.updates, "measured updates, after a warm-up of 5")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command.add_option("--json", arguments.json, "also write the figures to this file; -: stdout");
}

}  // namespace

void add_bench(CLI::App& app, CliContext& context, int& code) {
  CLI::App* const command = app.add_subcommand("bench", "measure this machine");
  command->require_subcommand(1);
  CLI::App* const step =
      command->add_subcommand("step", "one update, beside the best matrix product");
  const auto step_arguments = std::make_shared<BenchArguments>();
  declare_common(*step, *step_arguments);
  step->add_option("--towers", step_arguments->setup.towers, "towers")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  step->callback(
      [&context, &code, step_arguments] { code = bench_step(context, *step_arguments); });

  CLI::App* const scaling =
      command->add_subcommand("scaling", "weak scaling, beside independent runs at the same time");
  const auto scaling_arguments = std::make_shared<BenchArguments>();
  scaling_arguments->setup.model = "lenet";
  declare_common(*scaling, *scaling_arguments);
  scaling->add_option("--towers", scaling_arguments->towers, "numbers of towers")
      ->delimiter(',')
      ->check(CLI::Range(1, 1024));
  scaling->add_option("--rounds", scaling_arguments->rounds, "interleaved repetitions")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  scaling->callback(
      [&context, &code, scaling_arguments] { code = bench_scaling(context, *scaling_arguments); });
}

}  // namespace belfry
