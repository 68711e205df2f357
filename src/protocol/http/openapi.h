// What the build puts into the program: the text of docs/openapi-http.json.
#pragma once

#include <string_view>

namespace sluice::http {

extern const std::string_view openapi;

}  // namespace sluice::http
