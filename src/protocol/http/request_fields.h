// The header fields that requests to this protocol are read by. Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "wire/http_field.h"

namespace sluice::http {

// Values as sent; empty: not there, or empty.
struct RequestFields {
  std::string_view content_type{}, accept{}, authorization{}, origin{}, sec_fetch_site{},
      idempotency_key{};
  bool has_origin = false, has_idempotency_key = false;
  std::string_view twice{};  // the name of one that came twice where it must not; empty: none did
};

// Several lines of Accept count as the last one alone.
RequestFields read_request_fields(std::span<const wire::HttpField> fields);

// What is read of an Accept; no known client sends a longer list.
inline constexpr size_t accept_bytes_max = 1024;
// In which form a client takes an answer (RFC 9110, 12.5.1).
enum class AnswerForm : uint8_t {
  problem,  // application/json, errors as application/problem+json
  json,     // application/json alone
  none,     // neither: 406
};
AnswerForm answer_form(std::string_view accept);
// Does the client like text or HTML better than JSON? Then a refusal is answered in a line of text.
bool prefers_text(std::string_view accept);

// Is it `application/json`, with whatever parameters but a charset other than UTF-8?
bool is_json_type(std::string_view content_type);

}  // namespace sluice::http
