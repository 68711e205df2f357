# sluice_folder(NAME [DEPENDS targets...] [PRIVATE targets...] [ORACLE targets...]): the library of src/NAME, and what lies beside its code:
# x_test.cc (unit tests), x_fuzz.cc (fuzz targets), x_bench.cc (microbenchmarks). ORACLE: what only the unit tests link.
include(GoogleTest)

set(SLUICE_TEST_SECONDS 120 CACHE STRING "time limit of one test")

function(sluice_folder name)
  cmake_parse_arguments(ARG "" "" "DEPENDS;PRIVATE;ORACLE" ${ARGN})
  set(folder ${CMAKE_SOURCE_DIR}/src/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  set(tests ${sources})
  set(fuzzers ${sources})
  set(benches ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")
  list(FILTER benches INCLUDE REGEX "_bench\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")

  add_library(sluice_${name} STATIC ${sources})
  target_include_directories(sluice_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(sluice_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_PRIVATE})

  if(SLUICE_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_include_directories(${name}_test PRIVATE ${CMAKE_SOURCE_DIR})
    target_compile_definitions(${name}_test PRIVATE SLUICE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
    target_link_libraries(${name}_test PRIVATE sluice_${name} ${ARG_PRIVATE} ${ARG_ORACLE}
                          GTest::gtest GTest::gtest_main)
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}/ DISCOVERY_MODE PRE_TEST
                         PROPERTIES TIMEOUT ${SLUICE_TEST_SECONDS})
  endif()

  # With libFuzzer a target explores; without it the same code runs once over its corpus, as a test.
  foreach(source ${fuzzers})
    get_filename_component(target ${source} NAME_WE)
    if(SLUICE_FUZZ)
      add_executable(${target} ${source})
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    elseif(SLUICE_TESTS)
      add_executable(${target} ${source} ${CMAKE_SOURCE_DIR}/tests/support/run_corpus.cc)
      add_test(NAME ${name}/${target}_corpus COMMAND ${target} ${CMAKE_SOURCE_DIR}/fuzz/${target})
      set_tests_properties(${name}/${target}_corpus PROPERTIES TIMEOUT ${SLUICE_TEST_SECONDS})
    else()
      continue()
    endif()
    target_link_libraries(${target} PRIVATE sluice_${name} ${ARG_PRIVATE})
  endforeach()

  if(SLUICE_BENCH AND benches)
    find_package(benchmark REQUIRED)
    add_executable(${name}_bench ${benches})
    target_link_libraries(${name}_bench PRIVATE sluice_${name} ${ARG_PRIVATE} benchmark::benchmark_main)
  endif()
endfunction()
