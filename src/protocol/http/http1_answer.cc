#include "protocol/http/http1_answer.h"

#include "base/decimal.h"
#include "wire/http_session.h"

namespace sluice::http {

void append_http1_answer(const Answer& answer, const Http1Form& form, std::string_view date_line,
                         base::Buffer& out) {
  if (answer.status == 200) {
    out.append("HTTP/1.1 200 OK\r\n");
  } else {
    out.append("HTTP/1.1 ");
    base::append_decimal(answer.status, out);
    out.append(' ');
    out.append(wire::http_reason(answer.status));
    out.append("\r\n");
  }
  if (!answer.content_type.empty()) {
    out.append("Content-Type: ");
    out.append(answer.content_type);
    out.append("\r\n");
  }
  if (answer.status != 204) {
    out.append("Content-Length: ");
    base::append_decimal(static_cast<int64_t>(answer.body.size()), out);
    out.append("\r\n");
  }
  out.append(date_line);
  for (size_t i = 0; i < answer.fields.size(); ++i) {
    const wire::HttpField field = answer.fields[i];
    out.append(field.name);
    out.append(": ");
    out.append(field.value);
    out.append("\r\n");
  }
  if (form.is_last)
    out.append("Connection: close\r\n");
  else if (form.is_http10)
    out.append("Connection: keep-alive\r\n");
  out.append("\r\n");
  if (!form.is_head && answer.status != 204) out.append(answer.body.view());
}

}  // namespace sluice::http
