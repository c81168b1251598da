# Test programs: src/<layer>/**/*_test.cc -> tests/<layer>_test, tests/<group>/*_test.cc ->
# tests/<group>_test, apps/ashlar/*_test.cc -> tests/apps_test. One CTest entry a program, not one a
# case: a program loads its models once, and a hundred process starts are saved.
#
# A layer's program links only what the layer may use, so a layer can be built and tested while a layer
# above it does not compile. Tests that need a GPU (name_cuda_test.cc, name_cuda_test.cu) are a
# program of their own, <name>_cuda_test, so that they can be built on one machine and run on another.
# Helpers of src/testing come from an archive, of which the linker takes what a test uses.

if(NOT ASHLAR_MODELS_DIR)
  if(DEFINED ENV{XDG_CACHE_HOME} AND NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(ashlar_models_dir $ENV{XDG_CACHE_HOME}/ashlar/models)
  else()
    set(ashlar_models_dir $ENV{HOME}/.cache/ashlar/models)
  endif()
else()
  set(ashlar_models_dir ${ASHLAR_MODELS_DIR})
endif()

include(walkthrough)

function(ashlar_add_testing_helpers)
  ashlar_sources(sources ${CMAKE_SOURCE_DIR}/src/testing)
  if(sources)
    add_library(ashlar_testing STATIC ${sources})
    target_link_libraries(ashlar_testing PRIVATE ashlar_dependencies)
    set_source_files_properties(${CMAKE_SOURCE_DIR}/src/testing/paths.cc PROPERTIES
      COMPILE_DEFINITIONS
      "ASHLAR_SOURCE_DIR=\"${CMAKE_SOURCE_DIR}\";ASHLAR_MODELS_DIR=\"${ashlar_models_dir}\"")
  endif()
endfunction()

# Cases of suites named RealModel... load the fetched checkpoints; under a sanitizer they would take
# most of the time and show nothing that the tiny models do not.
function(ashlar_add_test_program name folder)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${folder}/*_test.cc ${folder}/*_test.cu)
  ashlar_drop_suffixes(sources)
  ashlar_apply_suffix_flags(${sources})
  set(cuda_sources ${sources})
  list(FILTER sources EXCLUDE REGEX "_cuda_test\\.(cc|cu)$")
  list(FILTER cuda_sources INCLUDE REGEX "_cuda_test\\.(cc|cu)$")
  if(sources)
    ashlar_add_one_test_program(${name} "${sources}" ${ARGN})
  endif()
  if(cuda_sources)
    ashlar_add_one_test_program(${name}_cuda "${cuda_sources}" ${ARGN})
    set_property(GLOBAL APPEND PROPERTY ashlar_cuda_tests ${name}_cuda_test)
  endif()
endfunction()

function(ashlar_add_one_test_program name sources)
  set(program ${name}_test)
  add_executable(${program} ${sources})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR})
  if(TARGET ashlar_testing)
    target_link_libraries(${program} PRIVATE ashlar_testing)
  endif()
  ashlar_link_layers(${program} ${ARGN})
  target_link_libraries(${program} PRIVATE GTest::gtest GTest::gtest_main)
  set(arguments --gtest_brief=1 --gtest_output=json:${CMAKE_BINARY_DIR}/tests/results/${name}.json)
  if(ASHLAR_SANITIZE)
    list(APPEND arguments --gtest_filter=-*RealModel*)
  endif()
  add_test(NAME ${name} COMMAND ${program} ${arguments} WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  set_tests_properties(${name} PROPERTIES TIMEOUT 1200)
endfunction()

function(ashlar_add_tests)
  ashlar_add_testing_helpers()
  foreach(layer ${ashlar_layers})
    ashlar_add_test_program(${layer} ${CMAKE_SOURCE_DIR}/src/${layer} ${ashlar_closure_${layer}})
  endforeach()
  ashlar_add_test_program(testing ${CMAKE_SOURCE_DIR}/src/testing ${ashlar_layers})
  ashlar_add_test_program(apps ${CMAKE_SOURCE_DIR}/apps/ashlar apps ${ashlar_layers})
  foreach(group scenario golden end_to_end)
    ashlar_add_test_program(${group} ${CMAKE_SOURCE_DIR}/tests/${group} apps ${ashlar_layers})
    foreach(program ${group}_test ${group}_cuda_test)
      if(TARGET ${program} AND TARGET ashlar)
        add_dependencies(${program} ashlar)  # some of them run the program
      endif()
    endforeach()
  endforeach()
  ashlar_add_fuzz_replay()
  ashlar_add_walkthrough()
  get_property(cuda_tests GLOBAL PROPERTY ashlar_cuda_tests)
  if(cuda_tests)
    add_custom_target(cuda_tests DEPENDS ${cuda_tests})
  endif()
endfunction()
