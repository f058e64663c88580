# SPDX-License-Identifier: MIT
# libbelfry.so: every .cpp of the layers, and of apps only the command line, which is public.
set(belfry_sources ${belfry_generated}/register_all.cpp)
foreach(layer IN LISTS BELFRY_LAYERS)
  if(layer STREQUAL "apps")
    set(layer apps/cli)
  endif()
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${layer}/*.cpp)
  list(FILTER files EXCLUDE REGEX "/device/cuda/|_cuda\\.cpp$")
  list(APPEND belfry_sources ${files})
endforeach()
list(APPEND belfry_sources ${belfry_generated}/host_kernel_sets.cpp ${belfry_host_objects})

# Fuzzers link it statically: a shared library of clang's leaves the sanitizers' symbols open.
if(BELFRY_FUZZ)
  add_library(belfry STATIC ${belfry_sources})
else()
  add_library(belfry SHARED ${belfry_sources})
endif()
add_library(Belfry::belfry ALIAS belfry)
set_target_properties(belfry PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION 0)
target_compile_features(belfry PUBLIC cxx_std_20)
target_include_directories(belfry PUBLIC
  $<BUILD_INTERFACE:${belfry_include}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
# fmt is public because of core/log.h; the rest stays behind .cpp files and *_internal.h.
target_link_libraries(belfry PUBLIC fmt::fmt PRIVATE belfry_strict_flags belfry_dnnl belfry_xxhash
  belfry_deflate Eigen3::Eigen tomlplusplus::tomlplusplus CLI11::CLI11 nlohmann_json::nlohmann_json spdlog::spdlog
  ZLIB::ZLIB JPEG::JPEG PNG::PNG OpenMP::OpenMP_CXX Threads::Threads ${CMAKE_DL_LIBS})
target_link_options(belfry PRIVATE -Wl,--no-undefined)
target_precompile_headers(belfry PRIVATE <algorithm> <array> <atomic> <cmath> <cstddef> <cstdint>
  <cstring> <exception> <functional> <limits> <map> <memory> <optional> <set> <span> <sstream>
  <string> <string_view> <tuple> <utility> <variant> <vector>)
