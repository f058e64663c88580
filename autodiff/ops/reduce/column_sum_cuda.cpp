// SPDX-License-Identifier: MIT
#include "belfry/autodiff/ops/reduce/column_sum.kernel.h"
#include "belfry/autodiff/ops/reduce/column_sum_call.h"
#include "belfry/device/cuda/launch_by_name.h"
#include "belfry/device/cuda/scratch.h"

namespace belfry {
namespace {

void run(CudaDevice& device, cudaStream_t stream, const ColumnSumCall<float>& c) {
  const ColumnPlan plan = column_plan(c.rows, c.columns);
  const Scratch memory(device, stream, plan.partials() * c.columns * sizeof(float));
  auto* partial = static_cast<float*>(memory.data());
  launch_rows(device, stream, plan.blocks, ColumnPartials{c.x, partial, plan});
  launch_rows(device, stream, c.columns, ColumnTotals{partial, c.out, plan});
}

}  // namespace

void library_kernels_of_column_sum(KernelTable& t) { t.library<ColumnSumCall<float>, run>(); }

}  // namespace belfry
