// SPDX-License-Identifier: MIT
#include "belfry/device/cpu/onednn_internal.h"

#include <array>
#include <cstring>
#include <initializer_list>
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

// One cached operation. What the primitive wants in another layout or type than it comes goes
// through a copy of its own: inputs before the primitive, a result after it.
struct Entry {
  Call call;
  std::vector<Call> before;
  std::vector<int> through;  // by input: its place in `before`, or -1
  Call after;
  std::string implementation = "none";

  void operator()(const dnnl::stream& stream, std::initializer_list<const void*> inputs,
                  const void* result) const {
    std::size_t i = 0;
    for (const void* data : inputs) {
      const int copy = through[i];
      if (copy < 0)
        call.point(i, data);
      else
        before[static_cast<std::size_t>(copy)].point(0, data);
      ++i;
    }
    if (after.primitive)
      after.point(1, result);
    else
      call.point(i, result);
    for (const Call& copy : before) copy(stream);
    call(stream);
    if (after.primitive) after(stream);
  }
};

// Moves on to the first implementation that is not oneDNN's reference code.
template <class Descriptor>
bool optimized(Descriptor& d) {
  do {
    if (std::strncmp(d.impl_info_str(), "ref", 3) != 0) return true;
  } while (d.next_impl());
  return false;
}

using Type = memory::data_type;

// As the arrays come and go: f32. `x`, `y` and `weight` are what the primitive is asked for.
struct ConvDescs {
  memory::desc given_x, given_y, x, y, weight, master, bias;
  memory::dims strides, padding;
  ConvDescs(const ConvShape& s, Type type)
      : given_x({s.n, s.in, s.h, s.w}, Type::f32, Tag::nhwc),
        given_y({s.n, s.out, s.oh, s.ow}, Type::f32, Tag::nhwc),
        x({s.n, s.in, s.h, s.w}, type, Tag::nhwc),
        y({s.n, s.out, s.oh, s.ow}, type, Tag::nhwc),
        weight({s.out, s.in, s.kh, s.kw}, type, Tag::any),
        master({s.out, s.in, s.kh, s.kw}, Type::f32, Tag::ohwi),
        bias({s.out}, Type::f32, Tag::a),
        strides{s.stride, s.stride},
        padding{s.padding, s.padding} {}
};

constexpr auto kDirect = dnnl::algorithm::convolution_direct;

}  // namespace

struct OneDnn::Impl {
  Type type = Type::f32;  // of what is multiplied
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

  Call copy(const memory& from, const memory& to) const {
    Call out;
    out.primitive = dnnl::reorder(from, to);
    out.add(DNNL_ARG_FROM, from);
    out.add(DNNL_ARG_TO, to);
    return out;
  }

  // Inputs in the order in which their data is given, then the result.
  void input(Entry& e, int argument, const memory::desc& given, const memory::desc& wanted) const {
    e.through.push_back(given == wanted ? -1 : static_cast<int>(e.before.size()));
    if (given == wanted) return e.call.add(argument, unbound(given));
    const memory own(wanted, engine);
    e.before.push_back(copy(unbound(given), own));
    e.call.add(argument, own);
  }
  void result(Entry& e, int argument, const memory::desc& wanted, const memory::desc& made) const {
    if (wanted == made) return e.call.add(argument, unbound(made));
    const memory own(made, engine);
    e.after = copy(own, unbound(wanted));
    e.call.add(argument, own);
  }

  void build_matmul(const MatmulShape& s, Entry& e);
  void build_forward(const ConvShape& s, Entry& e);
  void build_backward_data(const ConvShape& s, Entry& e);
  void build_backward_weights(const ConvShape& s, Entry& e);

  dnnl::convolution_forward::primitive_desc hint(const ConvDescs& d) const {
    return {{dnnl::prop_kind::forward_training, kDirect, d.x, d.weight, d.y, d.strides, d.padding,
             d.padding},
            engine};
  }
};

void OneDnn::Impl::build_matmul(const MatmulShape& s, Entry& e) {
  const bool batched = s.batch != 1;
  const auto matrix = [&](std::int64_t rows, std::int64_t columns, bool transposed, Type of) {
    const std::int64_t row = transposed ? 1 : columns, column = transposed ? rows : 1;
    return batched ? memory::desc({s.batch, rows, columns}, of, {rows * columns, row, column})
                   : memory::desc({rows, columns}, of, {row, column});
  };
  const auto a = [&](Type of) { return matrix(s.m, s.k, s.transpose_a != 0, of); };
  const auto b = [&](Type of) { return matrix(s.k, s.n, s.transpose_b != 0, of); };
  const auto c = matrix(s.m, s.n, false, Type::f32);
  const auto bias = batched ? memory::desc({1, 1, s.n}, Type::f32, {s.n, s.n, 1})
                            : memory::desc({1, s.n}, Type::f32, {s.n, 1});
  const auto desc = s.bias != 0 ? dnnl::matmul::desc(a(type), b(type), bias, c)
                                : dnnl::matmul::desc(a(type), b(type), c);
  e.implementation = "sgemm";  // what stands in when there is none
  dnnl::matmul::primitive_desc d(desc, engine);
  if (!optimized(d)) return;
  e.implementation = d.impl_info_str();
  e.call.primitive = dnnl::matmul(d);
  input(e, DNNL_ARG_SRC, a(Type::f32), a(type));
  input(e, DNNL_ARG_WEIGHTS, b(Type::f32), b(type));
  if (s.bias != 0) input(e, DNNL_ARG_BIAS, bias, bias);
  result(e, DNNL_ARG_DST, c, c);
}

void OneDnn::Impl::build_forward(const ConvShape& s, Entry& e) {
  const ConvDescs d(s, type);
  using dnnl::convolution_forward;
  constexpr auto training = dnnl::prop_kind::forward_training;
  convolution_forward::primitive_desc p(
      s.bias != 0 ? convolution_forward::desc(training, kDirect, d.x, d.weight, d.bias, d.given_y,
                                              d.strides, d.padding, d.padding)
                  : convolution_forward::desc(training, kDirect, d.x, d.weight, d.given_y,
                                              d.strides, d.padding, d.padding),
      engine);
  if (!optimized(p)) return;
  e.call.primitive = convolution_forward(p);
  input(e, DNNL_ARG_SRC, d.given_x, d.x);
  input(e, DNNL_ARG_WEIGHTS, d.master, p.weights_desc());
  if (s.bias != 0) input(e, DNNL_ARG_BIAS, d.bias, d.bias);
  result(e, DNNL_ARG_DST, d.given_y, d.given_y);
  e.implementation = p.impl_info_str();
}

void OneDnn::Impl::build_backward_data(const ConvShape& s, Entry& e) {
  const ConvDescs d(s, type);
  using dnnl::convolution_backward_data;
  const auto forward = hint(d);  // next_impl() reads it
  convolution_backward_data::primitive_desc p(
      {kDirect, d.given_x, d.weight, d.y, d.strides, d.padding, d.padding}, engine, forward);
  if (!optimized(p)) return;
  e.call.primitive = convolution_backward_data(p);
  input(e, DNNL_ARG_DIFF_DST, d.given_y, d.y);
  input(e, DNNL_ARG_WEIGHTS, d.master, p.weights_desc());
  result(e, DNNL_ARG_DIFF_SRC, d.given_x, d.given_x);
  e.implementation = p.impl_info_str();
}

void OneDnn::Impl::build_backward_weights(const ConvShape& s, Entry& e) {
  const ConvDescs d(s, type);
  using dnnl::convolution_backward_weights;
  const auto forward = hint(d);  // next_impl() reads it
  const memory::desc any({s.out, s.in, s.kh, s.kw}, Type::f32, Tag::any);
  convolution_backward_weights::primitive_desc p(
      {kDirect, d.x, any, d.y, d.strides, d.padding, d.padding}, engine, forward);
  if (!optimized(p)) return;
  e.call.primitive = convolution_backward_weights(p);
  input(e, DNNL_ARG_SRC, d.given_x, d.x);
  input(e, DNNL_ARG_DIFF_DST, d.given_y, d.y);
  result(e, DNNL_ARG_DIFF_WEIGHTS, d.master, p.diff_weights_desc());
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
  if (!own) {
    own = std::make_unique<Impl>();
    own->type = impl_->type;
  }
  return *own;
}

void OneDnn::narrow() {
  narrows_ = true;
  impl_ = std::make_unique<Impl>();
  impl_->type = Type::bf16;
}

void OneDnn::matmul(const MatmulShape& s, const float* a, const float* b, const float* bias,
                    float* c) {
  translated("matmul", [&] {
    if (s.transpose_a != 0 && !narrows_) return sgemm(s, a, b, bias, c);
    const Entry& e = here().entry(Kind::matmul, s, &Impl::build_matmul);
    if (!e.call.primitive) return sgemm(s, a, b, bias, c);
    if (s.bias != 0)
      e(here().stream, {a, b, bias}, c);
    else
      e(here().stream, {a, b}, c);
  });
}

bool OneDnn::conv_forward(const ConvShape& s, const float* x, const float* weight,
                          const float* bias, float* y) {
  return translated("convolution", [&] {
    const Entry& e = here().entry(Kind::forward, s, &Impl::build_forward);
    if (!e.call.primitive) return false;
    if (s.bias != 0)
      e(here().stream, {x, weight, bias}, y);
    else
      e(here().stream, {x, weight}, y);
    return true;
  });
}

bool OneDnn::conv_backward_data(const ConvShape& s, const float* dy, const float* weight,
                                float* dx) {
  return translated("convolution backward (data)", [&] {
    const Entry& e = here().entry(Kind::backward_data, s, &Impl::build_backward_data);
    if (!e.call.primitive) return false;
    e(here().stream, {dy, weight}, dx);
    return true;
  });
}

bool OneDnn::conv_backward_weights(const ConvShape& s, const float* x, const float* dy,
                                   float* dweight) {
  return translated("convolution backward (weights)", [&] {
    const Entry& e = here().entry(Kind::backward_weights, s, &Impl::build_backward_weights);
    if (!e.call.primitive) return false;
    e(here().stream, {x, dy}, dweight);
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
