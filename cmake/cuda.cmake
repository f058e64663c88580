# SPDX-License-Identifier: MIT
# libbelfry_cuda.so: device/cuda, every *_cuda.cpp of the layers, and kernels from the functor
# headers. Loaded at run time; nothing else here links CUDA.
set(BELFRY_CUDA AUTO CACHE STRING "Build the CUDA plug-in: ON, OFF or AUTO (where nvcc is)")
option(BELFRY_NCCL "The CUDA plug-in has the transport nccl" ON)
option(BELFRY_CUDNN "The CUDA plug-in has convolutions" ON)
set(belfry_cuda OFF)
if(NOT BELFRY_CUDA OR BELFRY_FUZZ OR NOT BELFRY_LAYERS STREQUAL "${belfry_all_layers}")
  return()
endif()

include(BelfryKernels)
belfry_enable_nvcc()
if(NOT CMAKE_CUDA_COMPILER)
  if(BELFRY_CUDA STREQUAL AUTO)
    message(STATUS "CUDA plug-in: skipped, there is no nvcc")
    return()
  endif()
  message(FATAL_ERROR " BELFRY_CUDA=ON needs nvcc: set CMAKE_CUDA_COMPILER, or BELFRY_CUDA=OFF")
endif()
find_package(CUDAToolkit REQUIRED)

set(belfry_cuda_libraries CUDA::cublasLt)
set(belfry_cuda_definitions "")
if(BELFRY_NCCL)
  find_package(NCCL 2.18 QUIET)
  if(NOT NCCL_FOUND)
    message(FATAL_ERROR " NCCL 2.18 or later is missing: install libnccl-dev, set CMAKE_PREFIX_PATH, or BELFRY_NCCL=OFF")
  endif()
  list(APPEND belfry_cuda_libraries NCCL::NCCL)
  list(APPEND belfry_cuda_definitions BELFRY_NCCL)
endif()
if(BELFRY_CUDNN)
  find_package(cuDNN 9 QUIET)
  if(NOT cuDNN_FOUND)
    message(FATAL_ERROR " cuDNN 9 or later is missing: install cudnn9-cuda, set CMAKE_PREFIX_PATH, or BELFRY_CUDNN=OFF")
  endif()
  list(APPEND belfry_cuda_libraries cuDNN::cuDNN)
  list(APPEND belfry_cuda_definitions BELFRY_CUDNN)
endif()

# Kernels: the headers that list theirs, spread over a few files; and what *_cuda.cpp bring.
set(belfry_kernel_files 4)
set(belfry_kernel_lists "")
foreach(layer IN LISTS BELFRY_LAYERS)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${layer}/*_cuda.cpp)
  list(APPEND belfry_cuda_sources ${found})
endforeach()
file(GLOB found CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} device/cuda/*.cpp device/cuda/*.cu)
list(APPEND belfry_cuda_sources ${found})
if(NOT BELFRY_NCCL)
  list(FILTER belfry_cuda_sources EXCLUDE REGEX "transports/nccl/")
endif()
if(NOT BELFRY_CUDNN)
  list(FILTER belfry_cuda_sources EXCLUDE REGEX "conv2d|cudnn")
endif()

set(number 0)
belfry_kernel_lists(lists "")
foreach(entry IN LISTS lists)
  belfry_split_list(header list "${entry}")
  math(EXPR file "${number} % ${belfry_kernel_files}")
  math(EXPR number "${number} + 1")
  string(APPEND kernel_includes_${file} "#include \"belfry/${header}\"\n")
  string(APPEND kernel_calls_${file} "  ${list}(table);\n")
endforeach()
set(belfry_kernel_calls "")
set(belfry_kernel_declarations "")
math(EXPR last "${belfry_kernel_files} - 1")
foreach(file RANGE ${last})
  file(CONFIGURE OUTPUT ${belfry_generated}/kernels_${file}.cu @ONLY CONTENT
"#include \"belfry/device/cuda/launch.cuh\"
${kernel_includes_${file}}
namespace belfry {
void add_kernels_${file}(KernelTable& table) {
  static_cast<void>(table);
${kernel_calls_${file}}}
}  // namespace belfry
")
  list(APPEND belfry_kernel_sources ${belfry_generated}/kernels_${file}.cu)
  string(APPEND belfry_kernel_declarations "void add_kernels_${file}(KernelTable& table);\n")
  string(APPEND belfry_kernel_calls "  add_kernels_${file}(table);\n")
endforeach()
set(belfry_extension_declarations "")
set(belfry_extension_calls "")
foreach(source IN LISTS belfry_cuda_sources)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${source})
  file(STRINGS ${source} lists REGEX "^void library_kernels_of_[a-z0-9_]+\\(")
  foreach(line IN LISTS lists)
    string(REGEX MATCH "library_kernels_of_[a-z0-9_]+" line "${line}")
    string(APPEND belfry_kernel_declarations "void ${line}(KernelTable& table);\n")
    string(APPEND belfry_kernel_calls "  ${line}(table);\n")
  endforeach()
  file(STRINGS ${source} lists REGEX "^const void\\* extension_[a-z0-9_]+\\(")
  foreach(line IN LISTS lists)
    string(REGEX REPLACE ".*extension_([a-z0-9_]+).*" "\\1" line "${line}")
    string(APPEND belfry_extension_declarations "const void* extension_${line}();\n")
    string(APPEND belfry_extension_calls "  if (name == \"${line}\") return extension_${line}();\n")
  endforeach()
endforeach()
configure_file(cmake/cuda_parts.cpp.in ${belfry_generated}/cuda_parts.cpp @ONLY)

add_library(belfry_cuda_objects OBJECT ${belfry_cuda_sources} ${belfry_kernel_sources}
  ${belfry_generated}/cuda_parts.cpp)
set_target_properties(belfry_cuda_objects PROPERTIES POSITION_INDEPENDENT_CODE ON
  CXX_VISIBILITY_PRESET hidden CUDA_VISIBILITY_PRESET hidden)
target_compile_definitions(belfry_cuda_objects PRIVATE ${belfry_cuda_definitions})
target_include_directories(belfry_cuda_objects PRIVATE ${belfry_include})
target_include_directories(belfry_cuda_objects SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
  ${NCCL_INCLUDE_DIR} ${cuDNN_INCLUDE_DIR})
# No contraction: kernels add up as the CPU does.
target_compile_options(belfry_cuda_objects PRIVATE
  $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false --expt-relaxed-constexpr -Xcompiler=-Wall>
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off -Wall -Wextra -Wshadow -Werror
    -Wno-missing-field-initializers -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds>)
target_link_libraries(belfry_cuda_objects PRIVATE fmt::fmt)

add_library(belfry_cuda MODULE $<TARGET_OBJECTS:belfry_cuda_objects>)
set_target_properties(belfry_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static LINKER_LANGUAGE CXX)
target_link_options(belfry_cuda PRIVATE -Wl,--exclude-libs,ALL -Wl,--no-undefined)
target_link_libraries(belfry_cuda PRIVATE belfry CUDA::cudart_static ${belfry_cuda_libraries}
  Threads::Threads ${CMAKE_DL_LIBS})
install(TARGETS belfry_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(belfry_cuda ON)
