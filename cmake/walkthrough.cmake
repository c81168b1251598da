# The walkthrough test: tests/walkthrough/src adds an operation, a format and a model; this file puts their
# lines into copies of the real tables, and links a test program with the copies in place of the tables.
# Each line goes where a reader would put it; a table that no longer takes one line stops the build.

# Copies <file> of src/ into the overlay with <line> put before the first match of <anchor>.
function(ashlar_overlay file anchor line)
  set(overlay ${CMAKE_BINARY_DIR}/walkthrough/${file})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${file})
  set(source ${CMAKE_SOURCE_DIR}/src/${file})
  if(ARGN)
    set(source ${overlay})
  endif()
  file(READ ${source} text)
  string(FIND "${text}" "${anchor}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "cmake/walkthrough.cmake: src/${file} has no '${anchor}' to put '${line}' before")
  endif()
  string(SUBSTRING "${text}" 0 ${at} head)
  string(SUBSTRING "${text}" ${at} -1 tail)
  file(CONFIGURE OUTPUT ${overlay} CONTENT "${head}${line}\n${tail}" @ONLY)
endfunction()

function(ashlar_add_walkthrough)
  ashlar_overlay(models/families.h "extern const ModelFamily llama_family" "extern const ModelFamily toy_family;")
  ashlar_overlay(models/models.cc "    &llama_family" "    &toy_family,")
  ashlar_overlay(formats/formats.cc "#include \"formats/row_format.h\"" "#include \"formats/int8_rows/int8_rows.h\"")
  ashlar_overlay(formats/formats.cc "&kRows}" "&int8_rows, " again)

  set(folder ${CMAKE_SOURCE_DIR}/tests/walkthrough)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/src/*.cc)
  add_executable(walkthrough_test ${folder}/walkthrough_test.cc ${sources}
    ${CMAKE_BINARY_DIR}/walkthrough/models/models.cc ${CMAKE_BINARY_DIR}/walkthrough/formats/formats.cc
    "$<FILTER:$<TARGET_OBJECTS:ashlar_models>,EXCLUDE,models/models\\.cc>"
    "$<FILTER:$<TARGET_OBJECTS:ashlar_formats>,EXCLUDE,formats/formats\\.cc>")
  target_include_directories(walkthrough_test BEFORE PRIVATE ${CMAKE_BINARY_DIR}/walkthrough ${folder}/src)
  set_target_properties(walkthrough_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set(layers ${ashlar_layers})
  list(REMOVE_ITEM layers models formats)
  target_link_libraries(walkthrough_test PRIVATE ashlar_testing)
  ashlar_link_layers(walkthrough_test ${layers})
  target_link_libraries(walkthrough_test PRIVATE GTest::gtest GTest::gtest_main)
  add_test(NAME walkthrough
    COMMAND walkthrough_test --gtest_brief=1 --gtest_output=json:${CMAKE_BINARY_DIR}/tests/results/walkthrough.json
    WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
endfunction()
