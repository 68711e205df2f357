// What load and floor know of each protocol in the list of protocols. Constant.
#pragma once

#include <string>
#include <string_view>

#include "protocol/load.h"

namespace sluice::tools {

// nullptr: there is none of that name.
const protocol::Load* find_load(std::string_view name);

// The names of all, apart by `separator`.
std::string load_names(std::string_view separator);

// The first one's.
std::string_view first_load_name();

}  // namespace sluice::tools
