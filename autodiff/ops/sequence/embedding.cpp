// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/sequence/embedding.h"

#include "belfry/autodiff/ops/checks_internal.h"
#include "belfry/autodiff/ops/loss/labels_internal.h"
#include "belfry/autodiff/ops/sequence/embedding.kernel.h"

namespace belfry {
namespace {

void check(const Tensor& indices, const Tensor& table) {
  require_float("embedding", table);
  require_rank("embedding", table, 2, "table");
  if (indices.dtype() != DType::i32)
    throw_op("embedding", "indices have the wrong element type",
             std::string(name_of(indices.dtype())), "i32");
  if (indices.device().id() != table.device().id())
    throw_op("embedding", "indices are on another device", name_of(indices.device().id()),
             name_of(table.device().id()));
  if (table.shape()[0] < 1)
    throw_op("embedding", "the table has no rows", table.shape().text(), "at least 1");
  if (indices.shape().rank() == Shape::kMaxRank)
    throw_op("embedding", "indices have the wrong rank", indices.shape().text(),
             "at most " + std::to_string(Shape::kMaxRank - 1) + " extents");
}

Shape with_width(const Shape& indices, std::int64_t width) {
  std::vector<std::int64_t> extents = indices.extents();
  extents.push_back(width);
  return Shape(extents);
}

template <class T>
void backward(Backward& b, const Tensor& indices) {
  const Tensor& g = b.grad();
  const Tensor dtable = b.into(1);
  fill_zero(dtable);
  const auto width = static_cast<std::size_t>(dtable.shape()[1]);
  launch_rows(stream_of(g), (width + kEmbeddingColumns - 1) / kEmbeddingColumns,
              EmbeddingBackward<T>{indices.data<std::int32_t>(), g.data<T>(), dtable.data<T>(),
                                   static_cast<std::size_t>(indices.size()),
                                   static_cast<std::size_t>(dtable.shape()[0]), width});
}

}  // namespace

Tensor embedding(const Tensor& indices, const Tensor& table) {
  check(indices, table);
  check_indices(indices, table.shape()[0]);
  Tensor y =
      Tensor::empty(with_width(indices.shape(), table.shape()[1]), table.dtype(), table.device());
  return with_float("embedding", table, [&](auto scalar) {
    using T = decltype(scalar);
    launch_rows(stream_of(table), static_cast<std::size_t>(indices.size()),
                EmbeddingRow<T>{indices.data<std::int32_t>(), table.data<T>(), y.data<T>(),
                                static_cast<std::size_t>(table.shape()[0]),
                                static_cast<std::size_t>(table.shape()[1])});
    return recorded(
        "embedding", std::move(y), [i = indices.detach()](Backward& b) { backward<T>(b, i); },
        indices, table);
  });
}

namespace {

OpCase embedding_case(const char* label, const Shape& indices, std::int64_t count,
                      std::int64_t width) {
  OpCase c;
  c.label = label;
  c.inputs = {sample_labels(indices.size(), count), sample({count, width})};
  c.inputs[0].shape = indices;
  c.run = [](std::span<const Tensor> t) { return embedding(t[0], t[1]); };
  c.reference = [width](std::span<const std::vector<double>> v) {
    std::vector<double> y;
    for (const double i : v[0]) {
      const auto row = v[1].begin() + static_cast<std::ptrdiff_t>(i) * width;
      y.insert(y.end(), row, row + width);
    }
    return y;
  };
  return c;
}

std::vector<OpMisuse> misuses() {
  return {
      {"index type",
       [](Device& d) {
         embedding(Tensor::zeros({4}, DType::i64, d), Tensor::zeros({3, 2}, DType::f32, d));
       },
       {"embedding", "i64", "i32"}},
      {"table rank",
       [](Device& d) {
         embedding(Tensor::zeros({4}, DType::i32, d), Tensor::zeros({3}, DType::f32, d));
       },
       {"embedding", "table", "[3]"}},
      {"table type",
       [](Device& d) {
         embedding(Tensor::zeros({4}, DType::i32, d), Tensor::zeros({3, 2}, DType::i32, d));
       },
       {"embedding", "i32"}},
      {"no rows",
       [](Device& d) {
         embedding(Tensor::zeros({4}, DType::i32, d), Tensor::zeros({0, 2}, DType::f32, d));
       },
       {"embedding", "no rows", "[0, 2]"}},
      {"index rank",
       [](Device& d) {
         embedding(Tensor::zeros({1, 1, 1, 1, 1, 1}, DType::i32, d),
                   Tensor::zeros({3, 2}, DType::f32, d));
       },
       {"embedding", "indices", "5"}},
  };
}

}  // namespace

void register_op_embedding(Registry& registry) {
  OpEntry entry;
  entry.help = "rows of a table by index";
  entry.cases = [] {
    OpCase repeated = embedding_case("one index many times", {3, 5}, 4, 7);
    for (double& v : repeated.inputs[0].values) v = 2;
    return std::vector<OpCase>{
        embedding_case("normal", {4, 8}, 10, 16),
        embedding_case("odd", {3, 5}, 7, 3),
        embedding_case("wide", {9}, 5, 131),
        embedding_case("one element", {1}, 1, 1),
        embedding_case("scalar index", {}, 3, 4),
        embedding_case("empty", {0, 3}, 4, 5),
        embedding_case("no columns, empty", {3}, 4, 0),
        std::move(repeated),
    };
  };
  entry.misuses = misuses;
  registry.table<OpEntry>().add("embedding", std::move(entry));
}

}  // namespace belfry
