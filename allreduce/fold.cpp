// SPDX-License-Identifier: MIT
#include "belfry/allreduce/fold.h"

#include "belfry/allreduce/fold.kernel.h"

namespace belfry {
namespace {

template <int N>
void launch_n(Stream& stream, std::size_t rows, const FoldArgs& f) {
  launch_rows(stream, rows, FoldSegments<N>{f});
}

}  // namespace

void launch_fold(Stream& stream, std::size_t rows, const FoldArgs& f) {
  bool all = f.merges == nullptr;
  for (int k = 0; k < f.n; ++k) all = all && f.host_sources[k] != nullptr;
  switch (all ? f.n : 0) {
    case 1:
      return launch_n<1>(stream, rows, f);
    case 2:
      return launch_n<2>(stream, rows, f);
    case 3:
      return launch_n<3>(stream, rows, f);
    case 4:
      return launch_n<4>(stream, rows, f);
    case 5:
      return launch_n<5>(stream, rows, f);
    case 6:
      return launch_n<6>(stream, rows, f);
    case 7:
      return launch_n<7>(stream, rows, f);
    case 8:
      return launch_n<8>(stream, rows, f);
    default:
      return launch_n<0>(stream, rows, f);
  }
}

}  // namespace belfry
