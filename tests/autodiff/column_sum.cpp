// SPDX-License-Identifier: MIT
// Column sums in the steps of devices with many blocks; the host's own loops are the op's contract.
#include "belfry/autodiff/op.h"
#include "belfry/autodiff/ops/reduce/column_sum.kernel.h"
#include "belfry/device/cpu/cpu_device.h"
#include "belfry/tests/catch.h"

namespace belfry {
namespace {

std::vector<float> in_steps(const std::vector<float>& x, std::size_t rows, std::size_t columns) {
  const auto device = make_cpu_device(0, 1, Executor::in_place);
  const ColumnPlan plan = column_plan(rows, columns);
  std::vector<float> partial(plan.partials() * columns, -1e30f), out(columns, -1e30f);
  launch_rows(device->main(), plan.blocks, ColumnPartials{x.data(), partial.data(), plan});
  launch_rows(device->main(), columns, ColumnTotals{partial.data(), out.data(), plan});
  return out;
}

}  // namespace

TEST_CASE("column sums in two steps agree with sums in double", "[autodiff]") {
  for (const std::size_t columns : {1, 2, 3, 10, 32, 33, 63, 64, 65, 130})
    for (const std::size_t rows : {0, 1, 2, 63, 64, 65, 300, 4097}) {
      INFO(rows << " rows, " << columns << " columns");
      const std::vector<double> values =
          sample_values(static_cast<std::int64_t>(rows * columns), 1.0, 7);
      const std::vector<float> x(values.begin(), values.end());
      const std::vector<float> got = in_steps(x, rows, columns);
      for (std::size_t c = 0; c < columns; ++c) {
        double sum = 0;
        for (std::size_t r = 0; r < rows; ++r) sum += static_cast<double>(x[r * columns + c]);
        REQUIRE(std::fabs(got[c] - sum) <= 2e-5);
      }
    }
}

TEST_CASE("the steps' scratch memory is a 64th of what they sum, and all blocks are wide",
          "[autodiff]") {
  const ColumnPlan bias = column_plan(131072, 16);
  CHECK(bias.partials() == 2048);
  CHECK(bias.groups * bias.columns == kTeamLanes);
  CHECK(bias.blocks == 512);
  CHECK(column_plan(131072, 256).partials() == 2048);
  CHECK(column_plan(0, 7).partials() == 0);
}

}  // namespace belfry
