// What the build puts into the program: the text of examples/limitd.yaml.
#pragma once

#include <string_view>

namespace sluice::limitd {

extern const std::string_view example;

}  // namespace sluice::limitd
