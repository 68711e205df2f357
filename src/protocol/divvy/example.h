// What the build puts into the program: the text of examples/example-config.ini.
#pragma once

#include <string_view>

namespace sluice::divvy {

extern const std::string_view example;

}  // namespace sluice::divvy
