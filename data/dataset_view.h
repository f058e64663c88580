// SPDX-License-Identifier: MIT
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "belfry/data/dataset.h"

namespace belfry {

// Another data set as it is, for those that change something of one. Shares it.
class DatasetView : public Dataset {
 public:
  explicit DatasetView(std::shared_ptr<const Dataset> whole) : whole_(std::move(whole)) {}

  std::int64_t rows() const override { return whole_->rows(); }
  const std::vector<Field>& fields() const override { return whole_->fields(); }
  void read(std::span<const std::int64_t> rows, std::span<void* const> out) const override {
    whole_->read(rows, out);
  }
  void read_epoch(std::span<const std::int64_t> rows, const ReadEpoch& epoch,
                  std::span<void* const> out) const override {
    whole_->read_epoch(rows, epoch, out);
  }
  std::int64_t classes() const override { return whole_->classes(); }
  std::vector<std::string> class_names() const override { return whole_->class_names(); }
  std::string describe() const override { return whole_->describe(); }
  std::string label_unit() const override { return whole_->label_unit(); }
  Figures figures() const override { return whole_->figures(); }
  RowKeys row_keys() const override { return whole_->row_keys(); }
  RowPlace place(std::int64_t row) const override { return whole_->place(row); }
  std::string warning() const override { return whole_->warning(); }

 protected:
  const Dataset& whole() const { return *whole_; }

 private:
  std::shared_ptr<const Dataset> whole_;
};

}  // namespace belfry
