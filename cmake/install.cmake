# SPDX-License-Identifier: MIT
# Headers keep their folders under include/belfry; those that show Eigen, oneDNN or the like are
# named *_internal.h and stay out.
include(CMakePackageConfigHelpers)

foreach(layer IN LISTS BELFRY_LAYERS)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${layer}/*.h ${layer}/*.cuh)
  list(FILTER headers EXCLUDE REGEX "_internal\\.h$|^apps/examples/|^apps/belfry\\.h$")
  foreach(header IN LISTS headers)
    get_filename_component(folder ${header} DIRECTORY)
    install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry/${folder})
  endforeach()
endforeach()
if(EXISTS ${PROJECT_SOURCE_DIR}/apps/belfry.h)
  install(FILES apps/belfry.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry)
endif()
install(FILES ${belfry_include}/belfry/ops.h ${belfry_include}/belfry/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/belfry)

set(belfry_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Belfry)
install(TARGETS belfry EXPORT BelfryTargets)
install(EXPORT BelfryTargets NAMESPACE Belfry:: DESTINATION ${belfry_config_dir})
configure_package_config_file(cmake/BelfryConfig.cmake.in
  ${belfry_generated}/BelfryConfig.cmake INSTALL_DESTINATION ${belfry_config_dir})
write_basic_package_version_file(${belfry_generated}/BelfryConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES cmake/BelfryKernels.cmake ${belfry_generated}/BelfryConfig.cmake ${belfry_generated}/BelfryConfigVersion.cmake
  DESTINATION ${belfry_config_dir})
