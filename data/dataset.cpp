// SPDX-License-Identifier: MIT
#include "belfry/data/dataset.h"

#include "belfry/core/error.h"
#include "belfry/data/byte_rows.h"
#include "belfry/data/dataset_view.h"
#include "belfry/data/options.h"

namespace belfry {
namespace {

class Subset final : public DatasetView {
 public:
  Subset(std::shared_ptr<const Dataset> whole, std::int64_t first, std::int64_t count)
      : DatasetView(std::move(whole)), first_(first), count_(count) {}

  std::int64_t rows() const override { return count_; }
  RowPlace place(std::int64_t row) const override { return whole().place(row + first_); }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    whole().read(shifted(rows, out.size()), out);
  }
  void read_epoch(std::span<const std::int64_t> rows, const ReadEpoch& epoch,
                  std::span<void* const> out) const override {
    whole().read_epoch(shifted(rows, out.size()), epoch, out);
  }
  std::string describe() const override {
    return "rows [" + std::to_string(first_) + ", " + std::to_string(first_ + count_) + ") of " +
           whole().describe();
  }

 private:
  std::vector<std::int64_t> shifted(std::span<const std::int64_t> rows, std::size_t buffers) const {
    check_read(rows, count_, buffers, fields().size());
    std::vector<std::int64_t> out(rows.begin(), rows.end());
    for (std::int64_t& r : out) r += first_;
    return out;
  }

  std::int64_t first_, count_;
};

}  // namespace

std::shared_ptr<const Dataset> DatasetFactory::open_beside(const std::string& base,
                                                           const Dataset&) const {
  return open(base);
}

std::shared_ptr<const Dataset> subset(std::shared_ptr<const Dataset> whole, std::int64_t first,
                                      std::int64_t count) {
  const std::int64_t resolved = RowRange{first, count}.resolve("", whole->rows());
  return std::make_shared<Subset>(std::move(whole), first, resolved);
}

}  // namespace belfry
