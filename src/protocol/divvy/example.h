// The text of examples/example-config.ini, which the build compiles into the program.
#pragma once

#include <string_view>

namespace sluice::divvy {

extern const std::string_view example;

}  // namespace sluice::divvy
