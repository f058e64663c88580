# SPDX-License-Identifier: MIT
# The include tree build/include/belfry/<folder> (links to the source folders) and the generated
# files: register_all.cpp calls register_<kind>_<name> of every plug-in, ops.h includes every op.
# A plug-in is a file; its folder gives the kind. Helpers beside plug-ins end in _internal.cpp.
set(belfry_include ${PROJECT_BINARY_DIR}/include)
set(belfry_generated ${PROJECT_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${belfry_include}/belfry ${belfry_generated})

foreach(folder IN LISTS belfry_all_layers ITEMS tests bench)
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${belfry_include}/belfry/${folder} SYMBOLIC)
  endif()
endforeach()
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/apps/belfry.h ${belfry_include}/belfry/belfry.h SYMBOLIC)
configure_file(cmake/version.h.in ${belfry_include}/belfry/version.h @ONLY)

set(belfry_declarations "")
set(belfry_calls "")
set(belfry_op_includes "")

# Adds the plug-ins of one kind: the files that match `pattern`, and with OWN_FOLDER only those
# named like their folder.
function(belfry_plugins kind layer pattern)
  if(NOT layer IN_LIST BELFRY_LAYERS)
    return()
  endif()
  file(GLOB files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${layer}/${pattern})
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    get_filename_component(folder ${file} DIRECTORY)
    get_filename_component(folder_name ${folder} NAME)
    if(name MATCHES "_(internal|cuda)$" OR ("OWN_FOLDER" IN_LIST ARGN AND NOT name STREQUAL folder_name))
      continue()
    endif()
    string(APPEND belfry_declarations "void register_${kind}_${name}(Registry& registry);\n")
    string(APPEND belfry_calls "  register_${kind}_${name}(registry);\n")
    if(kind STREQUAL "op" AND EXISTS ${PROJECT_SOURCE_DIR}/${folder}/${name}.h)
      string(APPEND belfry_op_includes "#include \"belfry/${folder}/${name}.h\"\n")
    endif()
  endforeach()
  foreach(variable belfry_declarations belfry_calls belfry_op_includes)
    set(${variable} "${${variable}}" PARENT_SCOPE)
  endforeach()
endfunction()

belfry_plugins(op autodiff "ops/*/*.cpp")
belfry_plugins(layer autodiff "layers/*.cpp")
belfry_plugins(transport allreduce "transports/*/*.cpp" OWN_FOLDER)
belfry_plugins(dataset data "datasets/*/*.cpp" OWN_FOLDER)
belfry_plugins(rule optim "rules/*.cpp")
belfry_plugins(schedule optim "schedules/*.cpp")
belfry_plugins(model towers "models/*.cpp")
belfry_plugins(hook towers "hooks/*.cpp")

configure_file(cmake/register_all.cpp.in ${belfry_generated}/register_all.cpp @ONLY)
configure_file(cmake/ops.h.in ${belfry_include}/belfry/ops.h @ONLY)
