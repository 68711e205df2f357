// JSON documents, in the order in which their members were written. The parser is nlohmann's.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace sluice::wire {

using Json = nlohmann::ordered_json;

// May it be parsed? The library looks through all members of an object for each that it reads, and
// copies what it has, by recursion, as an object grows: so both are bounded (base::bounds). What is
// not JSON is left to the parser, which comes no further than what is.
bool is_bounded(std::string_view json);

}  // namespace sluice::wire
