# SPDX-License-Identifier: MIT
# What needs a GPU: tests/gpu.sh runs it all, ctest test_gpu, which is skipped where there is none.
if(NOT belfry_cuda OR BELFRY_SANITIZE)
  return()
endif()
set(sources tests/gpu/main.cpp tests/gpu/gpus_real.cpp)
foreach(name capture engine ops rules)  # of simulated and real GPUs alike
  list(APPEND sources tests/cuda/${name}.cpp)
endforeach()
add_executable(test_gpu ${sources}
  $<FILTER:$<TARGET_OBJECTS:belfry_sim_core>,INCLUDE,engine_train>)
target_link_libraries(test_gpu PRIVATE belfry belfry_catch2 belfry_flags ${CMAKE_DL_LIBS})
target_precompile_headers(test_gpu REUSE_FROM belfry_test_pch)
set_source_files_properties(tests/gpu/main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
target_compile_definitions(test_gpu PRIVATE
  BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
add_dependencies(test_gpu belfry_cuda)
add_test(NAME test_gpu COMMAND test_gpu)
set_tests_properties(test_gpu PROPERTIES TIMEOUT 300 SKIP_RETURN_CODE 77 LABELS gpu
  RUN_SERIAL TRUE)

# Questions to the vendors' libraries themselves.
if(BELFRY_NCCL)
  add_executable(gpu_two_processes tests/gpu/two_processes.cpp)
  target_link_libraries(gpu_two_processes PRIVATE belfry_flags NCCL::NCCL CUDA::cudart_static)
endif()
if(BELFRY_CUDNN)
  add_executable(gpu_cudnn_properties tests/gpu/cudnn_properties.cpp)
  target_link_libraries(gpu_cudnn_properties PRIVATE belfry_flags cuDNN::cuDNN CUDA::cudart_static)
endif()
