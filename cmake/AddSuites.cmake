# Run by CTest before it tests: adds a test for each suite of one GoogleTest binary, PREFIX/Suite. A process for each suite, as
# one for each test costs more than most tests do. The binary's report of each test of a suite goes to
# REPORTS/PREFIX_Suite.xml, which tools/run_tests.py counts.
#
# Set by the caller: binary, list (a file of ours, the names of its suites), prefix, reports, properties.
if(NOT EXISTS "${binary}")
  add_test("${prefix}/not_built" "${binary}")
  return()
endif()
if(NOT EXISTS "${list}" OR "${binary}" IS_NEWER_THAN "${list}")
  execute_process(COMMAND "${binary}" --gtest_list_tests OUTPUT_VARIABLE output RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    add_test("${prefix}/cannot_list" "${binary}" --gtest_list_tests)
    return()
  endif()
  # `Suite.`, then a comment where it has a type; other lines are gtest_main's own or a test's.
  string(REGEX MATCHALL "(^|\n)[^ \n]+\\.(\n|  #)" lines "${output}")
  set(suites "")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^\n?([^ ]*)\\..*" "\\1" suite "${line}")
    list(APPEND suites "${suite}")
  endforeach()
  file(WRITE "${list}" "${suites}")
endif()
file(READ "${list}" suites)
foreach(suite IN LISTS suites)
  string(REPLACE "/" "_" report "${prefix}/${suite}")
  add_test("${prefix}/${suite}" "${binary}" "--gtest_filter=${suite}.*" "--gtest_output=xml:${reports}/${report}.xml")
  set_tests_properties("${prefix}/${suite}" PROPERTIES ${properties})
endforeach()
