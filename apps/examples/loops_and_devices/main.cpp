// SPDX-License-Identifier: MIT
// A net over two devices, a loop of updates in place, and work on a list of devices:
// loops_and_devices [TOWERS], at least two.
#include <belfry/belfry.h>

namespace bf = belfry;

// Two layers, one on each device. Gradients run where their ops did; copies are in the report.
void net_on_two_devices(bf::Device& first, bf::Device& second, const bf::Log& log) {
  bf::Tape tape;
  const bf::Scope pass({.tape = &tape});
  const auto quarters = [](const bf::Shape& shape, bf::Device& device) {
    const std::vector<double> values(static_cast<std::size_t>(shape.size()), 0.25);
    return bf::Tensor::from(values, shape, bf::DType::f32, device);
  };
  const bf::Tensor w1 = tape.leaf(quarters({4, 3}, first));
  const bf::Tensor w2 = tape.leaf(quarters({1, 4}, second));
  bf::Tensor hidden, loss;
  {
    const auto on = bf::device_scope(first);
    hidden =
        bf::tanh(bf::linear(quarters({8, 3}, first), w1, bf::Tensor::zeros({4}, bf::DType::f32)));
  }
  {
    const auto on = bf::device_scope(second);
    const bf::Tensor y = bf::linear(hidden.to(second), w2, bf::Tensor::zeros({1}, bf::DType::f32));
    loss = bf::sum(bf::mul(y, y));
  }
  tape.backward(loss);
  for (const std::string& line : tape.placement()) log.info("{}", line);
}

int main(int argc, char** argv) {
  const bf::Log log = bf::Log::console();
  try {
    bf::Context ctx({.towers = argc > 1 ? argv[1] : "cpu:2", .seed = 1});
    bf::Device& device = ctx.device(0);
    device.bind_thread();
    net_on_two_devices(device, ctx.device(1), log);

    // 100 additions to 4 counts. Those to one count depend on each other: `carried` runs them in
    // order; without it the loop would name two such iterations and stop.
    const bf::Tensor counts = bf::Tensor::zeros({4}, bf::DType::f32, device);
    const bf::Tensor one = bf::Tensor::from({1}, {1}, bf::DType::f32, device);
    const bf::Tensor first = bf::Tensor::zeros({1}, bf::DType::i32, device);
    bf::parallel_for(device, 100, {.carried = true}, [&](std::int64_t i) {
      bf::scatter_add(counts.rows(i % 4, 1), first, one, bf::Duplicates::sum);
    });

    // Each listed device computes, the host combines.
    const auto compute = [](bf::Device& d) {
      const double value = 10 * (d.id().index + 1);
      return bf::sum(bf::Tensor::from({value}, {1}, bf::DType::f32, d)).item();
    };
    double total = 0;
    for (const auto& result : bf::map_devices(ctx, {1, 0}, compute)) total += result.value;
    const std::vector<double> n = counts.to_vector();
    log.info("counts {} {} {} {}, sum {}", n[0], n[1], n[2], n[3], total);
    return 0;
  } catch (const bf::Error& error) {
    log.error("{}", error.what());
    return 1;
  }
}
