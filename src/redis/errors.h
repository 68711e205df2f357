// What an error that Redis answers with means for a decision. Pure; any thread.
#pragma once

#include <string_view>

#include "request/charge.h"

namespace sluice::redis {

// Of a command, of what a script's command said, or of a greeting. Never `none`.
request::Error error_of(std::string_view text);

}  // namespace sluice::redis
