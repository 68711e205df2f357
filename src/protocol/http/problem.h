// Problems of requests (RFC 9457).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice::http {

// A kind of problem, with the members that are the same for the whole kind.
struct ProblemKind {
  uint16_t status;
  std::string_view type;   // a URI
  std::string_view title;  // for people
};

namespace problems {
extern const ProblemKind bad_request, unauthorized, forbidden, no_rule, not_found, no_such_profile,
    method_not_allowed, not_acceptable, wait_timeout, id_in_use, too_large, unsupported_type,
    wrong_host, quota_exceeded, not_yet, reduced_capacity;
}  // namespace problems

struct Problem {
  const ProblemKind* kind = nullptr;  // null: there is no problem
  std::string detail{};               // a sentence
  std::string pointer{};  // if has_pointer: a place in the body (RFC 6901); empty: the whole body
  bool has_pointer = false;
};

// Appends the problem's members without braces; if `short_form`, without type, title and status.
void append_problem(const Problem& problem, bool short_form, base::Buffer& out);

}  // namespace sluice::http
