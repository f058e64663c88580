# SPDX-License-Identifier: MIT
# belfry_kernel_lists(OUT PREFIX): the functions PREFIXkernels_of_<stem> of the layers' *.kernel.h, as
# "header:function" in the order of the headers. PREFIX is a regular expression.
function(belfry_kernel_lists out prefix)
  set(lists "")
  foreach(layer IN LISTS BELFRY_LAYERS)
    file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${layer}/*.kernel.h)
    list(FILTER headers EXCLUDE REGEX "^apps/examples/")
    foreach(header IN LISTS headers)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
      file(STRINGS ${header} lines REGEX "^void ${prefix}kernels_of_[a-z0-9_]+\\(")
      foreach(line IN LISTS lines)
        string(REGEX MATCH "${prefix}kernels_of_[a-z0-9_]+" line "${line}")
        list(APPEND lists "${header}:${line}")
      endforeach()
    endforeach()
  endforeach()
  set(${out} "${lists}" PARENT_SCOPE)
endfunction()

# belfry_split_list(HEADER FUNCTION ENTRY): the two parts of an entry.
macro(belfry_split_list header function entry)
  string(REGEX REPLACE ":.*" "" ${header} "${entry}")
  string(REGEX REPLACE ".*:" "" ${function} "${entry}")
endmacro()
