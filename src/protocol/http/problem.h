// Why a request was not answered as it wished (RFC 9457).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"

namespace sluice::http {

// The kinds, with what is the same of all of one kind.
struct ProblemKind {
  uint16_t status;
  std::string_view type;   // a URI
  std::string_view title;  // of people
};

namespace problems {
extern const ProblemKind bad_request, unauthorized, forbidden, no_rule, not_found, no_such_profile,
    method_not_allowed, not_acceptable, wait_timeout, key_in_use, too_large, unsupported_type,
    wrong_host, key_reused, quota_exceeded, not_yet, reduced_capacity, outcome_unknown;
}  // namespace problems

struct Problem {
  const ProblemKind* kind = nullptr;  // null: there is none
  std::string detail{};               // a sentence
  std::string pointer{};  // into the body (RFC 6901), `has_pointer`: it may be empty, the whole
  bool has_pointer = false;
};

// Appends its members without braces: with type, title and status, or where `short_form` without.
void append_problem(const Problem& problem, bool short_form, base::Buffer& out);

}  // namespace sluice::http
