// The text of docs/openapi-http.json, which the build puts into the program.
#pragma once

#include <string_view>

namespace sluice::http {

extern const std::string_view openapi;

}  // namespace sluice::http
