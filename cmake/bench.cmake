# SPDX-License-Identifier: MIT
# bench/<name>/*.cpp is the executable bench_<name>; bench/common is linked into all of them.
file(GLOB belfry_bench_common CONFIGURE_DEPENDS bench/common/*.cpp)
if(belfry_bench_common)
  add_library(belfry_bench_common OBJECT ${belfry_bench_common})
  target_link_libraries(belfry_bench_common PRIVATE belfry belfry_strict_flags belfry_dnnl
    nlohmann_json::nlohmann_json CLI11::CLI11)
endif()
file(GLOB belfry_benches CONFIGURE_DEPENDS LIST_DIRECTORIES true bench/*)
foreach(folder IN LISTS belfry_benches)
  get_filename_component(name ${folder} NAME)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cpp)
  if(NOT sources OR name STREQUAL "common")
    continue()
  endif()
  add_executable(bench_${name} ${sources})
  target_link_libraries(bench_${name} PRIVATE belfry belfry_strict_flags belfry_dnnl Eigen3::Eigen
    nlohmann_json::nlohmann_json OpenMP::OpenMP_CXX)
  if(name STREQUAL "loader")
    target_link_libraries(bench_${name} PRIVATE JPEG::JPEG)
  endif()
  if(belfry_bench_common)
    target_sources(bench_${name} PRIVATE $<TARGET_OBJECTS:belfry_bench_common>)
  endif()
endforeach()

# Alone, as all that measures: kernels that a compiler left scalar are several times over their bound.
if(TARGET bench_ops AND BELFRY_TESTS AND NOT BELFRY_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL Release)
  add_test(NAME bench_ops COMMAND bench_ops --check --rounds 3)
  set_tests_properties(bench_ops PROPERTIES TIMEOUT 300 LABELS slow RUN_SERIAL TRUE)
endif()

# Figures to stdout are JSON and nothing else.
find_program(belfry_python3 python3)
if(TARGET bench_model AND BELFRY_TESTS AND belfry_python3)
  add_test(NAME bench_model_json COMMAND sh -c
    "$<TARGET_FILE:bench_model> --json - | '${belfry_python3}' -c 'import json, sys; assert json.load(sys.stdin)[\"bench\"] == \"model\"'")
endif()
