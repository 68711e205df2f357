// Writes the answer of an exchange.
#include <algorithm>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/decimal.h"
#include "protocol/http/exchange.h"
#include "protocol/http/json_text.h"
#include "protocol/http/openapi.h"
#include "protocol/http/worker_state.h"

namespace sluice::http {
namespace {

constexpr std::string_view json_type = "application/json",
                           problem_type = "application/problem+json",
                           text_type = "text/plain; charset=utf-8";

constexpr std::string_view limited_text = "rate limit exceeded\n";

void append_generation(uint64_t generation, base::Buffer& out) {
  if (generation == 0) return;
  out.append(", \"generation\": ");
  base::append_decimal(static_cast<int64_t>(generation), out);
}

// How long a browser may reuse the answer to a preflight request (Access-Control-Max-Age).
constexpr int64_t preflight_seconds = 600;

}  // namespace

void Exchange::write(const ConnectionContext& around, Answer& answer) {
  answer.add("Cache-Control", "no-store");
  if (!origin_.empty()) [[unlikely]]
    write_origin(answer);
  if (is_options_) {
    answer.status = 204;
    answer.add("Allow", allowed_methods());
    return;
  }
  if (route_ != nullptr && route_->action == Action::auth && problem_.kind == nullptr) {
    write_auth(around, answer);
  } else if (problem_.kind != nullptr) {
    write_problem(around, answer);
  } else if (route_->action == Action::openapi) {
    answer.content_type = json_type;
    answer.body.append(openapi);
  } else {
    answer.content_type = json_type;
    write_takes(answer);
    if (answer.status == 503)
      append_retry_after(retry_after_, around.options.headers, answer.fields);
    if (route_->action != Action::put) write_limits(around, answer);
  }
}

// Adds the fields that let the page read the answer
// (https://fetch.spec.whatwg.org/#http-responses).
void Exchange::write_origin(Answer& answer) const {
  answer.add("Access-Control-Allow-Origin", origin_);
  answer.add("Vary", "Origin");
  if (!is_options_) {
    answer.add("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy");
    return;
  }
  answer.add("Access-Control-Allow-Methods", allowed_methods());
  answer.add("Access-Control-Allow-Headers", "Authorization, Content-Type");
  answer.add("Access-Control-Max-Age", preflight_seconds);
}

// With `http.get_takes` a take may be a GET.
std::string_view Exchange::allowed_methods() const {
  return takes_get_ && route_->action == Action::take ? std::string_view("GET, HEAD, POST, OPTIONS")
                                                      : route_->methods;
}

// Reports the problem if the client caused it, unless that was done where it was found. Requests
// that no rule matches are reported by the engine.
void Exchange::report(const ConnectionContext& around) const {
  const ProblemKind& kind = *problem_.kind;
  const bool is_refusal = kind.status >= 400 && kind.status < 500 && kind.status != 408 &&
                          kind.status != 409 && kind.status != 421 && kind.status != 429 &&
                          &kind != &problems::no_rule;
  if (is_reported_ || !is_refusal) return;
  const std::string_view code = kind.status == 401   ? "login"
                                : kind.status == 403 ? "forbidden"
                                                     : request::malformed_code;
  // What is wrong with what a proxy asked is logged by itself.
  if (route_ != nullptr && route_->action == Action::auth) return around.report(code, {});
  std::string example(route_ == nullptr ? std::string_view(path_) : route_->path);
  example.append(": ").append(problem_.detail);
  if (problem_.has_pointer) example.append(" (at `").append(problem_.pointer).append("`)");
  around.report(code, example);
}

void Exchange::write_problem(const ConnectionContext& around, Answer& answer) const {
  report(around);
  const ProblemKind& kind = *problem_.kind;
  const bool is_auth = route_ != nullptr && route_->action == Action::auth;
  answer.status = kind.status;
  // Also for forward-auth, where some proxies know no refusals but 401 and 403. They treat any
  // other status as a failure, and here it is one.
  if (kind.status == 401)
    answer.add("WWW-Authenticate", "Basic realm=\"sluice\", charset=\"UTF-8\"");
  if (kind.status == 405) answer.add("Allow", allowed_methods());
  if (retry_after_.us > 0) append_retry_after(retry_after_, around.options.headers, answer.fields);
  if (route_ != nullptr && route_->action == Action::throttle && around.options.throttlecrab) {
    answer.content_type = json_type;
    answer.body.append("{\"error\": ");
    append_json_text(problem_.detail, answer.body);
    answer.body.append('}');
    return;
  }
  const bool short_form = form_ == AnswerForm::json && !is_auth;
  answer.content_type = short_form ? json_type : problem_type;
  answer.body.append('{');
  append_problem(problem_, short_form, answer.body);
  answer.body.append('}');
}

void Exchange::write_takes(Answer& answer) const {
  base::Buffer& body = answer.body;
  body.append('{');
  switch (route_->action) {
    case Action::health:
    case Action::crab_health:
      body.append("\"status\": \"ok\"");
      append_generation(generation_, body);
      body.append('}');
      return;
    case Action::throttle:
      body.append(members_.view());
      body.append('}');
      return;
    case Action::reset:
      body.append("\"reset\": ");
      base::append_decimal(static_cast<int64_t>(counters_), body);
      body.append('}');
      return;
    default:
      break;
  }
  const bool charges = route_->action == Action::charge;
  const bool looks = route_->action == Action::peek || route_->action == Action::explain ||
                     route_->action == Action::put || route_->action == Action::batch || charges;
  const bool fails = !looks && !always_ok_;
  if (fails && denied_)
    answer.status = 429;
  else if (fails && part_problem_ != nullptr && !is_decided_)
    answer.status = part_problem_->status;  // nothing was charged
  if (answer.status == 429 && form_ == AnswerForm::problem) {
    answer.content_type = problem_type;
    body.append("\"type\": \"");
    body.append(problems::quota_exceeded.type);
    body.append("\", \"title\": \"Quota exceeded\", \"status\": 429");
    append_violated(body);
    body.append(", ");
  }
  if (!is_several_) {
    body.append(members_.view());
  } else {
    if (charges) {
      body.append(over_ ? "\"over\": true, " : "\"over\": false, ");
    } else if (route_->action != Action::put && route_->action != Action::batch) {
      body.append(allowed_ && part_problem_ == nullptr ? "\"allowed\": true, "
                                                       : "\"allowed\": false, ");
    }
    body.append("\"takes\": [");
    body.append(members_.view());
    body.append(']');
  }
  if (is_repeated_) body.append(", \"repeated\": true");
  append_generation(generation_, body);
  body.append('}');
}

// Appends the names of the limits that refused.
void Exchange::append_violated(base::Buffer& out) const {
  out.append(", \"violated-policies\": [");
  bool is_first = true;
  for (const Told& told : told_) {
    if (told.decision.allowed) continue;
    if (!std::exchange(is_first, false)) out.append(", ");
    append_json_text(name_of(told), out);
  }
  out.append(']');
}

// Do the answer's fields show a single limit that did not refuse, without X-RateLimit-Limit and
// without a partition key?
bool Exchange::is_plain(const ConnectionContext& around) const {
  return told_.size() == 1 && has_shown_ && !denied_ && !around.options.partition_keys &&
         !around.options.headers.x_ratelimit;
}

void Exchange::write_limits(const ConnectionContext& around, Answer& answer) const {
  if (told_.empty() && !denied_) return;
  if (is_plain(around)) [[likely]] {
    const Told& told = told_.front();
    const auto texts = around.worker.policy_members.find(name_of(told), told.limit);
    return append_plain_fields({texts.policy_member, texts.quoted_name, told.limit, told.decision},
                               around.options.headers, answer.fields);
  }
  std::vector<ShownLimit>& shown_limits = around.worker.shown_limits;
  shown_limits.clear();
  for (const Told& told : told_) {
    ShownLimit& shown = shown_limits.emplace_back();
    shown.name = name_of(told);
    shown.limit = told.limit;
    shown.decision = told.decision;
    if (around.options.partition_keys)
      shown.partition = std::string_view(told.partition.data(), told.partition.size());
    // With several limits, the next `find` could overwrite these texts.
    if (told_.size() > 1) continue;
    const auto texts = around.worker.policy_members.find(shown.name, shown.limit);
    shown.policy_member = texts.policy_member;
    shown.quoted_name = texts.quoted_name;
  }
  append_limit_fields({.limits = shown_limits,
                       .shown = has_shown_ ? shown_ : told_.size(),
                       .denied = denied_ && answer.status != 200,
                       .retry_after = jittered(around, retry_of_denial_)},
                      around.options.headers, answer.fields);
}

// Makes `length` longer at random, so that clients that were refused together do not come back
// together.
base::Duration Exchange::jittered(const ConnectionContext& around, base::Duration length) {
  const unsigned percent = around.options.retry_jitter_percent;
  if (percent == 0 || length == base::never || length.us <= 0) return length;
  const int64_t most = length.us / 100 * percent;
  return {length.us + static_cast<int64_t>(around.worker.random() %
                                           static_cast<uint64_t>(std::max<int64_t>(most, 1)))};
}

void Exchange::write_auth(const ConnectionContext& around, Answer& answer) const {
  answer.status = denied_ ? profile_->deny : profile_->ok;
  write_limits(around, answer);
  if (auth_remaining_ >= 0) answer.add("X-Sluice-Remaining", auth_remaining_);
  if (!auth_rule_.empty()) answer.add("X-Sluice-Rule", auth_rule_);
  if (!denied_) return;
  // A 401 must have a challenge. No client answers this one by asking its user for a password.
  if (answer.status == 401) answer.add("WWW-Authenticate", "RateLimit");
  if (prefers_text(accept_)) {
    answer.content_type = text_type;
    answer.body.append(limited_text);
    return;
  }
  answer.content_type = problem_type;
  answer.body.append("{\"type\": \"");
  answer.body.append(problems::quota_exceeded.type);
  answer.body.append("\", \"title\": \"Quota exceeded\", \"status\": 429");
  append_violated(answer.body);
  if (!members_.empty()) answer.body.append(", ");
  answer.body.append(members_.view());
  append_generation(generation_, answer.body);
  answer.body.append('}');
}

}  // namespace sluice::http
