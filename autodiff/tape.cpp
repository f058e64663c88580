// SPDX-License-Identifier: MIT
#include "belfry/autodiff/tape.h"

#include <algorithm>
#include <atomic>

#include "belfry/autodiff/device_scope.h"
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/tape.kernel.h"
#include "belfry/core/error.h"
#include "belfry/device/loop_internal.h"

namespace belfry {
namespace {

std::size_t index(int i) { return static_cast<std::size_t>(i); }

std::uint64_t next_serial() {
  static std::atomic<std::uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

thread_local std::vector<std::weak_ptr<Tape*>> open_tapes;  // of this thread

// Loops are of a lower layer.
[[maybe_unused]] const bool watched = [] {
  pass_watch() = {[] { return Tape::user_of(nullptr, SIZE_MAX) != nullptr; }, Tape::user_of};
  return true;
}();

}  // namespace

Tape::Tape() : open_(std::make_shared<Tape*>(this)), serial_(next_serial()) {
  std::erase_if(open_tapes, [](const auto& tape) { return tape.expired(); });
  open_tapes.emplace_back(open_);
}

int Tape::add_value(const Tensor& t, int producer, GradSink* sink) {
  Value v;
  v.shape = t.shape();
  v.type = t.dtype();
  v.device = &t.device();
  v.producer = producer;
  v.sink = sink;
  values_.push_back(std::move(v));
  return static_cast<int>(values_.size()) - 1;
}

int Tape::number_of(const char* op, const Tensor& t) const {
  if (t.tape() == nullptr) return -1;
  if (t.tape() != this || t.tape_serial() != serial_)
    throw_op(op, "a tensor of another pass", "one with a gradient there",
             "one of this pass: detach() what is kept between passes");
  return t.value();
}

Tensor Tape::leaf(const Tensor& t, GradSink* sink) {
  if (!is_floating(t.dtype())) return t.detach();
  Tensor out = t.detach();
  out.set_value(this, serial_, add_value(t, -1, sink));
  return out;
}

void Tape::record(const char* op, std::initializer_list<const Tensor*> inputs, Tensor& output,
                  BackwardFn backward) {
  std::vector<int> ids;
  ids.reserve(inputs.size());
  for (const Tensor* t : inputs) ids.push_back(number_of(op, *t));
  if (!record_values(op, std::move(ids), output, std::move(backward))) return;
  for (const Tensor* t : inputs) note_used(op, *t);
}

void Tape::record(const char* op, const std::vector<Tensor>& inputs, Tensor& output,
                  BackwardFn backward) {
  std::vector<int> ids;
  for (const Tensor& t : inputs) ids.push_back(number_of(op, t));
  if (!record_values(op, std::move(ids), output, std::move(backward))) return;
  for (const Tensor& t : inputs) note_used(op, t);
}

// False when there is nothing to differentiate.
bool Tape::record_values(const char* op, std::vector<int> inputs, Tensor& output,
                         BackwardFn backward) {
  require_in_scope(op, output);
  bool any = false;
  for (const int i : inputs) any = any || i >= 0;
  if (!any) return false;
  const int out = add_value(output, static_cast<int>(nodes_.size()), nullptr);
  nodes_.push_back({op, std::move(inputs), out, std::move(backward), output.device().id()});
  output.set_value(this, serial_, out);
  note_used(op, output);
  return true;
}

void Tape::note_used(const char* op, const Tensor& t) {
  if (!t.defined() || t.bytes() == 0) return;
  const auto lo = reinterpret_cast<std::uintptr_t>(t.raw());
  used_.push_back({lo, lo + t.bytes(), op});
}

const char* Tape::user_of(const void* data, std::size_t bytes) {
  const auto lo = reinterpret_cast<std::uintptr_t>(data);
  for (const auto& open : open_tapes) {
    const std::shared_ptr<Tape*> tape = open.lock();
    if (!tape || (*tape)->done_) continue;
    for (const Used& u : (*tape)->used_)
      if (lo < u.hi && u.lo < lo + bytes) return u.op;
  }
  return nullptr;
}

void Tape::count_copy(DeviceId from, DeviceId to, std::size_t bytes, bool of_gradient) {
  const auto same = [&](const Copies& c) { return c.from == from && c.to == to; };
  auto it = std::find_if(copies_.begin(), copies_.end(), same);
  if (it == copies_.end()) it = copies_.insert(it, {from, to});
  ++(of_gradient ? it->backward : it->forward);
  (of_gradient ? it->backward_bytes : it->forward_bytes) += bytes;
}

std::vector<bool> Tape::reachable(const Tensor& loss) const {
  std::vector<bool> out(values_.size(), false);
  const int start = number_of("loss", loss);
  if (start < 0) return out;
  out[index(start)] = true;
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    if (!out[index(nodes_[n].output)]) continue;
    for (const int i : nodes_[n].inputs)
      if (i >= 0) out[index(i)] = true;
  }
  return out;
}

void Tape::backward(const Tensor& loss, const Tensor& seed) {
  if (done_) throw GradientError("backward was called twice on one tape");
  done_ = true;
  if (number_of("loss", loss) < 0) return;  // depends on no variable: every gradient is absent
  if (loss.size() != 1) throw_op("backward", "loss", "shape " + loss.shape().text(), "a scalar");
  const std::vector<bool> wanted = reachable(loss);
  for (std::size_t v = 0; v < values_.size(); ++v) values_[v].wanted = wanted[v];
  for (const TapeNode& node : nodes_)
    if (wanted[index(node.output)])
      for (const int i : node.inputs)
        if (i >= 0) ++values_[index(i)].pending;
  Value& start = values_[index(loss.value())];
  Tensor first = seed.defined() ? seed.view(loss.shape())
                                : Tensor::empty(loss.shape(), loss.dtype(), loss.device());
  if (!seed.defined())
    with_float("backward", first, [&]<class T>(T) {
      launch_elements(stream_of(first), 1, FillOne<T>{first.data<T>()});
    });
  bool temporary = false;
  if (start.producer < 0) {  // the loss is a leaf itself
    Tensor to = destination(start, &temporary);
    stream_of(to).copy(to.raw(), first.raw(), to.bytes());
    deliver(start, to, temporary);
    if (start.sink != nullptr && start.sink->complete) start.sink->complete();
    return;
  }
  start.grad = first;
  for (std::size_t n = nodes_.size(); n-- > 0;)
    if (wanted[index(nodes_[n].output)]) step_back(nodes_[n]);
}

void Tape::step_back(TapeNode& node) {
  Value& out = values_[index(node.output)];
  Backward b(*this, node, std::move(out.grad));
  out.grad = Tensor();
  out.grad_device = b.grad_.device().id();
  node.backward(b);
  for (std::size_t i = 0; i < node.inputs.size(); ++i)
    if (node.inputs[i] >= 0) check_term(node, i, b.slots_[i].tensor);
  // What was written in its destination comes first: the rest is added to it.
  for (const bool direct : {true, false})
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] < 0) continue;
      const Backward::Slot& slot = b.slots_[i];
      const bool added = slot.temporary || slot.handed;
      if (added != direct) deliver(values_[index(node.inputs[i])], slot.tensor, added);
    }
  for (const int input : node.inputs) {
    if (input < 0) continue;
    Value& v = values_[index(input)];
    if (--v.pending == 0 && v.producer < 0 && v.sink != nullptr && v.sink->complete)
      v.sink->complete();
  }
  node.backward = nullptr;  // frees what forward saved
}

void Tape::check_term(const TapeNode& node, std::size_t i, const Tensor& t) {
  const std::string input = "input " + std::to_string(i);
  if (!t.defined())
    throw_op(node.op, "backward returned no gradient for " + input, "nothing",
             "a gradient for every input the op declared");
  Value& v = values_[index(node.inputs[i])];
  if (!(t.shape() == v.shape) || t.dtype() != v.type)
    throw_op(node.op, "gradient of " + input,
             t.shape().text() + " " + std::string(name_of(t.dtype())),
             v.shape.text() + " " + std::string(name_of(v.type)));
  // An op runs where its inputs lie; only to() has them elsewhere.
  if (const DeviceId own = v.device->id(); t.device().id() != own)
    throw_op(node.op, "placement of the gradient of " + input, "device " + name_of(t.device().id()),
             "device " + name_of(own) +
                 (own == node.device ? ", where its forward op ran" : ", where the input lies"));
  v.grad_device = t.device().id();
}

Tensor Tape::destination(Value& v, bool* temporary) {
  const bool sunk = v.sink != nullptr && v.sink->data != nullptr;
  *temporary = v.claimed || (sunk && v.sink->written) || v.grad.defined();
  if (*temporary || !sunk) {
    v.claimed = true;
    return Tensor::empty(v.shape, v.type, *v.device);
  }
  v.claimed = true;
  return Tensor::wrap(v.sink->data, v.shape, v.type, *v.device);
}

// A temporary term is added to what is there, or becomes it; others have been written in place.
void Tape::deliver(Value& v, const Tensor& term, bool temporary) {
  const bool sunk = v.sink != nullptr && v.sink->data != nullptr;
  if (temporary) {
    if (sunk && !v.sink->written) {
      stream_of(term).copy(v.sink->data, term.raw(), term.bytes());
    } else if (sunk || v.grad.defined()) {
      add_term(v, term);
    } else {
      v.grad = term;
    }
  } else if (!sunk) {
    v.grad = term;
  }
  if (sunk) v.sink->written = true;
}

void Tape::add_term(Value& v, const Tensor& term) {
  const auto n = static_cast<std::size_t>(term.size());
  with_float("gradient sum", term, [&]<class T>(T) {
    if (v.sink != nullptr && v.sink->data != nullptr) {
      launch_elements(stream_of(term), n,
                      AddTerm<T>{static_cast<T*>(v.sink->data), term.data<T>()});
    } else if (v.grad.unique()) {
      launch_elements(stream_of(term), n, AddTerm<T>{v.grad.data<T>(), term.data<T>()});
    } else {
      Tensor sum = Tensor::empty(v.shape, v.type, *v.device);
      launch_elements(stream_of(term), n,
                      SumTerms<T>{sum.data<T>(), v.grad.data<T>(), term.data<T>()});
      v.grad = sum;
    }
  });
}

Tensor Tape::grad(const Tensor& leaf) const {
  if (leaf.tape() != this || leaf.tape_serial() != serial_) return {};
  const Value& v = values_[index(leaf.value())];
  if (v.sink != nullptr && v.sink->data != nullptr && v.wanted)
    return Tensor::wrap(v.sink->data, v.shape, v.type, *v.device);
  return v.grad;
}

std::vector<std::string> Tape::placement() const {
  std::vector<std::string> out;
  for (const TapeNode& node : nodes_) {
    const Value& v = values_[index(node.output)];
    const std::size_t bytes = static_cast<std::size_t>(v.shape.size()) * size_of(v.type);
    out.push_back(std::string(node.op) + " on " + name_of(node.device) + ", gradient on " +
                  (v.wanted ? name_of(v.grad_device) : "none") + ", " + std::to_string(bytes) +
                  " bytes");
  }
  for (const Copies& c : copies_)
    out.push_back("copies from " + name_of(c.from) + " to " + name_of(c.to) + ": " +
                  std::to_string(c.forward) + " of values, " + std::to_string(c.forward_bytes) +
                  " bytes; " + std::to_string(c.backward) + " of gradients, " +
                  std::to_string(c.backward_bytes) + " bytes");
  return out;
}

Backward::Backward(Tape& tape, const TapeNode& node, Tensor grad)
    : tape_(tape), node_(node), grad_(std::move(grad)), slots_(node.inputs.size()) {}

bool Backward::wants(int input) const {
  if (input < 0 || index(input) >= node_.inputs.size())
    throw_op(node_.op, "backward names an input that the op does not have", std::to_string(input),
             "below " + std::to_string(node_.inputs.size()));
  return node_.inputs[index(input)] >= 0;
}

Backward::Slot& Backward::slot(int input) {
  if (!wants(input))
    throw_op(node_.op, "backward wrote an input it does not differentiate", std::to_string(input),
             "a wanted input");
  Slot& s = slots_[index(input)];
  if (s.tensor.defined())
    throw_op(node_.op, "backward wrote an input's gradient twice", std::to_string(input),
             "once each");
  return s;
}

Tensor Backward::into(int input) {
  Slot& s = slot(input);
  s.tensor = tape_.destination(tape_.values_[index(node_.inputs[index(input)])], &s.temporary);
  return s.tensor;
}

Tensor Backward::into_in_place(int input) {
  if (!wants(input)) return into(input);  // throws
  const Tape::Value& v = tape_.values_[index(node_.inputs[index(input)])];
  const bool direct = v.sink != nullptr && v.sink->data != nullptr && !v.sink->written;
  if (direct || !grad_.unique() || !(grad_.shape() == v.shape)) return into(input);
  Slot& s = slot(input);
  s.tensor = grad_;
  s.handed = true;
  return s.tensor;
}

void Backward::give(int input, Tensor gradient) {
  Slot& s = slot(input);
  s.tensor = gradient.detach();
  s.handed = true;
}

}  // namespace belfry
