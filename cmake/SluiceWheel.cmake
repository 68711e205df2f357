# sluice_wheel_library(NAME ARCHIVES names...): the library that is inside the Python package: the objects of the public library NAME with
# everything in it but the C library and libgcc, which every system with it has, exporting the C interface alone. The target sluice_limiter_wheel leaves it stripped at
# dist/libNAME.so in the build folder, with the linker's map beside it. It has no version in its name: Python loads it by its path.
# What it asks for decides on which systems it runs: a static libgcc would ask for glibc 2.35, and what of the C++ library nobody uses
# for 2.36. Hence ld: mold drops such code as well, but still asks for it.
# Where an archive is missing there is no such target.
function(sluice_wheel_library name)
  cmake_parse_arguments(ARG "" "" "ARCHIVES" ${ARGN})
  sluice_find_archives(archives missing ${ARG_ARCHIVES})
  if(missing)
    return()
  endif()
  add_library(sluice_limiter_wheel SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${name}_objects>)
  target_link_libraries(sluice_limiter_wheel PRIVATE ${archives} Threads::Threads)
  set(exports ${CMAKE_BINARY_DIR}/generated/${name}_wheel.map)
  file(CONFIGURE OUTPUT ${exports} CONTENT "{ global: sluice_*; local: *; };\n" @ONLY)
  set(folder ${CMAKE_BINARY_DIR}/dist)
  set_target_properties(sluice_limiter_wheel PROPERTIES OUTPUT_NAME ${name} LIBRARY_OUTPUT_DIRECTORY ${folder} LINKER_LANGUAGE CXX
                        LINK_DEPENDS ${exports})
  target_link_options(sluice_limiter_wheel PRIVATE -fuse-ld=bfd -s -static-libstdc++ -Wl,--gc-sections -Wl,--build-id=none -Wl,-z,defs
                      -Wl,--version-script=${exports} -Wl,-Map=${folder}/lib${name}.map)
endfunction()
