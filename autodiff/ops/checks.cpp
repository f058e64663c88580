// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/checks_internal.h"

namespace belfry {

void require_like(const char* op, const Tensor& x, const Tensor& t, const char* name) {
  if (t.dtype() != x.dtype())
    throw_op(op, std::string(name) + " has another element type", std::string(name_of(t.dtype())),
             std::string(name_of(x.dtype())));
  if (t.device().id() != x.device().id())
    throw_op(op, std::string(name) + " is on another device", name_of(t.device().id()),
             name_of(x.device().id()));
}

void require_shape(const char* op, const Tensor& t, const Shape& shape, const char* name) {
  if (!(t.shape() == shape))
    throw_op(op, std::string(name) + " has the wrong shape", t.shape().text(), shape.text());
}

void require_rank_at_least(const char* op, const Tensor& t, int rank, const char* name) {
  if (t.shape().rank() < rank)
    throw_op(op, std::string(name) + " has the wrong rank", t.shape().text(),
             "at least " + std::to_string(rank) + " extents");
}

void require_float(const char* op, const Tensor& t) {
  t.device();  // throws when undefined
  if (t.dtype() != DType::f32 && t.dtype() != DType::f64) throw_not_float(op, t);
}

}  // namespace belfry
