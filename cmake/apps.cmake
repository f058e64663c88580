# SPDX-License-Identifier: MIT
# The belfry command, and the examples: projects of their own that call find_package(Belfry), which
# inside this build answers with the target that is already here.
if(EXISTS ${PROJECT_SOURCE_DIR}/apps/belfry/main.cpp AND "apps" IN_LIST BELFRY_LAYERS)
  add_executable(belfry_command apps/belfry/main.cpp)
  set_target_properties(belfry_command PROPERTIES OUTPUT_NAME belfry)
  target_link_libraries(belfry_command PRIVATE belfry belfry_strict_flags)
  file(RELATIVE_PATH belfry_lib_from_bin
    ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
  set_target_properties(belfry_command PROPERTIES INSTALL_RPATH "$ORIGIN/${belfry_lib_from_bin}")
  install(TARGETS belfry_command)
endif()

if("apps" IN_LIST BELFRY_LAYERS)
  set(Belfry_DIR ${belfry_generated}/package)
  file(WRITE ${Belfry_DIR}/BelfryConfig.cmake "# The target Belfry::belfry is part of this build.
include(${PROJECT_SOURCE_DIR}/cmake/BelfryKernels.cmake)\n")
  file(WRITE ${Belfry_DIR}/BelfryConfigVersion.cmake
    "set(PACKAGE_VERSION ${PROJECT_VERSION})\nset(PACKAGE_VERSION_COMPATIBLE TRUE)\n")
  file(GLOB belfry_examples CONFIGURE_DEPENDS apps/examples/*/CMakeLists.txt)
  foreach(example IN LISTS belfry_examples)
    get_filename_component(folder ${example} DIRECTORY)
    add_subdirectory(${folder})
  endforeach()
endif()
