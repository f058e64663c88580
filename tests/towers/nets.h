// SPDX-License-Identifier: MIT
// Small models and data for tests of the engine.
#pragma once
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "belfry/autodiff/nn/dropout.h"
#include "belfry/autodiff/nn/linear.h"
#include "belfry/autodiff/ops/loss/cross_entropy.h"
#include "belfry/autodiff/ops/loss/mse.h"
#include "belfry/data/memory.h"
#include "belfry/towers/group.h"

namespace belfry::test {

// 64 -> 48 -> 10 with tanh and, where asked for, dropout.
struct Mlp : Module {
  explicit Mlp(double p = 0)
      : hidden(*this, "hidden", 64, 48, Activation::tanh),
        drop(*this, "drop", p),
        head(*this, "head", 48, 10) {}
  Tensor forward(const Tensor& x) { return head(drop(hidden(x))); }
  Linear hidden;
  Dropout drop;
  Linear head;
};

inline Loss classify(Module& m, const Batch& b, Step&) {
  return cross_entropy(static_cast<Mlp&>(m).forward(b["image"]), b["label"]);
}

inline TowerGroupBase::Factory mlp(double dropout = 0) {
  return [dropout] { return std::make_unique<Mlp>(dropout); };
}

// `rows` rows of 64 features with a label that depends on them; fixed.
inline std::shared_ptr<const Dataset> blobs(std::int64_t rows, std::uint64_t seed = 5) {
  const Philox philox = philox_key(seed, Purpose::test);
  std::vector<float> x;
  std::vector<std::int32_t> y;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto label = static_cast<std::int32_t>(r * 7 % 10);
    for (int f = 0; f < 64; ++f) {
      const auto w = philox(static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(f), 0, 0);
      x.push_back(unit_float(w.v[0]) - 0.5f + (f % 10 == label ? 0.7f : 0.f));
    }
    y.push_back(label);
  }
  return memory_dataset(std::move(x), Shape{64}, std::move(y), 10);
}

inline Batch batch_of(Context& context, std::int64_t rows, std::uint64_t seed = 5) {
  Loader loader(context, blobs(rows, seed),
                {.batch = rows, .epochs = 1, .shuffle = false, .prefetch = 0});
  Batch b;
  loader.next(b);
  return b;
}

// The batch with another value in one element of its images.
inline Batch with_value(const Batch& b, std::size_t at, float value) {
  std::vector<double> x = b["image"].to_vector();
  x[at] = static_cast<double>(value);
  Batch out;
  for (const std::string& name : b.names())
    out.add(name, name == "image" ? Tensor::from(x, b[name].shape(), DType::f32, b[name].device())
                                  : b[name]);
  out.rows = b.rows, out.first_row = b.first_row;
  return out;
}

// |a - b| / |b| over all arrays.
inline double distance(const std::vector<GroupArray>& a, const std::vector<GroupArray>& b) {
  double d = 0, n = 0;
  for (std::size_t k = 0; k < a.size(); ++k)
    for (std::size_t i = 0; i < a[k].values.size(); ++i) {
      const double x = static_cast<double>(a[k].values[i]), y = static_cast<double>(b[k].values[i]);
      d += (x - y) * (x - y);
      n += y * y;
    }
  return std::sqrt(d / n);
}

}  // namespace belfry::test
