// Values that the build compiles into the program: its version.
#pragma once

#include <string_view>

namespace sluice::config {

extern const std::string_view version;  // "0.2.0"

}  // namespace sluice::config
