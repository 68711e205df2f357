// The text of examples/limitd.yaml, which the build compiles into the program.
#pragma once

#include <string_view>

namespace sluice::limitd {

extern const std::string_view example;

}  // namespace sluice::limitd
