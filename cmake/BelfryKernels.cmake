# SPDX-License-Identifier: MIT
# CUDA for this project, where nvcc is; CMAKE_CUDA_COMPILER says whether. A macro, since a language can
# be enabled at file scope only.
macro(belfry_enable_nvcc)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND EXISTS /usr/local/cuda/bin/nvcc)
    set(CMAKE_CUDA_COMPILER /usr/local/cuda/bin/nvcc)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90-real 100)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 knows no C++20 for nvcc.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
endmacro()

# belfry_add_kernels(TARGET HEADER...): a plug-in with the CUDA kernels of *.kernel.h headers, each of
# which ends in kernels_of_<stem>(Table&). Give its file, in <TARGET>_FILE, to ContextOptions::kernels.
# Makes nothing where there is no nvcc.
# A macro too: call it in the project's top folder.
macro(belfry_add_kernels target)
  set(${target}_FILE ${CMAKE_CURRENT_BINARY_DIR}/lib${target}.so)
  belfry_enable_nvcc()
  if(CMAKE_CUDA_COMPILER)
    belfry_kernel_plugin(${target} ${ARGN})
  else()
    message(STATUS "${target}: skipped, there is no nvcc")
  endif()
endmacro()

function(belfry_kernel_plugin target)
  set(includes "")
  set(calls "")
  foreach(header IN LISTS ARGN)
    get_filename_component(header ${header} ABSOLUTE)
    get_filename_component(stem ${header} NAME_WE)
    string(APPEND includes "#include \"${header}\"\n")
    string(APPEND calls "  kernels_of_${stem}(table);\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${target}.cu @ONLY CONTENT
"#include <belfry/device/cuda/launch.cuh>
${includes}
extern \"C\" void belfry_kernels(belfry::KernelTable& table) {
${calls}}
")
  add_library(${target} MODULE ${CMAKE_CURRENT_BINARY_DIR}/${target}.cu)
  set_target_properties(${target} PROPERTIES CUDA_RUNTIME_LIBRARY Static CUDA_STANDARD 20
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_compile_options(${target} PRIVATE --fmad=false --expt-relaxed-constexpr)
  target_link_libraries(${target} PRIVATE Belfry::belfry)
endfunction()
