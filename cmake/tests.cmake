# SPDX-License-Identifier: MIT
# One executable for each folder of tests/ that has sources, registered twice: without the tests
# tagged [slow], and with them under ctest's label "slow".
add_library(belfry_test_main OBJECT tests/main.cpp)
target_link_libraries(belfry_test_main PRIVATE belfry_catch2 belfry_flags)

# Catch2's header costs seconds a file, so it is compiled once.
add_library(belfry_test_pch OBJECT tests/pch.cpp)
target_compile_definitions(belfry_test_pch PRIVATE
  BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
target_link_libraries(belfry_test_pch PRIVATE belfry belfry_catch2 belfry_flags)
target_precompile_headers(belfry_test_pch PRIVATE tests/catch.h)

set(belfry_test_environment
  "TSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/tsan.supp"
  "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/lsan.supp")

# What the simulator's fronts share. As objects: they replace operator new and delete.
add_library(belfry_sim_core OBJECT tests/sim/scheduler.cpp tests/sim/shadow.cpp
  tests/sim/host_threads.cpp tests/sim/host.cpp tests/sim/heap.cpp tests/sim/engine_train.cpp
  tests/sim/engine_note.cpp)
target_link_libraries(belfry_sim_core PUBLIC belfry PRIVATE belfry_flags)

foreach(folder core device autodiff allreduce optim data towers apps contract scenarios bench sim)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS tests/${folder}/*.cpp)
  if(NOT sources)
    continue()
  endif()
  if(folder STREQUAL "sim")
    list(FILTER sources EXCLUDE REGEX "/(scheduler|shadow|host_threads|host|heap|engine_train|engine_note)\\.cpp$")
  endif()
  set(target test_${folder})
  add_executable(${target} ${sources} $<TARGET_OBJECTS:belfry_test_main>)
  target_compile_definitions(${target} PRIVATE
    BELFRY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" BELFRY_BINARY_DIR="${PROJECT_BINARY_DIR}")
  target_link_libraries(${target} PRIVATE belfry belfry_catch2 belfry_flags)
  target_precompile_headers(${target} REUSE_FROM belfry_test_pch)
  add_test(NAME ${target} COMMAND ${target} "~[slow]")
  add_test(NAME ${target}_slow COMMAND ${target} "[slow]")
  set_tests_properties(${target} ${target}_slow PROPERTIES TIMEOUT 1200
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR} ENVIRONMENT "${belfry_test_environment}")
  # Alone: they measure times, or use both cores.
  set_tests_properties(${target}_slow PROPERTIES LABELS slow RUN_SERIAL TRUE)
endforeach()

target_link_libraries(test_sim PRIVATE belfry_sim_core)
# Three minutes each on one core, in virtual time: beside each other, and begun first.
set_tests_properties(test_sim test_sim_slow PROPERTIES RUN_SERIAL FALSE COST 200)
target_sources(test_bench PRIVATE bench/common/network_model.cpp bench/common/net_plan.cpp
  bench/common/rates.cpp bench/common/timer.cpp)
include(simcuda)
include(gpu)

find_program(belfry_python3 python3)
if(belfry_python3)
  add_test(NAME test_plots COMMAND ${belfry_python3} ${PROJECT_SOURCE_DIR}/tests/bench/plots.py)
  add_test(NAME test_summary COMMAND ${belfry_python3} ${PROJECT_SOURCE_DIR}/tests/bench/summary.py)
endif()

# cuDNN's plans, which need its libraries and no GPU.
if(belfry_cuda AND BELFRY_CUDNN)
  file(GLOB sources CONFIGURE_DEPENDS tests/cudnn/*.cpp)
  add_executable(test_cudnn ${sources} device/cuda/conv_plan.cpp device/cuda/cudnn_graph.cpp
    device/cuda/cudnn_plan.cpp $<TARGET_OBJECTS:belfry_test_main>)
  target_include_directories(test_cudnn SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS}
    ${cuDNN_INCLUDE_DIR})
  target_link_libraries(test_cudnn PRIVATE belfry belfry_catch2 belfry_flags cuDNN::cuDNN)
  add_test(NAME test_cudnn COMMAND test_cudnn)
  set_tests_properties(test_cudnn PROPERTIES TIMEOUT 600)
else()
  message(STATUS "test_cudnn: skipped, the CUDA plug-in is built without cuDNN or not at all")
endif()

# The headers' lists of kernels as one, to be compared with what is launched.
if(TARGET test_contract)
  set(kernel_includes "")
  set(kernel_calls "")
  belfry_kernel_lists(lists "")
  foreach(entry IN LISTS lists)
    belfry_split_list(header list "${entry}")
    string(APPEND kernel_includes "#include \"belfry/${header}\"\n")
    string(APPEND kernel_calls "  belfry::${list}(table);\n")
  endforeach()
  file(CONFIGURE OUTPUT ${belfry_generated}/tests/kernel_lists.h @ONLY CONTENT
"${kernel_includes}
template <class Table>
void kernel_lists(Table& table) {
${kernel_calls}}
")
  target_include_directories(test_contract PRIVATE ${belfry_generated}/tests)
endif()

# Real processes: signals and kill -9.
if(TARGET test_apps AND TARGET belfry_command)
  add_dependencies(test_apps belfry_command)
  target_compile_definitions(test_apps PRIVATE BELFRY_COMMAND="$<TARGET_FILE:belfry_command>")
endif()

if(NOT BELFRY_SANITIZE AND TARGET belfry_command)
  add_test(NAME test_install COMMAND ${PROJECT_SOURCE_DIR}/tests/install/run.sh ${PROJECT_BINARY_DIR})
  set_tests_properties(test_install PROPERTIES TIMEOUT 600)
endif()
