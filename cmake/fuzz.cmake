# SPDX-License-Identifier: MIT
# tests/fuzz/<name>.cpp is the fuzzer fuzz_<name>; tests/fuzz/corpus/<name>/ holds its seeds.
file(GLOB belfry_fuzzers CONFIGURE_DEPENDS tests/fuzz/*.cpp)
foreach(source IN LISTS belfry_fuzzers)
  get_filename_component(name ${source} NAME_WE)
  add_executable(fuzz_${name} ${source})
  target_link_libraries(fuzz_${name} PRIVATE belfry belfry_flags ZLIB::ZLIB)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endforeach()
