// SPDX-License-Identifier: MIT
#include <algorithm>
#include <cstring>

#include "belfry/allreduce/average_internal.h"
#include "belfry/allreduce/flat_index.h"
#include "belfry/core/error.h"

namespace belfry {
namespace {

enum CommKind : std::uint32_t { kSlices = 17, kMean, kSquare };

// What the members tell each other of their lists, as bytes.
class Writer {
 public:
  template <class T>
  void put(const T& value) {
    const auto* p = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), p, p + sizeof value);
  }
  void put(const std::string& text) {
    put(text.size());
    const auto* p = reinterpret_cast<const std::byte*>(text.data());
    bytes.insert(bytes.end(), p, p + text.size());
  }
  std::vector<std::byte> bytes;
};

class Reader {
 public:
  explicit Reader(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  template <class T>
  T get() {
    T value;
    std::memcpy(&value, take(sizeof value), sizeof value);
    return value;
  }
  std::string text() {
    const auto size = get<std::size_t>();
    return {reinterpret_cast<const char*>(take(size)), size};
  }

 private:
  const std::byte* take(std::size_t size) {
    if (size > bytes_.size() - at_)
      throw CommError("average_gradients: another member does something else");
    at_ += size;
    return bytes_.data() + at_ - size;
  }
  const std::vector<std::byte>& bytes_;
  std::size_t at_ = 0;
};

std::vector<std::byte> encode(const std::vector<GradientList>& lists,
                              const AverageOptions& options) {
  Writer w;
  w.put(options.include_square);
  w.put(options.none);
  w.put(options.weights.size());
  for (const double weight : options.weights) w.put(weight);
  w.put(lists.size());
  for (const GradientList& list : lists) {
    w.put(list.size());
    for (const GradientPair& p : list) {
      w.put(p.variable);
      w.put(p.gradient.defined());
      if (!p.gradient.defined()) continue;
      w.put(p.gradient.dtype());
      w.put(p.gradient.shape().rank());
      for (const std::int64_t extent : p.gradient.shape().extents()) w.put(extent);
    }
  }
  return std::move(w.bytes);
}

// The lists of all members in their order. Those of others have shapes and types, and no memory.
struct AllLists {
  std::vector<GradientList> lists;
  std::vector<std::size_t> first;  // of each member's; one more at the end
  AverageOptions options;
};

void append(AllLists& all, Reader& in, Device& device) {
  GradientList list;
  for (auto left = in.get<std::size_t>(); left > 0; --left) {
    const std::string name = in.text();
    if (!in.get<bool>()) {
      list.emplace_back(Tensor(), name);
      continue;
    }
    const auto type = in.get<DType>();
    std::vector<std::int64_t> extents(static_cast<std::size_t>(in.get<int>()));
    for (std::int64_t& extent : extents) extent = in.get<std::int64_t>();
    list.emplace_back(Tensor::wrap(nullptr, Shape(extents), type, device), name);
  }
  all.lists.push_back(std::move(list));
}

AllLists decode(const std::vector<std::vector<std::byte>>& said, Device& device) {
  AllLists all;
  bool weighted = false;
  for (std::size_t member = 0; member < said.size(); ++member) {
    Reader in(said[member]);
    AverageOptions options;
    options.include_square = in.get<bool>();
    options.none = in.get<MissingOnSome>();
    options.weights.resize(in.get<std::size_t>());
    for (double& weight : options.weights) weight = in.get<double>();
    all.first.push_back(all.lists.size());
    for (auto left = in.get<std::size_t>(); left > 0; --left) append(all, in, device);
    const std::size_t own = all.lists.size() - all.first.back();
    const bool has = !options.weights.empty() || own == 0;
    if (member == 0) {
      all.options.include_square = options.include_square;
      all.options.none = options.none;
    }
    weighted = weighted || !options.weights.empty();
    if (options.include_square != all.options.include_square || options.none != all.options.none ||
        (weighted && !has) || (!options.weights.empty() && options.weights.size() != own) ||
        (!options.weights.empty() && all.options.weights.size() != all.first.back()))
      throw GradientError(
          ErrorText{.what = "average_gradients: member " + std::to_string(member) +
                            " asks for something else than member 0",
                    .expected = "the same include_square and none, and weights, one a list, from "
                                "all members or from none"});
    all.options.weights.insert(all.options.weights.end(), options.weights.begin(),
                               options.weights.end());
  }
  all.first.push_back(all.lists.size());
  return all;
}

// Each member averages its slice of every variable and gives it to the others.
class Across {
 public:
  Across(const AllLists& all, const std::vector<GradientList>& mine, Device& device,
         Communicator& comm)
      : all_(all), mine_(mine), device_(device), comm_(comm) {}

  AveragedGradients run(const CheckedLists& checked) {
    const Settled settled(device_.main());
    std::vector<Column> slices;
    for (std::size_t c = 0; c < checked.present.size(); ++c)
      slices.push_back(exchange(checked.present[c], c));
    AveragedGradients own, out;
    average_columns(slices, checked.weights, device_, all_.options.include_square, own);
    for (std::size_t c = 0; c < slices.size(); ++c) {
      const Column& column = checked.present[c];
      out.mean.push_back(gather(own.mean[c], column, kMean, c));
      if (all_.options.include_square)
        out.square.push_back(gather(own.square[c], column, kSquare, c));
    }
    out.skipped = checked.skipped;
    device_.main().synchronize();
    comm_.require_healthy();
    return out;
  }

 private:
  std::size_t me() const { return static_cast<std::size_t>(comm_.rank()); }
  std::size_t members() const { return static_cast<std::size_t>(comm_.size()); }
  RowPart slice(const Column& c, std::size_t member) const {
    return part_of(c.first->size(), static_cast<std::int64_t>(member), comm_.size());
  }
  static std::size_t bytes(const RowPart& part, const Tensor& t) {
    return static_cast<std::size_t>(part.count) * size_of(t.dtype());
  }
  static std::byte* at(const Tensor& t, std::int64_t element) {
    return static_cast<std::byte*>(t.raw()) +
           static_cast<std::size_t>(element) * size_of(t.dtype());
  }

  // This member's own gradient of the variable in its list j, on the device; undefined: none.
  Tensor own(const Column& c, std::size_t j) {
    const std::size_t k = all_.first[me()] + j;
    if (k >= all_.first[me() + 1] || c.towers[k] == nullptr) return {};
    for (const GradientPair& p : mine_[j])
      if (p.variable == c.name) return p.gradient.on(device_);
    return {};
  }

  // This member's slices of everybody's gradients.
  Column exchange(const Column& c, std::size_t number) {
    Column out{c.name, std::vector<const Tensor*>(c.towers.size(), nullptr)};
    std::size_t rounds = 0;
    for (std::size_t p = 0; p < members(); ++p)
      rounds = std::max(rounds, all_.first[p + 1] - all_.first[p]);
    const RowPart here = slice(c, me());
    for (std::size_t j = 0; j < rounds; ++j) {
      const Tensor mine = own(c, j);
      std::vector<const void*> send(members(), nullptr);
      std::vector<void*> recv(members(), nullptr);
      std::vector<std::size_t> send_bytes(members(), 0), recv_bytes(members(), 0);
      for (std::size_t p = 0; p < members(); ++p) {
        const std::size_t k = all_.first[p] + j;
        if (mine.defined() && p != me()) {
          send[p] = at(mine, slice(c, p).first);
          send_bytes[p] = bytes(slice(c, p), mine);
        }
        if (k >= all_.first[p + 1] || c.towers[k] == nullptr) continue;
        const Shape shape{here.count};
        kept_.push_back(
            p == me() ? std::make_unique<Tensor>(
                            Tensor::wrap(at(mine, here.first), shape, mine.dtype(), device_))
                      : std::make_unique<Tensor>(Tensor::empty(shape, c.first->dtype(), device_)));
        out.towers[k] = kept_.back().get();
        if (p == me()) continue;
        recv[p] = kept_.back()->raw();
        recv_bytes[p] = kept_.back()->bytes();
      }
      if (mine.defined()) kept_.push_back(std::make_unique<Tensor>(mine));
      comm_.exchange(device_.main(), send, send_bytes, recv, recv_bytes,
                     {kSlices, static_cast<std::int32_t>(number), static_cast<std::int64_t>(j)});
    }
    for (const Tensor* t : out.towers)
      if (out.first == nullptr) out.first = t;
    return out;
  }

  GradientPair gather(const GradientPair& mine, const Column& c, std::uint32_t kind,
                      std::size_t number) {
    const Tensor whole = Tensor::empty(c.first->shape(), mine.gradient.dtype(), device_);
    std::vector<const void*> send(members(), mine.gradient.raw());
    std::vector<void*> recv;
    std::vector<std::size_t> send_bytes(members(), mine.gradient.bytes()), recv_bytes;
    for (std::size_t p = 0; p < members(); ++p) {
      recv.push_back(at(whole, slice(c, p).first));
      recv_bytes.push_back(bytes(slice(c, p), whole));
    }
    send_bytes[me()] = recv_bytes[me()] = 0;
    device_.main().copy(recv[me()], mine.gradient.raw(), mine.gradient.bytes());
    comm_.exchange(device_.main(), send, send_bytes, recv, recv_bytes,
                   {kind, static_cast<std::int32_t>(number), 0});
    return {whole, c.name};
  }

  const AllLists& all_;
  const std::vector<GradientList>& mine_;
  Device& device_;
  Communicator& comm_;
  std::vector<std::unique_ptr<Tensor>> kept_;  // until the device has run it all
};

}  // namespace

AveragedGradients average_gradients(const std::vector<GradientList>& towers, Device& device,
                                    Communicator& communicator, Control& control,
                                    const AverageOptions& options) {
  const AllLists all = decode(control.all_gather(encode(towers, options)), device);
  const CheckedLists checked = check_lists(all.lists, all.options);
  try {
    for (const GradientList& list : towers)
      for (const GradientPair& p : list)
        if (p.gradient.defined()) p.gradient.device().synchronize();
    return Across(all, towers, device, communicator).run(checked);
  } catch (const GradientError&) {
    throw;  // alike on all members
  } catch (...) {
    communicator.abort();  // the others wait for what this one does not send
    throw;
  }
}

}  // namespace belfry
