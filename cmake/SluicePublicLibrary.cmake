# Libraries for other programs: built from sources of the rooms, once more with position-independent code and hidden symbols,
# and installed with headers, a CMake package and a pkg-config file.
#
# sluice_public_library(NAME ROOMS rooms... [SOURCES files...] [HEADERS files...] [LINK targets...] [REQUIRES names...]
#                       [NEEDS libraries...] [INSTEAD_OF NAME] [DESCRIPTION text]): libNAME.so, with the project's version and its first two
#   numbers as soname, and libNAME.a. ROOMS: folders of src/ whose sources (but for tests) are in it. SOURCES: further files,
#   relative to the checkout. HEADERS: files of include/sluice/ that are installed with it. LINK: what it links, none of it
#   named by the headers. REQUIRES: public libraries of ours that it links, by their NAMEs. NEEDS: pkg-config names of what the
#   static library needs besides. INSTEAD_OF: the library whose objects it contains, before it in the file, which
#   no program may link beside it (an error of CMake). Targets NAME_shared and NAME_static; packages see sluice::NAME and sluice::NAME-static.
# sluice_install_package(): installs the CMake package of all public libraries. Once, behind the last of them.
#
# What fails in such a library must not end the process that uses it: SLUICE_CHECK throws there (base/check.h), and the public
# functions make an error of it.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(SLUICE_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
add_custom_target(public_libraries)

# The flags of these objects, in place of those of the program.
function(sluice_public_flags target)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
                        VISIBILITY_INLINES_HIDDEN ON)
  target_compile_definitions(${target} PRIVATE SLUICE_CHECK_THROWS)
  # Debug information has the types of the interface, which are compared with a baseline (scripts/lint).
  target_compile_options(${target} PRIVATE -g)
  # A unique symbol would keep the library loaded after dlclose().
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
endfunction()

function(sluice_public_library name)
  cmake_parse_arguments(ARG "" "DESCRIPTION;INSTEAD_OF" "ROOMS;SOURCES;HEADERS;LINK;REQUIRES;NEEDS" ${ARGN})
  set(sources ${ARG_SOURCES})
  list(TRANSFORM sources PREPEND ${CMAKE_SOURCE_DIR}/)
  foreach(room IN LISTS ARG_ROOMS)
    file(GLOB of_room CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${room}/*.cc)
    list(FILTER of_room EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
    list(APPEND sources ${of_room})
  endforeach()

  add_library(${name}_objects OBJECT EXCLUDE_FROM_ALL ${sources})
  sluice_public_flags(${name}_objects)
  target_link_libraries(${name}_objects PRIVATE ${ARG_LINK})
  if(SLUICE_PRECOMPILED)
    if(NOT TARGET sluice_public_headers)
      add_library(sluice_public_headers OBJECT EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
      sluice_public_flags(sluice_public_headers)
      target_link_libraries(sluice_public_headers PRIVATE Threads::Threads)
      target_precompile_headers(sluice_public_headers PRIVATE ${sluice_core_headers})
    endif()
    target_precompile_headers(${name}_objects REUSE_FROM sluice_public_headers)
  endif()

  # The standard library's templates are not a part of the interface, whatever their own visibility.
  set(map ${CMAKE_BINARY_DIR}/generated/${name}.map)
  file(CONFIGURE OUTPUT ${map} CONTENT "{ global: sluice_*; _ZN6sluice*; _ZNK6sluice*; _ZTIN6sluice*; _ZTSN6sluice*; _ZTVN6sluice*; local: *; };\n" @ONLY)
  set(objects $<TARGET_OBJECTS:${name}_objects>)
  if(ARG_INSTEAD_OF)
    list(APPEND objects $<TARGET_OBJECTS:${ARG_INSTEAD_OF}_objects>)
  endif()
  add_library(${name}_shared SHARED ${objects})
  target_link_libraries(${name}_shared PRIVATE ${ARG_LINK})
  foreach(other IN LISTS ARG_REQUIRES)
    target_link_libraries(${name}_shared PUBLIC ${other}_shared)
  endforeach()
  target_link_options(${name}_shared PRIVATE LINKER:--version-script=${map})
  if(NOT SLUICE_SANITIZE)
    target_link_options(${name}_shared PRIVATE LINKER:-z,defs)
  endif()
  set_target_properties(${name}_shared PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${SLUICE_SOVERSION})
  add_library(${name}_static STATIC ${objects})
  target_link_libraries(${name}_static INTERFACE ${ARG_LINK})
  foreach(kind shared static)
    if(SLUICE_SANITIZE)  # no program of these builds links it: the rooms' tests have the same code
      set_target_properties(${name}_${kind} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
    set_target_properties(${name}_${kind} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX)
    target_include_directories(${name}_${kind} INTERFACE ${CMAKE_SOURCE_DIR}/include)
    install(TARGETS ${name}_${kind} COMPONENT libraries LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT libraries
            ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  endforeach()
  add_dependencies(public_libraries ${name}_shared ${name}_static)

  list(TRANSFORM ARG_HEADERS PREPEND ${CMAKE_SOURCE_DIR}/include/sluice/)
  install(FILES ${ARG_HEADERS} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sluice COMPONENT libraries)
  set_property(GLOBAL APPEND PROPERTY sluice_public_libraries ${name})
  set_property(GLOBAL PROPERTY sluice_public_${name}_requires ${ARG_REQUIRES})
  set_property(GLOBAL PROPERTY sluice_public_${name}_needs ${ARG_NEEDS})
  set_property(GLOBAL PROPERTY sluice_public_${name}_instead_of ${ARG_INSTEAD_OF})

  set(SLUICE_NAME ${name})
  set(SLUICE_DESCRIPTION "${ARG_DESCRIPTION}")
  string(JOIN " " SLUICE_REQUIRES ${ARG_REQUIRES})
  string(JOIN " " SLUICE_NEEDS ${ARG_NEEDS})
  # Relative to the file, so that what is installed can be moved.
  file(RELATIVE_PATH SLUICE_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/public.pc.in ${CMAKE_BINARY_DIR}/generated/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/generated/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libraries)
endfunction()

function(sluice_install_package)
  get_property(libraries GLOBAL PROPERTY sluice_public_libraries)
  set(SLUICE_TARGETS "")
  set(SLUICE_EXCLUSIONS "")
  foreach(name IN LISTS libraries)
    get_property(requires GLOBAL PROPERTY sluice_public_${name}_requires)
    get_property(needs GLOBAL PROPERTY sluice_public_${name}_needs)
    get_property(instead_of GLOBAL PROPERTY sluice_public_${name}_instead_of)
    if(instead_of)
      string(APPEND SLUICE_EXCLUSIONS "sluice_package_exclusion(${name} ${instead_of})\n")
    endif()
    string(APPEND SLUICE_TARGETS "sluice_package_library(${name} REQUIRES ${requires} NEEDS ${needs})\n")
  endforeach()
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/sluice)
  configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/sluice-config.cmake.in ${CMAKE_BINARY_DIR}/generated/sluice-config.cmake
                                INSTALL_DESTINATION ${package} PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/sluice-config-version.cmake VERSION ${PROJECT_VERSION}
                                   COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/generated/sluice-config.cmake ${CMAKE_BINARY_DIR}/generated/sluice-config-version.cmake
          DESTINATION ${package} COMPONENT libraries)
endfunction()
