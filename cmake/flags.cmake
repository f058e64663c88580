# SPDX-License-Identifier: MIT
# belfry_flags: how all our code is compiled. No -ffast-math: NaN and infinity keep their meaning.
# -ffp-contract=off keeps the bits of folds and statistics independent of vector width; errno and
# trapping are off because they stop plain loops from becoming vector code. Designated initialisers
# leave members out on purpose; the last three warnings are false in GCC 12's std::string and
# std::vector at -O3 (GCC PR 105329, 105651, 107852).
add_library(belfry_flags INTERFACE)
target_compile_options(belfry_flags INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math
  -Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers
  -Wno-restrict -Wno-stringop-overflow -Wno-array-bounds)

# The library and the command also refuse silent narrowing; tests may narrow.
add_library(belfry_strict_flags INTERFACE)
target_link_libraries(belfry_strict_flags INTERFACE belfry_flags)
target_compile_options(belfry_strict_flags INTERFACE -Wconversion -Wsign-conversion)

if(BELFRY_FUZZ)
  # Warnings are GCC's business; clang knows others.
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
    -fno-omit-frame-pointer -g1 -w)
  add_link_options(-fsanitize=address,undefined)
endif()
if(BELFRY_SANITIZE)
  # Sanitizer instrumentation makes GCC 12 see uninitialised values that are not there.
  add_compile_options(-fsanitize=${BELFRY_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all -g1 -Wno-maybe-uninitialized)
  add_link_options(-fsanitize=${BELFRY_SANITIZE})
endif()
