#include "protocol/http/exchange.h"

#include <algorithm>
#include <iterator>

#include "base/bounds.h"
#include "base/check.h"
#include "base/printable.h"
#include "protocol/http/dialect.h"
#include "protocol/http/guard.h"
#include "protocol/http/take_query.h"
#include "protocol/http/wait_count.h"
#include "protocol/http/worker_state.h"

namespace sluice::http {
namespace {

using access::Right;
using request::Verb;

// The largest buffer that an exchange keeps for its next use.
constexpr size_t kept_bytes_max = size_t{16} << 10;

constexpr size_t shown_path_bytes_max = 64;

constexpr base::Duration wait_default = base::seconds(10);

std::string_view word_of(Right right) {
  return access::right_names[static_cast<size_t>(right)];
}

}  // namespace

bool is_answered_without_body(std::string_view path) {
  const Route* const route = find_route(path);
  return route == nullptr || route->action == Action::auth;
}

void Exchange::clear() {
  route_ = nullptr;
  form_ = AnswerForm::problem;
  is_head_ = always_ok_ = detail_ = is_several_ = each_ = waits_ = is_options_ = false;
  expected_ = taken_ = 0;
  origin_.clear();
  problem_.kind = part_problem_ = nullptr;
  path_.clear();
  is_reported_ = false;
  retry_after_ = retry_of_denial_ = {};
  allowed_ = true;
  denied_ = is_decided_ = has_shown_ = false;
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
  over_ = is_again_ = is_repeated_ = false;
  once_.reset();
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
  is_head_ = question.method == "HEAD";
  is_reported_ = true;
  refuse(kind, detail);
}

Exchange::Begun Exchange::begin(const Question& question, const ConnectionContext& around,
                                uint32_t note, request::Requests& requests) {
  clear();
  is_head_ = question.method.size() == 4 && question.method == "HEAD";
  route_ = find_route(question.path);
  if (route_ != nullptr && route_->action == Action::auth)
    return begin_auth(question, around, note, requests);
  return begin_api(question, around, note, requests);
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
  takes_get_ = around.options.get_takes;
  const bool is_twin = route_ != nullptr && (route_->action == Action::throttle ||
                                             route_->action == Action::crab_health);
  if (route_ == nullptr || (is_twin && !around.options.throttlecrab)) {
    path_ = question.path.substr(0, shown_path_bytes_max);
    return refuse(problems::not_found, "there is nothing at this path; see /v1/openapi.json");
  }
  if (question.method == "OPTIONS") {
    is_options_ = true;
    return Begun::ready;
  }
  const bool is_get_take = route_->action == Action::take && around.options.get_takes &&
                           (question.method == "GET" || is_head_);
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
  if (route_->right && !know_client(fields, around)) return Begun::ready;
  switch (route_->action) {
    case Action::health:
    case Action::crab_health:
      return ask_health(note, requests);
    case Action::openapi:
      return Begun::ready;
    case Action::later:
      return refuse(problems::not_yet, "this path is reserved for a later version");
    case Action::throttle:
      return begin_throttle(question, fields, note, requests);
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
  always_ok_ = true;
  return true;
}

Exchange::Begun Exchange::begin_body(const Question& question, const RequestFields& fields,
                                     const ConnectionContext& around, uint32_t note,
                                     request::Requests& requests) {
  if (!is_json_type(fields.content_type))
    return refuse(problems::unsupported_type, fields.content_type.empty()
                                                  ? "send `Content-Type: application/json`"
                                                  : "the body must be application/json in UTF-8");
  if (!read_query(question))
    return refuse(problems::bad_request, "the query may be `status=200`, and nothing else");
  return read_body(question.body, around, note, requests);
}

Exchange::Begun Exchange::begin_query(const Question& question, const ConnectionContext& around,
                                      uint32_t note, request::Requests& requests) {
  const auto take = body_of_query(question.query);
  if (!take) return refuse(problems::bad_request, take.problem().text);
  always_ok_ |= take->always_ok;
  return read_body(requests.hold(take->body), around, note, requests);
}

// `body` lives as long as the requests.
Exchange::Begun Exchange::read_body(std::string_view body, const ConnectionContext& around,
                                    uint32_t note, request::Requests& requests) {
  body_ = body;
  HttpWorker& worker = around.worker;
  if (!worker.body_reader.read(body, route_->wanted, worker.body)) {
    refuse(problems::bad_request, worker.body.problem);
    problem_.pointer = worker.body.pointer;
    problem_.has_pointer = true;
    return Begun::ready;
  }
  return ask_body(around, note, requests);
}

// ---- The requests to the engine ----

Exchange::Begun Exchange::ask_body(const ConnectionContext& around, uint32_t note,
                                   request::Requests& requests) {
  const TakeBody& body = around.worker.body;
  is_several_ = body.has_takes;
  detail_ = body.detail;
  // Puts into several counters are independent: if one fails, the others stay.
  each_ = body.each || route_->action == Action::batch || route_->action == Action::put;
  const auto is_inline = [](const TakeSubject& subject) { return subject.is_inline; };
  if (!around.options.inline_limits && std::ranges::any_of(body.subjects, is_inline))
    return refuse(problems::bad_request,
                  "limits that come with a request are switched off (`http.inline_limits`)");
  if (route_->action == Action::wait) return ask_wait(body, around, note, requests);
  const bool charges = route_->action == Action::charge;
  if (charges && !body.id.empty() && !claim_id(body, around)) return Begun::ready;
  const bool together = is_several_ && !each_ && (route_->wanted.has_mode || charges);
  const bool resets = route_->action == Action::reset;
  for (size_t i = 0; i < body.subjects.size(); ++i) {
    const TakeSubject& subject = body.subjects[i];
    request::Request request{.note = note, .prefix = {}, .tag = {}};
    request.joins = together && i > 0;
    request.needs_rule = together && around.options.unmatched != Unmatched::allow;
    switch (route_->action) {
      case Action::charge:
        request.verb = Verb::charge;
        if (has_claim() && i == 0) {
          std::string name(user_of(around));
          name.append(":").append(once_->id);
          request.charge_id = requests.hold_id({name, once_->content});
        }
        break;
      case Action::peek:
      case Action::explain:
        request.verb = Verb::would_take;
        break;
      case Action::put:
        request.verb = Verb::put;
        request.all = subject.all;
        break;
      case Action::reset:
        request.verb = Verb::peek;
        ask_subject(body, subject, request, requests);
        request.verb = Verb::put;
        request.all = true;
        break;
      default:
        break;
    }
    ask_subject(body, subject, request, requests);
  }
  expected_ = body.subjects.size() * (resets ? 2 : 1);
  return Begun::asked;
}

// Claims the id of a charge. False: the answer is ready. If the id was used before, is_again_ is
// set: then the requests look at the counters in place of charging them.
bool Exchange::claim_id(const TakeBody& body, const ConnectionContext& around) {
  using Found = request::ChargeIds::Found;
  if (around.peer.charge_ids == nullptr) {
    refuse(problems::bad_request, "this server remembers no ids of charges");
    return false;
  }
  request::ChargeContent content;
  for (const TakeSubject& subject : body.subjects) {
    if (subject.is_inline) {
      content.add_key(subject.key, subject.n);
      for (const TakeBody::NamedLimit& one : body.limits_of(subject))
        content.add_limit(one.limit, one.counts);
    } else {
      const auto entries = body.entries_of(subject);
      content.add_entries({entries.begin(), entries.end()}, subject.n);
    }
  }
  once_ = std::make_unique<Once>();
  once_->id = body.id;
  once_->content = content.digest();
  const Found found = around.peer.charge_ids->claim(user_of(around), once_->id, once_->content,
                                                    around.peer.clock->monotonic(), once_->claim);
  is_again_ = found == Found::under_way || found == Found::remembered;
  if (is_again_ || found == Found::first) return true;
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

// A put or reset of a `key` changes that key's own counter (RuleScope::dialect), although native
// rules of the policy may apply to its takes as well. `entries` meet native rules only: entries
// with the names that the dialect uses must not reach the dialect's counters.
void Exchange::ask_subject(const TakeBody& body, const TakeSubject& subject,
                           request::Request request, request::Requests& requests) {
  const bool is_about_counters = request.verb == Verb::put || request.verb == Verb::peek;
  request.scope = !subject.is_inline  ? request::RuleScope::native
                  : is_about_counters ? request::RuleScope::dialect
                                      : request::RuleScope::all;
  request.needs_store = is_about_counters;
  if (request.verb != Verb::peek && !request.all) request.cost = is_again_ ? 0 : subject.n;
  requests.open();
  if (subject.is_inline) {
    requests.add(request::Entry{kind_entry, inline_kind});
    requests.add(request::Entry{key_entry, hold(subject.key, requests)});
    size_t count = 0;
    for (const TakeBody::NamedLimit& one : body.limits_of(subject)) {
      requests.add(one.limit);
      if (one.counts) request.counts = static_cast<limit::LimitMask>(request.counts | 1u << count);
      ++count;
    }
    request.limits_inline = true;
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

Exchange::Begun Exchange::ask_wait(const TakeBody& body, const ConnectionContext& around,
                                   uint32_t note, request::Requests& requests) {
  const base::Duration timeout =
      body.timeout.value_or(std::min(wait_default, around.options.wait_max));
  if (timeout.us > around.options.wait_max.us) {
    refuse(problems::bad_request,
           "`timeout` is longer than " + base::format_duration(around.options.wait_max) +
               ", the most that `http.max_wait` allows; ask for less, or raise it");
    problem_.pointer = "/timeout";
    problem_.has_pointer = true;
    return Begun::ready;
  }
  const bool full =
      around.waiting >= waiting_per_connection_max ||
      (around.options.waits != nullptr && !around.options.waits->begin(around.options.waiting_max));
  if (full) {
    retry_after_ = base::seconds(1);
    return refuse(problems::reduced_capacity, "too many requests wait; try again later");
  }
  ++around.waiting;
  waits_ = true;
  // To the engine a timeout of 0 means a wait without end, so such a wait becomes a take.
  const bool at_once = timeout.us == 0;
  ask_subject(body, body.subjects[0],
              {.verb = at_once ? Verb::take : Verb::wait,
               .must_fit = true,
               .wait_at_most = timeout,
               .note = note,
               .prefix = {},
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
  requests.add(limit::Limit{
      .algorithm = limit::Algorithm::fixed_window, .quota = 1, .window = base::seconds(1)});
  requests.commit({.verb = Verb::peek,
                   .limits_inline = true,
                   .scope = request::RuleScope::dialect,
                   .needs_store = true,
                   .note = note,
                   .prefix = {},
                   .tag = {}});
  expected_ = 1;
  return Begun::asked;
}

void Exchange::forget(const ConnectionContext& around) {
  end_wait(around);
  once_.reset();
}

}  // namespace sluice::http
