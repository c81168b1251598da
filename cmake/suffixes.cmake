# Backends and instruction sets are chosen by file suffix, never by the preprocessor. This file is the
# one table of suffixes: which are switched off, and which flags the others add.

# ashlar_drop_suffixes(<list variable>) removes the sources whose backend is switched off.
function(ashlar_drop_suffixes variable)
  set(sources ${${variable}})
  if(NOT ASHLAR_CUDA)
    list(FILTER sources EXCLUDE REGEX "_cuda(_sm[0-9]+a?)?(_test)?\\.(cc|cu)$")
  endif()
  if(NOT ASHLAR_NCCL)
    list(FILTER sources EXCLUDE REGEX "_nccl(_test)?\\.cc$")
  endif()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

# g++ 12 warns of its own intrinsics, which pass values on purpose undefined (GCC bug 105593).
set(avx512 "-Wno-maybe-uninitialized;-mavx512f;-mavx512bw;-mavx512cd;-mavx512dq;-mavx512vl")
set(ashlar_suffix_vnni "${avx512};-mavx512vnni")
set(ashlar_suffix_bf16 "${avx512};-mavx512bf16")
set(ashlar_suffix_amx "${avx512};-mavx512vnni;-mavx512bf16;-mamx-tile;-mamx-int8;-mamx-bf16")

# Device code: the kernels are for Hopper, whatever the name says beyond that.
set(ashlar_arch_sm90a "-gencode;arch=compute_90a,code=sm_90a")

# ashlar_apply_suffix_flags(<sources...>) gives name_cpu_<suffix>.cc the flags of its instruction set,
# device code its architecture, and host code of the CUDA backend the toolkit's headers.
function(ashlar_apply_suffix_flags)
  foreach(source ${ARGN})
    if(source MATCHES "_cuda(_sm90a)?(_test)?\\.cu$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ashlar_arch_sm90a}")
    elseif(source MATCHES "_cuda(_test)?\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "${ashlar_cuda_includes}")
    endif()
  endforeach()
  foreach(suffix vnni bf16 amx)
    set(matching ${ARGN})
    list(FILTER matching INCLUDE REGEX "_cpu_${suffix}\\.cc$")
    if(matching)
      set_source_files_properties(${matching} PROPERTIES
        COMPILE_OPTIONS "${ashlar_suffix_${suffix}}")
    endif()
  endforeach()
endfunction()
