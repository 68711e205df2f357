#include "protocol/policy_files.h"

namespace sluice::protocol {

void PolicyFiles::set(std::string_view, std::string_view, const std::string&,
                      const base::Diagnostic&, base::Diagnostics&) {}

std::string example_name(std::string_view protocol) {
  return "built-in example (" + std::string(protocol) + ")";
}

}  // namespace sluice::protocol
