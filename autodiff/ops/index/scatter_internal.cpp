// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/index/scatter_internal.h"

#include <algorithm>
#include <cstring>

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/index/scatter.kernel.h"
#include "belfry/core/error.h"
#include "belfry/device/host_scratch.h"

namespace belfry {
namespace {

[[noreturn]] void throw_twice(const char* op, const std::int32_t* indices, std::int64_t second) {
  std::int64_t first = 0;
  while (indices[first] != indices[second]) ++first;
  throw DataError(
      ErrorText{.what = std::string(op) + ": places " + std::to_string(first) + " and " +
                        std::to_string(second) + " have the same index",
                .found = std::to_string(indices[second]),
                .expected = "each index once, with Duplicates::reject",
                .fix = "say what to do with duplicates: last for an update, sum for an addition"});
}

void require_range(const char* op, const std::int32_t* indices, std::int64_t count,
                   std::int64_t rows) {
  std::uint32_t most = 0;  // below 0: beyond all; without a way out, so that it runs in vectors
  for (std::int64_t k = 0; k < count; ++k)
    most = std::max(most, static_cast<std::uint32_t>(indices[k]));
  if (most < std::min<std::int64_t>(rows, std::int64_t{1} << 31)) return;
  for (std::int64_t k = 0; k < count; ++k)
    if (indices[k] < 0 || indices[k] >= rows)
      throw DataError(ErrorText{
          .what = std::string(op) + ": index of place " + std::to_string(k) + " is out of range",
          .found = std::to_string(indices[k]),
          .expected = "an index in [0, " + std::to_string(rows) + ")"});
}

// A bit for each row; for few places of many rows the sorted indices are less to look at.
void require_once(const char* op, const std::int32_t* indices, std::int64_t count,
                  std::int64_t rows) {
  if (count < 2) return;
  const auto n = static_cast<std::size_t>(count);
  if (rows / 256 > count) {
    auto* const sorted = static_cast<std::int32_t*>(host_scratch(n * sizeof(std::int32_t)));
    std::copy_n(indices, n, sorted);
    std::sort(sorted, sorted + n);
    const auto* const twice = std::adjacent_find(sorted, sorted + n);
    if (twice == sorted + n) return;
    std::int64_t second = count;
    while (indices[--second] != *twice) {
    }
    throw_twice(op, indices, second);
  }
  const auto words = static_cast<std::size_t>(rows) / 64 + 1;
  auto* const seen = static_cast<std::uint64_t*>(host_scratch(words * sizeof(std::uint64_t)));
  std::memset(seen, 0, words * sizeof(std::uint64_t));
  for (std::size_t k = 0; k < n; ++k) {
    std::uint64_t& word = seen[static_cast<std::size_t>(indices[k]) / 64];
    const std::uint64_t bit = std::uint64_t{1} << (indices[k] % 64);
    if ((word & bit) != 0) throw_twice(op, indices, static_cast<std::int64_t>(k));
    word |= bit;
  }
}

// On the stream where the host can read indices; else at once, and only with `reject`: the kernels
// leave out what is no row.
void check_indices_of(const char* op, const Tensor& indices, std::int64_t rows,
                      Duplicates duplicates) {
  const bool once = duplicates == Duplicates::reject;
  const auto check = [op, rows, once, count = indices.size()](const std::int32_t* i) {
    require_range(op, i, count, rows);
    if (once) require_once(op, i, count, rows);
  };
  if (indices.device().host_memory()) {
    stream_of(indices).run(Touches().reads(indices.raw(), indices.bytes()),
                           [check, indices] { check(indices.data<std::int32_t>()); });
  } else if (once) {
    std::vector<std::int32_t> host(static_cast<std::size_t>(indices.size()));
    stream_of(indices).fetch(host.data(), indices.raw(), indices.bytes());
    check(host.data());
  }
}

bool overlaps(const Tensor& a, const Tensor& b) {
  const auto at = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.raw()); };
  return at(a) < at(b) + b.bytes() && at(b) < at(a) + a.bytes();
}

void require_unused(const char* op, const Tensor& target, const Tensor& indices,
                    const Tensor& values) {
  if (target.tape() != nullptr || values.tape() != nullptr)
    throw_op(op, target.tape() != nullptr ? "target" : "values", "a tensor with a gradient",
             "none in place: detach() it, or take the op that makes a copy");
  for (const auto& [name, other] : {std::pair("values", &values), std::pair("indices", &indices)})
    if (overlaps(target, *other))
      throw_op(op, name, "memory of the target, which is written while they are read",
               "an array of their own");
  if (const char* user = Tape::user_of(target.raw(), target.bytes()))
    throw_op(op, "target",
             "memory of '" + std::string(user) + "', recorded in a pass without its backward yet",
             "memory that no backward needs: the op that makes a copy, or after backward");
}

}  // namespace

void check_scatter(const char* op, const Tensor& target, const Tensor& indices,
                   const Tensor& values, bool in_place) {
  require_float(op, target);
  require_rank_at_least(op, target, 1, "target");
  require_rank(op, indices, 1, "indices");
  if (indices.dtype() != DType::i32)
    throw_op(op, "indices have the wrong element type", std::string(name_of(indices.dtype())),
             "i32");
  if (indices.device().id() != target.device().id())
    throw_op(op, "indices are on another device", name_of(indices.device().id()),
             name_of(target.device().id()));
  require_like(op, target, values, "values");
  require_shape(op, values, target.shape().with(0, indices.shape()[0]), "values");
  if (in_place) require_unused(op, target, indices, values);
}

void run_scatter(const char* op, const Tensor& target, const Tensor& indices, const Tensor& values,
                 Duplicates duplicates, bool add) {
  if (duplicates == (add ? Duplicates::last : Duplicates::sum))
    throw_op(op, "duplicates", add ? "last" : "sum", add ? "reject or sum" : "reject or last");
  if (indices.size() == 0) return;
  check_indices_of(op, indices, target.shape()[0], duplicates);
  if (values.size() == 0) return;
  const auto places = static_cast<std::size_t>(indices.size());
  const auto width = static_cast<std::size_t>(values.size()) / places;
  with_float(op, target, [&](auto scalar) {
    using T = decltype(scalar);
    const ScatterFields<T> fields{indices.data<std::int32_t>(),
                                  values.data<T>(),
                                  target.data<T>(),
                                  places,
                                  static_cast<std::size_t>(target.shape()[0]),
                                  width,
                                  add};
    if (duplicates == Duplicates::reject)
      launch_elements(stream_of(target), places * width, ScatterEach<T>{fields});
    else
      launch_rows(stream_of(target), (width + kScatterColumns - 1) / kScatterColumns,
                  ScatterInOrder<T>{fields});
  });
}

Tensor copy_of(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  stream_of(x).copy(y.raw(), x.raw(), x.bytes());
  return y;
}

namespace {

OpCase scatter_case(const std::string& label, ScatterOp op, const Shape& target,
                    const std::vector<double>& indices, Duplicates duplicates, bool add) {
  const auto places = static_cast<std::int64_t>(indices.size());
  OpCase c;
  c.label = label;
  c.inputs = {sample(target),
              {Shape{places}, indices, false, DType::i32},
              sample(target.with(0, places), 1.0, 2)};
  c.run = [op, duplicates](std::span<const Tensor> t) { return op(t[0], t[1], t[2], duplicates); };
  const auto width = static_cast<std::size_t>(target[0] == 0 ? 0 : target.size() / target[0]);
  c.reference = [width, add](std::span<const std::vector<double>> v) {
    std::vector<double> y = v[0];
    for (std::size_t k = 0; k < v[1].size(); ++k)
      for (std::size_t j = 0; j < width; ++j) {
        double& to = y[static_cast<std::size_t>(v[1][k]) * width + j];
        to = v[2][k * width + j] + (add ? to : 0);
      }
    return y;
  };
  return c;
}

std::vector<OpMisuse> scatter_misuses(ScatterOp op, ScatterInPlace in_place, bool add) {
  const auto misuse = [=](const char* label, const Shape& target, const Shape& indices, DType type,
                          const Shape& values, Duplicates duplicates,
                          std::vector<std::string> expected) {
    return OpMisuse{label,
                    [=](Device& d) {
                      op(Tensor::zeros(target, DType::f32, d), Tensor::zeros(indices, type, d),
                         Tensor::zeros(values, DType::f32, d), duplicates);
                    },
                    std::move(expected)};
  };
  const Duplicates own = add ? Duplicates::sum : Duplicates::last;
  const OpMisuse tracked{"target with a gradient",
                         [=](Device& d) {
                           Tape tape;
                           const Scope scope({.tape = &tape});
                           in_place(tape.leaf(Tensor::zeros({3, 2}, DType::f32, d)),
                                    Tensor::zeros({1}, DType::i32, d),
                                    Tensor::zeros({1, 2}, DType::f32, d), own);
                         },
                         {"target", "gradient", "detach()"}};
  return {misuse("index type", {3, 2}, {4}, DType::i64, {4, 2}, own, {"i64", "i32"}),
          misuse("index rank", {3, 2}, {4, 1}, DType::i32, {4, 2}, own, {"indices", "[4, 1]"}),
          misuse("values", {3, 2}, {4}, DType::i32, {4, 3}, own, {"values", "[4, 3]", "[4, 2]"}),
          misuse("target", {}, {4}, DType::i32, {4}, own, {"target", "[]"}),
          misuse("duplicates", {3, 2}, {4}, DType::i32, {4, 2},
                 add ? Duplicates::last : Duplicates::sum,
                 {"duplicates", add ? "reject or sum" : "reject or last"}),
          tracked};
}

}  // namespace

OpEntry scatter_entry(const char* help, ScatterOp op, ScatterInPlace in_place, bool add) {
  OpEntry entry;
  entry.help = help;
  entry.cases = [op, add] {
    const Duplicates own = add ? Duplicates::sum : Duplicates::last;
    const auto make = [=](const char* label, const Shape& target, const std::vector<double>& i,
                          Duplicates d) { return scatter_case(label, op, target, i, d, add); };
    std::vector<double> many;
    for (int k = 0; k < 40; ++k) many.push_back((k * 7 + 3) % 11);
    return std::vector<OpCase>{
        make("normal", {6, 8}, {4, 0, 2}, Duplicates::reject),
        make("odd, duplicates", {7, 3}, {5, 1, 5, 6, 5}, own),
        make("elements", {11}, many, own),
        make("wide", {5, 131}, {3, 3, 0}, own),
        make("wide, each once", {5, 3, 43}, {3, 1, 0}, Duplicates::reject),
        make("few of many rows", {1200}, {1100, 3}, Duplicates::reject),
        make("one element", {1}, {0}, own),
        make("empty", {4, 2}, {}, own),
        make("no columns, empty", {4, 0}, {1, 2}, own),
    };
  };
  entry.misuses = [=] { return scatter_misuses(op, in_place, add); };
  return entry;
}

}  // namespace belfry
