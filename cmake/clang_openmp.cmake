# SPDX-License-Identifier: MIT
# OpenMP for clang from GCC's runtime, which oneDNN uses as well: one runtime in a process, and no
# package beside g++. clang refuses malloc attributes with arguments in GCC's omp.h, so it gets a
# copy without. Its own pragmas are ignored: what is built this way runs on one thread.
function(belfry_of_gcc variable file)
  execute_process(COMMAND g++ -print-file-name=${file} OUTPUT_VARIABLE path
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${variable} ${path} PARENT_SCOPE)
endfunction()

belfry_of_gcc(belfry_omp_header include/omp.h)
belfry_of_gcc(belfry_omp_library libgomp.so)
file(READ ${belfry_omp_header} belfry_omp_text)
string(REGEX REPLACE "__malloc__ *\\([^)]*\\)" "__malloc__" belfry_omp_text "${belfry_omp_text}")
file(WRITE ${PROJECT_BINARY_DIR}/openmp/omp.h "${belfry_omp_text}")

add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED GLOBAL)
target_include_directories(OpenMP::OpenMP_CXX SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/openmp)
target_link_libraries(OpenMP::OpenMP_CXX INTERFACE ${belfry_omp_library})
