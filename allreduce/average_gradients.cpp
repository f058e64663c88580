// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cmath>
#include <map>

#include "belfry/allreduce/average_gradients.kernel.h"
#include "belfry/allreduce/average_internal.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

using Lists = std::vector<GradientList>;
using ByName = std::map<std::string, const Tensor*>;

[[noreturn]] void fail(const std::string& what, const std::string& found,
                       const std::string& expected) {
  throw GradientError(
      ErrorText{.what = "average_gradients: " + what, .found = found, .expected = expected});
}

std::vector<double> checked_weights(const Lists& lists, const AverageOptions& options) {
  if (options.weights.empty()) return std::vector<double>(lists.size(), 1.0);
  if (options.weights.size() != lists.size())
    fail("weights", std::to_string(options.weights.size()) + " weights",
         std::to_string(lists.size()) + ", one a tower");
  bool any = false;
  for (const double w : options.weights) {
    if (!(w >= 0 && w <= 1e300)) fail("weights", std::to_string(w), "finite numbers, 0 or more");
    any = any || w > 0;
  }
  if (!any)
    throw NumericError(ErrorText{.what = "average_gradients: all weights are 0",
                                 .found = "no tower with rows",
                                 .expected = "one or more"});
  // Scaled by a power of two, which changes no bit of the result: weights reach the kernel as f32.
  std::vector<double> weights = options.weights;
  const int e = std::ilogb(*std::max_element(weights.begin(), weights.end()));
  for (double& w : weights) w = std::ldexp(w, -e);
  return weights;
}

// Each list as name -> gradient, after checking that all lists name the same variables once.
std::vector<ByName> by_name(const Lists& lists) {
  std::vector<ByName> out;
  for (std::size_t t = 0; t < lists.size(); ++t) {
    ByName names;
    for (const GradientPair& p : lists[t])
      if (!names.emplace(p.variable, &p.gradient).second)
        fail("list of tower " + std::to_string(t), "'" + p.variable + "' twice",
             "each variable once");
    out.push_back(std::move(names));
  }
  for (std::size_t t = 1; t < out.size(); ++t) {
    for (const auto& [name, g] : out[0])
      if (out[t].count(name) == 0)
        fail("lists differ", "'" + name + "' is on tower 0 and not on tower " + std::to_string(t),
             "the same variables on every tower");
    for (const auto& [name, g] : out[t])
      if (out[0].count(name) == 0)
        fail("lists differ",
             "'" + name + "' is on tower " + std::to_string(t) + " and not on tower 0",
             "the same variables on every tower");
  }
  return out;
}

Column column_of(const std::string& name, const std::vector<ByName>& lists,
                 const std::vector<double>& weights) {
  Column c{name, {}, nullptr, {}};
  std::size_t first = 0;
  for (std::size_t t = 0; t < lists.size(); ++t) {
    const Tensor* g = lists[t].at(name);
    const bool counts = weights[t] > 0;
    if (!g->defined() || !counts) {
      c.towers.push_back(nullptr);
      if (counts) c.lacking.push_back(static_cast<int>(t));
      continue;
    }
    c.towers.push_back(g);
    if (c.first == nullptr) {
      c.first = g;
      first = t;
    } else if (!(g->shape() == c.first->shape())) {
      fail("shapes of '" + name + "'",
           c.first->shape().text() + " on tower " + std::to_string(first) + ", " +
               g->shape().text() + " on tower " + std::to_string(t),
           "equal shapes");
    } else if (g->dtype() != c.first->dtype()) {
      fail("types of '" + name + "'",
           std::string(name_of(c.first->dtype())) + " and " + std::string(name_of(g->dtype())),
           "equal types");
    }
  }
  return c;
}

// Tables that the kernels read: for each column its sources, then the weights of all. In device
// memory, and for the host.
class Tables {
 public:
  Tables(const std::vector<Column>& columns, const std::vector<double>& weights, Device& device)
      : towers_(weights.size()), host_(columns.size() * towers_) {
    const Settled settled(device.main());
    for (std::size_t c = 0; c < columns.size(); ++c)
      for (std::size_t t = 0; t < towers_; ++t) {
        if (columns[c].towers[t] == nullptr) continue;
        copies_.push_back(columns[c].towers[t]->on(device));
        host_[c * towers_ + t] = copies_.back().raw();
      }
    const std::size_t bytes = host_.size() * sizeof(void*), more = towers_ * sizeof(double);
    device_ = Tensor::empty(Shape{static_cast<std::int64_t>(bytes + more)}, DType::u8, device);
    device.main().copy(device_.raw(), host_.data(), bytes);
    device.main().copy(device_.data<std::uint8_t>() + bytes, weights.data(), more);
    device.main().synchronize();  // what it copied from belongs to the caller
  }
  template <class T>
  const T* const* sources(std::size_t column) const {
    return reinterpret_cast<const T* const*>(device_.data<std::uint8_t>()) + column * towers_;
  }
  template <class T>
  const T* const* host_sources(std::size_t column) const {
    return reinterpret_cast<const T* const*>(host_.data()) + column * towers_;
  }
  const double* weights() const {
    return reinterpret_cast<const double*>(device_.data<std::uint8_t>() +
                                           host_.size() * sizeof(void*));
  }

 private:
  std::size_t towers_;
  std::vector<const void*> host_;
  std::vector<Tensor> copies_;  // or the gradients themselves, where the device can read them
  Tensor device_;
};

template <class T, class Acc>
void average(const Column& c, std::size_t number, const Tables& tables,
             const std::vector<double>& weights, Device& device, bool square,
             AveragedGradients& out) {
  const auto count = static_cast<std::size_t>(c.first->size());
  Tensor mean = Tensor::empty(c.first->shape(), c.first->dtype(), device);
  Tensor squares = square ? Tensor::empty(c.first->shape(), dtype_of<Acc>(), device) : Tensor();
  Acc* q = square ? squares.data<Acc>() : nullptr;
  double total = 0;
  for (const double w : weights) total += w;
  if (weights.size() == 1) {
    device.main().copy(mean.raw(), c.first->raw(), mean.bytes());
    if (square) launch_elements(device.main(), count, SquareList<T, Acc>{c.first->data<T>(), q});
  } else {
    launch_elements(device.main(), count,
                    AverageLists<T, Acc>{tables.sources<T>(number), tables.host_sources<T>(number),
                                         tables.weights(), static_cast<int>(weights.size()), total,
                                         mean.data<T>(), q});
  }
  out.mean.emplace_back(mean, c.name);
  if (square) out.square.emplace_back(squares, c.name);
}

}  // namespace

void average_columns(const std::vector<Column>& columns, const std::vector<double>& weights,
                     Device& device, bool square, AveragedGradients& out) {
  const Settled settled(device.main());  // the tables go
  const Tables tables(columns, weights, device);
  for (std::size_t k = 0; k < columns.size(); ++k) {
    const Column& c = columns[k];
    const auto run = [&](auto scalar, auto sum) {
      average<decltype(scalar), decltype(sum)>(c, k, tables, weights, device, square, out);
    };
    switch (c.first->dtype()) {
      case DType::f32:
        run(float{}, float{});
        break;
      case DType::f64:
        run(double{}, double{});
        break;
      case DType::bf16:
        run(BFloat16{}, float{});
        break;
      case DType::f16:
        run(Half{}, float{});
        break;
      default:
        fail("type of '" + c.name + "'", std::string(name_of(c.first->dtype())),
             "a floating-point type");
    }
  }
  device.main().synchronize();
}

CheckedLists check_lists(const Lists& towers, const AverageOptions& options) {
  if (towers.empty()) fail("no towers", "an empty list", "one gradient list a tower");
  CheckedLists out;
  out.weights = checked_weights(towers, options);
  const std::vector<ByName> lists = by_name(towers);
  std::string partial, all;
  for (const GradientPair& p : towers[0]) {
    Column c = column_of(p.variable, lists, out.weights);
    all += (all.empty() ? "" : ", ") + p.variable;
    if (c.first == nullptr) {
      out.skipped.push_back(p.variable);
      continue;
    }
    if (!c.lacking.empty() && options.none == MissingOnSome::reject)
      partial +=
          (partial.empty() ? "" : "; ") + missing_text(c.name, c.lacking, towers.size(), "tower");
    out.present.push_back(std::move(c));
  }
  if (out.present.empty())
    throw GradientError("average_gradients: no variable has a gradient: " + all);
  if (!partial.empty())
    throw GradientError("average_gradients: gradients are missing on some towers only: " + partial);
  return out;
}

AveragedGradients average_gradients(const Lists& towers, const AverageOptions& options) {
  const CheckedLists checked = check_lists(towers, options);
  for (const GradientList& list : towers)
    for (const GradientPair& p : list)
      if (p.gradient.defined()) p.gradient.device().synchronize();
  Device* device = &checked.present[0].first->device();
  for (const GradientPair& p : towers[0])
    if (p.gradient.defined()) device = &p.gradient.device();
  AveragedGradients out;
  average_columns(checked.present, checked.weights, *device, options.include_square, out);
  out.skipped = checked.skipped;
  return out;
}

}  // namespace belfry
