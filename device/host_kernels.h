// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <typeinfo>
#include <vector>

// The CPU's kernels are compiled once an instruction set, from the functors that the headers list
// (kernels_of_<stem>), and chosen when the process starts. A functor that is not listed, or the
// processor knows nothing better, runs as its caller was compiled.
namespace belfry {

// Levels of x86-64: the baseline, v3 (AVX2, FMA) and v4 (AVX-512 F, BW, CD, DQ, VL).
enum class InstructionSet : std::uint8_t { baseline, avx2, avx512 };

const char* name_of(InstructionSet set);  // "x86-64", "avx2", "avx512"

// The level in use: the best one that processor and build have, or the one that $BELFRY_ISA names,
// which also bounds oneDNN. Throws ConfigError, at each call, when that is unknown or not to be
// had.
InstructionSet instruction_set();

// The levels that this build has kernels for and this processor runs, the baseline first.
std::vector<InstructionSet> instruction_sets();

using HostBody = void (*)(const void* functor, std::size_t begin, std::size_t end);

// The body of functor type `type` for the level in use; `portable` where there is none.
HostBody host_body(const std::type_info& type, HostBody portable);
// The body of Belfry's own kernel `name` for a level; null where there is none (tests).
HostBody host_body(InstructionSet set, std::string_view name);

}  // namespace belfry
