// SPDX-License-Identifier: MIT
// What the exchange of a model's real buckets would take on clusters of GPUs: latency and bandwidth
// of links, in two levels, under backward and the next forward pass. Nothing is measured.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "belfry/bench/common/net_plan.h"
#include "belfry/core/error.h"
#include "belfry/data/byte_file.h"

namespace belfry::bench {
namespace {

struct ModelOptions {
  std::string model = "gpt";
  std::vector<int> gpus{8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  int per_node = 8, in_flight = 8;
  double inside_us = 2, inside_gbs = 360, across_us = 5, across_gbs = 45, launch_us = 10;
  double memory_gbs = 3500, tflops = 300, forward_ms = 0, backward_ms = 0;
  std::int64_t batch = 0;
  std::string json, markdown;
};

// A finite number of a range: CLI11's own lets NaN pass.
CLI::Validator number(double low, double high) {
  const std::string range = fmt::format("a number from {} to {}", low, high);
  return CLI::Validator(
      [low, high, range](std::string& text) {
        double value = 0;
        const bool ok = CLI::detail::lexical_cast(text, value) && value >= low && value <= high;
        return ok ? std::string() : "found " + text + ", expected " + range;
      },
      range);
}

void declare(CLI::App& app, ModelOptions& o) {
  app.add_option("--model", o.model, "mlp, lenet, resnet50 or gpt (124,439,808 parameters)");
  app.add_option("--gpus", o.gpus, "numbers of GPUs: of one node at most, or of full nodes")
      ->delimiter(',');
  app.add_option("--per-node", o.per_node, "GPUs of a node")->check(CLI::Range(1, 1024));
  app.add_option("--inside-us", o.inside_us, "latency of a message inside a node")
      ->check(number(0, 1e6));
  app.add_option("--inside-gbs", o.inside_gbs, "GB/s of a GPU inside a node, each direction")
      ->check(number(1e-9, 1e9));
  app.add_option("--across-us", o.across_us, "latency of a message between nodes")
      ->check(number(0, 1e6));
  app.add_option("--across-gbs", o.across_gbs, "GB/s of a GPU between nodes, each direction")
      ->check(number(1e-9, 1e9));
  app.add_option("--in-flight", o.in_flight, "messages of a GPU on their way at once")
      ->check(CLI::Range(1, 4096));
  app.add_option("--launch-us", o.launch_us, "start of a collective")->check(number(0, 1e6));
  app.add_option("--memory-gbs", o.memory_gbs, "GB/s of a GPU's own memory")
      ->check(number(1e-9, 1e9));
  app.add_option("--batch", o.batch, "rows a GPU; 0: 64, resnet50 128, gpt 8")
      ->check(CLI::Range(0, 1 << 30));
  app.add_option("--tflops", o.tflops, "rate of forward and backward")->check(number(1e-9, 1e9));
  CLI::Option* const forward =
      app.add_option("--forward-ms", o.forward_ms, "measured time of forward, in place of --tflops")
          ->check(number(1e-6, 1e9));
  CLI::Option* const backward =
      app.add_option("--backward-ms", o.backward_ms, "measured time of backward")
          ->check(number(1e-6, 1e9));
  forward->needs(backward);
  backward->needs(forward);
  app.add_option("--json", o.json, "also write the figures there; -: to stdout, and nothing else");
  app.add_option("--markdown", o.markdown, "also write the table there; -: to stdout");
}

std::int64_t rows_of(const ModelOptions& o) {
  if (o.batch > 0) return o.batch;
  return o.model == "gpt" ? 8 : o.model == "resnet50" ? 128 : 64;
}

Cluster cluster_of(const ModelOptions& o, int gpus) {
  if (gpus < 1 || (gpus > o.per_node && gpus % o.per_node != 0))
    throw ConfigError(ErrorText{.what = "--gpus",
                                .found = std::to_string(gpus),
                                .expected = "full nodes of " + std::to_string(o.per_node)});
  return {.gpus = gpus,
          .per_node = o.per_node,
          .inside = {o.inside_us * 1e-6, o.inside_gbs * 1e9, o.in_flight},
          .across = {o.across_us * 1e-6, o.across_gbs * 1e9, o.in_flight},
          .launch = o.launch_us * 1e-6,
          .memory_rate = o.memory_gbs * 1e9};
}

std::string assumptions(const ModelOptions& o, const NetPlan& plan, double forward,
                        double backward) {
  std::string out = fmt::format(
      "Predicted, not measured: {}, {:.0f} parameters in {}, {} a GPU (as many on any "
      "number), f32 gradients.\n\nAssumed:\n\n",
      plan.name, plan.parameters,
      count_text(static_cast<std::int64_t>(plan.buckets.size()), "bucket"),
      count_text(rows_of(o), "row"));
  const auto add = [&out](const std::string& line) { out += "- " + line + "\n"; };
  if (o.forward_ms > 0 && o.backward_ms > 0)
    add(fmt::format("forward {:.3f} ms, backward {:.3f} ms, as given", forward * 1e3,
                    backward * 1e3));
  else
    add(fmt::format(
        "forward {:.3f} ms, backward {:.3f} ms: {:.3g} and twice as many GFLOP at {:.0f} "
        "TFLOP/s",
        forward * 1e3, backward * 1e3, plan.forward_flops * 1e-9 * static_cast<double>(rows_of(o)),
        o.tflops));
  add(fmt::format(
      "inside a node of {}: {} us a message, {} GB/s a GPU and direction; between "
      "nodes: {} us, {} GB/s; {} us to start a collective; memory {} GB/s",
      o.per_node, o.inside_us, o.inside_gbs, o.across_us, o.across_gbs, o.launch_us, o.memory_gbs));
  add("exchange in two levels: slices among the GPUs of a node, then among the GPUs of equal place "
      "in all nodes; n members send n - 1 messages each, " +
      std::to_string(o.in_flight) +
      " in flight; the gather mirrors "
      "it (the library's own exchange over NCCL has one level today)");
  add("buckets go one after the other, each once its last gradient is there; gradients complete in "
      "the plan's order, as the multiplications of their variables do; the fold reads n slices and "
      "writes one, after the bucket has come");
  add("verdict and update follow the last bucket; the next forward pass waits for each bucket's "
      "parameters; communication takes nothing from the passes under which it runs");
  add("no stragglers, no congestion, no data wait");
  return out;
}

std::string table_of(const std::vector<std::pair<int, StepModel>>& rows) {
  std::string out =
      "| GPUs | step, ms | exchange, ms | verdict, ms | gather, ms | exposed, ms | exposed, % | "
      "sent inside, MB | sent across, MB | efficiency, % |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const auto& [gpus, m] : rows)
    out += fmt::format(
        "| {} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.3f} | {:.1f} | {:.1f} | {:.1f} "
        "| {:.1f} |\n",
        gpus, m.step * 1e3, m.exchange * 1e3, m.verdict * 1e3, m.gather * 1e3, m.exposed() * 1e3,
        100 * m.exposed() / m.step, m.bytes_inside * 1e-6, m.bytes_across * 1e-6,
        100 * m.efficiency());
  return out;
}

nlohmann::ordered_json json_of(const ModelOptions& o, const NetPlan& plan, double forward,
                               double backward,
                               const std::vector<std::pair<int, StepModel>>& rows) {
  nlohmann::ordered_json out = {{"bench", "model"},
                                {"settings",
                                 {{"model", plan.name},
                                  {"parameters", plan.parameters},
                                  {"buckets", plan.buckets.size()},
                                  {"rows_a_gpu", rows_of(o)},
                                  {"forward_seconds", forward},
                                  {"backward_seconds", backward},
                                  {"gpus_a_node", o.per_node},
                                  {"inside_latency_seconds", o.inside_us * 1e-6},
                                  {"inside_bytes_per_second", o.inside_gbs * 1e9},
                                  {"across_latency_seconds", o.across_us * 1e-6},
                                  {"across_bytes_per_second", o.across_gbs * 1e9},
                                  {"messages_in_flight", o.in_flight},
                                  {"launch_seconds", o.launch_us * 1e-6},
                                  {"memory_bytes_per_second", o.memory_gbs * 1e9}}},
                                {"predictions", nlohmann::ordered_json::array()}};
  for (const auto& [gpus, m] : rows)
    out["predictions"].push_back({{"gpus", gpus},
                                  {"step_seconds", m.step},
                                  {"exchange_seconds", m.exchange},
                                  {"verdict_seconds", m.verdict},
                                  {"gather_seconds", m.gather},
                                  {"exposed_exchange_seconds", m.exposed_exchange},
                                  {"exposed_gather_seconds", m.exposed_gather},
                                  {"sent_inside_bytes", m.bytes_inside},
                                  {"sent_across_bytes", m.bytes_across},
                                  {"efficiency", m.efficiency()}});
  return out;
}

void write(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  if (path == "-") {
    std::cout << text;
    return;
  }
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) throw ConfigError(ErrorText{.what = "cannot write the figures", .found = path});
}

void run(const ModelOptions& o) {
  const NetPlan plan = net_plan(o.model);
  const bool given = o.forward_ms > 0;
  if (!o.json.empty() && o.json == o.markdown)
    throw ConfigError(ErrorText{.what = "--json and --markdown name one file", .found = o.json});
  const double flops = plan.forward_flops * static_cast<double>(rows_of(o));
  const double forward = given ? o.forward_ms * 1e-3 : flops / (o.tflops * 1e12);
  const double backward = given ? o.backward_ms * 1e-3 : 2 * forward;
  std::vector<std::pair<int, StepModel>> rows;
  for (const int gpus : o.gpus)
    rows.emplace_back(gpus, model_step(plan, cluster_of(o, gpus), forward, backward));
  const std::string text = assumptions(o, plan, forward, backward) + "\n" + table_of(rows);
  if (o.json != "-" && o.markdown != "-") std::cout << text;
  write(o.markdown, text);
  write(o.json, json_of(o, plan, forward, backward, rows).dump(2) + "\n");
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  using namespace belfry::bench;
  CLI::App app("Predicts the steps of a model on clusters of GPUs from its buckets and the links.");
  ModelOptions options;
  declare(app, options);
  try {
    app.parse(argc, argv);
    run(options);
    return 0;
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const std::exception& e) {
    std::cerr << "error: " << e.what() << "\n";
    return 2;
  }
}
