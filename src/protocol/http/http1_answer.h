// An answer in the form of HTTP/1.1 (RFC 9112). Appends; pure.
#pragma once

#include <string_view>

#include "base/buffer.h"
#include "protocol/http/answer.h"

namespace sluice::http {

struct Http1Form {
  bool is_head = false;    // no body is sent
  bool is_http10 = false;  // the request is HTTP/1.0
  bool is_last = false;    // the connection ends after it
};

// `date_line`: the whole field Date with its line end.
void append_http1_answer(const Answer& answer, const Http1Form& form, std::string_view date_line,
                         base::Buffer& out);

}  // namespace sluice::http
