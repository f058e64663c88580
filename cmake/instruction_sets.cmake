# SPDX-License-Identifier: MIT
# The host's kernels once a level of x86-64, from the functor headers, chosen at run time. The files
# of a level are linked into one object in which all is local but the functions that list its
# kernels: its inline functions can never stand in for the baseline's, which older processors run.
set(BELFRY_INSTRUCTION_SETS "avx2;avx512" CACHE STRING "Levels beside x86-64: avx2, avx512")
set(belfry_march_avx2 x86-64-v3)
set(belfry_march_avx512 x86-64-v4 -mprefer-vector-width=512)
set(belfry_host_files 4)

if(BELFRY_FUZZ OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU"
    OR NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(BELFRY_INSTRUCTION_SETS "")
endif()

# The headers' lists, spread over a few files. What kernels_of_<stem> lists other backends have too,
# host_kernels_of_<stem> the host alone.
belfry_kernel_lists(host_lists "(host_)?")
math(EXPR last "${belfry_host_files} - 1")
foreach(file RANGE ${last})
  set(host_includes_${file} "")
  set(host_calls_${file} "")
endforeach()
set(number 0)
foreach(entry IN LISTS host_lists)
  belfry_split_list(header list "${entry}")
  math(EXPR file "${number} % ${belfry_host_files}")
  math(EXPR number "${number} + 1")
  string(APPEND host_includes_${file} "#include \"belfry/${header}\"\n")
  string(APPEND host_calls_${file} "  belfry::${list}(kernels);\n")
endforeach()

set(host_declarations "")
set(host_cases "")
set(host_has "false")
foreach(set IN LISTS BELFRY_INSTRUCTION_SETS)
  set(host_sources "")
  string(APPEND host_has " || set == InstructionSet::${set}")
  string(APPEND host_cases "    case InstructionSet::${set}:\n")
  foreach(file RANGE ${last})
    set(name belfry_host_kernels_${set}_${file})
    string(APPEND host_declarations
      "extern \"C\" __attribute__((visibility(\"hidden\"))) void ${name}(belfry::HostKernels&);\n")
    string(APPEND host_cases "      ${name}(kernels);\n")
    file(CONFIGURE OUTPUT ${belfry_generated}/${set}/host_kernels_${file}.cpp @ONLY CONTENT
"#include \"belfry/device/cpu/host_kernels_internal.h\"
${host_includes_${file}}
extern \"C\" __attribute__((visibility(\"hidden\"))) void ${name}(belfry::HostKernels& kernels) {
  static_cast<void>(kernels);
${host_calls_${file}}}
")
    list(APPEND host_sources ${belfry_generated}/${set}/host_kernels_${file}.cpp)
  endforeach()
  string(APPEND host_cases "      return;\n")

  add_library(belfry_${set}_parts OBJECT ${host_sources})
  set_target_properties(belfry_${set}_parts PROPERTIES POSITION_INDEPENDENT_CODE ON
    INTERPROCEDURAL_OPTIMIZATION OFF)
  list(TRANSFORM belfry_march_${set} REPLACE "^x86" "-march=x86" OUTPUT_VARIABLE march)
  target_link_libraries(belfry_${set}_parts PRIVATE belfry_strict_flags)
  # objcopy does not make unique symbols (statics of inline functions) local. The warnings are false
  # in GCC 12's AVX-512 intrinsics (GCC PR 105593).
  target_compile_options(belfry_${set}_parts PRIVATE ${march} -Wno-uninitialized -fno-gnu-unique
    -Wno-maybe-uninitialized)
  target_include_directories(belfry_${set}_parts PRIVATE ${belfry_include})
  set(object ${belfry_generated}/${set}/host_kernels.o)
  add_custom_command(OUTPUT ${object} VERBATIM COMMAND_EXPAND_LISTS
    COMMAND ${CMAKE_LINKER} -r --force-group-allocation -o ${object}
      $<TARGET_OBJECTS:belfry_${set}_parts>
    COMMAND ${CMAKE_OBJCOPY} -w --keep-global-symbol=belfry_host_kernels_${set}_* ${object}
    DEPENDS belfry_${set}_parts $<TARGET_OBJECTS:belfry_${set}_parts>)
  set_source_files_properties(${object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  list(APPEND belfry_host_objects ${object})
endforeach()

file(CONFIGURE OUTPUT ${belfry_generated}/host_kernel_sets.cpp @ONLY CONTENT
"#include \"belfry/device/cpu/host_kernels_internal.h\"

${host_declarations}
namespace belfry {

bool has_host_kernels(InstructionSet set) {
  static_cast<void>(set);
  return ${host_has};
}

void fill_host_kernels(InstructionSet set, HostKernels& kernels) {
  static_cast<void>(kernels);
  switch (set) {
${host_cases}    default:
      return;
  }
}

}  // namespace belfry
")
