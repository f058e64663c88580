// SPDX-License-Identifier: MIT
#include "belfry/device/cpu/onednn_internal.h"

#include <array>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>
#include <utility>

#include "belfry/core/error.h"
#include "belfry/device/host_kernels.h"
#include "belfry/device/loop_internal.h"

namespace belfry {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

enum class Kind : std::int64_t { matmul, forward, backward_data, backward_weights };

constexpr std::size_t kWords = 13;
using Key = std::array<std::int64_t, kWords>;  // kind and shape

struct KeyHash {
  std::size_t operator()(const Key& key) const noexcept {
    std::uint64_t h = 14695981039346656037ull;
    for (const std::int64_t word : key)
      h = (h ^ static_cast<std::uint64_t>(word)) * 1099511628211ull;
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};

template <class Shape>
Key key_of(Kind kind, const Shape& shape) {
  static_assert(sizeof(Shape) % sizeof(std::int64_t) == 0 &&
                sizeof(Shape) < kWords * sizeof(std::int64_t));
  Key key{};
  key[0] = static_cast<std::int64_t>(kind);
  std::memcpy(&key[1], &shape, sizeof shape);
  return key;
}

// A primitive with its arguments in place; only data pointers change between calls. The C entry
// point takes the prepared array: 120 ns, where the C++ one builds a map each time (237 ns).
struct Call {
  dnnl::primitive primitive;
  std::vector<memory> memories;
  std::vector<dnnl_exec_arg_t> arguments;

  void add(int argument, memory m) {
    arguments.push_back({argument, m.get()});
    memories.push_back(std::move(m));
  }
  void point(std::size_t index, const void* data) const {
    memories[index].set_data_handle(const_cast<void*>(data));
  }
  void operator()(const dnnl::stream& stream) const {
    dnnl::error::wrap_c_api(
        dnnl_primitive_execute(primitive.get(), stream.get(), static_cast<int>(arguments.size()),
                               arguments.data()),
        "primitive execution failed");
  }
};

// One cached operation: the primitive, and for convolutions the weights' change of layout, before
// the primitive or (weight gradients) after it.
struct Entry {
  Call call;
  Call reorder;
  bool reorders = false;
  std::string implementation = "none";
};

// Moves on to the first implementation that is not oneDNN's reference code.
template <class Descriptor>
bool optimized(Descriptor& d) {
  do {
    if (std::strncmp(d.impl_info_str(), "ref", 3) != 0) return true;
  } while (d.next_impl());
  return false;
}

memory::desc plain(const memory::dims& dims, const memory::dims& strides) {
  return {dims, memory::data_type::f32, strides};
}

memory::desc tagged(const memory::dims& dims, Tag tag) {
  return {dims, memory::data_type::f32, tag};
}

struct ConvDescs {
  memory::desc x, y, any, master, bias;
  memory::dims strides, padding;
  explicit ConvDescs(const ConvShape& s)
      : x(tagged({s.n, s.in, s.h, s.w}, Tag::nhwc)),
        y(tagged({s.n, s.out, s.oh, s.ow}, Tag::nhwc)),
        any(tagged({s.out, s.in, s.kh, s.kw}, Tag::any)),
        master(tagged({s.out, s.in, s.kh, s.kw}, Tag::ohwi)),
        bias(tagged({s.out}, Tag::a)),
        strides{s.stride, s.stride},
        padding{s.padding, s.padding} {}
};

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

}  // namespace

struct OneDnn::Impl {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::unordered_map<Key, std::unique_ptr<Entry>, KeyHash> entries;

  memory unbound(const memory::desc& d) const { return memory(d, engine, DNNL_MEMORY_NONE); }

  // The entry of this shape; null primitive when oneDNN has nothing but reference code.
  template <class Shape>
  Entry& entry(Kind kind, const Shape& shape, void (Impl::*build)(const Shape&, Entry&)) {
    auto& slot = entries[key_of(kind, shape)];
    if (slot) return *slot;
    auto fresh = std::make_unique<Entry>();
    try {
      (this->*build)(shape, *fresh);
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw;
    }
    slot = std::move(fresh);
    return *slot;
  }

  void add_reorder(Entry& e, const memory::desc& from, const memory::desc& to,
                   bool into_primitive) {
    e.reorders = from != to;
    if (!e.reorders) return;
    e.reorder.primitive = dnnl::reorder(dnnl::reorder::primitive_desc(engine, from, engine, to));
    const memory own(into_primitive ? to : from, engine);  // the library-specific copy
    e.reorder.add(DNNL_ARG_FROM, into_primitive ? unbound(from) : own);
    e.reorder.add(DNNL_ARG_TO, into_primitive ? own : unbound(to));
  }

  void build_matmul(const MatmulShape& s, Entry& e);
  void build_forward(const ConvShape& s, Entry& e);
  void build_backward_data(const ConvShape& s, Entry& e);
  void build_backward_weights(const ConvShape& s, Entry& e);

  dnnl::convolution_forward::primitive_desc hint(const ConvDescs& d) const {
    return {{dnnl::prop_kind::forward_training, kDirect, d.x, d.any, d.y, d.strides, d.padding,
             d.padding},
            engine};
  }
};

void OneDnn::Impl::build_matmul(const MatmulShape& s, Entry& e) {
  const bool batched = s.batch != 1;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool transposed) {
    const std::int64_t row = transposed ? 1 : columns, column = transposed ? rows : 1;
    return batched ? plain({s.batch, rows, columns}, {rows * columns, row, column})
                   : plain({rows, columns}, {row, column});
  };
  const auto a = matrix(s.m, s.k, s.transpose_a != 0), b = matrix(s.k, s.n, s.transpose_b != 0);
  const auto c = matrix(s.m, s.n, false);
  const auto bias = batched ? plain({1, 1, s.n}, {s.n, s.n, 1}) : plain({1, s.n}, {s.n, 1});
  const auto desc = s.bias != 0 ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  e.implementation = "sgemm";  // what stands in when there is none
  dnnl::matmul::primitive_desc d(desc, engine);
  if (!optimized(d)) return;
  e.implementation = d.impl_info_str();
  e.call.primitive = dnnl::matmul(d);
  e.call.add(DNNL_ARG_SRC, unbound(a));
  e.call.add(DNNL_ARG_WEIGHTS, unbound(b));
  e.call.add(DNNL_ARG_DST, unbound(c));
  if (s.bias != 0) e.call.add(DNNL_ARG_BIAS, unbound(bias));
}

void OneDnn::Impl::build_forward(const ConvShape& s, Entry& e) {
  const ConvDescs d(s);
  using dnnl::convolution_forward;
  constexpr auto training = dnnl::prop_kind::forward_training;
  convolution_forward::primitive_desc p(
      s.bias != 0 ? convolution_forward::desc(training, kDirect, d.x, d.any, d.bias, d.y, d.strides,
                                              d.padding, d.padding)
                  : convolution_forward::desc(training, kDirect, d.x, d.any, d.y, d.strides,
                                              d.padding, d.padding),
      engine);
  if (!optimized(p)) return;
  add_reorder(e, d.master, p.weights_desc(), true);
  e.call.primitive = convolution_forward(p);
  e.call.add(DNNL_ARG_SRC, unbound(d.x));
  e.call.add(DNNL_ARG_WEIGHTS, e.reorders ? e.reorder.memories[1] : unbound(d.master));
  e.call.add(DNNL_ARG_DST, unbound(d.y));
  if (s.bias != 0) e.call.add(DNNL_ARG_BIAS, unbound(d.bias));
  e.implementation = p.impl_info_str();
}

void OneDnn::Impl::build_backward_data(const ConvShape& s, Entry& e) {
  const ConvDescs d(s);
  using dnnl::convolution_backward_data;
  const auto forward = hint(d);  // next_impl() reads it
  convolution_backward_data::primitive_desc p(
      {kDirect, d.x, d.any, d.y, d.strides, d.padding, d.padding}, engine, forward);
  if (!optimized(p)) return;
  add_reorder(e, d.master, p.weights_desc(), true);
  e.call.primitive = convolution_backward_data(p);
  e.call.add(DNNL_ARG_DIFF_DST, unbound(d.y));
  e.call.add(DNNL_ARG_WEIGHTS, e.reorders ? e.reorder.memories[1] : unbound(d.master));
  e.call.add(DNNL_ARG_DIFF_SRC, unbound(d.x));
  e.implementation = p.impl_info_str();
}

void OneDnn::Impl::build_backward_weights(const ConvShape& s, Entry& e) {
  const ConvDescs d(s);
  using dnnl::convolution_backward_weights;
  const auto forward = hint(d);  // next_impl() reads it
  convolution_backward_weights::primitive_desc p(
      {kDirect, d.x, d.any, d.y, d.strides, d.padding, d.padding}, engine, forward);
  if (!optimized(p)) return;
  add_reorder(e, p.diff_weights_desc(), d.master, false);
  e.call.primitive = convolution_backward_weights(p);
  e.call.add(DNNL_ARG_SRC, unbound(d.x));
  e.call.add(DNNL_ARG_DIFF_WEIGHTS, e.reorders ? e.reorder.memories[0] : unbound(d.master));
  e.call.add(DNNL_ARG_DIFF_DST, unbound(d.y));
  e.implementation = p.impl_info_str();
}

namespace {

template <class F>
auto translated(const char* what, F&& f) {
  try {
    return f();
  } catch (const dnnl::error& e) {
    throw DeviceError(
        ErrorText{.what = std::string("oneDNN failed in ") + what, .found = e.what()});
  }
}

// sgemm reads transposed left operands at full speed (weight gradients: 222 GFLOP/s against 205
// for the matmul primitive) and has an optimized form for every shape.
void sgemm(const MatmulShape& s, const float* a, const float* b, const float* bias, float* c) {
  for (std::int64_t i = 0; i < s.batch; ++i, a += s.m * s.k, b += s.k * s.n, c += s.m * s.n) {
    if (bias != nullptr)
      for (std::int64_t r = 0; r < s.m; ++r)
        std::memcpy(c + r * s.n, bias, static_cast<std::size_t>(s.n) * sizeof(float));
    const bool ta = s.transpose_a != 0, tb = s.transpose_b != 0;
    dnnl::error::wrap_c_api(
        dnnl_sgemm(ta ? 'T' : 'N', tb ? 'T' : 'N', s.m, s.n, s.k, 1.0f, a, ta ? s.m : s.k, b,
                   tb ? s.k : s.n, bias != nullptr ? 1.0f : 0.0f, c, s.n),
        "sgemm failed");
  }
}

std::string line_of(const Key& key, const std::string& implementation) {
  static constexpr const char* kNames[] = {"matmul", "conv_forward", "conv_backward_data",
                                           "conv_backward_weights"};
  std::string line = kNames[key[0]];
  for (std::size_t i = 1; i < kWords; ++i) line += (i == 1 ? " " : ",") + std::to_string(key[i]);
  return line + " " + implementation;
}

// Where less than the best was asked for, oneDNN takes no more either.
void bound_instruction_set() {
  const InstructionSet set = instruction_set();
  if (set == instruction_sets().back()) return;
  const dnnl::cpu_isa most =
      set == InstructionSet::avx2 ? dnnl::cpu_isa::avx2 : dnnl::cpu_isa::sse41;
  dnnl::error::wrap_c_api(static_cast<dnnl_status_t>(dnnl::set_max_cpu_isa(most)),
                          "oneDNN was in use before and keeps its instruction set");
}

}  // namespace

OneDnn::OneDnn()
    : impl_(translated("start-up",
                       [] {
                         static const bool bounded = (bound_instruction_set(), true);
                         static_cast<void>(bounded);
                         return std::make_unique<Impl>();
                       })),
      lanes_(kMostLanes) {}
OneDnn::~OneDnn() = default;

OneDnn::Impl& OneDnn::here() {
  const int lane = loop_lane();
  if (lane < 0) return *impl_;
  auto& own = lanes_[static_cast<std::size_t>(lane)];
  if (!own) own = std::make_unique<Impl>();
  return *own;
}

void OneDnn::matmul(const MatmulShape& s, const float* a, const float* b, const float* bias,
                    float* c) {
  translated("matmul", [&] {
    if (s.transpose_a != 0) return sgemm(s, a, b, bias, c);
    const Entry& e = here().entry(Kind::matmul, s, &Impl::build_matmul);
    if (!e.call.primitive) return sgemm(s, a, b, bias, c);
    e.call.point(0, a);
    e.call.point(1, b);
    e.call.point(2, c);
    if (s.bias != 0) e.call.point(3, bias);
    e.call(here().stream);
  });
}

bool OneDnn::conv_forward(const ConvShape& s, const float* x, const float* weight,
                          const float* bias, float* y) {
  return translated("convolution", [&] {
    const Entry& e = here().entry(Kind::forward, s, &Impl::build_forward);
    if (!e.call.primitive) return false;
    (e.reorders ? e.reorder : e.call).point(e.reorders ? 0 : 1, weight);
    if (e.reorders) e.reorder(here().stream);
    e.call.point(0, x);
    e.call.point(2, y);
    if (s.bias != 0) e.call.point(3, bias);
    e.call(here().stream);
    return true;
  });
}

bool OneDnn::conv_backward_data(const ConvShape& s, const float* dy, const float* weight,
                                float* dx) {
  return translated("convolution backward (data)", [&] {
    const Entry& e = here().entry(Kind::backward_data, s, &Impl::build_backward_data);
    if (!e.call.primitive) return false;
    (e.reorders ? e.reorder : e.call).point(e.reorders ? 0 : 1, weight);
    if (e.reorders) e.reorder(here().stream);
    e.call.point(0, dy);
    e.call.point(2, dx);
    e.call(here().stream);
    return true;
  });
}

bool OneDnn::conv_backward_weights(const ConvShape& s, const float* x, const float* dy,
                                   float* dweight) {
  return translated("convolution backward (weights)", [&] {
    const Entry& e = here().entry(Kind::backward_weights, s, &Impl::build_backward_weights);
    if (!e.call.primitive) return false;
    (e.reorders ? e.reorder : e.call).point(1, dweight);
    e.call.point(0, x);
    e.call.point(2, dy);
    e.call(here().stream);
    if (e.reorders) e.reorder(here().stream);
    return true;
  });
}

std::vector<std::string> OneDnn::implementations() const {
  std::vector<std::string> lines;
  for (const auto& [key, entry] : impl_->entries)
    if (entry) lines.push_back(line_of(key, entry->implementation));
  return lines;
}

std::size_t OneDnn::misses() const noexcept { return impl_->entries.size(); }

}  // namespace belfry
