// SPDX-License-Identifier: MIT
// cuBLASLt: products against plain loops, epilogues, and what is refused.
#include <cublasLt.h>

#include <cmath>

#include "belfry/device/half.h"
#include "belfry/tests/simcuda/rules.h"

namespace belfry::sim {
namespace {

#define BLAS_OK(call) REQUIRE((call) == CUBLAS_STATUS_SUCCESS)

struct Shape2 {
  std::uint64_t rows, cols;
  std::int64_t ld;
  int order = CUBLASLT_ORDER_COL;
  std::int64_t stride = 0;
};

// One product with everything it needs; elements are numbers that 8 bits hold.
struct Product {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cudaStream_t stream = make_stream();
  int batch = 1;

  explicit Product(cublasComputeType_t compute = CUBLAS_COMPUTE_32F) {
    BLAS_OK(cublasLtCreate(&handle));
    BLAS_OK(cublasLtMatmulDescCreate(&desc, compute, CUDA_R_32F));
  }
  ~Product() {
    for (cublasLtMatrixLayout_t l : {a, b, d})
      if (l != nullptr) cublasLtMatrixLayoutDestroy(l);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
  template <class T>
  cublasStatus_t set(cublasLtMatmulDescAttributes_t which, T value) {
    return cublasLtMatmulDescSetAttribute(desc, which, &value, sizeof value);
  }
  cublasLtMatrixLayout_t layout(const Shape2& s, cudaDataType_t type) {
    cublasLtMatrixLayout_t l = nullptr;
    BLAS_OK(cublasLtMatrixLayoutCreate(&l, type, s.rows, s.cols, s.ld));
    const std::int32_t order = s.order, count = batch;
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, 4));
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, 4));
    BLAS_OK(cublasLtMatrixLayoutSetAttribute(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                             &s.stride, 8));
    return l;
  }
  void shapes(const Shape2& sa, const Shape2& sb, const Shape2& sd, cudaDataType_t in = CUDA_R_32F,
              cudaDataType_t out = CUDA_R_32F) {
    a = layout(sa, in);
    b = layout(sb, in);
    d = layout(sd, out);
  }
  cublasStatus_t run(const void* pa, const void* pb, void* pd, float alpha = 1, float beta = 0,
                     const cublasLtMatmulAlgo_t* algo = nullptr, void* workspace = nullptr,
                     std::size_t bytes = 0) {
    return cublasLtMatmul(handle, desc, &alpha, pa, a, pb, b, &beta, pd, d, pd, d, algo, workspace,
                          bytes, stream);
  }
};

std::vector<float> numbers(std::size_t n, int seed) {
  std::vector<float> v;
  for (std::size_t i = 0; i < n; ++i)
    v.push_back(static_cast<float>((static_cast<int>(i) * 7 + seed * 5) % 11 - 5));
  return v;
}

constexpr std::size_t kM = 3, kN = 4, kK = 5;

// The product of op(a) and op(b) from tight matrices by columns.
std::vector<float> plain(const std::vector<float>& a, const std::vector<float>& b, bool ta,
                         bool tb) {
  std::vector<float> d(kM * kN, 0);
  for (std::size_t j = 0; j < kN; ++j)
    for (std::size_t i = 0; i < kM; ++i)
      for (std::size_t q = 0; q < kK; ++q)
        d[j * kM + i] += a[ta ? i * kK + q : q * kM + i] * b[tb ? q * kN + j : j * kK + q];
  return d;
}

void tight(Product& p, bool ta = false, bool tb = false, cudaDataType_t in = CUDA_R_32F,
           cudaDataType_t out = CUDA_R_32F) {
  p.shapes(ta ? Shape2{kK, kM, kK} : Shape2{kM, kK, kM},
           tb ? Shape2{kN, kK, kN} : Shape2{kK, kN, kK}, {kM, kN, kM}, in, out);
}

float gelu(float x) {
  return 0.5f * x * (1 + std::tanh(std::sqrt(2 / 3.14159265f) * (x + 0.044715f * x * x * x)));
}

}  // namespace

TEST_CASE("products of all transposes are right", "[cuda-sim]") {
  for (const bool ta : {false, true})
    for (const bool tb : {false, true})
      under_seeds(1, 3, [&](SimCuda& sim) {
        Product p;
        BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_TRANSA, ta ? CUBLAS_OP_T : CUBLAS_OP_N));
        BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_TRANSB, tb ? CUBLAS_OP_T : CUBLAS_OP_N));
        tight(p, ta, tb);
        const auto a = numbers(kM * kK, 1), b = numbers(kK * kN, 2);
        float *pa = to_device(a, p.stream), *pb = to_device(b, p.stream),
              *pd = to_device(numbers(kM * kN, 3), p.stream);
        BLAS_OK(p.run(pa, pb, pd));
        std::vector<float> want = plain(a, b, ta, tb);
        REQUIRE(from_device(pd, kM * kN, p.stream) == want);
        BLAS_OK(p.run(pa, pb, pd, 2, 3));
        for (float& v : want) v = 2 * v + 3 * v;
        REQUIRE(from_device(pd, kM * kN, p.stream) == want);
        REQUIRE(sim.reports() == kNothing);
        REQUIRE(sim.counts().matmuls == 2);
      });
}

TEST_CASE("leading dimensions, rows and batches are where the layouts say", "[cuda-sim]") {
  SimCuda sim(1);
  Product p;
  p.batch = 2;
  // a by rows with gaps, b by columns with gaps, d by rows.
  p.shapes({kM, kK, 7, CUBLASLT_ORDER_ROW, 30}, {kK, kN, 6, CUBLASLT_ORDER_COL, 40},
           {kM, kN, kN, CUBLASLT_ORDER_ROW, kM * kN});
  const auto a = numbers(60, 4), b = numbers(80, 5);
  float *pa = to_device(a, p.stream), *pb = to_device(b, p.stream),
        *pd = device_memory(2 * kM * kN);
  BLAS_OK(p.run(pa, pb, pd));
  const auto d = from_device(pd, 2 * kM * kN, p.stream);
  for (std::size_t batch = 0; batch < 2; ++batch)
    for (std::size_t i = 0; i < kM; ++i)
      for (std::size_t j = 0; j < kN; ++j) {
        float want = 0;
        for (std::size_t q = 0; q < kK; ++q)
          want += a[batch * 30 + i * 7 + q] * b[batch * 40 + j * 6 + q];
        REQUIRE(d[batch * kM * kN + i * kN + j] == want);
      }
  REQUIRE(sim.reports() == kNothing);
}

TEST_CASE("reduced precision loses what it should", "[cuda-sim]") {
  SimCuda sim(1);
  {
    Product p(CUBLAS_COMPUTE_32F_FAST_TF32);
    tight(p);
    const float fine = 1 + 0x1p-12f, coarse = 1 + 0x1p-10f;
    float *pa = to_device(std::vector<float>(kM * kK, fine), p.stream),
          *pb = to_device(std::vector<float>(kK * kN, coarse), p.stream),
          *pd = device_memory(kM * kN);
    BLAS_OK(p.run(pa, pb, pd));
    REQUIRE(from_device(pd, kM * kN, p.stream) == std::vector<float>(kM * kN, 5 * coarse));
  }
  for (const cudaDataType_t out : {CUDA_R_32F, CUDA_R_16BF}) {
    Product p;
    tight(p, false, false, CUDA_R_16BF, out);
    std::vector<BFloat16> a, b;
    for (const float v : numbers(kM * kK, 1)) a.push_back(BFloat16(v + 0.0625f));
    for (const float v : numbers(kK * kN, 2)) b.push_back(BFloat16(v));
    BFloat16 *pa = to_device(a, p.stream), *pb = to_device(b, p.stream);
    const std::vector<float> af(a.begin(), a.end()), bf(b.begin(), b.end());
    const auto want = plain(af, bf, false, false);
    if (out == CUDA_R_32F) {
      float* pd = device_memory(kM * kN);
      BLAS_OK(p.run(pa, pb, pd));
      REQUIRE(from_device(pd, kM * kN, p.stream) == want);
    } else {
      BFloat16* pd = device_memory<BFloat16>(kM * kN);
      BLAS_OK(p.run(pa, pb, pd));
      const auto got = from_device(pd, kM * kN, p.stream);
      for (std::size_t i = 0; i < want.size(); ++i) REQUIRE(got[i].bits == BFloat16(want[i]).bits);
    }
  }
  REQUIRE(sim.reports() == kNothing);
}

TEST_CASE("epilogues go forward and back", "[cuda-sim]") {
  under_seeds(1, 3, [](SimCuda& sim) {
    const auto a = numbers(kM * kK, 1), b = numbers(kK * kN, 2), bias = numbers(kM, 3);
    const auto product = plain(a, b, false, false);
    const auto with_bias = [&](std::size_t at) { return product[at] + bias[at % kM]; };
    // Runs one epilogue; `aux` holds 128 columns of bits or 8 floats a column.
    Product p;
    tight(p);
    float *pa = to_device(a, p.stream), *pb = to_device(b, p.stream), *pd = device_memory(kM * kN);
    float* pbias = to_device(bias, p.stream);
    void* paux = device_memory(kN * 8);
    const auto run = [&](std::uint32_t epilogue, void* bias_pointer, std::int64_t ld) {
      BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue));
      BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_pointer));
      BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, paux));
      BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld));
      BLAS_OK(p.run(pa, pb, pd));
      return from_device(pd, kM * kN, p.stream);
    };
    const auto require = [&](const std::vector<float>& got, auto want) {
      for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == Approx(want(i)).margin(1e-5));
    };
    require(run(CUBLASLT_EPILOGUE_BIAS, pbias, 0), with_bias);
    const auto relu = [&](std::size_t i) { return std::max(with_bias(i), 0.0f); };
    require(run(CUBLASLT_EPILOGUE_RELU_BIAS, pbias, 0), relu);
    require(run(CUBLASLT_EPILOGUE_RELU_AUX_BIAS, pbias, 128), relu);
    const auto bits = from_device(static_cast<std::uint8_t*>(paux), 16 * kN, p.stream);
    for (std::size_t j = 0; j < kN; ++j)
      for (std::size_t i = 0; i < kM; ++i)
        REQUIRE(((bits[j * 16] >> i) & 1) == (with_bias(j * kM + i) > 0));
    float* pgrad = device_memory(kN);
    const auto drelu = [&](std::size_t i) { return with_bias(i) > 0 ? product[i] : 0.0f; };
    const auto row_sums = [](const auto& of) {
      return [&of](std::size_t i) {
        float sum = 0;
        for (std::size_t j = 0; j < kN; ++j) sum += of(j * kM + i);
        return sum;
      };
    };
    require(run(CUBLASLT_EPILOGUE_DRELU_BGRAD, pgrad, 128), drelu);
    require(from_device(pgrad, kM, p.stream), row_sums(drelu));
    require(run(CUBLASLT_EPILOGUE_GELU_AUX_BIAS, pbias, 8),
            [&](std::size_t i) { return gelu(with_bias(i)); });
    const auto kept = from_device(static_cast<float*>(paux), kN * 8 - 5, p.stream);
    for (std::size_t j = 0; j < kN; ++j)
      for (std::size_t i = 0; i < kM; ++i) REQUIRE(kept[j * 8 + i] == with_bias(j * kM + i));
    const auto dgelu = [&](std::size_t i) {
      const double x = with_bias(i), h = 1e-3;
      return static_cast<float>(
          product[i] * (gelu(static_cast<float>(x + h)) - gelu(static_cast<float>(x - h))) /
          (2 * h));
    };
    const auto got = run(CUBLASLT_EPILOGUE_DGELU_BGRAD, pgrad, 8);
    for (std::size_t i = 0; i < got.size(); ++i)
      REQUIRE(got[i] == Approx(dgelu(i)).epsilon(0.01).margin(0.02));
    require(from_device(pgrad, kM, p.stream), row_sums([&](std::size_t i) { return got[i]; }));
    require(run(CUBLASLT_EPILOGUE_BGRADA, pgrad, 0), [&](std::size_t i) { return product[i]; });
    require(from_device(pgrad, kM, p.stream), [&](std::size_t i) {
      float sum = 0;
      for (std::size_t q = 0; q < kK; ++q) sum += a[q * kM + i];
      return sum;
    });
    run(CUBLASLT_EPILOGUE_BGRADB, pgrad, 0);
    require(from_device(pgrad, kN, p.stream), [&](std::size_t j) {
      float sum = 0;
      for (std::size_t q = 0; q < kK; ++q) sum += b[j * kK + q];
      return sum;
    });
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("products declare what they touch", "[cuda-sim]") {
  for (int what = 0; what < 4; ++what)
    for (const bool waits : {true, false})
      under_seeds(1, 10, [&](SimCuda& sim) {
        Product p;
        tight(p);
        cudaStream_t other = make_stream();
        cudaEvent_t e = make_event();
        float* memory[] = {device_memory(kM * kK), device_memory(kK * kN), device_memory(kM * kN),
                           device_memory(64)};
        for (float* m : memory) OK(cudaMemsetAsync(m, 0, 12, p.stream));
        OK(cudaStreamSynchronize(p.stream));
        BLAS_OK(p.run(memory[0], memory[1], memory[2], 1, 0, nullptr, memory[3], 256));
        OK(cudaEventRecord(e, p.stream));
        if (waits) OK(cudaStreamWaitEvent(other, e, 0));
        OK(cudaMemsetAsync(memory[what], 0, 4, other));
        OK(cudaStreamSynchronize(other));
        OK(cudaStreamSynchronize(p.stream));
        INFO("range " << what);
        REQUIRE(sim.reports().empty() == waits);
      });
  // Two products into parts of one matrix do not meet.
  under_seeds(1, 10, [](SimCuda& sim) {
    Product p, q;
    p.shapes({2, 2, 2}, {2, 3, 2}, {2, 3, 4});
    q.shapes({2, 2, 2}, {2, 3, 2}, {2, 3, 4});
    float *a = to_device(numbers(4, 1), p.stream), *b = to_device(numbers(6, 1), p.stream),
          *d = device_memory(12);
    OK(cudaStreamSynchronize(p.stream));
    BLAS_OK(p.run(a, b, d));
    BLAS_OK(q.run(a, b, d + 2));
    OK(cudaDeviceSynchronize());
    REQUIRE(sim.reports() == kNothing);
  });
}

TEST_CASE("algorithms belong to their problem and need their workspace", "[cuda-sim]") {
  SimCuda sim(1);
  Product p, wide;
  tight(p);
  wide.shapes({8, 8, 8}, {8, 8, 8}, {8, 8, 8});
  cublasLtMatmulPreference_t preference = nullptr;
  BLAS_OK(cublasLtMatmulPreferenceCreate(&preference));
  const auto algorithm = [&](const Product& of, std::uint64_t most, std::uint64_t needs) {
    BLAS_OK(cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most));
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    BLAS_OK(cublasLtMatmulAlgoGetHeuristic(of.handle, of.desc, of.a, of.b, of.d, of.d, preference,
                                           1, &result, &found));
    REQUIRE(found == 1);
    REQUIRE(result.workspaceSize == needs);
    return result.algo;
  };
  float *pa = device_memory(64), *pb = device_memory(64), *pd = device_memory(64),
        *workspace = device_memory(64);
  const auto lean = algorithm(p, 0, 0), rich = algorithm(p, 1 << 20, 256),
             other = algorithm(wide, 0, 0);
  BLAS_OK(p.run(pa, pb, pd, 1, 0, &lean));
  BLAS_OK(p.run(pa, pb, pd, 1, 0, &rich, workspace, 256));
  REQUIRE(sim.reports() == kNothing);
  REQUIRE(p.run(pa, pb, pd, 1, 0, &rich, workspace, 128) == CUBLAS_STATUS_INVALID_VALUE);
  REQUIRE(reported(sim, "less workspace than its algorithm needs"));
  REQUIRE(p.run(pa, pb, pd, 1, 0, &other) == CUBLAS_STATUS_NOT_SUPPORTED);
  REQUIRE(reported(sim, "an algorithm of another problem"));
  // Two handles, two descriptors, six layouts, one preference.
  REQUIRE(sim.leaks().find("11 objects of cuBLASLt") != std::string::npos);
  BLAS_OK(cublasLtMatmulPreferenceDestroy(preference));
  REQUIRE(cublasLtMatmulPreferenceDestroy(preference) == CUBLAS_STATUS_INVALID_VALUE);
}

TEST_CASE("products that the library refuses are refused", "[cuda-sim]") {
  SimCuda sim(2);
  float *pa = device_memory(64), *pb = device_memory(64), *pd = device_memory(64);
  const auto of = [&](const Shape2& a, const Shape2& b, const Shape2& d,
                      cudaDataType_t in = CUDA_R_32F, cudaDataType_t out = CUDA_R_32F) {
    Product p;
    p.shapes(a, b, d, in, out);
    return p.run(pa, pb, pd);
  };
  BLAS_OK(of({3, 5, 3}, {5, 4, 5}, {3, 4, 3}));
  CHECK(of({3, 5, 3}, {4, 4, 4}, {3, 4, 3}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(of({3, 5, 3}, {5, 4, 5}, {4, 4, 4}) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(of({3, 5, 2}, {5, 4, 5}, {3, 4, 3}) == CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(of({3, 5, 3}, {5, 4, 5}, {3, 4, 3}, CUDA_R_32F, CUDA_R_16BF) ==
        CUBLAS_STATUS_NOT_SUPPORTED);
  CHECK(of({3, 5, 3}, {5, 4, 5}, {3, 4, 3}, CUDA_R_64F, CUDA_R_64F) == CUBLAS_STATUS_NOT_SUPPORTED);
  Product p;
  tight(p);
  CHECK(p.run(nullptr, pb, pd) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(p.run(reinterpret_cast<char*>(pa) + 2, pb, pd) == CUBLAS_STATUS_INVALID_VALUE);
  const std::uint32_t bias = CUBLASLT_EPILOGUE_BIAS, mask = CUBLASLT_EPILOGUE_RELU_AUX;
  BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias));
  CHECK(p.run(pa, pb, pd) == CUBLAS_STATUS_INVALID_VALUE);  // where is it?
  BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE, mask));
  BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, static_cast<void*>(pa)));
  BLAS_OK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, std::int64_t{64}));
  CHECK(p.run(pa, pb, pd) == CUBLAS_STATUS_NOT_SUPPORTED);  // not a multiple of 128
  CHECK(p.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, 64) == CUBLAS_STATUS_INVALID_VALUE);  // size
  CHECK(sim.reports() == kNothing);
  Product fine;
  tight(fine);
  OK(cudaSetDevice(1));
  CHECK(fine.run(pa, pb, pd) == CUBLAS_STATUS_EXECUTION_FAILED);
  CHECK(reported(sim, "another device than the current one or its handle's"));
  Product there;  // of device 1
  OK(cudaSetDevice(0));
  tight(there);
  there.stream = make_stream();
  CHECK(there.run(pa, pb, pd) == CUBLAS_STATUS_EXECUTION_FAILED);
}

}  // namespace belfry::sim
