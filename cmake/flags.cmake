# Compiler flags that hold for every file. Floating point is strict on purpose: the same expression
# must give the same bits in every kernel (docs/numerics.md), so no contraction and no fast-math.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# One optimised configuration; -g1 keeps names and lines in back traces at a small cost in size.
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")

# C++ alone: what nvcc gets is in cuda.cmake.
function(ashlar_compile_options)
  foreach(option ${ARGN})
    add_compile_options($<$<COMPILE_LANGUAGE:CXX>:${option}>)
  endforeach()
endfunction()

ashlar_compile_options(-Wall -Wextra -Werror -ffp-contract=off -ffunction-sections -fdata-sections)
# The baseline is AVX2 (with the sets that Highway expects beside it); more is chosen at run time, by
# Highway inside a file or by a file suffix (suffixes.cmake).
ashlar_compile_options(-march=x86-64-v3 -maes -mpclmul)
# Paths in messages and debug information start at the source folder. The last map that fits wins;
# the relative one is what the compiler cache below turns source paths into, so that builds in
# different folders of a tree share its entries.
ashlar_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}=.
                       -ffile-prefix-map=../../=)
add_link_options(-Wl,--gc-sections -Wl,-z,now)

if(ASHLAR_SANITIZE)
  add_compile_options(-fsanitize=${ASHLAR_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ASHLAR_SANITIZE})
  if(ASHLAR_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  # -O1 halves the compile time of -O2 here and still runs the suite in minutes.
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")
endif()

find_program(ASHLAR_CCACHE ccache)
if(ASHLAR_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}
                                  CCACHE_NOHASHDIR=1 ${ASHLAR_CCACHE})
endif()
