# The C++ packages, all from the distribution (README.md lists them; `./do setup` installs them).
# fmt and spdlog are header-only here, so that a copied program needs none of their libraries.
find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_path(ASHLAR_HWY_INCLUDE hwy/highway.h REQUIRED)
find_library(ASHLAR_HWY_LIBRARY hwy REQUIRED)
foreach(header fmt/format.h spdlog/spdlog.h nlohmann/json.hpp CLI/CLI.hpp tl/expected.hpp
               boost/asio.hpp boost/beast.hpp)
  string(MAKE_C_IDENTIFIER ${header} name)
  find_path(ASHLAR_HAS_${name} ${header})
  if(NOT ASHLAR_HAS_${name})
    message(FATAL_ERROR "The header ${header} is missing. `./do setup` installs what the build needs.")
  endif()
endforeach()

add_library(ashlar_dependencies INTERFACE)
target_include_directories(ashlar_dependencies INTERFACE ${CMAKE_SOURCE_DIR}/src)
target_compile_definitions(ashlar_dependencies INTERFACE
  FMT_HEADER_ONLY=1 SPDLOG_FMT_EXTERNAL=1)
target_link_libraries(ashlar_dependencies INTERFACE
  ${ASHLAR_HWY_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})
