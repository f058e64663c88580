// SPDX-License-Identifier: MIT
// cuBLASLt's functions: descriptors are real state, a product is one operation of its stream.
#include <algorithm>
#include <cstring>
#include <map>

#include "belfry/tests/simcuda/api.h"
#include "belfry/tests/simcuda/cublaslt_state.h"

using namespace belfry::sim;
using namespace belfry::sim::blas;

struct cublasLtContext {
  int device;
};

namespace {

constexpr std::uint64_t kAlgorithm = 0xB1A5;

template <class F>
cublasStatus_t blas_api(const char* name, F body) {
  cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
  const cudaError_t e = api(name, [&](State& s) {
    result = body(s);
    return cudaSuccess;
  });
  return e == cudaSuccess ? result : CUBLAS_STATUS_INTERNAL_ERROR;
}

template <class Handle, class T>
cublasStatus_t create(const char* name, Handle* out, T value) {
  return blas_api(name, [&](State& s) {
    if (out == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    *out = reinterpret_cast<Handle>(new T(value));
    s.alive.insert(*out);
    ++s.counts.live_blas;
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T, class Handle>
cublasStatus_t destroy(const char* name, Handle handle) {
  return blas_api(name, [&](State& s) {
    if (s.alive.erase(handle) == 0) {
      s.scheduler.report(std::string(name) + " of what does not exist");
      return CUBLAS_STATUS_INVALID_VALUE;
    }
    delete reinterpret_cast<T*>(handle);
    --s.counts.live_blas;
    return CUBLAS_STATUS_SUCCESS;
  });
}

// A field of a descriptor, as bytes.
struct Field {
  void* data;
  std::size_t bytes;
};
template <class T>
Field field(T& value) {
  return {&value, sizeof value};
}

Field field_of(Desc& d, cublasLtMatmulDescAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return field(d.compute);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return field(d.scale);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return field(d.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return field(d.trans_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return field(d.trans_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return field(d.trans_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return field(d.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return field(d.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE:
      return field(d.bias_stride);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return field(d.bias_type);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
      return field(d.aux);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
      return field(d.aux_ld);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE:
      return field(d.aux_stride);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
      return field(d.aux_type);
    default:
      return {nullptr, 0};
  }
}

Field field_of(Layout& l, cublasLtMatrixLayoutAttribute_t which) {
  switch (which) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return field(l.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return field(l.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return field(l.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return field(l.cols);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return field(l.ld);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return field(l.batch);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return field(l.stride);
    default:
      return {nullptr, 0};
  }
}

Field field_of(Preference& p, cublasLtMatmulPreferenceAttributes_t which) {
  switch (which) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return field(p.workspace);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return field(p.a);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return field(p.b);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return field(p.c);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return field(p.d);
    default:
      return {nullptr, 0};
  }
}

template <class T, class Handle, class Which>
cublasStatus_t set(const char* name, Handle handle, Which which, const void* data,
                   std::size_t bytes) {
  return blas_api(name, [&](State& s) {
    if (s.alive.count(handle) == 0 || data == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    const Field f = field_of(*reinterpret_cast<T*>(handle), which);
    if (f.data == nullptr)
      s.scheduler.report(std::string(name) + ": the simulator lacks attribute " +
                         std::to_string(static_cast<int>(which)));
    if (f.bytes != bytes) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(f.data, data, bytes);
    return CUBLAS_STATUS_SUCCESS;
  });
}

template <class T, class Handle, class Which>
cublasStatus_t get(const char* name, Handle handle, Which which, void* data, std::size_t bytes,
                   std::size_t* written) {
  return blas_api(name, [&](State& s) {
    if (s.alive.count(handle) == 0) return CUBLAS_STATUS_INVALID_VALUE;
    const Field f = field_of(*reinterpret_cast<T*>(handle), which);
    if (written != nullptr) *written = f.bytes;
    if (f.data == nullptr || bytes < f.bytes) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(data, f.data, f.bytes);
    return CUBLAS_STATUS_SUCCESS;
  });
}

struct Handles {
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t desc;
  cublasLtMatrixLayout_t a, b, c, d;
};

cublasStatus_t problem_of(State& s, const Handles& h, Problem& p) {
  if (s.alive.count(h.handle) == 0) return CUBLAS_STATUS_NOT_INITIALIZED;
  for (const void* needed : {static_cast<const void*>(h.desc), static_cast<const void*>(h.a),
                             static_cast<const void*>(h.b), static_cast<const void*>(h.c),
                             static_cast<const void*>(h.d)})
    if (s.alive.count(needed) == 0) return CUBLAS_STATUS_INVALID_VALUE;
  p.desc = *reinterpret_cast<const Desc*>(h.desc);
  p.a = *reinterpret_cast<const Layout*>(h.a);
  p.b = *reinterpret_cast<const Layout*>(h.b);
  p.c = *reinterpret_cast<const Layout*>(h.c);
  p.d = *reinterpret_cast<const Layout*>(h.d);
  return check(p);
}

// What tells one problem from another, for algorithms that were chosen for one.
std::uint64_t key_of(const Problem& p) {
  std::uint64_t key = 14695981039346656037ull;
  const auto mix = [&key](std::uint64_t v) { key = (key ^ v) * 1099511628211ull; };
  for (const Layout* l : {&p.a, &p.b, &p.c, &p.d})
    for (const std::uint64_t v :
         {std::uint64_t{l->type}, l->rows, l->cols, static_cast<std::uint64_t>(l->ld),
          static_cast<std::uint64_t>(l->order), static_cast<std::uint64_t>(l->batch)})
      mix(v);
  for (const auto v : {p.desc.compute, p.desc.trans_a, p.desc.trans_b})
    mix(static_cast<std::uint64_t>(v));
  mix(p.desc.epilogue);
  return key;
}

bool aligned(const void* p, std::uint32_t type) {
  return reinterpret_cast<std::uintptr_t>(p) % width(type) == 0;
}

cublasStatus_t matmul(State& s, Problem p, const Handles& h, const cublasLtMatmulAlgo_t* algo,
                      void* workspace, std::size_t bytes, cudaStream_t stream) {
  if (const cublasStatus_t e = problem_of(s, h, p); e != CUBLAS_STATUS_SUCCESS) return e;
  if (!aligned(p.a_data, p.a.type) || !aligned(p.b_data, p.b.type) ||
      !aligned(p.d_data, p.d.type) || (p.beta != 0 && p.c_data == nullptr) ||
      (bytes != 0 && reinterpret_cast<std::uintptr_t>(workspace) % 16 != 0))
    return CUBLAS_STATUS_INVALID_VALUE;
  const auto wrong = [&s](cublasStatus_t status, const char* text) {
    s.scheduler.report(std::string("cublasLtMatmul ") + text);
    return status;
  };
  if (algo != nullptr) {
    if (algo->data[0] != kAlgorithm || algo->data[1] != key_of(p))
      return wrong(CUBLAS_STATUS_NOT_SUPPORTED, "gets an algorithm of another problem");
    if (algo->data[2] > bytes)
      return wrong(CUBLAS_STATUS_INVALID_VALUE, "gets less workspace than its algorithm needs");
    const auto less = [&](const void* data, std::size_t word, int shift) {
      return reinterpret_cast<std::uintptr_t>(data) % (algo->data[word] >> shift & 0xFFFFFFFFu) !=
             0;
    };
    if (less(p.a_data, 3, 0) || less(p.b_data, 3, 32) || less(p.d_data, 4, 0))
      return wrong(CUBLAS_STATUS_INVALID_VALUE,
                   "gets arrays less aligned than its algorithm was chosen for");
  }
  CUstream_st* const st = s.usable(stream, "cublasLtMatmul");
  if (st == nullptr) return CUBLAS_STATUS_EXECUTION_FAILED;
  const int device = reinterpret_cast<const cublasLtContext*>(h.handle)->device;
  if (st->device != s.local().device || st->device != device)
    return wrong(CUBLAS_STATUS_EXECUTION_FAILED,
                 "is put on a stream of another device than the current one or its handle's");
  Node node;
  node.what = "cublasLtMatmul on " + st->name;
  node.touches = ranges_of(p);
  if (bytes != 0) {
    const auto lo = reinterpret_cast<std::uintptr_t>(workspace);
    node.touches.push_back({lo, lo + bytes, true});
  }
  node.body = [p] { run(p); };
  ++s.counts.matmuls;
  return s.put(st, std::move(node)) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  SimCuda* const sim = SimCuda::active();
  if (sim == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return create("cublasLtCreate", handle, cublasLtContext{sim->state().local().device});
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy<cublasLtContext>("cublasLtDestroy", handle);
}
std::size_t cublasLtGetVersion() { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  return create("cublasLtMatmulDescCreate", desc, Desc{compute, scale});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) {
  return destroy<Desc>("cublasLtMatmulDescDestroy", desc);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void* data, std::size_t bytes) {
  return set<Desc>("cublasLtMatmulDescSetAttribute", desc, which, data, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which, void* data,
                                              std::size_t bytes, std::size_t* written) {
  return get<Desc>("cublasLtMatmulDescGetAttribute", desc, which, data, bytes, written);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols, std::int64_t ld) {
  return create("cublasLtMatrixLayoutCreate", layout,
                Layout{static_cast<std::uint32_t>(type), rows, cols, ld});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy<Layout>("cublasLtMatrixLayoutDestroy", layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which,
                                                const void* data, std::size_t bytes) {
  return set<Layout>("cublasLtMatrixLayoutSetAttribute", layout, which, data, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t which, void* data,
                                                std::size_t bytes, std::size_t* written) {
  return get<Layout>("cublasLtMatrixLayoutGetAttribute", layout, which, data, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create("cublasLtMatmulPreferenceCreate", preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>("cublasLtMatmulPreferenceDestroy", preference);
}
// Others are hints here, and taken in silence.
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void* data, std::size_t bytes) {
  Preference known;
  if (field_of(known, which).data == nullptr)
    return blas_api("cublasLtMatmulPreferenceSetAttribute",
                    [](State&) { return CUBLAS_STATUS_SUCCESS; });
  return set<Preference>("cublasLtMatmulPreferenceSetAttribute", preference, which, data, bytes);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* found) {
  return blas_api("cublasLtMatmulAlgoGetHeuristic", [&](State& s) {
    if (asked < 1 || results == nullptr || found == nullptr || s.alive.count(preference) == 0)
      return CUBLAS_STATUS_INVALID_VALUE;
    *found = 0;
    Problem p = {};
    const cublasStatus_t e = problem_of(s, {handle, desc, a, b, c, d}, p);
    if (e != CUBLAS_STATUS_SUCCESS) return e;
    // Wants room for partial sums, and does without.
    const Preference& least = *reinterpret_cast<const Preference*>(preference);
    const std::uint64_t wanted = (p.m() * p.n() * 4 + 255) / 256 * 256, allowed = least.workspace;
    results[0] = {};
    results[0].algo.data[0] = kAlgorithm;
    results[0].algo.data[1] = key_of(p);
    results[0].algo.data[2] = wanted <= allowed ? wanted : 0;
    results[0].algo.data[3] = std::uint64_t{least.b} << 32 | least.a;
    results[0].algo.data[4] = least.d;
    results[0].workspaceSize = results[0].algo.data[2];
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  });
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void* workspace, std::size_t bytes, cudaStream_t stream) {
  return blas_api("cublasLtMatmul", [&](State& s) {
    for (const void* p : {alpha, beta, a, b, static_cast<const void*>(d)})
      if (p == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
    Problem p = {};
    p.a_data = a;
    p.b_data = b;
    p.c_data = c;
    p.d_data = d;
    p.alpha = *static_cast<const float*>(alpha);  // the host's, and taken now
    p.beta = *static_cast<const float*>(beta);
    return matmul(s, p, {handle, desc, a_layout, b_layout, c_layout, d_layout}, algo, workspace,
                  bytes, stream);
  });
}

const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
      return "CUBLAS_STATUS_UNKNOWN";
  }
}
const char* cublasLtGetStatusString(cublasStatus_t status) { return cublasLtGetStatusName(status); }

}  // extern "C"
