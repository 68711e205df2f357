// The JSON of this protocol for clients: writes bodies of requests, and reads bodies of answers.
// Pure functions; any thread.
#pragma once

#include <sluice/client.h>

#include <string>
#include <string_view>

#include "base/result.h"
#include "client/dialect.h"

namespace sluice::http {

// Appends the body for a request. A problem: the protocol cannot express the request, and nothing
// is appended.
base::Done append_client_body(const client_request& request, std::string& out);

// The result of a request from its answer's status and body.
client_result read_client_answer(unsigned status, std::string_view body,
                                 const calls::Expected& expected);

}  // namespace sluice::http
