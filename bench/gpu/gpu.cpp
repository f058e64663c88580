// SPDX-License-Identifier: MIT
// Whole steps of one tower on a GPU (momentum, guard on) beside their matrix products alone, by
// model, batch and precision, and how fast the device copies its own memory.
//   bench_gpu [towers, one: "cuda:0"] [file for the figures as JSON]
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "belfry/bench/common/images.h"
#include "belfry/bench/common/products.h"
#include "belfry/bench/common/timer.h"
#include "belfry/device/tower_list.h"
#include "belfry/optim/optimizer.h"
#include "belfry/towers/session.h"

namespace belfry::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kWarmUp = 20, kCalls = 100, kRounds = 5;

// Seconds a call, of calls that the device need not have ended before the next.
double seconds_each(Device& device, const std::function<void()>& fn) {
  device.synchronize();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kCalls; ++i) fn();
  device.synchronize();
  return seconds_since(start) / kCalls;
}

struct Figures {
  Samples step, products;
  double flops = 0;
};

Figures measure(const std::string& towers, const std::string& name, std::int64_t batch_rows,
                Precision precision) {
  Context context({.towers = towers, .threads_per_tower = 1, .precision = precision});
  Device& device = context.device(0);
  Loader loader(context, images(batch_rows),
                {.batch = batch_rows, .shuffle = false, .prefetch = 0});
  const std::shared_ptr<ModelFactory> model =
      builtin().table<ModelEntry>().at(name, "model").make();
  TowerGroupBase group(context, momentum({.lr = 0.01, .momentum = 0.9}), [model] {
    return model->build(Shape{28, 28, 1}, 10);
  });
  Batch batch;
  loader.next(batch);
  const LossFn loss = classifier_loss();
  std::unique_ptr<Products> products;
  const auto on_tower = [&](const std::function<void()>& fn) {  // its thread drives the device
    context.host().run(1, [&](int) {
      device.bind_thread();
      fn();
    });
  };
  on_tower([&] {
    products = std::make_unique<Products>(name, batch_rows, device);
    for (int i = 0; i < kWarmUp; ++i) products->run();
  });
  for (int i = 0; i < kWarmUp; ++i) group.step(batch, loss);
  Figures f;
  f.flops = products->flops();
  for (int round = 0; round < kRounds; ++round) {
    f.step.add(seconds_each(device, [&] { group.step(batch, loss); }));
    on_tower([&] { f.products.add(seconds_each(device, [&] { products->run(); })); });
  }
  return f;
}

// Bytes/s that one copy within the device's memory reads and writes.
double copy_rate(const std::string& towers) {
  Context context({.towers = towers});
  Device& device = context.device(0);
  Samples rates;
  context.host().run(1, [&](int) {
    device.bind_thread();
    const std::int64_t n = std::int64_t{device.host_memory() ? 8 : 64} << 20;
    const Tensor from = Tensor::zeros(Shape{n}, DType::f32, device),
                 to = Tensor::zeros(Shape{n}, DType::f32, device);
    for (int round = 0; round < kRounds + 1; ++round) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < 10; ++i) device.main().copy(to.raw(), from.raw(), from.bytes());
      device.synchronize();
      if (round > 0) rates.add(20 * static_cast<double>(from.bytes()) / seconds_since(start));
    }
  });
  return rates.median();
}

void run(const std::string& towers, const std::string& file) {
  const double rate = copy_rate(towers);
  std::printf("copies within device memory: %.0f GB/s read and written\n", 1e-9 * rate);
  std::printf("%-6s %5s %-5s %10s %12s %12s %8s %14s\n", "model", "batch", "in", "step, us",
              "samples/s", "products, us", "step / p", "GFLOP/s of p");
  Json rows = Json::array();
  std::vector<Precision> precisions = {Precision::f32};
  if (parse_towers(towers).backend == Backend::cuda)
    precisions = {Precision::f32, Precision::tf32, Precision::bf16};
  for (const std::string model : {"mlp", "lenet"})
    for (std::int64_t batch = 64; batch <= (model == "mlp" ? 1024 : 512); batch *= 2)
      for (const Precision precision : precisions) {
        const Figures f = measure(towers, model, batch, precision);
        const double step = f.step.median(), products = f.products.median();
        const std::string in(name_of(precision));
        std::printf("%-6s %5lld %-5s %10.1f %12.0f %12.1f %8.2f %14.1f\n", model.c_str(),
                    static_cast<long long>(batch), in.c_str(), 1e6 * step,
                    static_cast<double>(batch) / step, 1e6 * products, step / products,
                    1e-9 * f.flops / products);
        std::fflush(stdout);
        rows.push_back({{"model", model},
                        {"batch", batch},
                        {"precision", in},
                        {"step_us", 1e6 * step},
                        {"step_us_lowest", 1e6 * f.step.lowest()},
                        {"step_us_highest", 1e6 * f.step.highest()},
                        {"samples_per_second", static_cast<double>(batch) / step},
                        {"products_us", 1e6 * products},
                        {"products_flops", f.flops}});
        if (!file.empty())  // what there is, should the time run out
          std::ofstream(file)
              << Json{{"towers", towers}, {"copy_bytes_per_second", rate}, {"steps", rows}}.dump(1)
              << "\n";
      }
}

}  // namespace
}  // namespace belfry::bench

int main(int argc, char** argv) {
  try {
    belfry::bench::run(argc > 1 ? argv[1] : "cuda:0", argc > 2 ? argv[2] : "");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
