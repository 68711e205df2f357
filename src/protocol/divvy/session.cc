#include "protocol/divvy/session.h"

#include <algorithm>
#include <cstring>

#include "base/bounds.h"
#include "base/utf8.h"
#include "protocol/divvy/line.h"

namespace sluice::divvy {
namespace {

using base::bounds::batch_requests_max;
using base::bounds::line_bytes_max;

// Does another program that speaks Divvy's format share the counter that is reported?
bool is_shared(const request::Verdict& verdict) {
  for (const request::Charge& charge : verdict.charges) {
    const auto its = verdict.decisions_of(charge);
    if (verdict.tightest >= its.data() && verdict.tightest < its.data() + its.size())
      return charge.space->encoding == request::KeyEncoding::remaining_text;
  }
  return false;
}

// Seconds as Divvy shows them: the result of Redis' TTL command, which rounds to the nearest
// second; -1: never. A refusal shows at least 1, because the client may use it as its wait. If the
// counter is not in Divvy's format, a refusal is rounded up so that the client does not return too
// early.
int64_t shown_seconds(const request::Verdict& verdict) {
  const base::Duration after =
      verdict.allowed ? verdict.tightest->reset_after : verdict.tightest->retry_after;
  if (after == base::never) return -1;
  const int64_t us = std::max<int64_t>(after.us, 0);
  const int64_t rounds_from = verdict.allowed || is_shared(verdict) ? 500'000 : 1;
  const int64_t seconds = us / 1'000'000 + (us % 1'000'000 >= rounds_from ? 1 : 0);
  return verdict.allowed ? seconds : std::max<int64_t>(seconds, 1);
}

}  // namespace

request::Received DivvySession::receive(std::string_view in, bool end, request::Requests& requests,
                                        base::Buffer&) {
  if (!error_.empty()) return {in.size(), true};
  scratch_.clear();
  size_t searched = searched_ <= in.size() ? searched_ : 0;
  searched_ = 0;

  size_t consumed = 0;
  for (size_t taken = 0; taken < batch_requests_max; ++taken) {
    const std::string_view rest = in.substr(consumed);
    const size_t reach = std::min(rest.size(), line_bytes_max + 1);
    const char* const from = rest.data() + searched;
    const void* const found =
        reach > searched ? std::memchr(from, '\n', reach - searched) : nullptr;
    searched = 0;

    std::string_view line = rest;
    size_t used = rest.size();
    if (found != nullptr) {
      const auto size = static_cast<size_t>(static_cast<const char*>(found) - rest.data());
      line = rest.substr(0, size);
      used = size + 1;
    } else if (reach > line_bytes_max) {
      error_ = divvy_error("Line is longer than " + std::to_string(line_bytes_max) + " bytes.");
      return {in.size(), true};
    } else if (!end || rest.empty()) {
      searched_ = static_cast<uint32_t>(rest.size());
      break;
    }
    if (line.ends_with('\r')) line.remove_suffix(1);

    if (!parse_divvy_line(well_formed(line), requests, error_, strict_)) return {in.size(), true};
    ++owed_;
    consumed += used;
  }
  return {consumed, false};
}

// `line`, or a copy of it in scratch_ with U+FFFD in place of bytes that are not UTF-8.
std::string_view DivvySession::well_formed(std::string_view line) {
  if (base::utf8::is_valid(line)) [[likely]]
    return line;
  std::string& copy = scratch_.emplace_front(base::utf8::sanitized_size(line), '\0');
  base::utf8::sanitize(line, copy.data());
  return copy;
}

bool DivvySession::reply(const request::Request&, const request::Verdict& verdict, base::Time,
                         base::Buffer& out) {
  if (owed_ > 0 && --owed_ == 0 && !scratch_.empty()) [[unlikely]]
    scratch_.clear();
  if (!verdict.error.empty()) {
    append_divvy_internal_error(verdict.error, out);
    return false;
  }
  DivvyReply shown{.allowed = false, .remaining = 0, .reset_seconds = -1};
  if (verdict.tightest != nullptr)
    shown = {.allowed = verdict.allowed,
             .remaining = std::max<int64_t>(verdict.tightest->remaining, 0),
             .reset_seconds = shown_seconds(verdict)};
  append_divvy_reply(shown, out);
  return true;
}

request::Fault DivvySession::fault() const {
  if (error_.empty()) return {};
  return {error_.starts_with("ERR unknown-command ") ? "unknown-command" : "unknown", error_};
}

void DivvySession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending == request::Ending::refused) return append_divvy_internal_error(why, out);
  if (ending == request::Ending::stopping || error_.empty()) return;
  out.append(error_);
  out.append('\n');
}

}  // namespace sluice::divvy
