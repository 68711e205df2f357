// The version of the library, which CMake knows.
#pragma once

namespace sluice::embed {

extern const char* const version;

}  // namespace sluice::embed
