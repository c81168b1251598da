# The CUDA language, with ASHLAR_CUDA alone: which toolkit, and the flags of device code.
#
# A toolkit of the system is used when it is there (nvcc on PATH or in /usr/local/cuda), else the one
# that ./do put into build/cuda_toolkit from the packages of tools/cuda.txt. The runtime is linked
# statically and finds the driver by itself, so that the program starts where there is none; nothing
# links libcuda.
find_program(ASHLAR_NVCC nvcc
  HINTS /usr/local/cuda/bin ${CMAKE_SOURCE_DIR}/build/cuda_toolkit/nvidia/cu13/bin)
if(NOT ASHLAR_NVCC)
  message(FATAL_ERROR "nvcc is missing. `./do build cuda` installs it into build/cuda_toolkit.")
endif()
set(CMAKE_CUDA_COMPILER ${ASHLAR_NVCC})
set(CMAKE_CUDA_HOST_COMPILER ${CMAKE_CXX_COMPILER})
# Architectures are chosen by file suffix (suffixes.cmake).
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 13.0)
  message(FATAL_ERROR "${ASHLAR_NVCC} is of CUDA ${CMAKE_CUDA_COMPILER_VERSION}; 13.0 or newer is "
                      "needed. -DASHLAR_NVCC=PATH chooses another one.")
endif()

# CMake 3.25 does not know that nvcc has C++20.
set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
set(CMAKE_CUDA_FLAGS_RELEASE "-O3")
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-fmad=false;-lineinfo>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings;--expt-relaxed-constexpr>")
# 20208: headers of the standard library name long double in functions that no kernel calls.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-diag-suppress=20208>")
# fmt 9 switches constexpr off for every nvcc, for the sake of old ones, and then fails in C++20.
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-DFMT_USE_CONSTEXPR=1>")
string(CONCAT host_flags "-Wall,-Wextra,-Werror,-ffp-contract=off,-march=x86-64-v3,-maes,-mpclmul,"
                         "-ffunction-sections,-fdata-sections")
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${host_flags}>")
if(ASHLAR_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Host files with a CUDA suffix see the toolkit's headers; no other file does, and so all others are
# compiled exactly as in a CPU build and share its compiler cache.
set(ashlar_cuda_includes "")
foreach(folder ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  list(APPEND ashlar_cuda_includes -isystem${folder})
endforeach()
find_library(ASHLAR_CUDART cudart_static REQUIRED NO_DEFAULT_PATH
  PATHS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES})
target_link_libraries(ashlar_dependencies INTERFACE ${ASHLAR_CUDART} rt)
