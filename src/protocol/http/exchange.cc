#include "protocol/http/exchange.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/arena.h"
#include "base/bounds.h"
#include "base/check.h"
#include "base/decimal.h"
#include "base/printable.h"
#include "base/rfc3339.h"
#include "base/text_writer.h"
#include "base/units.h"
#include "base/utf8.h"
#include "limit/calendar.h"
#include "limit/gcra.h"
#include "limit/shown.h"
#include "policy/inline_limits.h"
#include "protocol/http/auth_request.h"
#include "protocol/http/dialect.h"
#include "protocol/http/guard.h"
#include "protocol/http/json_text.h"
#include "protocol/http/openapi.h"
#include "protocol/http/take_body.h"
#include "protocol/http/wait_count.h"
#include "protocol/http/worker_state.h"
#include "request/kept_verdict.h"
#include "request/peer.h"
#include "request/session.h"
#include "wire/json.h"

namespace sluice::http {

namespace problems {
constinit const ProblemKind bad_request{400, "urn:sluice:problem:bad-request", "Bad request"};
constinit const ProblemKind unauthorized{401, "urn:sluice:problem:unauthorized",
                                         "Credentials are needed"};
constinit const ProblemKind forbidden{403, "urn:sluice:problem:forbidden", "Forbidden"};
constinit const ProblemKind no_rule{404, "urn:sluice:problem:no-rule", "No rule applies"};
constinit const ProblemKind not_found{404, "urn:sluice:problem:not-found", "Not found"};
constinit const ProblemKind no_such_profile{404, "urn:sluice:problem:no-such-profile",
                                            "No such profile"};
constinit const ProblemKind method_not_allowed{405, "urn:sluice:problem:method-not-allowed",
                                               "Method not allowed"};
constinit const ProblemKind not_acceptable{406, "urn:sluice:problem:not-acceptable",
                                           "Not acceptable"};
constinit const ProblemKind wait_timeout{408, "urn:sluice:problem:wait-timeout",
                                         "The wait timed out"};
constinit const ProblemKind id_in_use{409, "urn:sluice:problem:id-in-use", "The id is in use"};
constinit const ProblemKind no_such_hold{404, "urn:sluice:problem:no-such-hold",
                                         "No such reservation"};
constinit const ProblemKind no_places{400, "urn:sluice:problem:no-places", "No places"};
constinit const ProblemKind already_settled{409, "urn:sluice:problem:already-settled",
                                            "Already settled"};
constinit const ProblemKind hold_ended{410, "urn:sluice:problem:hold-ended",
                                       "The reservation has ended"};
constinit const ProblemKind too_large{413, "urn:sluice:problem:content-too-large",
                                      "Content too large"};
constinit const ProblemKind unsupported_type{415, "urn:sluice:problem:unsupported-media-type",
                                             "Unsupported media type"};
constinit const ProblemKind wrong_host{421, "urn:sluice:problem:misdirected-request",
                                       "Misdirected request"};
constinit const ProblemKind quota_exceeded{
    429, "https://iana.org/assignments/http-problem-types#quota-exceeded", "Quota exceeded"};
constinit const ProblemKind reduced_capacity{
    503, "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
    "Temporary reduced capacity"};
}  // namespace problems

void append_problem(const Problem& problem, bool short_form, base::Buffer& out) {
  if (!short_form) {
    out.append("\"type\": \"");
    out.append(problem.kind->type);
    out.append("\", \"title\": \"");
    out.append(problem.kind->title);
    out.append("\", \"status\": ");
    base::append_decimal(problem.kind->status, out);
  }
  if (!problem.detail.empty()) {
    out.append(short_form ? "\"detail\": " : ", \"detail\": ");
    append_json_text(problem.detail, out);
  }
  if (problem.has_pointer) {
    out.append(short_form && problem.detail.empty() ? "\"pointer\": " : ", \"pointer\": ");
    append_json_text(problem.pointer, out);
  }
}

namespace {

using access::Right;

constexpr std::string_view post = "POST, OPTIONS", get = "GET, HEAD, OPTIONS";

constexpr BodyForm take_wanted{.has_mode = true};
constexpr BodyForm charge_wanted{.has_id = true};
constexpr BodyForm put_wanted{.has_all = true};
constexpr BodyForm reset_wanted{.has_n = false};
constexpr BodyForm wait_wanted{.takes_max = 0, .has_timeout = true};
constexpr BodyForm batch_wanted{.takes_max = batch_takes_max, .only_takes = true};
constexpr BodyForm explain_wanted{.takes_max = 0, .has_detail = false};

// Searched in order, so the most frequent ones are first.
constexpr Route routes[] = {
    {"/v1/take", Action::take, post, Right::take, take_wanted},
    {"/v1/batch", Action::batch, post, Right::take, batch_wanted},
    {"/v1/charge", Action::charge, post, Right::take, charge_wanted},
    {"/v1/peek", Action::peek, post, Right::look, take_wanted},
    {"/v1/put", Action::put, post, Right::put, put_wanted},
    {"/v1/wait", Action::wait, post, Right::take, wait_wanted},
    {"/v1/reset", Action::reset, post, Right::put, reset_wanted},
    {"/v1/explain", Action::explain, post, Right::admin, explain_wanted},
    {"/v1/health", Action::health, get},
    {"/v1/openapi.json", Action::openapi, get},
    {"/v1/reserve", Action::reserve, post, Right::take},
    {"/v1/commit", Action::commit, post, Right::take},
    {"/v1/extend", Action::extend, post, Right::take},
    {"/v1/renew", Action::renew, post, Right::take},
    {"/v1/release", Action::release, post, Right::take},
    {"/v1/acquire", Action::acquire, post, Right::take},
    {"*", Action::any, "GET, HEAD, POST, OPTIONS"},  // for OPTIONS only (RFC 9110, 9.3.7)
    {"/throttle", Action::throttle, post, Right::take},
    {"/health", Action::crab_health, get},
};
// Any method: a proxy may ask with the method of the client's request.
constexpr Route auth_route{"/auth", Action::auth, {}};

}  // namespace

std::span<const Route> all_routes() {
  return routes;
}

const Route* find_route(std::string_view path) {
  if (path.starts_with("/auth") && (path.size() == 5 || path[5] == '/')) return &auth_route;
  const auto* const found = std::find_if(
      std::begin(routes), std::end(routes),
      [&](const Route& route) { return route.path.size() == path.size() && route.path == path; });
  return found == std::end(routes) ? nullptr : found;
}

bool has_method(const Route& route, std::string_view method) {
  if (route.methods.empty()) return true;
  if (method == "POST" && route.methods.starts_with("POST,")) return true;
  std::string_view rest = route.methods;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(", "), rest.size());
    if (rest.substr(0, end) == method) return true;
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return false;
}

namespace {

using access::Right;
using request::Verb;

// A literal: spans have no text that a client invents in place of a method.
std::string_view known_method(std::string_view method) {
  constexpr std::string_view all[] = {"POST",  "GET",     "HEAD",  "PUT",    "DELETE",
                                      "PATCH", "CONNECT", "TRACE", "OPTIONS"};
  const auto* const found = std::ranges::find(all, method);
  return found == std::end(all) ? std::string_view("_OTHER") : *found;
}

// The largest buffer that an exchange keeps for its next use.
constexpr size_t kept_bytes_max = size_t{16} << 10;

constexpr size_t shown_path_bytes_max = 64;

constexpr base::Duration wait_default = base::seconds(10);

std::string_view word_of(Right right) {
  return access::right_names[static_cast<size_t>(right)];
}

// Of an action on holds.
request::HoldAsk ask_of(Action action) {
  if (action == Action::acquire) return request::HoldAsk::reserve;
  return static_cast<request::HoldAsk>(static_cast<int>(action) -
                                       static_cast<int>(Action::reserve));
}
static_assert(static_cast<int>(Action::release) - static_cast<int>(Action::reserve) ==
              static_cast<int>(request::HoldAsk::release));

}  // namespace

bool is_answered_without_body(std::string_view path) {
  const Route* const route = find_route(path);
  return route == nullptr || route->action == Action::auth;
}

void Exchange::clear() {
  route_ = nullptr;
  form_ = AnswerForm::problem;
  asks_ = Asks();
  outcome_ = Outcome();
  waits_ = false;
  expected_ = taken_ = 0;
  origin_.clear();
  problem_.kind = part_problem_ = nullptr;
  path_.clear();
  retry_after_ = retry_of_denial_ = {};
  generation_ = counters_ = 0;
  now_ = {};
  members_.clear();
  names_.clear();
  told_.clear();
  shown_ = last_told_ = 0;
  limit_names_.clear();
  inline_limits_.clear();
  subjects_.clear();
  profile_ = nullptr;
  auth_remaining_ = -1;
  auth_rule_.clear();
  once_.reset();
  hold_.reset();
  if (span_) [[unlikely]]
    span_.give_up();
}

bool Exchange::is_large() const {
  return members_.size() > kept_bytes_max || subjects_.capacity() > takes_together_max;
}

Exchange::Begun Exchange::refuse(const ProblemKind& kind, std::string_view detail) {
  problem_.kind = &kind;
  problem_.detail = detail;
  problem_.pointer.clear();
  problem_.has_pointer = false;
  return Begun::ready;
}

void Exchange::fail(const Question& question, const ProblemKind& kind, std::string_view detail) {
  clear();
  asks_.is_head = question.method == "HEAD";
  outcome_.is_reported = true;
  refuse(kind, detail);
}

Exchange::Begun Exchange::begin(const Question& question, const ConnectionContext& around,
                                uint32_t note, request::Requests& requests) {
  clear();
  asks_.is_head = question.method.size() == 4 && question.method == "HEAD";
  route_ = find_route(question.path);
  return around.peer.spans == nullptr ? begin_route(question, around, note, requests)
                                      : begin_traced(question, around, note, requests);
}

Exchange::Begun Exchange::begin_route(const Question& question, const ConnectionContext& around,
                                      uint32_t note, request::Requests& requests) {
  return route_ != nullptr && route_->action == Action::auth
             ? begin_auth(question, around, note, requests)
             : begin_api(question, around, note, requests);
}

// ---- The span ----

Exchange::Begun Exchange::begin_traced(const Question& question, const ConnectionContext& around,
                                       uint32_t note, request::Requests& requests) {
  begin_span(question, around);
  const size_t first = requests.size();
  const Begun begun = begin_route(question, around, note, requests);
  if (!span_ || !around.peer.spans->wants_values()) return begun;
  for (const request::Request& request : requests.items().subspan(first))
    for (const request::Entry& entry : requests.descriptor(request))
      span_->note_entry(entry.key, entry.value);
  return begun;
}

// Questions about counters have one, but not those about the server.
void Exchange::begin_span(const Question& question, const ConnectionContext& around) {
  if (route_ == nullptr || (!route_->right && route_->action != Action::auth) ||
      question.method == "OPTIONS")
    return;
  otlp::CallerFields fields;
  for (const wire::HttpField& field : question.fields) fields.add(field.name, field.value);
  span_ = around.peer.spans->begin(fields, around.peer.clock->now());
  if (!span_) return;
  span_->kind = otlp::Span::Kind::http;
  span_->name = route_->path;
  span_->method = known_method(question.method);
}

void Exchange::end_span(uint16_t status, const ConnectionContext& around) {
  span_->status = status;
  span_.end(around.peer.clock->now());
}

// ---- Checks before the body is read, in their order ----

// Where the server has users, only a request with a token takes anything, and a web page has none.
// Health says nothing that a page could use.
bool Exchange::is_misdirected(const Question& question, const ConnectionContext& around) const {
  if (!around.guards_names() || around.host.allows(question.host, around.options.hosts))
    return false;
  const bool is_health = route_ != nullptr && (route_->action == Action::health ||
                                               route_->action == Action::crab_health);
  around.identity.refresh();
  return !is_health && !around.identity.is_needed();
}

Exchange::Begun Exchange::refuse_host(std::string_view host, const ConnectionContext& around) {
  std::string name(name_of_host(host).substr(0, auth_host_bytes_max));
  std::ranges::transform(name, name.begin(), wire::http_lower);
  name = base::printable(name);
  const std::string why =
      "the Host of the request, `" + name +
      "`, is neither an address nor `localhost` nor one of `http.hosts`, so a page of another site "
      "may have sent it; if this server has that name, write `http: { hosts: [" +
      name + "] }` in its sluice.yaml, or give it --http-hosts " + name + ", and restart it";
  if (around.peer.server != nullptr) around.peer.server->warn("421: " + why);
  around.report("host", {});
  return refuse(problems::wrong_host, why);
}

Exchange::Begun Exchange::begin_api(const Question& question, const ConnectionContext& around,
                                    uint32_t note, request::Requests& requests) {
  const RequestFields fields = read_request_fields(question.fields);
  form_ = answer_form(fields.accept);
  if (is_misdirected(question, around)) return refuse_host(question.host, around);
  if (!is_origin_allowed(fields, around.options.origins))
    return refuse(problems::forbidden,
                  "the request comes from a web page whose origin is not one of `http.origins`");
  if (fields.has_origin) origin_ = fields.origin;
  asks_.takes_get = around.options.get_takes;
  const bool is_twin = route_ != nullptr && (route_->action == Action::throttle ||
                                             route_->action == Action::crab_health);
  if (route_ == nullptr || (is_twin && !around.options.throttlecrab)) {
    path_ = question.path.substr(0, shown_path_bytes_max);
    return refuse(problems::not_found, "there is nothing at this path; see /v1/openapi.json");
  }
  if (question.method == "OPTIONS") {
    asks_.is_options = true;
    return Begun::ready;
  }
  const bool is_get_take = route_->action == Action::take && around.options.get_takes &&
                           (question.method == "GET" || asks_.is_head);
  if (!has_method(*route_, question.method) && !is_get_take)
    return refuse(problems::method_not_allowed,
                  std::string("this path takes ").append(allowed_methods()));
  if (!fields.twice.empty())
    return refuse(problems::bad_request, "the field " + std::string(fields.twice) + " comes twice");
  if (fields.has_idempotency_key && route_->right && route_->action != Action::throttle)
    return refuse(problems::bad_request,
                  "this server takes no Idempotency-Key; to send a request again safely, send a "
                  "charge to /v1/charge with an `id` in its body");
  if (form_ == AnswerForm::none) {
    form_ = AnswerForm::problem;
    return refuse(problems::not_acceptable,
                  "answers are application/json and application/problem+json; Accept has neither");
  }
  if (!route_->right) return begin_action(question, fields, false, around, note, requests);
  if (!know_client(fields, around)) return Begun::ready;
  if (!around.identity.is_limited()) [[likely]]
    return begin_action(question, fields, is_get_take, around, note, requests);
  const size_t first = requests.size();
  const Begun begun = begin_action(question, fields, is_get_take, around, note, requests);
  requests.guard(first, around.identity.limited(), *route_->right);
  return begun;
}

Exchange::Begun Exchange::begin_action(const Question& question, const RequestFields& fields,
                                       bool is_get_take, const ConnectionContext& around,
                                       uint32_t note, request::Requests& requests) {
  switch (route_->action) {
    case Action::health:
    case Action::crab_health:
      if (around.peer.server != nullptr && around.peer.server->is_stopping())
        return refuse(problems::reduced_capacity, "the server is stopping");
      return ask_health(note, requests);
    case Action::openapi:
      return Begun::ready;
    case Action::any:
      return refuse(problems::not_found, "there is nothing at this path; see /v1/openapi.json");
    case Action::throttle:
      return begin_throttle(question, fields, note, requests);
    case Action::acquire:
    case Action::reserve:
    case Action::extend:
    case Action::renew:
    case Action::commit:
    case Action::release:
      return begin_hold(question, fields, around, note, requests);
    default:
      return is_get_take ? begin_query(question, around, note, requests)
                         : begin_body(question, fields, around, note, requests);
  }
}

// False: the client has not the right that the route needs, and the answer is ready.
bool Exchange::know_client(const RequestFields& fields, const ConnectionContext& around) {
  if (!around.identity.authorize(fields.authorization)) {
    refuse(problems::unauthorized, access::why_unknown(fields.authorization));
    return false;
  }
  if (around.identity.may(*route_->right)) return true;
  std::string text = "this needs the right `";
  text.append(word_of(*route_->right)).append("`, which the user does not have");
  refuse(problems::forbidden, text);
  return false;
}

bool Exchange::read_query(const Question& question) {
  if (question.query.empty()) return true;
  if (question.query != "status=200") return false;
  asks_.always_ok = true;
  return true;
}

// False: the body has another form than JSON, and the answer is ready.
bool Exchange::may_read(const RequestFields& fields) {
  if (!fields.content_encoding.empty() && !wire::is_http_name(fields.content_encoding, "identity"))
    refuse(problems::unsupported_type, "send the body as it is, without `Content-Encoding`");
  else if (!is_json_type(fields.content_type))
    refuse(problems::unsupported_type,
           "send the field `Content-Type: application/json` with the body, which must be JSON in "
           "UTF-8; with curl: -H 'Content-Type: application/json'");
  return problem_.kind == nullptr;
}

// The same of the query, too.
bool Exchange::may_read(const Question& question, const RequestFields& fields) {
  if (!may_read(fields)) return false;
  if (read_query(question)) return true;
  refuse(problems::bad_request, "the query may be `status=200`, and nothing else");
  return false;
}

Exchange::Begun Exchange::begin_body(const Question& question, const RequestFields& fields,
                                     const ConnectionContext& around, uint32_t note,
                                     request::Requests& requests) {
  if (!may_read(question, fields)) return Begun::ready;
  return read_body(question.body, around, note, requests);
}

Exchange::Begun Exchange::begin_hold(const Question& question, const RequestFields& fields,
                                     const ConnectionContext& around, uint32_t note,
                                     request::Requests& requests) {
  if (!may_read(question, fields)) return Begun::ready;
  body_ = question.body;
  TakeBody& body = around.worker.body;
  return around.worker.body_reader.read_hold(body_, ask_of(route_->action), body,
                                             route_->action == Action::acquire)
             ? ask_hold(around, note, requests)
             : refuse_body(body);
}

Exchange::Begun Exchange::begin_query(const Question& question, const ConnectionContext& around,
                                      uint32_t note, request::Requests& requests) {
  const auto take = body_of_query(question.query);
  if (!take) return refuse(problems::bad_request, take.problem().text);
  asks_.always_ok |= take->always_ok;
  return read_body(requests.hold(take->body), around, note, requests);
}

// `body` lives as long as the requests.
Exchange::Begun Exchange::read_body(std::string_view body, const ConnectionContext& around,
                                    uint32_t note, request::Requests& requests) {
  body_ = body;
  HttpWorker& worker = around.worker;
  return worker.body_reader.read(body, route_->wanted, worker.body)
             ? ask_body(around, note, requests)
             : refuse_body(worker.body);
}

Exchange::Begun Exchange::refuse_body(const TakeBody& body) {
  refuse(problems::bad_request, body.problem);
  problem_.pointer = body.pointer;
  problem_.has_pointer = true;
  return Begun::ready;
}

// ---- The requests to the engine ----

namespace {

uint64_t content_of(const TakeBody& body) {
  request::ChargeContent content;
  for (const TakeSubject& subject : body.subjects) {
    if (subject.is_inline) {
      content.add_key(subject.key, subject.n);
      for (const TakeBody::NamedLimit& one : body.limits_of(subject))
        content.add_limit(one.limit, one.counts, one.overdraft);
    } else {
      const auto entries = body.entries_of(subject);
      content.add_entries({entries.begin(), entries.end()}, subject.n);
    }
  }
  return content.digest();
}

// Do two of the subjects bring different lists of limits for one key?
bool has_two_lists(const TakeBody& body) {
  const auto same_limit = [](const TakeBody::NamedLimit& a, const TakeBody::NamedLimit& b) {
    return a.limit == b.limit && a.counts == b.counts;
  };
  for (size_t i = 0; i < body.subjects.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      const TakeSubject &one = body.subjects[i], &other = body.subjects[j];
      if (one.is_inline && other.is_inline && one.key == other.key &&
          !std::ranges::equal(body.limits_of(one), body.limits_of(other), same_limit))
        return true;
    }
  }
  return false;
}

}  // namespace

Exchange::Begun Exchange::ask_body(const ConnectionContext& around, uint32_t note,
                                   request::Requests& requests) {
  const TakeBody& body = around.worker.body;
  asks_.is_several = body.has_takes;
  asks_.detail = body.detail;
  // Puts into several counters are independent: if one fails, the others stay.
  asks_.each = body.each || route_->action == Action::batch || route_->action == Action::put;
  if (!may_bring_limits(body, around)) return Begun::ready;
  if (route_->action == Action::wait) return ask_wait(body, around, note, requests);
  const bool charges = route_->action == Action::charge;
  if (charges && !body.id.empty() && !claim_id(body, around)) return Begun::ready;
  const bool together = asks_.is_several && !asks_.each && (route_->wanted.has_mode || charges);
  const bool resets = route_->action == Action::reset;
  request::Message message{
      .together = together,
      .needs_rule = together && around.options.unmatched != Unmatched::allow,
      .needs_store = resets || route_->action == Action::put,
      .brought_by = around.identity.number(),
  };
  if (charges && has_claim()) {
    std::string name(user_of(around));
    name.append(":").append(once_->id);
    message.charge_id = requests.hold_id({name, once_->content});
  }
  const request::Message* const its = requests.hold(message);
  for (const TakeSubject& subject : body.subjects) {
    const bool looks = route_->action == Action::peek || route_->action == Action::explain;
    const bool puts = route_->action == Action::put;
    const Verb verb = charges                           ? Verb::charge
                      : looks                           ? Verb::would_take
                      : resets || (puts && subject.all) ? Verb::reset
                      : puts                            ? Verb::put
                                                        : Verb::take;
    // A reset tells whether there was a counter.
    if (resets)
      ask_subject(body, subject, {.verb = Verb::peek, .message = its, .note = note, .tag = {}},
                  requests);
    ask_subject(body, subject, {.verb = verb, .message = its, .note = note, .tag = {}}, requests);
  }
  expected_ = body.subjects.size() * (resets ? 2 : 1);
  return Begun::asked;
}

// False: it brings limits, which is switched off, and the answer is ready.
bool Exchange::may_bring_limits(const TakeBody& body, const ConnectionContext& around) {
  const auto is_inline = [](const TakeSubject& subject) { return subject.is_inline; };
  if (around.options.inline_limits || std::ranges::none_of(body.subjects, is_inline)) return true;
  refuse(problems::bad_request,
         "limits that come with a request are switched off (`http.inline_limits`)");
  return false;
}

// Claims the id of a charge. False: the answer is ready. If the id was used before,
// outcome_.is_again is set: then the requests look at the counters in place of charging them.
bool Exchange::claim_id(const TakeBody& body, const ConnectionContext& around) {
  using Found = request::ChargeIds::Found;
  if (around.peer.charge_ids == nullptr) {
    refuse(problems::bad_request, "this server remembers no ids of charges");
    return false;
  }
  once_ = std::make_unique<Once>();
  once_->id = body.id;
  once_->content = content_of(body);
  const Found found = around.peer.charge_ids->claim(user_of(around), once_->id, once_->content,
                                                    around.peer.clock->monotonic(), once_->claim);
  outcome_.is_again = found == Found::under_way || found == Found::remembered;
  if (outcome_.is_again || found == Found::first) return true;
  if (found == Found::other_content) {
    refuse_other_content();
  } else {
    retry_after_ = base::seconds(1);
    refuse(problems::reduced_capacity,
           "the memory for ids of charges is full; try again later, or without an id");
  }
  return false;
}

// Whose ids the client uses. Without users all of them have one name.
std::string_view Exchange::user_of(const ConnectionContext& around) {
  const access::Identity& identity = around.identity;
  return identity.is_needed() ? std::string_view(identity.user()) : std::string_view();
}

Exchange::Begun Exchange::refuse_other_content() {
  return refuse(problems::id_in_use,
                "the id was used with another charge: an id belongs to one charge, which may be "
                "sent again unchanged");
}

// A reserve takes from its subjects. A commit that names them charges them if its hold is unknown.
// Everything else has one request without a subject.
Exchange::Begun Exchange::ask_hold(const ConnectionContext& around, uint32_t note,
                                   request::Requests& requests) {
  const TakeBody& body = around.worker.body;
  const bool reserves = ask_of(route_->action) == request::HoldAsk::reserve;
  hold_ = std::make_unique<HoldAnswer>();
  asks_.is_several = body.has_takes;
  asks_.has_list = body.has_takes || body.has_units_list;
  asks_.detail = body.detail;
  if (!may_bring_limits(body, around)) return Begun::ready;
  if (has_two_lists(body)) {
    refuse(problems::bad_request,
           "two of `takes` bring different limits for one key, and a reservation has one list for "
           "each: give them keys of their own, or reserve each by itself");
    problem_.pointer = "/takes";
    problem_.has_pointer = true;
    return Begun::ready;
  }
  const bool together = asks_.is_several;
  const base::Duration timeout = body.timeout.value_or(base::Duration{});
  if (timeout.us > 0 && !begin_wait(timeout, around)) return Begun::ready;
  asks_.waits = body.timeout.has_value();
  const request::Message* const its = requests.hold(request::Message{
      .together = together,
      .needs_rule = together && around.options.unmatched != Unmatched::allow,
      .must_fit = timeout.us > 0,
      .wait_at_most = timeout,
      .hold = requests.hold(request::HoldCall{
          .ask = ask_of(route_->action),
          .user = requests.hold(user_of(around)),
          .id = hold(body.id, requests),
          .content = reserves && !body.id.empty() ? content_of(body) : 0,
          .ttl = body.ttl,
          .holder = hold(body.holder, requests),
          .waits = timeout.us > 0,
          .is_place = route_->action == Action::acquire,
          .closes = body.release_on_close,
          .units = body.units,
      }),
      .brought_by = around.identity.number(),
  });
  for (const TakeSubject& subject : body.subjects)
    ask_subject(
        body, subject,
        {.verb = reserves ? Verb::reserve : Verb::charge, .message = its, .note = note, .tag = {}},
        requests);
  expected_ = body.subjects.size();
  if (!body.subjects.empty()) return Begun::asked;
  requests.open();
  requests.commit({.verb = Verb::settle,
                   .scope = request::RuleScope::native,
                   .message = its,
                   .note = note,
                   .cost = 0,
                   .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

// A put or reset of a `key` changes that key's own counter (RuleScope::dialect), although native
// rules of the policy may apply to its takes as well. `entries` meet native rules only: entries
// with the names that the dialect uses must not reach the dialect's counters.
void Exchange::ask_subject(const TakeBody& body, const TakeSubject& subject,
                           request::Request request, request::Requests& requests) {
  const bool is_about_counters =
      request::told_as(request.verb) == Verb::put || request.verb == Verb::peek;
  request.scope = !subject.is_inline  ? request::RuleScope::native
                  : is_about_counters ? request::RuleScope::dialect
                                      : request::RuleScope::all;
  if (request.verb != Verb::peek && request.verb != Verb::reset)
    request.cost = outcome_.is_again ? 0 : subject.n;
  requests.open();
  if (subject.is_inline) {
    requests.add(request::Entry{kind_entry, inline_kind});
    requests.add(request::Entry{key_entry, hold(subject.key, requests)});
    request.limits.replaces = true;
    if (request.verb != Verb::peek && request.verb != Verb::reset) {
      size_t count = 0;
      bool has_overdraft = false;
      for (const TakeBody::NamedLimit& one : body.limits_of(subject)) {
        requests.add(one.limit);
        has_overdraft |= one.overdraft < limit::Overdrafts::none;
        if (one.counts)
          request.limits.counts =
              static_cast<limit::LimitMask>(request.limits.counts | 1u << count);
        ++count;
      }
      if (has_overdraft) [[unlikely]] {
        limit::Overdrafts overdrafts;
        for (const TakeBody::NamedLimit& one : body.limits_of(subject))
          overdrafts.add(one.limit, one.overdraft);
        request.limits.overdrafts = requests.hold(overdrafts);
      }
    }
  } else {
    for (const request::Entry& entry : body.entries_of(subject)) {
      if (!body.has_copies) [[likely]]
        requests.add(entry);
      else
        requests.add(request::Entry{hold(entry.key, requests), hold(entry.value, requests)});
    }
  }
  requests.commit(request);
  if (request.verb != Verb::peek) note_subject(body, subject);
}

// A view that is valid as long as the requests. A text in the body is; the reader's copy of a text
// with escapes is not.
std::string_view Exchange::hold(std::string_view text, request::Requests& requests) const {
  const bool lies_in_body =
      text.data() >= body_.data() && text.data() + text.size() <= body_.data() + body_.size();
  return lies_in_body ? text : requests.hold(text);
}

void Exchange::note_subject(const TakeBody& body, const TakeSubject& subject) {
  Subject& noted = subjects_.emplace_back();
  noted.is_inline = subject.is_inline;
  if (!subject.is_inline) return;
  noted.name_first = static_cast<uint32_t>(limit_names_.size());
  const auto limits = body.limits_of(subject);
  for (size_t i = 0; i < limits.size(); ++i) {
    inline_limits_.push_back(limits[i].limit);
    limit_names_.push_back(!limits[i].name.empty() ? std::string(limits[i].name)
                           : limits.size() == 1    ? std::string("default")
                                                   : std::to_string(i + 1));
  }
  noted.name_count = static_cast<uint32_t>(limits.size());
}

// False: it cannot wait, and the problem was set.
bool Exchange::begin_wait(base::Duration timeout, const ConnectionContext& around) {
  if (timeout.us > around.options.wait_max.us) {
    refuse(problems::bad_request,
           "`timeout` is longer than " + base::format_duration(around.options.wait_max) +
               ", the most that `http.max_wait` allows; ask for less, or raise it");
    problem_.pointer = "/timeout";
    problem_.has_pointer = true;
    return false;
  }
  const bool full =
      around.waiting >= waiting_per_connection_max ||
      (around.options.waits != nullptr && !around.options.waits->begin(around.options.waiting_max));
  if (full) {
    retry_after_ = base::seconds(1);
    refuse(problems::reduced_capacity, "too many requests wait; try again later");
    return false;
  }
  ++around.waiting;
  waits_ = true;
  return true;
}

Exchange::Begun Exchange::ask_wait(const TakeBody& body, const ConnectionContext& around,
                                   uint32_t note, request::Requests& requests) {
  const base::Duration timeout =
      body.timeout.value_or(std::min(wait_default, around.options.wait_max));
  if (!begin_wait(timeout, around)) return Begun::ready;
  // To the engine a timeout of 0 means a wait without end, so such a wait becomes a take.
  const bool at_once = timeout.us == 0;
  ask_subject(
      body, body.subjects[0],
      {.verb = at_once ? Verb::take : Verb::wait,
       .message = requests.hold(request::Message{
           .must_fit = true, .wait_at_most = timeout, .brought_by = around.identity.number()}),
       .note = note,
       .tag = {}},
      requests);
  expected_ = 1;
  return Begun::asked;
}

void Exchange::end_wait(const ConnectionContext& around) {
  if (!waits_) return;
  waits_ = false;
  --around.waiting;
  if (around.options.waits != nullptr) around.options.waits->end();
}

// A peek at a counter that does not exist: a store that can be reached answers it.
Exchange::Begun Exchange::ask_health(uint32_t note, request::Requests& requests) {
  requests.open();
  requests.add(request::Entry{kind_entry, inline_kind});
  requests.add(request::Entry{key_entry, {}});
  requests.commit({.verb = Verb::peek,
                   .scope = request::RuleScope::dialect,
                   .limits = {.replaces = true},
                   .message = requests.hold(request::Message{.needs_store = true}),
                   .note = note,
                   .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

void Exchange::forget(const ConnectionContext& around) {
  end_wait(around);
  once_.reset();
  hold_.reset();
  if (span_) [[unlikely]]
    span_.give_up();
}

// Writes the answer of an exchange.

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
  write_answer(around, answer);
  if (span_) [[unlikely]]
    end_span(answer.status, around);
}

void Exchange::write_answer(const ConnectionContext& around, Answer& answer) {
  answer.add("Cache-Control", "no-store");
  if (!origin_.empty()) [[unlikely]]
    write_origin(answer);
  if (asks_.is_options) {
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
  if (!asks_.is_options) {
    answer.add("Access-Control-Expose-Headers", "Retry-After, RateLimit, RateLimit-Policy");
    return;
  }
  answer.add("Access-Control-Allow-Methods", allowed_methods());
  answer.add("Access-Control-Allow-Headers", "Authorization, Content-Type");
  answer.add("Access-Control-Max-Age", preflight_seconds);
}

// With `http.get_takes` a take may be a GET.
std::string_view Exchange::allowed_methods() const {
  return asks_.takes_get && route_->action == Action::take
             ? std::string_view("GET, HEAD, POST, OPTIONS")
             : route_->methods;
}

// Reports the problem if the client caused it, unless that was done where it was found. Requests
// that no rule matches are reported by the engine.
void Exchange::report(const ConnectionContext& around) const {
  const ProblemKind& kind = *problem_.kind;
  const bool is_refusal = kind.status >= 400 && kind.status < 500 && kind.status != 408 &&
                          kind.status != 409 && kind.status != 410 && kind.status != 421 &&
                          kind.status != 429 && &kind != &problems::no_rule &&
                          &kind != &problems::no_such_hold;
  if (outcome_.is_reported || !is_refusal) return;
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
  if (&kind == &problems::already_settled && hold_) answer.body.append(hold_->text.view());
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
    case Action::acquire:
    case Action::reserve:
    case Action::extend:
    case Action::renew:
    case Action::commit:
    case Action::release:
      return write_hold(answer);
    default:
      break;
  }
  const bool charges = route_->action == Action::charge;
  const bool looks = route_->action == Action::peek || route_->action == Action::explain ||
                     route_->action == Action::put || route_->action == Action::batch || charges;
  const bool fails = !looks && !asks_.always_ok;
  if (fails && outcome_.denied)
    answer.status = 429;
  else if (fails && part_problem_ != nullptr && !outcome_.any_decided)
    answer.status = part_problem_->status;  // nothing was charged
  if (answer.status == 429 && form_ == AnswerForm::problem) begin_denial(answer);
  if (!asks_.is_several) {
    body.append(members_.view());
  } else {
    if (charges) {
      body.append(outcome_.over ? "\"over\": true, " : "\"over\": false, ");
    } else if (route_->action != Action::put && route_->action != Action::batch) {
      body.append(outcome_.allowed && part_problem_ == nullptr ? "\"allowed\": true, "
                                                               : "\"allowed\": false, ");
    }
    body.append("\"takes\": [");
    body.append(members_.view());
    body.append(']');
  }
  if (outcome_.is_repeated) body.append(", \"repeated\": true");
  append_generation(generation_, body);
  body.append('}');
}

// Writes the members that a denial has as a problem.
void Exchange::begin_denial(Answer& answer) const {
  answer.content_type = problem_type;
  answer.body.append("\"type\": \"");
  answer.body.append(problems::quota_exceeded.type);
  answer.body.append("\", \"title\": \"Quota exceeded\", \"status\": 429");
  append_violated(answer.body);
  answer.body.append(", ");
}

// Writes the rest of an answer about a hold, behind its brace.
void Exchange::write_hold(Answer& answer) const {
  base::Buffer& body = answer.body;
  const bool takes =
      ask_of(route_->action) == request::HoldAsk::reserve || route_->action == Action::extend;
  if (takes) {
    if (outcome_.denied && !asks_.always_ok) answer.status = 429;
    if (answer.status == 429 && form_ == AnswerForm::problem) begin_denial(answer);
    if (asks_.is_several)
      body.append(outcome_.allowed ? "\"allowed\": true, \"takes\": ["
                                   : "\"allowed\": false, \"takes\": [");
    body.append(members_.view());
    if (asks_.is_several) body.append(']');
    if (hold_) body.append(hold_->text.view());
    if (outcome_.is_repeated) body.append(", \"repeated\": true");
    append_generation(generation_, body);
  } else if (hold_) {
    body.append(hold_->text.view());
  }
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
  return told_.size() == 1 && outcome_.any_shown && !outcome_.denied &&
         !around.options.partition_keys && !around.options.headers.x_ratelimit;
}

void Exchange::write_limits(const ConnectionContext& around, Answer& answer) const {
  if (told_.empty() && !outcome_.denied) return;
  if (is_plain(around)) [[likely]] {
    const Told& told = told_.front();
    const limit::Limit limit = limit::shown(told.limit, now_);
    const auto texts = around.worker.policy_members.find(name_of(told), unit_of(told), limit);
    return append_plain_fields({texts.policy_member, texts.quoted_name, limit, told.decision},
                               around.options.headers, answer.fields);
  }
  std::vector<ShownLimit>& shown_limits = around.worker.shown_limits;
  shown_limits.clear();
  for (const Told& told : told_) {
    ShownLimit& shown = shown_limits.emplace_back();
    shown.name = name_of(told);
    shown.unit = unit_of(told);
    shown.limit = limit::shown(told.limit, now_);
    shown.decision = told.decision;
    if (around.options.partition_keys)
      shown.partition = std::string_view(told.partition.data(), told.partition.size());
    // With several limits, the next `find` could overwrite these texts.
    if (told_.size() > 1) continue;
    const auto texts = around.worker.policy_members.find(shown.name, shown.unit, shown.limit);
    shown.policy_member = texts.policy_member;
    shown.quoted_name = texts.quoted_name;
  }
  append_limit_fields({.limits = shown_limits,
                       .shown = outcome_.any_shown ? shown_ : told_.size(),
                       .denied = outcome_.denied && answer.status != 200,
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
  answer.status = outcome_.denied ? profile_->deny : profile_->ok;
  write_limits(around, answer);
  if (auth_remaining_ >= 0) answer.add("X-Sluice-Remaining", auth_remaining_);
  if (!auth_rule_.empty()) answer.add("X-Sluice-Rule", auth_rule_);
  if (!outcome_.denied) return;
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

// Forward-auth: a proxy asks whether it may forward a request of its client.

namespace {

constexpr std::string_view auth_path = "/auth/";

void warn(const ConnectionContext& around, std::string_view profile, std::string_view why) {
  if (around.peer.server == nullptr) return;
  std::string line = "/auth/";
  line.append(profile).append(" asked by ").append(around.peer.address).append(": ").append(why);
  around.peer.server->warn(line);
}

// The client's Accept: the proxy may show a refusal to the client.
std::string_view accept_of(std::span<const wire::HttpField> fields) {
  const auto found = std::ranges::find_if(fields, [](const wire::HttpField& field) {
    return wire::is_http_name(field.name, "accept");
  });
  return found == fields.end() ? std::string_view() : found->value;
}

}  // namespace

Exchange::Begun Exchange::begin_auth(const Question& question, const ConnectionContext& around,
                                     uint32_t note, request::Requests& requests) {
  const std::string_view name = question.path.size() <= auth_path.size()
                                    ? std::string_view()
                                    : question.path.substr(auth_path.size());
  profile_ = around.options.auth.find(name);
  if (profile_ == nullptr) {
    const std::string_view shown = name.substr(0, 64);
    warn(around, shown, "there is no such profile in `http.auth.profiles`");
    return refuse(problems::no_such_profile, "there is no such profile in `http.auth.profiles`");
  }
  std::vector<request::Entry>& entries = around.worker.auth_entries;
  entries.clear();
  const AuthQuestion asked{.method = question.method,
                           .path = question.path,
                           .query = question.query,
                           .host = question.host,
                           .scheme = question.scheme,
                           .fields = question.fields};
  const auto refusal = read_auth_request(asked, *profile_, around.options.auth, around.auth_peer,
                                         requests.texts(), entries);
  if (refusal) {
    warn(around, profile_->name, refusal->message);
    return refuse(refusal->status == 403 ? problems::forbidden : problems::bad_request,
                  refusal->message);
  }
  accept_ = accept_of(question.fields).substr(0, accept_bytes_max);
  requests.open();
  for (const request::Entry& entry : entries) requests.add(entry);
  requests.commit(
      {.scope = request::RuleScope::native, .note = note, .cost = profile_->n, .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

// A request to which no rule applies is allowed, except with `unmatched: deny`: a proxy asks about
// all of its requests, and most of them need no limit.
void Exchange::take_auth(const request::Verdict& verdict, const ConnectionContext& around) {
  if (!verdict.error.empty()) {
    if (profile_->on_store_error == request::OnError::error) {
      retry_after_ = base::seconds(1);
      refuse(problems::reduced_capacity, verdict.error);
    } else if (profile_->on_store_error == request::OnError::deny) {
      outcome_.denied = true;
      outcome_.allowed = false;
      retry_of_denial_ = base::seconds(1);
    }
    return;
  }
  if (verdict.tightest == nullptr) {
    outcome_.denied = !verdict.matched && around.options.unmatched == Unmatched::deny;
    outcome_.allowed = !outcome_.denied;
    retry_of_denial_ = base::never;
    return;
  }
  report_limits(verdict, around);
  note_outcome(verdict.allowed, *verdict.tightest);
  auth_rule_ = verdict.rule;
  if (verdict.is_counted()) auth_remaining_ = std::max<int64_t>(verdict.tightest->remaining, 0);
  if (!verdict.allowed) append_take(verdict, false, members_);
}

// throttlecrab's POST /throttle, with answers and errors in throttlecrab's form. Its body is read
// as clients write it, each member once, with plain texts and whole numbers, without allocation.
// Any other body is read as a tree: throttlecrab skips members that it does not know, of any value,
// and of repeated ones the last counts.

namespace {

using wire::Json;

struct ThrottleBody {
  std::string_view key;  // in the body
  // max_burst, count_per_period, period, quantity
  std::array<int64_t, 4> numbers{0, 0, 0, 1};
};

constexpr std::array<std::string_view, 4> throttle_numbers = {"max_burst", "count_per_period",
                                                              "period", "quantity"};

// False: `body` must be read as a tree, and `to` must not be used.
bool read_plain_throttle(std::string_view body, ThrottleBody& to) {
  if (!base::utf8::is_valid(body)) return false;
  base::Arena copies;  // of texts with escapes, which make it false
  std::string problem;
  TakeBodyScanner scanner(body, copies, problem);
  constexpr unsigned key_bit = 1U << throttle_numbers.size(), required = key_bit | 0b0111;
  unsigned seen = 0;
  if (!scanner.take('{')) return false;
  do {
    std::string_view name, number;
    if (scanner.peek() != '"' || !scanner.read_text(name) || !scanner.take(':')) return false;
    unsigned bit = key_bit;
    if (name == "key") {
      if (scanner.peek() != '"' || !scanner.read_text(to.key)) return false;
    } else {
      const auto found = std::find(throttle_numbers.begin(), throttle_numbers.end(), name);
      if (found == throttle_numbers.end() || !scanner.is_at_number() ||
          !scanner.read_number(number))
        return false;
      const auto at = static_cast<size_t>(found - throttle_numbers.begin());
      const char* const end = number.data() + number.size();
      const auto read = std::from_chars(number.data(), end, to.numbers[at]);
      if (read.ptr != end || read.ec != std::errc()) return false;
      bit = 1U << at;
    }
    if ((seen & bit) != 0 || scanner.has_copies()) return false;
    seen |= bit;
  } while (scanner.take(','));
  return scanner.take('}') && scanner.is_done() && (seen & required) == required;
}

std::optional<int64_t> integer_of(const Json& body, std::string_view member) {
  const auto found = body.find(member);
  if (found == body.end() || !found->is_number_integer()) return std::nullopt;
  if (found->is_number_unsigned() && found->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    return std::nullopt;
  return found->get<int64_t>();
}

// Returns what is wrong with the body; empty: nothing.
std::string read_any_throttle(const Json& body, ThrottleBody& to) {
  if (body.is_discarded() || !body.is_object()) return "the body must be an object of JSON";
  const auto key = body.find("key");
  if (key == body.end() || !key->is_string()) return "`key` must be a text";
  to = {};
  to.key = key->get_ref<const std::string&>();
  for (size_t i = 0; i < throttle_numbers.size(); ++i) {
    const auto number = integer_of(body, throttle_numbers[i]);
    const bool is_default = throttle_numbers[i] == "quantity" &&
                            (!body.contains("quantity") || body.at("quantity").is_null());
    if (is_default) continue;
    if (!number) return "`" + std::string(throttle_numbers[i]) + "` must be a whole number";
    to.numbers[i] = *number;
  }
  return {};
}

std::string problem_of(const ThrottleBody& body, const limit::gcra::Rate& rate) {
  const int64_t quantity = body.numbers[3];
  if (quantity < 0) return "negative quantity: " + std::to_string(quantity);
  if (rate.error == limit::gcra::Error::out_of_range)
    return "max_burst, count_per_period and period are out of range together";
  return rate.error == limit::gcra::Error::none ? "" : "invalid rate limit parameters";
}

}  // namespace

Exchange::Begun Exchange::begin_throttle(const Question& question, const RequestFields& fields,
                                         uint32_t note, request::Requests& requests) {
  if (!may_read(fields)) return Begun::ready;
  ThrottleBody body;
  const std::string_view text = question.body;
  if (!read_plain_throttle(text, body)) {
    const Json tree =
        wire::is_bounded(text) ? Json::parse(text, nullptr, false) : Json(Json::value_t::discarded);
    if (const std::string problem = read_any_throttle(tree, body); !problem.empty())
      return refuse(problems::bad_request, problem);
    body.key = requests.hold(body.key);
  }
  const auto& [max_burst, count_per_period, period, quantity] = body.numbers;
  const limit::gcra::Rate rate = limit::gcra::crab_rate(max_burst, count_per_period, period);
  if (const std::string problem = problem_of(body, rate); !problem.empty())
    return refuse(problems::bad_request, problem);
  requests.open();
  requests.add(request::Entry{kind_entry, throttle_kind});
  requests.add(request::Entry{database_entry, "0"});
  requests.add(request::Entry{key_entry, body.key});
  requests.add(rate.limit);
  requests.commit({.note = note, .cost = quantity, .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

// The answer has whole seconds, as throttlecrab's has, also if a rule or an override has replaced
// the request's limit.
void Exchange::take_throttle(const request::Verdict& verdict, const ConnectionContext& around) {
  if (fail_by(verdict, around)) return;
  if (verdict.tightest == nullptr) {
    refuse(problems::reduced_capacity, "no rule decides");
    return;
  }
  const limit::Decision& decision = *verdict.tightest;
  if (limit::gcra::is_out_of_range(decision)) {
    refuse(problems::bad_request, "the quantity is out of range with these numbers");
    return;
  }
  const auto seconds = [](base::Duration length) {
    return length == base::never ? -1 : limit::gcra::seconds_up(length);
  };
  members_.append(decision.allowed ? "\"allowed\": true" : "\"allowed\": false");
  const auto append = [&](std::string_view name, int64_t value) {
    members_.append(", \"");
    members_.append(name);
    members_.append("\": ");
    base::append_decimal(value, members_);
  };
  append("limit", decision.limit);
  append("remaining", std::max<int64_t>(decision.remaining, 0));
  append("reset_after", seconds(decision.reset_after));
  append("retry_after", decision.allowed ? 0 : seconds(decision.retry_after));
}

// Takes the engine's verdicts on the requests of an exchange, and collects the answer from them.

namespace {

using limit::Decision;
using request::Charge;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verdict;

// The most limits in the answer's header fields: the first ones that the request met.
constexpr size_t told_max = 32;

std::span<const Decision> decisions_of(const Verdict& verdict, const Charge& charge) {
  return {verdict.decisions + charge.decision_first, charge.limits.size()};
}

// Did the charge's limits come with the request? Its rule's name does not say so, because a rule of
// the policy may have any name.
bool is_inline(const Charge& charge) {
  return charge.space->prefix == policy::inline_prefix;
}

// Did the peek find a counter? One of a fixed bucket is found by its missing units, as they never
// return by themselves and reset_after says nothing; a full bucket looks like no counter.
bool has_live_counter(const Verdict& verdict, const Charge& charge) {
  if (!charge.counted) return false;
  const auto decisions = decisions_of(verdict, charge);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const limit::Limit& limit = charge.limits[i];
    if (limit.algorithm == limit::Algorithm::fixed_bucket
            ? decisions[i].remaining < decisions[i].limit
            : limit::has_counter(limit.algorithm) && decisions[i].reset_after.us > 0)
      return true;
  }
  return false;
}

// The bytes of the members' names, a boolean and four numbers.
constexpr size_t decision_bytes_max = 192;

void append_decision(const Decision& decision, bool allowed, base::Buffer& out) {
  base::TextWriter writer(out, decision_bytes_max);
  if (allowed)
    writer.put("\"allowed\": true, \"limit\": ");
  else
    writer.put("\"allowed\": false, \"limit\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.limit, 0)));
  writer.put(", \"remaining\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.remaining, 0)));
  writer.put(", \"retry_after\": ");
  if (decision.allowed)
    writer.put('0');
  else
    put_json_seconds(decision.retry_after, writer);
  writer.put(", \"reset_after\": ");
  put_json_seconds(decision.reset_after, writer);
  writer.finish();
}

int64_t debt_of(const Decision& decision) {
  return decision.remaining < 0 ? -decision.remaining : 0;
}

// The same of a charge, which has `over` and `debt` in place of `allowed`.
void append_balance(const Decision& decision, bool over, base::Buffer& out) {
  base::TextWriter writer(out, decision_bytes_max);
  writer.put(over ? "\"over\": true, \"limit\": " : "\"over\": false, \"limit\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.limit, 0)));
  writer.put(", \"remaining\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.remaining, 0)));
  writer.put(", \"debt\": ");
  writer.put_number(static_cast<uint64_t>(debt_of(decision)));
  writer.put(", \"retry_after\": ");
  put_json_seconds(decision.retry_after, writer);
  writer.put(", \"reset_after\": ");
  put_json_seconds(decision.reset_after, writer);
  writer.finish();
}

// The members of a limit that a commit tells.
void append_settled(const Decision& decision, base::Buffer& out) {
  const auto put = [&out](std::string_view name, int64_t number) {
    out.append(name);
    base::append_decimal(std::max<int64_t>(number, 0), out);
  };
  put(", \"limit\": ", decision.limit);
  put(", \"remaining\": ", decision.remaining);
  put(", \"debt\": ", debt_of(decision));
}

void append_rule(std::string_view rule, base::Buffer& out) {
  out.append(", \"rule\": ");
  if (rule.empty())
    out.append("null");
  else
    append_json_text(rule, out);
}

void append_limit(const limit::Limit& limit, base::Time now, base::Buffer& out) {
  out.append(", \"algorithm\": \"");
  out.append(limit::name_of(limit.algorithm));
  out.append("\", \"quota\": ");
  base::append_decimal(limit.quota, out);
  const bool is_places = limit.algorithm == limit::Algorithm::concurrency;
  out.append(is_places ? ", \"lease\": " : ", \"window\": ");
  append_json_seconds(limit::shown(limit, now).window, out);
  if (!limit.calendar) return;
  const limit::Calendar::Window window = limit.calendar.window(now);
  const auto put = [&out](std::string_view name, std::string_view text) {
    out.append(name);
    out.append(text);
    out.append('"');
  };
  put(", \"calendar\": \"", name_of(limit.calendar.unit()));
  put(", \"time_zone\": \"", limit.calendar.zone_name());
  put(", \"starts\": \"", base::format_rfc3339({window.start_us}));
  put(", \"ends\": \"", base::format_rfc3339({window.end_us}));
}

}  // namespace

bool Exchange::take(const request::Request& request, const Verdict& verdict, base::Time now,
                    const ConnectionContext& around) {
  if (taken_ == 0) now_ = now;
  ++taken_;
  if (span_) [[unlikely]]
    span_->note(verdict);
  if (verdict.generation != 0) generation_ = verdict.generation;
  const bool last = taken_ == expected_;
  if (last && waits_) end_wait(around);
  switch (route_->action) {
    case Action::health:
    case Action::crab_health:
      if (verdict.error.empty()) break;
      retry_after_ = base::seconds(1);
      refuse(problems::reduced_capacity, verdict.error);
      break;
    case Action::reset:
      take_counters(request, verdict);
      break;
    case Action::auth:
      take_auth(verdict, around);
      break;
    case Action::throttle:
      take_throttle(verdict, around);
      break;
    case Action::charge:
      outcome_.is_again ? take_look(verdict, last, around) : take_charge(verdict, last, around);
      break;
    case Action::acquire:
    case Action::reserve:
    case Action::extend:
    case Action::renew:
    case Action::commit:
    case Action::release:
      take_hold(*request::hold_of(request, verdict), verdict, last, around);
      break;
    default:
      asks_.is_several ? take_part(verdict, around) : take_one(verdict, around);
  }
  return last;
}

// True: the verdict has no decision to show, and the problem was set as the whole answer.
bool Exchange::fail_by(const Verdict& verdict, const ConnectionContext& around) {
  const bool is_unmatched = verdict.error.empty() ? !verdict.matched && !verdict.expired
                                                  : verdict.error == request::no_rule_applies;
  if (verdict.expired) {
    retry_after_ = base::seconds(1);
    refuse(problems::wait_timeout, "there were not enough units in time; nothing was charged");
    return true;
  }
  if (is_unmatched) return fail_unmatched(around);
  if (verdict.error.empty()) return false;
  if (verdict.error == request::not_permitted) {
    outcome_.is_reported = true;  // by the engine, which knows the counter
    refuse(problems::forbidden, verdict.error);
    return true;
  }
  // A failure of the store, a lack of room for inline limits and a stop may pass: 503. Other errors
  // are the request's, and a retry would not help: 400.
  const bool passes = verdict.cause != request::Error::none ||
                      verdict.error == request::too_many_inline_limits ||
                      verdict.error == request::server_stops;
  if (passes) retry_after_ = base::seconds(1);
  refuse(passes ? problems::reduced_capacity : problems::bad_request, verdict.error);
  return true;
}

// For a request to which no rule applies. `http.unmatched` decides, except for put and explain,
// which have nothing to answer then. True: the problem was set.
bool Exchange::fail_unmatched(const ConnectionContext& around) {
  const bool takes = route_->action != Action::put && route_->action != Action::explain;
  if (takes && around.options.unmatched != Unmatched::error) {
    const bool allowed = around.options.unmatched == Unmatched::allow;
    outcome_.allowed &= allowed;
    outcome_.denied |= !allowed;
    retry_of_denial_ = base::never;
    return false;
  }
  refuse(problems::no_rule, "no rule of the policy applies to these entries");
  return true;
}

void Exchange::take_one(const Verdict& verdict, const ConnectionContext& around) {
  if (fail_by(verdict, around)) return;
  if (verdict.tightest == nullptr) {
    members_.append(outcome_.allowed ? "\"allowed\": true, \"rule\": null"
                                     : "\"allowed\": false, \"rule\": null");
    return;
  }
  report_limits(verdict, around);
  if (route_->action == Action::put) {
    members_.append("\"remaining\": ");
    base::append_decimal(std::max<int64_t>(verdict.tightest->remaining, 0), members_);
    members_.append(", \"limit\": ");
    base::append_decimal(verdict.tightest->limit, members_);
    return;
  }
  note_outcome(verdict.allowed, *verdict.tightest);
  append_take(verdict, verdict.allowed, members_);
  if (route_->action != Action::wait && !asks_.waits) return;
  members_.append(", \"waited\": ");
  append_json_seconds(verdict.waited.value_or(base::Duration{}), members_);
}

void Exchange::note_outcome(bool allowed, const Decision& tightest) {
  outcome_.allowed &= allowed;
  if (allowed) return;
  outcome_.denied = true;
  retry_of_denial_ = std::max(retry_of_denial_, tightest.retry_after);
}

void Exchange::append_take(const Verdict& verdict, bool allowed, base::Buffer& out) {
  append_decision(*verdict.tightest, allowed, out);
  append_rule(rule_of(verdict), out);
  out.append(", \"mode\": \"enforce\"");
  if (asks_.detail || route_->action == Action::explain) append_limits(verdict, out);
}

// Appends the item of one of several takes. A take that could not be decided fails the whole
// request, unless the takes are independent (asks_.each).
void Exchange::take_part(const Verdict& verdict, const ConnectionContext& around) {
  const bool is_first = taken_ == 1;
  if (problem_.kind != nullptr && !asks_.each) return;
  if (fail_by(verdict, around)) {
    if (!asks_.each || problem_.kind == &problems::forbidden) {
      if (problem_.kind == &problems::no_rule) problem_.pointer = "/takes";
      problem_.has_pointer = problem_.kind == &problems::no_rule;
      return;
    }
    part_problem_ = problem_.kind;
    members_.append(is_first ? "{\"error\": {" : ", {\"error\": {");
    append_problem(problem_, false, members_);
    members_.append("}}");
    problem_.kind = nullptr;
    return;
  }
  outcome_.any_decided = true;
  members_.append(is_first ? "{" : ", {");
  if (verdict.tightest == nullptr) {
    members_.append(around.options.unmatched == Unmatched::allow
                        ? "\"allowed\": true, \"rule\": null"
                        : "\"allowed\": false, \"rule\": null");
  } else if (route_->action == Action::put) {
    members_.append("\"remaining\": ");
    base::append_decimal(std::max<int64_t>(verdict.tightest->remaining, 0), members_);
    members_.append(", \"limit\": ");
    base::append_decimal(verdict.tightest->limit, members_);
  } else {
    if (route_->action != Action::batch) report_limits(verdict, around);
    // Takes that settle together share verdict.allowed, so each shows its tightest limit's outcome.
    const bool allowed = asks_.each ? verdict.allowed : verdict.tightest->allowed;
    note_outcome(allowed, *verdict.tightest);
    append_take(verdict, allowed, members_);
  }
  members_.append('}');
}

// ---- Charges ----

// Appends the item of one subject, and with an id keeps the verdict for when the charge is sent
// again.
void Exchange::take_charge(const Verdict& verdict, bool last, const ConnectionContext& around) {
  if (verdict.charged.known == request::Known::other_content) {
    refuse_other_content();
  } else if (problem_.kind == nullptr && !fail_charge(verdict, around)) {
    // Another server that shares the store has charged it, or its answer was lost.
    outcome_.is_repeated |= verdict.charged.known == request::Known::yes;
    append_charge(verdict, around);
    if (has_claim()) request::append_kept(verdict, now_, once_->kept);
  }
  if (!last || !has_claim()) return;
  if (problem_.kind != nullptr) return once_->claim.drop();  // nothing was charged
  once_->claim.finish(once_->kept, around.peer.clock->monotonic());
}

// The id was used before. The request looked at the counters, so this answer waits for what the
// first one waits for, and fails if the store cannot answer.
void Exchange::take_look(const Verdict& verdict, bool last, const ConnectionContext& around) {
  const bool fails =
      verdict.cause != request::Error::none || verdict.error == request::not_permitted;
  if (fails && problem_.kind == nullptr) fail_by(verdict, around);
  if (!last || problem_.kind != nullptr) return;
  using Found = request::ChargeIds::Found;
  std::string answer;
  const Found found = around.peer.charge_ids->find(user_of(around), once_->id, once_->content,
                                                   around.peer.clock->monotonic(), answer);
  if (found == Found::remembered) return answer_again(answer, around);
  if (found == Found::other_content) {
    refuse_other_content();
    return;
  }
  retry_after_ = base::seconds(1);
  refuse(problems::reduced_capacity,
         found == Found::under_way
             ? "the first charge with this id has no answer yet; send it again"
             : "the first charge with this id failed; send it again");
}

void Exchange::answer_again(std::string_view kept, const ConnectionContext& around) {
  outcome_.is_repeated = true;
  const size_t count = subjects_.size();
  for (taken_ = 1; taken_ <= count; ++taken_) {
    // Another charge, of fewer subjects, whose content has the same digest.
    if (kept.empty()) {
      refuse_other_content();
      break;
    }
    const request::KeptVerdict one(kept);
    now_ = one.now();
    if (one.verdict().generation != 0) generation_ = one.verdict().generation;
    append_charge(one.verdict(), around);
  }
  taken_ = expected_;
}

// A charge is never refused, so `http.unmatched` decides only between an error and an answer.
bool Exchange::fail_charge(const Verdict& verdict, const ConnectionContext& around) {
  const bool is_unmatched =
      verdict.error.empty() ? !verdict.matched : verdict.error == request::no_rule_applies;
  if (is_unmatched && around.options.unmatched != Unmatched::error) return false;
  if (!fail_by(verdict, around)) return false;
  if (asks_.is_several && problem_.kind == &problems::no_rule) {
    problem_.pointer = "/takes";
    problem_.has_pointer = true;
  }
  return true;
}

void Exchange::append_charge(const Verdict& verdict, const ConnectionContext& around) {
  base::Buffer& out = members_;
  if (asks_.is_several) out.append(taken_ == 1 ? "{" : ", {");
  out.append("\"charged\": ");
  base::append_decimal(verdict.charged.units.value_or(0), out);
  out.append(", ");
  if (verdict.tightest == nullptr) {
    out.append("\"over\": false, \"rule\": null");
  } else {
    outcome_.over |= verdict.charged.over;
    report_limits(verdict, around);
    append_balance(*verdict.tightest, verdict.charged.over, out);
    append_rule(rule_of(verdict), out);
    out.append(", \"mode\": \"enforce\"");
    if (asks_.detail) append_limits(verdict, out);
  }
  if (asks_.is_several) out.append('}');
}

// ---- Holds ----

void Exchange::take_hold(const HoldCall& call, const Verdict& verdict, bool last,
                         const ConnectionContext& around) {
  if (problem_.kind != nullptr || fail_hold(call, verdict, around)) return;
  if (call.ask == HoldAsk::reserve)
    asks_.is_several ? take_part(verdict, around) : take_one(verdict, around);
  if (route_->action == Action::commit) take_commit(call, verdict);
  if (!last || problem_.kind != nullptr) return;
  outcome_.is_repeated = call.repeated;
  switch (call.ask) {
    case HoldAsk::reserve:
      if (!outcome_.denied) append_hold(call);
      break;
    case HoldAsk::extend:
      take_extend(call, verdict.unit);
      if (!outcome_.denied) append_hold(call);
      break;
    case HoldAsk::renew:
      hold_->text.append("\"id\": ");
      append_json_text(call.made_id, hold_->text);
      hold_->text.append(", \"ttl\": ");
      append_json_seconds(call.ends_in, hold_->text);
      break;
    case HoldAsk::commit:
      append_committed(call);
      break;
    case HoldAsk::release:
      hold_->text.append("\"state\": \"released\", \"returned\": ");
      base::append_decimal(call.returned, hold_->text);
      break;
  }
}

// The verdict of an extend has no charges: the call has the decision.
void Exchange::take_extend(const HoldCall& call, std::string_view unit) {
  const bool allowed = call.outcome == HoldOutcome::done;
  members_.append(allowed ? "\"allowed\": true" : "\"allowed\": false");
  if (!call.has_decision) {
    note_outcome(allowed, {.retry_after = base::never});
    append_rule({}, members_);
    return;
  }
  report_limit(call.rule, unit, 0, call.limit, call.decision);
  note_shown(call.decision);
  note_outcome(allowed, call.decision);
  members_.clear();
  append_decision(call.decision, allowed, members_);
  append_rule(call.rule, members_);
  members_.append(", \"mode\": \"enforce\"");
}

// Of a commit that charges its subjects, as its hold is unknown: notes the limit to show.
void Exchange::take_commit(const HoldCall& call, const Verdict& verdict) {
  if (call.has_decision || verdict.tightest == nullptr) return;
  if (!members_.empty() && !request::is_tighter_of_charge(*verdict.tightest, hold_->shown)) return;
  hold_->shown = *verdict.tightest;
  members_.clear();
  append_settled(hold_->shown, members_);
  append_rule(rule_of(verdict), members_);
}

// True: nothing came of it, and the problem was set as the whole answer.
bool Exchange::fail_hold(const HoldCall& call, const Verdict& verdict,
                         const ConnectionContext& around) {
  switch (call.outcome) {
    case HoldOutcome::done:
    case HoldOutcome::refused:
    case HoldOutcome::not_held:
      return false;
    case HoldOutcome::failed:
      return fail_undecided(call.ask, verdict, around);
    case HoldOutcome::unknown:
      refuse(problems::no_such_hold,
             "no reservation has this id: it was never made, it is of another user, or it ended so "
             "long ago that it is forgotten");
      if (call.ask == HoldAsk::commit)
        problem_.detail += "; to charge what was used all the same, send its subject along";
      return true;
    case HoldOutcome::in_use:
      refuse(problems::id_in_use,
             "the id names another reservation: an id belongs to one reservation, which may be "
             "sent again unchanged");
      return true;
    case HoldOutcome::settled:
      hold_->text.append(", \"n\": ");
      append_units(call.used, hold_->text);
      refuse(problems::already_settled,
             call.ask == HoldAsk::reserve
                 ? "the reservation with this id is committed, with the units in `n`: make a new "
                   "id for another"
                 : "the reservation is committed, with the units in `n`; nothing was changed");
      return true;
    case HoldOutcome::ended:
      refuse_ended(call.ask);
      return true;
    case HoldOutcome::wrong_number:
      refuse(problems::bad_request,
             "`n` must have one number for each subject of the reservation: " +
                 std::to_string(call.reserved.size()));
      problem_.pointer = "/n";
      problem_.has_pointer = true;
      return true;
    case HoldOutcome::no_places:
      refuse(problems::no_places,
             "no limit that applies to these entries has places: acquire is for rules with "
             "`algorithm: concurrency`; reserve takes units of all others");
      return true;
    case HoldOutcome::waiting:
    case HoldOutcome::full:
      refuse_for_now("there are as many reservations as the server keeps; try again later");
      return true;
  }
  return true;
}

// The store could not decide it, or no rule applies to a subject.
bool Exchange::fail_undecided(HoldAsk ask, const Verdict& verdict,
                              const ConnectionContext& around) {
  if (ask == HoldAsk::reserve) return false;  // as a take
  const bool charges = !subjects_.empty();
  if (charges ? fail_charge(verdict, around) : !verdict.error.empty() && fail_by(verdict, around))
    return true;
  refuse_for_now("the store cannot decide it; send it again");
  return true;
}

// The hold was released, or its time is over.
void Exchange::refuse_ended(HoldAsk ask) {
  switch (ask) {
    case HoldAsk::reserve:
      refuse(problems::id_in_use,
             "the reservation with this id has ended: make a new id for another");
      break;
    case HoldAsk::commit:
      refuse(problems::hold_ended,
             "the reservation has ended, and a rule of it ignores commits that come late "
             "(`late_commit: ignore`); nothing was charged");
      break;
    default:
      refuse(problems::hold_ended,
             "the reservation has ended: it was released, or its `ttl` is over; end the work, or "
             "make another reservation");
  }
}

void Exchange::refuse_for_now(std::string_view why) {
  retry_after_ = base::seconds(1);
  refuse(problems::reduced_capacity, why);
}

// A number, or the list that the client has or gives.
void Exchange::append_units(std::span<const int64_t> units, base::Buffer& out) const {
  const bool is_list = asks_.has_list || units.size() != 1;
  if (is_list) out.append('[');
  for (size_t i = 0; i < units.size(); ++i) {
    if (i > 0) out.append(", ");
    base::append_decimal(units[i], out);
  }
  if (is_list) out.append(']');
}

void Exchange::append_hold(const HoldCall& call) {
  if (call.outcome != HoldOutcome::done)
    return hold_->text.append(", \"id\": null, \"held\": false");
  hold_->text.append(", \"id\": ");
  append_json_text(call.made_id, hold_->text);
  hold_->text.append(", \"ttl\": ");
  append_json_seconds(call.ends_in, hold_->text);
  hold_->text.append(", \"reserved\": ");
  append_units(call.reserved, hold_->text);
}

void Exchange::append_committed(const HoldCall& call) {
  hold_->text.append("\"state\": \"committed\", \"n\": ");
  append_units(call.used, hold_->text);
  hold_->text.append(", \"returned\": ");
  base::append_decimal(call.returned, hold_->text);
  hold_->text.append(", \"charged\": ");
  base::append_decimal(call.charged, hold_->text);
  hold_->text.append(call.late ? ", \"late\": true" : ", \"late\": false");
  hold_->text.append(call.repeated ? ", \"repeated\": true" : ", \"repeated\": false");
  if (call.has_decision) {
    append_settled(call.decision, hold_->text);
    append_rule(call.rule, hold_->text);
  } else if (!members_.empty()) {
    hold_->text.append(members_.view());
  } else {
    append_rule({}, hold_->text);
  }
  append_generation(generation_, hold_->text);
}

// For a reset: the peek's verdict counts the counters, the put's has nothing to add.
void Exchange::take_counters(const request::Request& request, const Verdict& verdict) {
  if (problem_.kind != nullptr) return;
  if (verdict.error == request::not_permitted) {
    outcome_.is_reported = true;
    refuse(problems::forbidden, verdict.error);
  } else if (!verdict.error.empty()) {
    retry_after_ = base::seconds(1);
    refuse(problems::reduced_capacity, verdict.error);
  } else if (!verdict.matched) {
    refuse(problems::no_rule, "no rule of the policy applies to these entries");
  } else if (request.verb == request::Verb::peek) {
    for (const Charge& charge : verdict.charges) counters_ += has_live_counter(verdict, charge);
  }
}

// ---- Limits in answers ----

std::string_view Exchange::rule_of(const Verdict& verdict) const {
  const Subject* const subject = subject_of_verdict();
  if (subject == nullptr || !subject->is_inline) return verdict.rule;
  return name_of_inline(*subject, verdict);
}

// The subject of the verdict that is being taken; null: the request has no subjects (forward-auth).
const Exchange::Subject* Exchange::subject_of_verdict() const {
  return taken_ <= subjects_.size() && taken_ > 0 ? &subjects_[taken_ - 1] : nullptr;
}

// The name to show for the tightest limit: of a limit that came with the request its own name, of a
// rule of the policy that the key met as well the rule's.
std::string_view Exchange::name_of_inline(const Subject& subject, const Verdict& verdict) const {
  if (!verdict.inline_limit) return verdict.rule;
  if (subject.name_count == 1) return limit_names_[subject.name_first];
  for (const Charge& charge : verdict.charges) {
    if (!is_inline(charge) || charge.limits.size() != subject.name_count) continue;
    const auto decisions = decisions_of(verdict, charge);
    for (size_t i = 0; i < decisions.size(); ++i)
      if (&decisions[i] == verdict.tightest) return limit_names_[subject.name_first + i];
  }
  return name_by_limit(subject, verdict);
}

// For a late verdict, which has no charges: finds the name by comparing the limits.
std::string_view Exchange::name_by_limit(const Subject& subject, const Verdict& verdict) const {
  for (size_t i = 0; verdict.limit != nullptr && i < subject.name_count; ++i)
    if (inline_limits_[subject.name_first + i] == *verdict.limit)
      return limit_names_[subject.name_first + i];
  return limit_names_[subject.name_first];
}

void Exchange::report_limits(const Verdict& verdict, const ConnectionContext& around) {
  const Subject* const subject = subject_of_verdict();
  if (verdict.charges.empty()) {
    if (verdict.limit == nullptr || !limit::has_counter(verdict.limit->algorithm)) return;
    const std::string_view unit = verdict.inline_limit ? std::string_view() : verdict.unit;
    report_limit(rule_of(verdict), unit, 0, *verdict.limit, *verdict.tightest);
    note_shown(*verdict.tightest);
    return;
  }
  for (const Charge& charge : verdict.charges) {
    const auto decisions = decisions_of(verdict, charge);
    static const request::RuleWords no_words;
    const request::RuleWords& rule = charge.rule == nullptr ? no_words : *charge.rule;
    const bool has_names = subject != nullptr && subject->is_inline && is_inline(charge) &&
                           subject->name_count == decisions.size();
    const size_t first = told_.size();
    for (size_t i = 0; i < decisions.size(); ++i) {
      if (!limit::has_counter(charge.limits[i].algorithm)) continue;
      if (has_names)
        report_limit(limit_names_[subject->name_first + i], {}, 0, charge.limits[i], decisions[i]);
      else
        report_limit(rule.name, rule.unit, i, charge.limits[i], decisions[i]);
      if (&decisions[i] == verdict.tightest) note_shown(decisions[i]);
    }
    if (around.options.partition_keys) [[unlikely]]
      report_partition(charge, first, around);
  }
}

// Sets the partition key of the limits from told_[first] on: a hash of the counter's key with a
// secret, because others than the actor may see the answer.
void Exchange::report_partition(const Charge& charge, size_t first,
                                const ConnectionContext& around) {
  const auto& secret = around.options.partition_secret;
  std::string text(reinterpret_cast<const char*>(secret.data()), secret.size());
  text.append(charge.space->prefix).append(charge.key);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  const int made =
      EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  SLUICE_CHECK(made == 1 && size >= sizeof(Told::partition));
  for (size_t i = first; i < told_.size(); ++i)
    std::copy_n(digest.begin(), told_[i].partition.size(), told_[i].partition.begin());
}

// Notes the limit that was reported last, the tightest of its take. Of several takes the answer
// shows the tightest limit of all.
void Exchange::note_shown(const Decision& decision) {
  if (last_told_ == told_.size()) return;
  if (last_told_ == shown_) {
    outcome_.any_shown = true;
    return;
  }
  if (outcome_.any_shown) {
    const Decision& other = told_[shown_].decision;
    const bool tighter = decision.allowed != other.allowed ? !decision.allowed
                         : !decision.allowed ? decision.retry_after > other.retry_after
                                             : decision.remaining < other.remaining;
    if (!tighter) return;
  }
  outcome_.any_shown = true;
  shown_ = last_told_;
}

// `index` is the limit's position among those of its rule. A limit that an earlier take reported
// appears once, with the decision of the later take; but a refusal stays.
void Exchange::report_limit(std::string_view rule, std::string_view unit, size_t index,
                            const limit::Limit& limit, const Decision& decision) {
  const size_t first = names_.size();
  names_.append(rule.empty() ? std::string_view("default") : rule);
  if (index > 0) names_.append("-").append(std::to_string(index + 1));
  const std::string_view name = std::string_view(names_).substr(first);
  for (size_t i = 0; i < told_.size(); ++i) {
    if (name_of(told_[i]) != name) continue;
    names_.resize(first);
    last_told_ = i;
    if (told_[i].decision.allowed && told_[i].limit == limit) told_[i].decision = decision;
    return;
  }
  if (told_.size() == told_max) {
    names_.resize(first);
    last_told_ = told_.size();
    return;
  }
  last_told_ = told_.size();
  told_.push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(name.size()),
                   static_cast<uint32_t>(unit.size()), limit, decision});
  names_.append(unit);
}

// Appends each limit that the request met, for `explain` with its counter's name. A wait that was
// granted late has only the tightest limit.
void Exchange::append_limits(const Verdict& verdict, base::Buffer& out) const {
  const Subject* const subject = subject_of_verdict();
  out.append(", \"limits\": [");
  bool is_first = true;
  if (verdict.charges.empty() && verdict.limit != nullptr) {
    out.append("{\"name\": ");
    append_json_text(rule_of(verdict), out);
    out.append(", ");
    append_decision(*verdict.tightest, verdict.tightest->allowed, out);
    append_limit(*verdict.limit, now_, out);
    out.append('}');
  }
  for (const Charge& charge : verdict.charges) {
    const auto decisions = decisions_of(verdict, charge);
    const std::string_view rule =
        charge.rule == nullptr ? std::string_view() : std::string_view(charge.rule->name);
    const bool has_names = subject != nullptr && subject->is_inline && is_inline(charge) &&
                           subject->name_count == decisions.size();
    for (size_t i = 0; i < decisions.size(); ++i) {
      out.append(is_first ? "{\"name\": " : ", {\"name\": ");
      is_first = false;
      std::string name(has_names      ? std::string_view(limit_names_[subject->name_first + i])
                       : rule.empty() ? std::string_view("default")
                                      : rule);
      if (!has_names && i > 0) name += "-" + std::to_string(i + 1);
      append_json_text(name, out);
      out.append(", ");
      route_->action == Action::charge
          ? append_balance(decisions[i], debt_of(decisions[i]) > 0, out)
          : append_decision(decisions[i], decisions[i].allowed, out);
      append_limit(charge.limits[i], now_, out);
      if (route_->action == Action::explain) {
        out.append(", \"counter\": ");
        std::string counter = charge.space->prefix;
        counter.append(charge.key).append(charge.space->suffix);
        append_json_text(counter, out);
      }
      out.append('}');
    }
  }
  out.append(']');
}

}  // namespace sluice::http
