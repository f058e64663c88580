# SPDX-License-Identifier: MIT
# belfry_simcuda: the CUDA runtime, NCCL and cuBLASLt, simulated for tests on the scheduler of
# tests/sim. It needs the vendors' headers, and no library of theirs.
find_path(BELFRY_CUDA_HEADERS cuda_runtime_api.h
  HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
find_path(BELFRY_NCCL_HEADERS nccl.h HINTS ${BELFRY_CUDA_HEADERS})
if(NOT BELFRY_CUDA_HEADERS OR NOT BELFRY_NCCL_HEADERS
   OR NOT EXISTS ${BELFRY_CUDA_HEADERS}/cublasLt.h)
  message(STATUS "Simulated CUDA: not built, the headers of CUDA, cuBLASLt or NCCL are not there")
  return()
endif()

file(GLOB sources CONFIGURE_DEPENDS tests/simcuda/*.cpp)
file(GLOB rules CONFIGURE_DEPENDS tests/simcuda/rules*.cpp)
list(REMOVE_ITEM sources ${rules})
add_library(belfry_simcuda OBJECT ${sources})
target_include_directories(belfry_simcuda SYSTEM PUBLIC
  ${BELFRY_CUDA_HEADERS} ${BELFRY_NCCL_HEADERS})
target_link_libraries(belfry_simcuda PUBLIC belfry_sim_core PRIVATE belfry_flags)

# A kernel that nvcc compiles, where there is one: its objects link and run too.
find_program(BELFRY_SIM_NVCC nvcc HINTS ${CUDAToolkit_BIN_DIR} ENV CUDA_HOME
  PATHS /usr/local/cuda PATH_SUFFIXES bin)
set(kernel_object)
if(BELFRY_SIM_NVCC AND NOT BELFRY_SANITIZE)
  set(kernel_object ${CMAKE_CURRENT_BINARY_DIR}/simcuda_rules_kernel.o)
  add_custom_command(OUTPUT ${kernel_object}
    COMMAND ${BELFRY_SIM_NVCC} -std=c++20 -arch=sm_90 -O1 -I${belfry_include}
      -c ${PROJECT_SOURCE_DIR}/tests/simcuda/rules_kernel.cu -o ${kernel_object}
    DEPENDS tests/simcuda/rules_kernel.cu tests/simcuda/rules_kernel.h VERBATIM)
endif()

# An executable on the simulated machine, and one of ctest's entries for it.
function(belfry_simcuda_test target)
  add_executable(${target} ${ARGN} $<TARGET_OBJECTS:belfry_test_main>)
  target_compile_definitions(${target} PRIVATE
    BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${target} PRIVATE belfry_simcuda belfry_sim_core belfry belfry_catch2
    belfry_flags)
endfunction()
function(belfry_simcuda_run name)
  cmake_parse_arguments(PARSE_ARGV 1 run "" "" "COMMAND;ENVIRONMENT")
  add_test(NAME ${name} COMMAND ${run_COMMAND})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    ENVIRONMENT "${belfry_test_environment};${run_ENVIRONMENT}")
endfunction()

belfry_simcuda_test(test_simcuda ${rules} ${kernel_object})
target_precompile_headers(test_simcuda REUSE_FROM belfry_test_pch)
belfry_simcuda_run(test_simcuda COMMAND test_simcuda)

# The plug-in's own objects on the simulated machine: no library of the vendors' but what plans
# convolutions, which needs no GPU.
if(NOT belfry_cuda)
  return()
endif()
function(belfry_plugin_test target)
  belfry_simcuda_test(${target} ${ARGN}
    $<FILTER:$<TARGET_OBJECTS:belfry_cuda_objects>,EXCLUDE,cudnn_execute>)
  if(BELFRY_CUDNN)
    target_link_libraries(${target} PRIVATE cuDNN::cuDNN)
  endif()
endfunction()

file(GLOB sources CONFIGURE_DEPENDS tests/cuda/*.cpp)
belfry_plugin_test(test_cuda ${sources})
target_precompile_headers(test_cuda REUSE_FROM belfry_test_pch)
belfry_simcuda_run(test_cuda COMMAND test_cuda "~[slow]")
belfry_simcuda_run(test_cuda_slow COMMAND test_cuda "[slow]")
set_tests_properties(test_cuda_slow PROPERTIES LABELS slow COST 80)  # virtual time

# Tests of the engine, unchanged, with simulated GPUs in place of CPU devices.
add_library(belfry_engine_tests OBJECT tests/towers/engine.cpp tests/towers/engine_edges.cpp
  tests/towers/capture.cpp tests/towers/promise.cpp tests/towers/resume.cpp tests/towers/strict.cpp
  tests/towers/checkpoint.cpp tests/scenarios/engine.cpp tests/allreduce/average_gradients.cpp)
target_compile_definitions(belfry_engine_tests PRIVATE
  BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_link_libraries(belfry_engine_tests PRIVATE belfry_simcuda belfry belfry_catch2 belfry_flags)
target_precompile_headers(belfry_engine_tests PRIVATE tests/cuda/redirect.h)
belfry_plugin_test(test_engine_on_gpus tests/cuda/gpus.cpp tests/cuda/convolutions.cpp)
target_link_libraries(test_engine_on_gpus PRIVATE belfry_engine_tests)
# Left out: a case about the executor `lazy`; in the second, cases that need their step function to
# be called in every update.
belfry_simcuda_run(test_engine_on_gpus
  COMMAND test_engine_on_gpus "~[slow]~replicated and lazy*")
belfry_simcuda_run(test_engine_on_gpus_recorded
  COMMAND test_engine_on_gpus "~[slow]~[given]~replicated and lazy*"
  ENVIRONMENT "BELFRY_TEST_CAPTURE=1")
