# Toolchain for arm64 on another machine: Debian's cross compiler with the libraries of Debian's arm64 packages, which
# scripts/build_arm64 unpacks into build/arm64/sysroot. Tools that run during the build (protoc, ninja) are this machine's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
get_filename_component(CMAKE_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64/sysroot ABSOLUTE)

# char is signed on amd64, where everything is tested.
set(CMAKE_CXX_FLAGS_INIT -fsigned-char)
# The compiler prefers libraries of its own, of which the C library lacks Debian's security fixes. All that is linked is of the unpacked
# packages; `make dist` fails where something is not.
set(CMAKE_EXE_LINKER_FLAGS_INIT "")
foreach(folder gcc/aarch64-linux-gnu/12 aarch64-linux-gnu)
  string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT "-B ${CMAKE_SYSROOT}/usr/lib/${folder} -L ${CMAKE_SYSROOT}/usr/lib/${folder} ")
endforeach()
set(CMAKE_SHARED_LINKER_FLAGS_INIT "${CMAKE_EXE_LINKER_FLAGS_INIT}")

set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
