#include "tests/support/paths.h"

namespace sluice::tests {

std::string source_path(std::string_view relative) {
  return std::string(SLUICE_SOURCE_DIR) + "/" + std::string(relative);
}

std::string binary_path() {
  return SLUICE_BINARY;
}

}  // namespace sluice::tests
