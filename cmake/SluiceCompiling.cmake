# What makes compiling and linking fast, and changes nothing in what is built:
#   - ccache, where it is installed, shared by all checkouts of one user: paths are hashed relative to the checkout.
#   - mold, where it is installed.
#   - precompiled headers (SLUICE_PRECOMPILED), four sets: of the rooms without the log, of those optimized for size, of
#     the others, and of the tests.
#     They would hide an include that is missing, so `make lint` looks for those (tools/check_includes.py), and the presets debug and bench
#     compile without them.
#   - batches (SLUICE_UNITY): a file that includes several sources, which compiles what their headers have in common once. The
#     release build compiles only tests so, and its program file by file, as the inlining of a batch is another; debug and bench
#     compile everything file by file, and so see what a file lacks that another of its batch has.

#   - tests compiled without optimization (SLUICE_TEST_FLAGS): the bodies of tests are long and run once, and took more than half of
#     the time of all compilers. Rooms whose tests compute long (exact models, exhaustive sequences) have optimized ones.
#     The program's own code is compiled as before.

set(SLUICE_TEST_FLAGS "" CACHE STRING "flags for the code of tests, behind those of the build type")
set(SLUICE_UNITY none CACHE STRING "what is compiled in batches of sources: none, tests, all")
set(SLUICE_UNITY_BATCH 8 CACHE STRING "sources in a batch, at most")
option(SLUICE_PRECOMPILED "compile with precompiled headers" ON)
option(SLUICE_CCACHE "compile through ccache where it is installed" ON)
option(SLUICE_MOLD "link with mold where it is installed" ON)

if(SLUICE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(SLUICE_CCACHE_PROGRAM ccache)
  if(SLUICE_CCACHE_PROGRAM)
    # CMake passes clang the absolute paths of its precompiled headers, each word behind -Xclang. Those words are left out of the
    # hash, in which the headers' contents are. A flag added behind -Xclang must change this namespace.
    set(clang_cache "")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      set(clang_cache CCACHE_IGNOREOPTIONS=-Xclang CCACHE_NAMESPACE=relocatable-pch)
    endif()
    # A precompiled header is hashed by its content, and is always newer than the compilation that uses it began.
    set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
        CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${clang_cache}
        ${SLUICE_CCACHE_PROGRAM})
  endif()
endif()

if(SLUICE_MOLD)
  find_program(SLUICE_MOLD_PROGRAM mold)
  if(SLUICE_MOLD_PROGRAM)
    add_link_options(-fuse-ld=mold)
  endif()
endif()

if(SLUICE_PRECOMPILED)
  # Inlined from a precompiled header, g++ 12 takes std::string's operator+ to leave its bounds (its bugs 105329, 105651). The
  # bench preset compiles the program with these warnings, and without precompiled headers.
  foreach(warning restrict array-bounds stringop-overflow stringop-overread)
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-${warning}>)
  endforeach()
  # ccache sees what g++'s precompiled header depends on.
  add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  # Clang's has no time and no path of the checkout: paths in it are relative to -isysroot, which changes no search for headers.
  # When clang only preprocesses, it includes the source of the precompiled header by that relative path, hence -idirafter.
  add_compile_options("$<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp -Xclang -relocatable-pch -Xclang -isysroot\
 -Xclang ${CMAKE_SOURCE_DIR} -idirafter ${CMAKE_SOURCE_DIR}>")
  # hiredis.pc defines this, and a precompiled header is only of use where the same is defined.
  add_compile_definitions(_FILE_OFFSET_BITS=64)
endif()

# What most of the source reads. Not those that few read, and not those that leave every file with code to compile, used or not
# (CLI11, nlohmann/json): a file pays for each header of its set.
set(sluice_core_headers
    <algorithm> <array> <atomic> <bit> <chrono> <compare> <condition_variable> <deque> <filesystem> <functional> <map>
    <memory> <mutex> <optional> <set> <span> <string> <string_view> <thread> <unordered_map> <utility> <vector>)
set(sluice_product_headers <spdlog/logger.h> ${sluice_core_headers})
set(sluice_test_headers <gtest/gtest.h> <fstream> <random> <sstream>)

# Optimized for size g++ 12 takes the value of an empty std::optional to be read.
set(sluice_small_flags $<$<CONFIG:Release>:-Os> $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
separate_arguments(sluice_test_flags UNIX_COMMAND "${SLUICE_TEST_FLAGS}")

# sluice_compile_as_test(TARGET [OPTIMIZED]): compiles TARGET as the code of tests is compiled, with their precompiled headers.
function(sluice_compile_as_test target)
  set(headers sluice_test_headers)
  if(ARGV1 STREQUAL "OPTIMIZED")
    set(headers sluice_optimized_test_headers)
  else()
    target_compile_options(${target} PRIVATE ${sluice_test_flags})
  endif()
  if(SLUICE_PRECOMPILED)
    target_precompile_headers(${target} REUSE_FROM ${headers})
  endif()
endfunction()

# sluice_precompile(TARGET [WITHOUT_LOG | SMALL]): compiles TARGET with the precompiled headers of the product, or of the product
# without spdlog, or of what is optimized for size.
function(sluice_precompile target)
  if(SLUICE_PRECOMPILED)
    if(ARGN STREQUAL "WITHOUT_LOG")
      target_precompile_headers(${target} REUSE_FROM sluice_core_headers)
    elseif(ARGN STREQUAL "SMALL")
      target_precompile_headers(${target} REUSE_FROM sluice_small_headers)
    else()
      target_precompile_headers(${target} REUSE_FROM sluice_product_headers)
    endif()
  endif()
endfunction()

# sluice_precompiled_headers(NAME HEADERS... LINK TARGETS... [OPTIONS...]): one set; OPTIONS are those of the targets that use it.
function(sluice_precompiled_headers name)
  cmake_parse_arguments(ARG "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  if(SLUICE_PRECOMPILED)
    add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
    target_link_libraries(${name} PRIVATE ${ARG_LINK})
    target_compile_options(${name} PRIVATE ${ARG_OPTIONS})
    target_precompile_headers(${name} PRIVATE ${ARG_HEADERS})
  endif()
endfunction()

# sluice_batches(OUT TARGET KIND SOURCES...): what TARGET compiles in place of SOURCES, files of the folder CMAKE_SOURCE_DIR; KIND is
# PRODUCT or TESTS. CMake's own UNITY_BUILD writes the checkout's path into its batches, and from there it gets into __FILE__,
# so that a compiler cache could not share their objects.
function(sluice_batches out target kind)
  set(sources ${ARGN})
  list(LENGTH sources count)
  if(count LESS 2 OR NOT (SLUICE_UNITY STREQUAL "all" OR (SLUICE_UNITY STREQUAL "tests" AND kind STREQUAL "TESTS")))
    set(${out} ${sources} PARENT_SCOPE)
    return()
  endif()
  math(EXPR batches "(${count} + ${SLUICE_UNITY_BATCH} - 1) / ${SLUICE_UNITY_BATCH}")
  set(result "")
  foreach(batch RANGE 1 ${batches})
    math(EXPR begin "${count} * (${batch} - 1) / ${batches}")
    math(EXPR length "${count} * ${batch} / ${batches} - ${begin}")
    list(SUBLIST sources ${begin} ${length} members)
    set(text "// Written by CMake: see sluice_batches.\n")
    foreach(member IN LISTS members)
      file(RELATIVE_PATH path ${CMAKE_SOURCE_DIR} ${member})
      string(REGEX REPLACE "^src/" "" path ${path})
      string(APPEND text "#include \"${path}\"\n")
    endforeach()
    set(file ${CMAKE_BINARY_DIR}/batches/${target}_${batch}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)
    # A local variable named as another file's constant shadows nothing in its own file, so batches are compiled without -Wshadow. g++
    # still warns of a local variable that shadows a local one; clang cannot. What shadows a member is found only without batches.
    set_source_files_properties(${file} PROPERTIES COMPILE_OPTIONS
      "-Wno-shadow;$<$<CXX_COMPILER_ID:GNU>:-Wshadow=local>")
    list(APPEND result ${file})
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()
