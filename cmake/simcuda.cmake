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

add_executable(test_simcuda ${rules} ${kernel_object} $<TARGET_OBJECTS:belfry_test_main>)
target_compile_definitions(test_simcuda PRIVATE
  BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_link_libraries(test_simcuda PRIVATE belfry_simcuda belfry_sim_core belfry belfry_catch2
  belfry_flags)
target_precompile_headers(test_simcuda REUSE_FROM belfry_test_pch)
add_test(NAME test_simcuda COMMAND test_simcuda)
set_tests_properties(test_simcuda PROPERTIES TIMEOUT 600
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} ENVIRONMENT "${belfry_test_environment}")

# The plug-in's own objects on the simulated machine: no library of the vendors' but what plans
# convolutions, which needs no GPU.
if(NOT belfry_cuda)
  return()
endif()
file(GLOB sources CONFIGURE_DEPENDS tests/cuda/*.cpp)
add_executable(test_cuda ${sources} $<TARGET_OBJECTS:belfry_test_main>
  $<FILTER:$<TARGET_OBJECTS:belfry_cuda_objects>,EXCLUDE,cudnn_execute>)
target_compile_definitions(test_cuda PRIVATE
  BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_link_libraries(test_cuda PRIVATE belfry_simcuda belfry_sim_core belfry belfry_catch2
  belfry_flags)
if(BELFRY_CUDNN)
  target_link_libraries(test_cuda PRIVATE cuDNN::cuDNN)
endif()
target_precompile_headers(test_cuda REUSE_FROM belfry_test_pch)
add_test(NAME test_cuda COMMAND test_cuda "~[slow]")
add_test(NAME test_cuda_slow COMMAND test_cuda "[slow]")
set_tests_properties(test_cuda test_cuda_slow PROPERTIES TIMEOUT 600
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} ENVIRONMENT "${belfry_test_environment}")
set_tests_properties(test_cuda_slow PROPERTIES LABELS slow COST 80)  # virtual time

# Tests of the engine, unchanged, with simulated GPUs in place of CPU devices.
add_library(belfry_engine_tests OBJECT tests/towers/engine.cpp tests/towers/engine_edges.cpp
  tests/towers/capture.cpp tests/towers/promise.cpp tests/towers/resume.cpp tests/towers/strict.cpp
  tests/towers/checkpoint.cpp tests/scenarios/engine.cpp tests/allreduce/average_gradients.cpp)
add_executable(test_engine_on_gpus tests/cuda/gpus.cpp tests/cuda/convolutions.cpp
  $<TARGET_OBJECTS:belfry_test_main>
  $<FILTER:$<TARGET_OBJECTS:belfry_cuda_objects>,EXCLUDE,cudnn_execute>)
foreach(target belfry_engine_tests test_engine_on_gpus)
  target_compile_definitions(${target} PRIVATE
    BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${target} PRIVATE belfry_simcuda belfry belfry_catch2 belfry_flags)
endforeach()
target_precompile_headers(belfry_engine_tests PRIVATE tests/cuda/redirect.h)
target_link_libraries(test_engine_on_gpus PRIVATE belfry_engine_tests belfry_sim_core)
if(BELFRY_CUDNN)
  target_link_libraries(test_engine_on_gpus PRIVATE cuDNN::cuDNN)
endif()
# Left out: a case about the executor `lazy`.
add_test(NAME test_engine_on_gpus COMMAND test_engine_on_gpus "~[slow]~replicated and lazy*")
set_tests_properties(test_engine_on_gpus PROPERTIES TIMEOUT 600
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} ENVIRONMENT "${belfry_test_environment}")
# Left out: cases that need their step function to be called in every update.
add_test(NAME test_engine_on_gpus_recorded
  COMMAND test_engine_on_gpus "~[slow]~[given]~replicated and lazy*")
set_tests_properties(test_engine_on_gpus_recorded PROPERTIES TIMEOUT 600
  WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  ENVIRONMENT "${belfry_test_environment};BELFRY_TEST_CAPTURE=1")
