# Fuzz targets (fuzz/). Two uses of the same functions:
# * in every build, fuzz_test replays the stored inputs;
# * with -DASHLAR_FUZZ=ON, which needs clang, each target becomes fuzz/fuzz_NAME, linked with libFuzzer.
#   Nothing else is built then, and only what the targets reach is compiled.
set(ashlar_fuzz_targets gguf safetensors config tokenizer_json chat_template http_body)
set(ashlar_fuzz_layers base tensor checkpoint text)

# Sources above those layers that targets need; the server's network side is not among them.
set(ashlar_fuzz_sources
  models/decoder_config nn/rope sampling/params serve/api_error serve/chat_messages serve/json_append
  serve/openai_request serve/prompt serve/request_fields)

function(ashlar_fuzz_target_sources variable)
  set(sources ${CMAKE_SOURCE_DIR}/fuzz/targets.cc)
  foreach(target ${ashlar_fuzz_targets})
    list(APPEND sources ${CMAKE_SOURCE_DIR}/fuzz/${target}.cc)
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

function(ashlar_add_fuzz_replay)
  ashlar_fuzz_target_sources(sources)
  add_library(ashlar_fuzz OBJECT ${sources})
  target_include_directories(ashlar_fuzz PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(ashlar_fuzz PRIVATE ashlar_dependencies)
  ashlar_add_test_program(fuzz ${CMAKE_SOURCE_DIR}/fuzz fuzz ${ashlar_layers})
endfunction()

if(ASHLAR_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "ASHLAR_FUZZ needs clang; `./do check fuzz` installs and uses it.")
  endif()
  # clang warns about other things than g++, which is the compiler that must be silent.
  add_compile_options(-Wno-error -Wno-unused-command-line-argument
                      -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=fuzzer,address,undefined)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1")

  # The Rust part tells libFuzzer which of its branches were taken, and checks for overflow; its C part
  # (regular expressions) is checked like ours. A triple keeps these flags away from build scripts.
  set(ASHLAR_RUST_TARGET_DIR ${CMAKE_BINARY_DIR}/rust)
  set(ASHLAR_RUST_TRIPLE ${CMAKE_SYSTEM_PROCESSOR}-unknown-linux-gnu)
  string(REPLACE - _ underscored ${ASHLAR_RUST_TRIPLE})
  set(coverage -sanitizer-coverage-level=3 -sanitizer-coverage-inline-8bit-counters
               -sanitizer-coverage-pc-table -sanitizer-coverage-trace-compares)
  list(TRANSFORM coverage PREPEND -Cllvm-args=)
  list(JOIN coverage " " coverage)
  set(ASHLAR_RUST_ENVIRONMENT
    "RUSTFLAGS=-Cpasses=sancov-module ${coverage}"
    CARGO_PROFILE_RELEASE_LTO=off
    CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS=true
    CC_${underscored}=${CMAKE_CXX_COMPILER}
    "CFLAGS_${underscored}=-x c -fsanitize=fuzzer-no-link,address")
endif()

function(ashlar_add_fuzzers)
  ashlar_fuzz_target_sources(sources)
  foreach(source ${ashlar_fuzz_sources})
    list(APPEND sources ${CMAKE_SOURCE_DIR}/src/${source}.cc)
  endforeach()
  add_library(ashlar_fuzz STATIC ${sources})
  target_include_directories(ashlar_fuzz PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(ashlar_fuzz PRIVATE ashlar_dependencies)
  foreach(target ${ashlar_fuzz_targets})
    add_executable(fuzz_${target} ${CMAKE_SOURCE_DIR}/fuzz/libfuzzer.cc)
    set_target_properties(fuzz_${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
    target_include_directories(fuzz_${target} PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_definitions(fuzz_${target} PRIVATE ASHLAR_FUZZ_FUNCTION=fuzz_${target})
    target_link_libraries(fuzz_${target} PRIVATE ashlar_fuzz)
    ashlar_link_layers(fuzz_${target} ${ashlar_fuzz_layers})
    list(APPEND programs fuzz_${target})
  endforeach()
  add_custom_target(fuzzers DEPENDS ${programs})
endfunction()
