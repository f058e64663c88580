# SPDX-License-Identifier: MIT
# cuDNN::cuDNN, version 9 or later (the graph API); cuDNN_VERSION is the header's.
find_path(cuDNN_INCLUDE_DIR cudnn_version.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(cuDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ${cuDNN_INCLUDE_DIR}/../lib)
mark_as_advanced(cuDNN_INCLUDE_DIR cuDNN_LIBRARY)
if(cuDNN_INCLUDE_DIR)
  file(STRINGS ${cuDNN_INCLUDE_DIR}/cudnn_version.h lines
    REGEX "#define CUDNN_(MAJOR|MINOR|PATCHLEVEL) ")
  string(REGEX REPLACE "[^0-9;]" "" lines "${lines}")
  string(REPLACE ";" "." cuDNN_VERSION "${lines}")
endif()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(cuDNN REQUIRED_VARS cuDNN_LIBRARY cuDNN_INCLUDE_DIR
  VERSION_VAR cuDNN_VERSION)
if(cuDNN_FOUND AND NOT TARGET cuDNN::cuDNN)
  add_library(cuDNN::cuDNN INTERFACE IMPORTED)
  target_include_directories(cuDNN::cuDNN SYSTEM INTERFACE ${cuDNN_INCLUDE_DIR})
  target_link_libraries(cuDNN::cuDNN INTERFACE ${cuDNN_LIBRARY})
endif()
