# sluice_static_program(TARGET LIBRARIES targets... ARCHIVES names...): the program TARGET once more with everything in it, for any Linux:
# the target sluice_static leaves it stripped at dist/sluice in the build folder, with the linker's map beside it. It has the objects of
# TARGET and of our own LIBRARIES, and links the ARCHIVES ("ssl": libssl.a), each behind those that use it. Where one of these is missing
# (distributions other than Debian and its kin have few of them) there is no such target, and the configuration says so.
function(sluice_static_program target)
  cmake_parse_arguments(ARG "" "" "LIBRARIES;ARCHIVES" ${ARGN})
  sluice_find_archives(archives missing ${ARG_ARCHIVES})
  if(missing)
    message(STATUS "There will be no static program: ${missing} is not here")
    return()
  endif()
  add_executable(sluice_static EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${target}> src/static_start.cc src/static_log.cc)
  target_include_directories(sluice_static PRIVATE $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(sluice_static PRIVATE $<TARGET_PROPERTY:spdlog::spdlog,INTERFACE_COMPILE_DEFINITIONS>)
  set(ours ${ARG_LIBRARIES})
  list(TRANSFORM ours REPLACE "(.+)" "$<TARGET_FILE:\\1>")
  target_link_libraries(sluice_static PRIVATE -Wl,--start-group ${ours} -Wl,--end-group ${archives})
  add_dependencies(sluice_static ${ARG_LIBRARIES})
  set_target_properties(sluice_static PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/dist OUTPUT_NAME sluice
                        LINK_DEPENDS_NO_SHARED ON POSITION_INDEPENDENT_CODE ON)
  # Relocations of a table, and functions that nobody calls, would be a twelfth of the file.
  target_link_options(sluice_static PRIVATE -static-pie -s -Wl,--build-id=none -Wl,--gc-sections -Wl,-z,pack-relative-relocs
                      -Wl,-Map=${CMAKE_BINARY_DIR}/dist/sluice.map)
endfunction()
