// What the build puts into the program: its version, and the example policy, so that it can show
// itself without a file.
#pragma once

#include <string_view>

namespace sluice::config {

extern const std::string_view version;         // "0.1.0"
extern const std::string_view example_ini;     // examples/example-config.ini
extern const std::string_view example_limitd;  // examples/limitd.yaml

}  // namespace sluice::config
