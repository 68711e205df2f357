#include "tests/support/paths.h"

#include <cstdlib>

namespace sluice::tests {

std::string source_path(std::string_view relative) {
  return std::string(SLUICE_SOURCE_DIR) + "/" + std::string(relative);
}

std::string binary_path() {
  const char* const other = std::getenv("SLUICE_BINARY");
  return other != nullptr ? other : SLUICE_BINARY;
}

}  // namespace sluice::tests
