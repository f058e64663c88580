// SPDX-License-Identifier: MIT
#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>

#include "belfry/autodiff/cast.kernel.h"
#include "belfry/autodiff/ops/elementwise/binary.kernel.h"
#include "belfry/autodiff/ops/matrix/gemm_call.h"
#include "belfry/device/cuda/launch_by_name.h"
#include "belfry/device/cuda/scratch.h"

namespace belfry {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;  // of one product, at most

std::string text(const MatmulShape& s) {
  const auto side = [](std::int64_t rows, std::int64_t columns, bool transposed) {
    return Shape({rows, columns}).text() + (transposed ? "^T" : "");
  };
  const bool ta = s.transpose_a != 0, tb = s.transpose_b != 0;
  return (s.batch == 1 ? "" : std::to_string(s.batch) + " of ") +
         side(ta ? s.k : s.m, ta ? s.m : s.k, ta) + " * " +
         side(tb ? s.n : s.k, tb ? s.k : s.n, tb) + (s.bias != 0 ? " + bias" : "");
}

void check(cublasStatus_t status, const char* call, const MatmulShape& s, int gpu) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(ErrorText{.what = std::string(call) + " failed on cuda:" +
                                        std::to_string(gpu) + " for the product " + text(s),
                                .found = cublasLtGetStatusName(status)});
}

// An object of cuBLASLt with its destructor.
template <class T, cublasStatus_t (*destroy)(T)>
class Owned {
 public:
  Owned() = default;
  ~Owned() {
    if (object_ != nullptr) destroy(object_);
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  T get() const noexcept { return object_; }
  T* out() noexcept { return &object_; }

 private:
  T object_ = nullptr;
};

struct Plan {
  Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy> operation;
  // In cuBLASLt's column-major terms, where c^T = b^T a^T: `left` is b.
  Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy> left, right, result;
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace = 0;
  bool adds_bias = false;
};

// The arrays of one call, and how they are aligned: part of a plan's key.
struct Operands {
  const void *a, *b;
  const float* bias;
  float* c;
};

std::int64_t alignment(const void* p) {
  const auto at = reinterpret_cast<std::uintptr_t>(p) | 256;  // of null: the most
  return static_cast<std::int64_t>(at & (~at + 1));
}

// cuBLASLt on one device; in its slot.
class Gemms {
 public:
  void run(CudaDevice& device, cudaStream_t stream, const MatmulShape& s, const Operands& o);

 private:
  static constexpr std::size_t kWords = 10;
  using Key = std::array<std::int64_t, kWords>;

  const Plan& find(CudaDevice& device, const MatmulShape& s, const Operands& o);
  // False when cuBLASLt has no algorithm for it.
  bool choose(Plan& plan, bool bias, const MatmulShape& s, const Operands& o, int gpu);
  void lay_out(Plan& plan, const MatmulShape& s, Precision precision, int gpu);

  Owned<cublasLtHandle_t, cublasLtDestroy> handle_;
  std::map<Key, Plan> plans_;
};

template <class T>
void set(const Plan& p, cublasLtMatmulDescAttributes_t name, const T& value, const MatmulShape& s,
         int gpu) {
  check(cublasLtMatmulDescSetAttribute(p.operation.get(), name, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute", s, gpu);
}

// A row-major matrix of `rows` x `columns` is a column-major one of `columns` x `rows`.
void layout(cublasLtMatrixLayout_t* out, cudaDataType type, std::int64_t rows, std::int64_t columns,
            const MatmulShape& s, int gpu) {
  check(cublasLtMatrixLayoutCreate(out, type, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), columns),
        "cublasLtMatrixLayoutCreate", s, gpu);
  if (s.batch == 1) return;
  const auto batch = static_cast<std::int32_t>(s.batch);
  const std::int64_t stride = rows * columns;
  check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                         sizeof batch),
        "cublasLtMatrixLayoutSetAttribute", s, gpu);
  check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                         sizeof stride),
        "cublasLtMatrixLayoutSetAttribute", s, gpu);
}

void Gemms::lay_out(Plan& p, const MatmulShape& s, Precision precision, int gpu) {
  const auto compute =
      precision == Precision::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  check(cublasLtMatmulDescCreate(p.operation.out(), compute, CUDA_R_32F),
        "cublasLtMatmulDescCreate", s, gpu);
  const bool ta = s.transpose_a != 0, tb = s.transpose_b != 0;
  set(p, CUBLASLT_MATMUL_DESC_TRANSA, tb ? CUBLAS_OP_T : CUBLAS_OP_N, s, gpu);
  set(p, CUBLASLT_MATMUL_DESC_TRANSB, ta ? CUBLAS_OP_T : CUBLAS_OP_N, s, gpu);
  const cudaDataType type = precision == Precision::bf16 ? CUDA_R_16BF : CUDA_R_32F;
  layout(p.left.out(), type, tb ? s.n : s.k, tb ? s.k : s.n, s, gpu);
  layout(p.right.out(), type, ta ? s.k : s.m, ta ? s.m : s.k, s, gpu);
  layout(p.result.out(), CUDA_R_32F, s.m, s.n, s, gpu);
}

bool Gemms::choose(Plan& p, bool bias, const MatmulShape& s, const Operands& o, int gpu) {
  const cublasLtEpilogue_t epilogue = bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue, s, gpu);
  if (bias) {
    set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_32F, s, gpu);
    set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias, s, gpu);
  }
  Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy> preference;
  check(cublasLtMatmulPreferenceCreate(preference.out()), "cublasLtMatmulPreferenceCreate", s, gpu);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference.get(), name, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", s, gpu);
  };
  const auto bytes = [](std::int64_t alignment) { return static_cast<std::uint32_t>(alignment); };
  const std::uint32_t result = bytes(std::min(alignment(o.c), alignment(o.bias)));
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kWorkspace});
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, bytes(alignment(o.b)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, bytes(alignment(o.a)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, result);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, result);
  cublasLtMatmulHeuristicResult_t best{};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_.get(), p.operation.get(), p.left.get(), p.right.get(), p.result.get(), p.result.get(),
      preference.get(), 1, &best, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return false;
  check(status, "cublasLtMatmulAlgoGetHeuristic", s, gpu);
  if (found == 0 || best.state != CUBLAS_STATUS_SUCCESS) return false;
  p.algorithm = best.algo;
  p.workspace = best.workspaceSize;
  p.adds_bias = bias;
  return true;
}

const Plan& Gemms::find(CudaDevice& device, const MatmulShape& s, const Operands& o) {
  static_assert(sizeof s == (kWords - 3) * sizeof(std::int64_t));
  Key key{alignment(o.a), alignment(o.b), std::min(alignment(o.c), alignment(o.bias))};
  std::memcpy(&key[3], &s, sizeof s);
  const auto it = plans_.find(key);
  if (it != plans_.end()) return it->second;
  const int gpu = device.gpu();
  if (handle_.get() == nullptr) check(cublasLtCreate(handle_.out()), "cublasLtCreate", s, gpu);
  Plan& plan = plans_[key];
  try {
    lay_out(plan, s, device.precision(), gpu);
    const bool bias = s.bias != 0;
    if (!(bias && choose(plan, true, s, o, gpu)) && !choose(plan, false, s, o, gpu))
      check(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic", s, gpu);
  } catch (...) {
    plans_.erase(key);
    throw;
  }
  return plan;
}

// c += bias, where a library does not.
void add_bias(CudaDevice& device, cudaStream_t stream, const MatmulShape& s, const float* bias,
              float* c) {
  if (bias == nullptr) return;
  launch_rows(device, stream, static_cast<std::size_t>(s.batch * s.m),
              BinaryRows<float, AddMath>{c, bias, c, static_cast<std::size_t>(s.n), 1});
}

void Gemms::run(CudaDevice& device, cudaStream_t stream, const MatmulShape& s, const Operands& o) {
  const Plan& p = find(device, s, o);
  if (p.adds_bias) set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias, s, device.gpu());
  const Scratch workspace(device, stream, p.workspace);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(handle_.get(), p.operation.get(), &one, o.b, p.left.get(), o.a,
                       p.right.get(), &zero, o.c, p.result.get(), o.c, p.result.get(), &p.algorithm,
                       workspace.data(), p.workspace, stream),
        "cublasLtMatmul", s, device.gpu());
  if (!p.adds_bias) add_bias(device, stream, s, o.bias, o.c);
}

// No terms to add: c is the bias, or 0.
void no_terms(CudaDevice& device, cudaStream_t stream, const GemmCall<float>& g) {
  const auto bytes = static_cast<std::size_t>(g.s.batch * g.s.m * g.s.n) * sizeof(float);
  BELFRY_CUDA(device.gpu(), cudaMemsetAsync, g.c, 0, bytes, stream);
  add_bias(device, stream, g.s, g.bias, g.c);
}

void run(CudaDevice& device, cudaStream_t stream, const GemmCall<float>& g) {
  if (g.s.k == 0) return no_terms(device, stream, g);
  auto& gemms = device.slot<Gemms>();
  if (device.precision() != Precision::bf16)
    return gemms.run(device, stream, g.s, {g.a, g.b, g.bias, g.c});
  const auto a_size = static_cast<std::size_t>(g.s.batch * g.s.m * g.s.k),
             b_size = static_cast<std::size_t>(g.s.batch * g.s.k * g.s.n);
  const Scratch a(device, stream, a_size * sizeof(BFloat16)),
      b(device, stream, b_size * sizeof(BFloat16));
  launch_elements(device, stream, a_size, Narrow{g.a, static_cast<BFloat16*>(a.data())});
  launch_elements(device, stream, b_size, Narrow{g.b, static_cast<BFloat16*>(b.data())});
  gemms.run(device, stream, g.s, {a.data(), b.data(), g.bias, g.c});
}

}  // namespace

void library_kernels_of_gemm(KernelTable& t) { t.library<GemmCall<float>, run>(); }

}  // namespace belfry
