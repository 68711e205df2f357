#!/usr/bin/env bash
# Installs the client library from a build into a folder of its own, and builds and runs a program against the installed
# files: with CMake's package (shared and static) and with pkg-config (shared). Of the checkout it uses only the build.
#
#   tests/client/package.sh BUILD
set -euo pipefail
build=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder/prefix" > "$folder/install.log"
mkdir "$folder/program"
cd "$folder/program"
cat > main.cc <<'CODE'
#include <sluice/client.h>
#include <sluice/client_mock.h>

#include <chrono>
#include <stdexcept>

int main() {
  sluice::client_options options;
  options.on_unavailable = sluice::client_policy::allow;
  sluice::client_request request;
  request.subject.entries = {{"ip", "10.0.0.7"}};
  // Nothing listens there.
  sluice::client client("divvy://127.0.0.1:1", options);
  const sluice::client_result result = client.call(request);
  try {
    sluice::client other("nothing");
    return 2;
  } catch (const std::invalid_argument&) {
  }
  return result.origin == sluice::client_origin::on_unavailable && result.is_allowed() &&
                 sluice::mock_client().call(request).is_allowed()
             ? 0
             : 1;
}
CODE
cat > CMakeLists.txt <<'CODE'
cmake_minimum_required(VERSION 3.25)
project(program CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(sluice REQUIRED)
add_executable(shared main.cc)
target_link_libraries(shared PRIVATE sluice::sluice-client)
add_executable(static main.cc)
target_link_libraries(static PRIVATE sluice::sluice-client-static)
CODE
cmake -S . -B out -DCMAKE_PREFIX_PATH="$folder/prefix" > "$folder/configure.log"
cmake --build out > "$folder/build.log" || { cat "$folder/build.log"; exit 1; }
out/shared
out/static
PKG_CONFIG_PATH=$(dirname "$(find "$folder/prefix" -name sluice-client.pc)")
export PKG_CONFIG_PATH
read -ra flags <<< "$(pkg-config --cflags --libs sluice-client)"
c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror main.cc "${flags[@]}" -o by_pkg_config
LD_LIBRARY_PATH=$(pkg-config --variable=libdir sluice-client) ./by_pkg_config
# The shared library exports the names of its interface, and none of the rooms below.
library=$(find "$folder/prefix" -name 'libsluice-client.so')
if nm -D --defined-only -C "$library" | grep -vE ' (vtable for |typeinfo for |typeinfo name for )?sluice::client(_interface|_stand_in)?(::|$)' ||
  nm -D --defined-only -C "$library" | grep -E 'sluice::(calls|base|wire)|boost|google'; then
  echo "the library exports more than its interface" >&2
  exit 1
fi
readelf -d "$library" | grep -q 'SONAME.*libsluice-client.so.0.2'
echo 'package: kept'
