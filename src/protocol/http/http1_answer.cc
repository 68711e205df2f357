#include "protocol/http/http1_answer.h"

#include <string>

#include "base/text_writer.h"
#include "wire/http_session.h"

namespace sluice::http {
namespace {

// The most bytes of a head without its fields, date and type.
constexpr size_t head_bytes_max = 256;

size_t room_of(const Answer& answer, std::string_view date_line) {
  return head_bytes_max + date_line.size() + answer.content_type.size() +
         answer.fields.lines().size() + answer.body.size();
}

void put_status(uint16_t status, base::TextWriter& writer) {
  if (status == 200) return writer.put("HTTP/1.1 200 OK\r\n");
  if (status == 429) return writer.put("HTTP/1.1 429 Too Many Requests\r\n");
  writer.put("HTTP/1.1 ");
  writer.put_number(status);
  writer.put(' ');
  const std::string reason = wire::http_reason(status);
  writer.put(std::string_view(reason));
  writer.put("\r\n");
}

}  // namespace

void append_http1_answer(const Answer& answer, const Http1Form& form, std::string_view date_line,
                         base::Buffer& out) {
  base::TextWriter writer(out, room_of(answer, date_line));
  put_status(answer.status, writer);
  if (!answer.content_type.empty()) {
    writer.put("Content-Type: ");
    writer.put(answer.content_type);
    writer.put("\r\n");
  }
  if (answer.status != 204) {
    writer.put("Content-Length: ");
    writer.put_number(answer.body.size());
    writer.put("\r\n");
  }
  writer.put(date_line);
  writer.put(answer.fields.lines());
  if (form.is_last)
    writer.put("Connection: close\r\n");
  else if (form.is_http10)
    writer.put("Connection: keep-alive\r\n");
  writer.put("\r\n");
  if (!form.is_head && answer.status != 204) writer.put(answer.body.view());
  writer.finish();
}

}  // namespace sluice::http
