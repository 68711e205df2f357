// Reads the header fields of requests to this protocol. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "wire/http_field.h"

namespace sluice::http {

// The values as sent; empty: the field is missing or empty.
struct RequestFields {
  std::string_view content_type{}, content_encoding{}, accept{}, authorization{}, origin{},
      sec_fetch_site{};
  bool has_origin = false, has_idempotency_key = false;
  std::string_view twice{};  // the name of a field that must not be repeated, but was; or empty
};

// Of several lines of Accept only the last counts.
RequestFields read_request_fields(std::span<const wire::HttpField> fields);

// The most bytes of Accept that are read; no known client sends a longer list.
inline constexpr size_t accept_bytes_max = 1024;
// The form of answers that a client accepts (RFC 9110, 12.5.1).
enum class AnswerForm : uint8_t {
  problem,  // application/json, errors as application/problem+json
  json,     // only application/json
  none,     // neither: 406
};
AnswerForm answer_form(std::string_view accept);
// Whether the client prefers text or HTML to JSON; then a refusal is answered with a line of text.
bool prefers_text(std::string_view accept);

// Whether the type is `application/json`. It may have any parameters except a charset other than
// UTF-8.
bool is_json_type(std::string_view content_type);

}  // namespace sluice::http
