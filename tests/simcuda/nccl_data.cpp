// SPDX-License-Identifier: MIT
// What collectives touch, and what they compute.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>

#include "belfry/device/half.h"
#include "belfry/tests/simcuda/nccl_state.h"

namespace belfry::sim {
namespace {

std::uintptr_t at(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }

struct Sizes {
  std::size_t in, out;  // bytes; 0: not touched
};

Sizes sizes_of(const NcclCall& c, std::size_t n, int rank) {
  const std::size_t one = c.count * bytes_of(c.type), all = one * n;
  switch (c.kind) {
    case Kind::all_reduce:
      return {one, one};
    case Kind::reduce:
      return {one, rank == c.root ? one : 0};
    case Kind::reduce_scatter:
      return {all, one};
    case Kind::all_gather:
      return {one, all};
    case Kind::broadcast:
      return {rank == c.root ? one : 0, one};
    case Kind::all_to_all:
      return {all, all};
    case Kind::send:
      return {one, 0};
    case Kind::receive:
      return {0, one};
  }
  return {};
}

template <class T>
using Sum = std::conditional_t<std::is_arithmetic_v<T>, T, float>;

template <class T>
Sum<T> load(const void* p, std::size_t i) {
  return static_cast<Sum<T>>(static_cast<const T*>(p)[i]);
}

// 16-bit types are rounded at every hop, as on a ring.
template <class T>
Sum<T> rounded(Sum<T> v) {
  return static_cast<Sum<T>>(T(v));
}

template <class T>
Sum<T> combine(ncclRedOp_t op, Sum<T> a, Sum<T> b) {
  switch (op) {
    case ncclProd:
      return rounded<T>(static_cast<Sum<T>>(a * b));
    case ncclMax:
      return std::max(a, b);
    case ncclMin:
      return std::min(a, b);
    default:
      return rounded<T>(static_cast<Sum<T>>(a + b));
  }
}

// A floating mean multiplies what comes in by 1/n in the data's type; one of integers divides.
template <class T>
std::vector<T> reduced(const std::vector<NcclCall>& calls, std::size_t n, Scheduler& scheduler) {
  constexpr bool integral = std::is_integral_v<T>;
  constexpr std::size_t kChunk = 16;  // each begins at another rank, as NCCL's chunks do
  const std::size_t ranks = calls.size();
  const ncclRedOp_t op = calls[0].op;
  std::vector<std::size_t> order(ranks);
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = ranks; i > 1; --i) std::swap(order[i - 1], order[scheduler.random(i)]);
  const auto share = rounded<T>(static_cast<Sum<T>>(1.0 / static_cast<double>(ranks)));
  const auto in = [&](std::size_t rank, std::size_t i) {
    const auto v = load<T>(calls[rank].in, i);
    return op == ncclAvg && !integral ? rounded<T>(static_cast<Sum<T>>(v * share)) : v;
  };
  std::vector<T> out(n);
  std::size_t first = 0;
  for (std::size_t i = 0; i < n; ++i) {
    if (i % kChunk == 0) first = scheduler.random(ranks);
    auto sum = in(order[first], i);
    for (std::size_t k = 1; k < ranks; ++k)
      sum = combine<T>(op, sum, in(order[(first + k) % ranks], i));
    if (op == ncclAvg && integral) sum = static_cast<Sum<T>>(sum / static_cast<Sum<T>>(ranks));
    out[i] = T(sum);
  }
  return out;
}

template <class T>
void reduce(const std::vector<NcclCall>& calls, Scheduler& scheduler) {
  const NcclCall& c = calls[0];
  const bool scatter = c.kind == Kind::reduce_scatter;
  const std::vector<T> sum =
      reduced<T>(calls, scatter ? c.count * calls.size() : c.count, scheduler);
  for (std::size_t r = 0; r < calls.size(); ++r)
    if (c.count != 0 && (c.kind != Kind::reduce || static_cast<int>(r) == c.root))
      std::memcpy(calls[r].out, sum.data() + (scatter ? r * c.count : 0), c.count * sizeof(T));
}

void move(const std::vector<NcclCall>& calls) {
  const NcclCall& c = calls[0];
  const std::size_t bytes = c.count * bytes_of(c.type), n = calls.size();
  if (bytes == 0) return;
  std::vector<std::byte> all;  // first everything is read: ranges may be in place
  const auto read = [&](const void* p, std::size_t size) {
    const auto* const b = static_cast<const std::byte*>(p);
    all.insert(all.end(), b, b + size);
  };
  if (c.kind == Kind::broadcast) {
    read(calls[static_cast<std::size_t>(c.root)].in, bytes);
    for (const NcclCall& to : calls) std::memcpy(to.out, all.data(), bytes);
    return;
  }
  const std::size_t parts = c.kind == Kind::all_to_all ? n : 1;
  for (const NcclCall& from : calls) read(from.in, bytes * parts);
  for (std::size_t to = 0; to < n; ++to)
    for (std::size_t from = 0; from < n; ++from)
      std::memcpy(static_cast<std::byte*>(calls[to].out) + from * bytes,
                  all.data() + (from * parts + (parts == 1 ? 0 : to)) * bytes, bytes);
}

}  // namespace

std::size_t bytes_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclFloat64:
      return 8;
    default:
      return 0;
  }
}

std::string name_of(const NcclCall& c) {
  constexpr const char* kNames[] = {"all-reduce", "reduce",     "reduce-scatter", "all-gather",
                                    "broadcast",  "all-to-all", "send",           "receive"};
  return kNames[static_cast<std::size_t>(c.kind)];
}

std::vector<Range> ranges_of(const NcclCall& c, std::size_t n, int rank) {
  const Sizes s = sizes_of(c, n, rank);
  std::vector<Range> out;
  if (s.in != 0) out.push_back({at(c.in), at(c.in) + s.in, false});
  if (s.out != 0) out.push_back({at(c.out), at(c.out) + s.out, true});
  return out;
}

std::string overlap_of(const NcclCall& c, std::size_t n, int rank) {
  const Sizes s = sizes_of(c, n, rank);
  if (s.in == 0 || s.out == 0) return {};
  const std::uintptr_t in = at(c.in), out = at(c.out);
  if (in >= out + s.out || out >= in + s.in) return {};
  const std::size_t mine = static_cast<std::size_t>(rank) * c.count * bytes_of(c.type);
  const bool allowed = c.kind == Kind::reduce_scatter ? out == in + mine
                       : c.kind == Kind::all_gather   ? in == out + mine
                                                      : in == out && c.kind != Kind::all_to_all;
  return allowed ? "" : name_of(c) + " with buffers that overlap and are not in place";
}

void run_collective(const std::vector<NcclCall>& calls, Scheduler& scheduler) {
  const Kind kind = calls[0].kind;
  if (kind != Kind::all_reduce && kind != Kind::reduce && kind != Kind::reduce_scatter)
    return move(calls);
  switch (calls[0].type) {
    case ncclInt8:
      return reduce<std::int8_t>(calls, scheduler);
    case ncclUint8:
      return reduce<std::uint8_t>(calls, scheduler);
    case ncclInt32:
      return reduce<std::int32_t>(calls, scheduler);
    case ncclInt64:
      return reduce<std::int64_t>(calls, scheduler);
    case ncclFloat16:
      return reduce<Half>(calls, scheduler);
    case ncclBfloat16:
      return reduce<BFloat16>(calls, scheduler);
    case ncclFloat32:
      return reduce<float>(calls, scheduler);
    default:
      return reduce<double>(calls, scheduler);
  }
}

}  // namespace belfry::sim
