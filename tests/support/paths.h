// Where the tests find the source tree and the program under test. The two absolute paths are
// compiled into paths.cc alone, so that every other object is the same in each checkout and a
// compiler cache can share it.
#pragma once

#include <string>
#include <string_view>

namespace sluice::tests {

// The path of a file of the source tree: source_path("docs/policy.md").
std::string source_path(std::string_view relative);
// The path of the `sluice` binary of this build, or of the one that the variable SLUICE_BINARY
// names.
std::string binary_path();

}  // namespace sluice::tests
