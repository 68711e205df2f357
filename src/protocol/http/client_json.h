// The JSON of this protocol as a client has it: bodies of requests written, bodies of answers read.
// Pure functions; any thread.
#pragma once

#include <sluice/client.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/dialect.h"

namespace sluice::http {

// Appends the body for a request. A problem: the request cannot be said, and nothing is appended.
base::Done append_client_body(const client_request& request, std::string& out);

// What an answer of that status means to the request.
client_result read_client_answer(unsigned status, std::string_view body,
                                 const calls::Expected& expected);

}  // namespace sluice::http
