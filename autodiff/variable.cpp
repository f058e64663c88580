// SPDX-License-Identifier: MIT
#include "belfry/autodiff/variable.h"

#include <cmath>
#include <utility>

#include "belfry/autodiff/module.h"
#include "belfry/core/error.h"
#include "belfry/core/philox.h"

namespace belfry {

Variable::Variable(Module& parent, const std::string& name, const Shape& shape, Init init)
    : name_(parent.path().empty() ? name : parent.path() + "." + name), shape_(shape), init_(init) {
  parent.claim(name);
  parent.keep_part({this, nullptr, nullptr, name}, parent_);
}

Variable::~Variable() {
  if (parent_ != nullptr) parent_->part_is_gone(this);
}

void Variable::bind(const Tensor& value, GradSink* sink, std::function<void()> before_use) {
  if (!(value.shape() == shape_))
    throw GradientError(ErrorText{.what = "variable " + name_,
                                  .found = "memory of shape " + value.shape().text(),
                                  .expected = shape_.text()});
  value_ = value;
  sink_ = sink;
  before_use_ = std::move(before_use);
  leaf_serial_ = 0;
}

const Tensor& Variable::tensor() const {
  if (!value_.defined())
    throw GradientError(
        ErrorText{.what = "variable " + name_ + " has no memory yet",
                  .fix = "use the module through a TowerGroup, which binds its variables"});
  if (before_use_) before_use_();
  Tape* tape = Scope::tape();
  if (tape == nullptr || !trainable_) return value_;
  if (leaf_serial_ != tape->serial()) {
    leaf_ = tape->leaf(value_, sink_);
    leaf_serial_ = tape->serial();
  }
  return leaf_;
}

void initial_values(const std::string& name, const Init& init, std::uint64_t seed,
                    std::int64_t count, float* out) {
  const std::uint64_t hash = name_hash(name);
  const Philox philox = philox_key(seed, Purpose::init);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto w = philox(static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32),
                          static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32));
    double v = init.a;
    if (init.kind == Init::Kind::uniform) {
      v = init.a * (2.0 * static_cast<double>(unit_float(w.v[0])) - 1.0);
    } else if (init.kind == Init::Kind::normal) {  // Box and Muller 1958; 1 - u is in (0, 1]
      const double u = 1.0 - static_cast<double>(unit_float(w.v[0]));
      const double angle = 6.283185307179586 * static_cast<double>(unit_float(w.v[1]));
      v = init.a * std::sqrt(-2.0 * std::log(u)) * std::cos(angle);
    }
    out[i] = static_cast<float>(v);
  }
}

}  // namespace belfry
