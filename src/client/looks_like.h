// What the first bytes of a peer that speaks something else look like, in words for the end of an
// error message: a user of the wrong port sees which protocol it may be. Pure function.
#pragma once

#include <string>
#include <string_view>

namespace sluice::calls {

// "; it answers as an HTTP server does: is that the port you mean?" Empty: nothing is known of it.
std::string looks_like(std::string_view first_bytes);

}  // namespace sluice::calls
