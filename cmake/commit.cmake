# Which commit a program was built from, for `ashlar bench`: a generated source of one line, so that a
# new commit compiles that line and links, and nothing else. Uncommitted changes do not show.

# ashlar_commit_source(<variable>): the path of the source, made at build time. Outside a git tree it
# says "unknown".
function(ashlar_commit_source variable)
  set(source ${CMAKE_BINARY_DIR}/commit.cc)
  set(watched "")
  find_package(Git QUIET)
  if(GIT_FOUND)
    # The log of HEAD changes with every commit and checkout; without logs HEAD itself has to do.
    foreach(name logs/HEAD HEAD)
      execute_process(COMMAND ${GIT_EXECUTABLE} rev-parse --git-path ${name}
                      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR}
                      OUTPUT_VARIABLE path OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
      get_filename_component(path "${path}" ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
      if(NOT watched AND EXISTS ${path} AND NOT IS_DIRECTORY ${path})
        set(watched ${path})
      endif()
    endforeach()
  endif()
  add_custom_command(
    OUTPUT ${source}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DTREE=${CMAKE_SOURCE_DIR} -DGIT=${GIT_EXECUTABLE}
            -P ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake
    DEPENDS ${watched} ${CMAKE_SOURCE_DIR}/cmake/write_commit.cmake
    COMMENT "" VERBATIM)
  set(${variable} ${source} PARENT_SCOPE)
endfunction()
