// JSON documents, in the order in which their members were written. The parser is nlohmann's.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace sluice::wire {

using Json = nlohmann::ordered_json;

// Whether the text is within the bounds of base::bounds for members and nesting. The library
// compares each member of an object with all before it, and copies an object recursively when it
// grows. In a text that is not JSON only the part before the error counts, because the parser stops
// there.
bool is_bounded(std::string_view json);

}  // namespace sluice::wire
