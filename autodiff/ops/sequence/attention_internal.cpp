// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/sequence/attention_internal.h"

#include <cmath>

#include "belfry/autodiff/ops/sequence/attention.h"
#include "belfry/core/philox.h"

namespace belfry {
namespace {

using Values = std::vector<double>;

struct Sizes {
  std::int64_t rows, queries, keys, heads, width;
  double p = 0;  // of dropout
};

const std::uint64_t kPath = name_hash("block.attention");
constexpr std::uint64_t kSeed = 42;
constexpr std::int64_t kUpdate = 3, kFirstRow = 5;

// f() in a training pass, where these numbers key the draws.
template <class F>
Tensor in_training(F&& f) {
  Scope::Options o = Scope::current() != nullptr ? Scope::current()->options() : Scope::Options{};
  o.training = true;
  o.seed = kSeed, o.update = kUpdate, o.first_row = kFirstRow;
  const Scope scope(o);
  return f();
}

// What dropout multiplies a probability by: each query has quads of numbers of its own.
double factor(const Sizes& s, std::int64_t row, std::int64_t head, std::int64_t query,
              std::int64_t key) {
  if (s.p == 0) return 1;
  const std::int64_t quad = (head * s.queries + query) * ((s.keys + 3) / 4) + key / 4;
  const Philox random = philox_key(kSeed, Purpose::dropout);
  const auto words =
      random(static_cast<std::uint32_t>(kPath ^ (kPath >> 32)), static_cast<std::uint32_t>(kUpdate),
             static_cast<std::uint32_t>(kFirstRow + row), static_cast<std::uint32_t>(quad));
  return unit_float(words.v[key % 4]) >= static_cast<float>(s.p) ? 1 / (1 - s.p) : 0;
}

// Query by query, as the formula stands; x(part, row, position, column) reads q, k or v.
template <class F>
Values reference(const Sizes& s, bool causal, F x) {
  Values out;
  for (std::int64_t r = 0; r < s.rows; ++r)
    for (std::int64_t i = 0; i < s.queries; ++i)
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const std::int64_t n = causal ? i + 1 : s.keys;
        Values p;
        double total = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          double score = 0;
          for (std::int64_t d = 0; d < s.width; ++d)
            score += x(0, r, i, h * s.width + d) * x(1, r, j, h * s.width + d);
          p.push_back(std::exp(score / std::sqrt(static_cast<double>(s.width))));
          total += p.back();
        }
        for (std::int64_t d = 0; d < s.width; ++d) {
          double sum = 0;
          for (std::int64_t j = 0; j < n; ++j)
            sum += p[static_cast<std::size_t>(j)] * factor(s, r, h, i, j) *
                   x(2, r, j, h * s.width + d);
          out.push_back(sum / total);
        }
      }
  return out;
}

OpCase packed_case(const char* label, const Sizes& s, bool causal, double limit = 1.0) {
  OpCase c;
  c.label = label;
  const std::int64_t columns = s.heads * s.width;
  c.inputs = {sample({s.rows, s.queries, 3 * columns}, limit)};
  c.run = [=](std::span<const Tensor> t) {
    return in_training([&] { return attention(t[0], s.heads, causal, {s.p, kPath}); });
  };
  c.reference = [=](std::span<const Values> v) {
    return reference(s, causal, [&](int part, std::int64_t r, std::int64_t i, std::int64_t d) {
      return v[0][static_cast<std::size_t>(((r * s.queries + i) * 3 + part) * columns + d)];
    });
  };
  return c;
}

OpCase separate_case(const char* label, const Sizes& s, bool causal) {
  OpCase c;
  c.label = label;
  const std::int64_t columns = s.heads * s.width;
  c.inputs = {sample({s.rows, s.queries, columns}), sample({s.rows, s.keys, columns}, 1, 2),
              sample({s.rows, s.keys, columns}, 1, 3)};
  c.run = [=](std::span<const Tensor> t) {
    return in_training([&] { return attention(t[0], t[1], t[2], s.heads, causal, {s.p, kPath}); });
  };
  c.reference = [=](std::span<const Values> v) {
    return reference(s, causal, [&](int part, std::int64_t r, std::int64_t i, std::int64_t d) {
      const std::int64_t positions = part == 0 ? s.queries : s.keys;
      return v[static_cast<std::size_t>(part)]
              [static_cast<std::size_t>((r * positions + i) * columns + d)];
    });
  };
  return c;
}

std::vector<OpCase> cases() {
  return {
      packed_case("causal", {2, 12, 12, 2, 8}, true),
      packed_case("all keys", {2, 9, 9, 2, 8}, false),
      packed_case("odd, causal", {3, 5, 5, 3, 7}, true),
      packed_case("several blocks of queries, causal", {1, 75, 75, 1, 5}, true),
      packed_case("several blocks of queries", {1, 70, 70, 1, 5}, false),
      packed_case("wide heads", {1, 4, 4, 1, 35}, true),
      packed_case("large products", {1, 6, 6, 1, 4}, true, 6.0),
      packed_case("one element", {1, 1, 1, 1, 1}, true),
      packed_case("empty", {0, 4, 4, 2, 3}, true),
      packed_case("no positions, empty", {2, 0, 0, 2, 3}, true),
      separate_case("three tensors, causal", {2, 11, 11, 2, 3}, true),
      separate_case("other keys", {2, 3, 10, 2, 4}, false),
      separate_case("no queries, empty", {2, 0, 3, 1, 2}, false),
      packed_case("dropout, causal", {3, 12, 12, 2, 8, 0.3}, true),
      packed_case("dropout, odd", {2, 7, 7, 3, 5, 0.5}, false),
      packed_case("dropout, several blocks of queries", {1, 75, 75, 2, 5, 0.2}, true),
      packed_case("dropout, empty", {0, 4, 4, 2, 3, 0.2}, true),
      separate_case("dropout, other keys", {2, 3, 10, 2, 4, 0.4}, false),
  };
}

std::vector<OpMisuse> misuses() {
  const auto packed = [](const Shape& s, std::int64_t heads, DType type = DType::f32) {
    return [=](Device& d) { attention(Tensor::zeros(s, type, d), heads, true); };
  };
  const auto separate = [](const Shape& q, const Shape& k, const Shape& v, bool causal,
                           DType type = DType::f32) {
    return [=](Device& d) {
      attention(Tensor::zeros(q, DType::f32, d), Tensor::zeros(k, type, d),
                Tensor::zeros(v, type, d), 1, causal);
    };
  };
  return {
      {"rank", packed({4, 6}, 1), {"attention", "qkv", "[4, 6]"}},
      {"three parts", packed({1, 4, 7}, 1), {"attention", "[1, 4, 7]"}},
      {"heads", packed({1, 4, 12}, 3), {"attention", "3 heads", "4 columns"}},
      {"no heads", packed({1, 4, 12}, 0), {"attention", "0 heads"}},
      {"no columns", packed({1, 4, 0}, 1), {"attention", "0 columns"}},
      {"integers", packed({1, 4, 12}, 1, DType::i32), {"attention", "i32"}},
      {"keys", separate({2, 3, 4}, {2, 5, 6}, {2, 5, 6}, false), {"k", "[2, 5, 6]", "[2, 5, 4]"}},
      {"values", separate({2, 3, 4}, {2, 5, 4}, {2, 4, 4}, false), {"v", "[2, 4, 4]"}},
      {"causal keys", separate({2, 3, 4}, {2, 5, 4}, {2, 5, 4}, true), {"keys", "positions, 3"}},
      {"no keys", separate({2, 3, 4}, {2, 0, 4}, {2, 0, 4}, false), {"keys", "[2, 0, 4]"}},
      {"rows moved",
       [](Device& d) {
         const Scope scope({.training = true, .rows = 8});
         attention(Tensor::zeros({4, 2, 6}, DType::f32, d), 1, true, {0.5, kPath});
       },
       {"attention", "batch must stay the outermost axis", "[4, 2, 6]", "8 rows"}},
      {"numbers of dropout",
       [](Device& d) {
         const Scope scope({.training = true});
         attention(Tensor::zeros({1, 131076, 3}, DType::f32, d), 1, true, {0.5, kPath});
       },
       {"attention", "too many probabilities", "131076 keys", "2^34"}},
      {"types", separate({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, true, DType::f64), {"k", "f64", "f32"}},
  };
}

}  // namespace

OpEntry attention_entry() {
  OpEntry entry;
  entry.help = "softmax(q k^T / sqrt(width)) v for each head, causal or not";
  entry.cases = cases;
  entry.misuses = misuses;
  return entry;
}

}  // namespace belfry
