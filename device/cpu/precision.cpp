// SPDX-License-Identifier: MIT
#include "belfry/device/cpu/precision.h"

#include "belfry/device/host_kernels.h"

namespace belfry {
namespace {

// Without these instructions oneDNN widens bf16 again before it multiplies.
bool multiplies_bf16() {
#if defined(__x86_64__)
  return instruction_set() == InstructionSet::avx512 && __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace

std::string cpu_precision_fault(Precision precision) {
  if (precision == Precision::f32) return "";
  const std::string asked = "precision = \"" + std::string(name_of(precision)) + "\"";
  if (precision != Precision::bf16)
    return asked + " needs towers on GPUs; those on the CPU know f32 and bf16";
  if (multiplies_bf16()) return "";
  return asked + " needs towers on GPUs or a CPU with AVX-512 BF16; " +
         (instruction_set() == instruction_sets().back() ? "this one has none"
                                                         : "BELFRY_ISA asks for less");
}

}  // namespace belfry
