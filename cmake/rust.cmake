# The Rust part of src/text: one static library with a C ABI, built by cargo from its lock file.
# Its target folder is build/rust, shared by all presets: sanitizer builds reuse the same archive.
set(ASHLAR_RUST_DIR ${CMAKE_SOURCE_DIR}/src/text/rust)
# A fuzz build (fuzz.cmake) instruments the archive, and so has a folder and a cargo environment of its own.
set(ASHLAR_RUST_TARGET_DIR ${CMAKE_SOURCE_DIR}/build/rust CACHE PATH "Folder that cargo builds into")
set(ASHLAR_RUST_ENVIRONMENT "" CACHE STRING "NAME=VALUE list that cargo is run with")
set(ASHLAR_RUST_TRIPLE "" CACHE STRING "Target that cargo builds for; empty: the host, as it is")
add_library(ashlar_rust INTERFACE)

if(EXISTS ${ASHLAR_RUST_DIR}/Cargo.lock)
  find_program(ASHLAR_CARGO cargo HINTS $ENV{HOME}/.cargo/bin)
  if(NOT ASHLAR_CARGO)
    message(FATAL_ERROR "cargo is missing. `./do setup` installs it or says how to get it.")
  endif()
  # cargo would take the first rustc of PATH, which may be an older one than its own.
  string(REGEX REPLACE "cargo([^/]*)$" "rustc\\1" rustc ${ASHLAR_CARGO})
  set(rustc_setting "")
  if(EXISTS ${rustc})
    set(rustc_setting RUSTC=${rustc})
  endif()
  set(archive ${ASHLAR_RUST_TARGET_DIR}/${ASHLAR_RUST_TRIPLE}/release/libashlar_text.a)
  set(triple "")
  if(ASHLAR_RUST_TRIPLE)
    set(triple --target ${ASHLAR_RUST_TRIPLE})
  endif()
  set(stamp ${CMAKE_BINARY_DIR}/rust.stamp)
  file(GLOB_RECURSE rust_sources CONFIGURE_DEPENDS ${ASHLAR_RUST_DIR}/src/*.rs)
  # The stamp is the output that ninja compares: cargo leaves the archive's time alone when nothing
  # changed, and ninja would otherwise call it again each time.
  add_custom_command(
    OUTPUT ${stamp}
    BYPRODUCTS ${archive}
    COMMAND ${CMAKE_COMMAND} -E env CARGO_TARGET_DIR=${ASHLAR_RUST_TARGET_DIR} ${rustc_setting}
            ${ASHLAR_RUST_ENVIRONMENT} ${ASHLAR_CARGO} build --release --locked ${triple}
            --manifest-path ${ASHLAR_RUST_DIR}/Cargo.toml
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${rust_sources} ${ASHLAR_RUST_DIR}/Cargo.toml ${ASHLAR_RUST_DIR}/Cargo.lock
    COMMENT "Building the Rust part (tokenizers, chat templates, grammars)"
    USES_TERMINAL VERBATIM)
  add_custom_target(ashlar_rust_archive DEPENDS ${stamp})
  add_dependencies(ashlar_rust ashlar_rust_archive)
  target_link_libraries(ashlar_rust INTERFACE ${archive} ${CMAKE_DL_LIBS} m)
endif()
