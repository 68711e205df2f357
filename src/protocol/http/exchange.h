// One HTTP request and its answer, for all versions of HTTP: from method, path, fields and body to
// requests for the engine, and from their verdicts to the answer. Belongs to a session while it is
// under way. Then the worker keeps it for reuse, so that a usual take allocates nothing.
//
//   begin   reads and checks the request. Result `ready`: `write` can write the answer. `asked`:
//           requests were added with the given note; their verdicts must be passed to `take` in
//           order, which returns true for the last.
//   write   writes the answer; once
//   forget  ends it without an answer, because the client or the connection is gone
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "access/identity.h"
#include "access/users.h"
#include "base/buffer.h"
#include "base/time.h"
#include "otlp/spans.h"
#include "protocol/http/answer.h"
#include "protocol/http/auth_request.h"
#include "protocol/http/guard.h"
#include "protocol/http/options.h"
#include "protocol/http/request_fields.h"
#include "protocol/http/take_body.h"
#include "request/charge.h"
#include "request/charge_ids.h"
#include "request/hold.h"
#include "request/session.h"
#include "wire/http_field.h"

namespace sluice::http {

// Problems of requests (RFC 9457).

// A kind of problem, with the members that are the same for the whole kind.
struct ProblemKind {
  uint16_t status;
  std::string_view type;   // a URI
  std::string_view title;  // for people
};

namespace problems {
extern const ProblemKind bad_request, unauthorized, forbidden, no_rule, not_found, no_such_profile,
    method_not_allowed, not_acceptable, wait_timeout, id_in_use, no_such_hold, no_places,
    already_settled, hold_ended, too_large, unsupported_type, wrong_host, quota_exceeded,
    reduced_capacity;
}  // namespace problems

struct Problem {
  const ProblemKind* kind = nullptr;  // null: there is no problem
  std::string detail{};               // a sentence
  std::string pointer{};  // if has_pointer: a place in the body (RFC 6901); empty: the whole body
  bool has_pointer = false;
};

// Appends the problem's members without braces; if `short_form`, without type, title and status.
void append_problem(const Problem& problem, bool short_form, base::Buffer& out);

// The paths of the protocol: purpose, methods, and the right that a user needs. Constant.

enum class Action : uint8_t {
  take,
  charge,
  peek,
  put,
  reset,
  wait,
  batch,
  explain,
  acquire,
  // Of holds, in the order of request::HoldAsk.
  reserve,
  extend,
  renew,
  commit,
  release,
  any,  // the path `*`, for OPTIONS alone
  health,
  openapi,
  auth,
  throttle,     // throttlecrab's
  crab_health,  // throttlecrab's
};

struct Route {
  std::string_view path;
  Action action;
  std::string_view methods;              // in the form of Allow
  std::optional<access::Right> right{};  // empty: no right is needed
  BodyForm wanted{};                     // what the body may have; not of holds
};

// All routes but that of /auth, which no user's right concerns.
std::span<const Route> all_routes();

// The route of a path without its query; null: there is none. All paths below /auth/ have one
// route.
const Route* find_route(std::string_view path);

// Whether the route has the method. HEAD counts as GET.
bool has_method(const Route& route, std::string_view method);

struct HttpWorker;

// The request without its body. The views are valid until `begin` returns.
struct Question {
  std::string_view method, path, query, host;
  bool has_query = false;
  std::string_view scheme = "http";
  std::span<const wire::HttpField> fields{};
  std::string_view body{};
};

// The connection of an exchange. Everything outlives the exchange.
struct ConnectionContext {
  HttpWorker& worker;
  const HttpOptions& options;
  const request::Peer& peer;
  access::Identity& identity;  // of the request that is being begun
  const AuthPeer& auth_peer;
  AllowedHost& host;
  size_t& waiting;  // the number of the connection's requests that wait for units

  // Whether a browser on this machine is the only one that a web page could send here, so that the
  // names in Host must be known (guard.h). Without a listener, as in tests, they must.
  bool guards_names() const { return peer.listener == nullptr || peer.listener->is_loopback(); }
  // Counts a request that is refused before the engine is asked (request::ListenerView::refused).
  void report(std::string_view code, std::string_view example) const {
    if (peer.listener != nullptr) peer.listener->refused(code, example);
  }
};

// Whether the route does not need the body: then it answers before the body has arrived (RFC 9110,
// 10.1.1).
bool is_answered_without_body(std::string_view path);

// state    what happens in it                               next
// free     nothing is known of it                           asked or ready: `begin`, `fail`
// asked    the engine decides its requests: of expected_    ready: the last verdict
//          verdicts taken_ have come                        free: `forget`, the stream is gone
// ready    its answer is made, or the problem is known      free: `write`
//
// The session moves it, on the connection's thread. waits_ is set in `asked` alone.
class Exchange {
 public:
  enum class Begun : uint8_t { ready, asked };

  Begun begin(const Question& question, const ConnectionContext& around, uint32_t note,
              request::Requests& requests);
  // Makes an answer of a problem that the session has found; then it is ready.
  void fail(const Question& question, const ProblemKind& kind, std::string_view detail);
  // Takes a verdict. Returns true if it was the last.
  bool take(const request::Request& request, const request::Verdict& verdict, base::Time now,
            const ConnectionContext& around);
  void write(const ConnectionContext& around, Answer& answer);
  void forget(const ConnectionContext& around);

  // Whether the answer is to HEAD.
  bool is_head() const { return asks_.is_head; }
  // Whether the request waits for units.
  bool waits() const { return waits_; }
  // Whether the answer is ready without a verdict.
  bool is_ready() const { return expected_ == 0; }
  // Whether its memory has grown so much that it must not be kept for reuse.
  bool is_large() const;

 private:
  // A limit that the answer's header fields show.
  struct Told {
    uint32_t name_first = 0, name_bytes = 0;  // in names_
    uint32_t unit_bytes = 0;                  // behind the name
    limit::Limit limit{};
    limit::Decision decision{};
    std::array<char, 9> partition{};
  };
  // A subject that brought its limits: the places of their names.
  struct Subject {
    bool is_inline = false;
    uint32_t name_first = 0, name_count = 0;  // in limit_names_
  };

  void clear();
  void begin_span(const Question& question, const ConnectionContext& around);
  void end_span(uint16_t status, const ConnectionContext& around);
  void write_answer(const ConnectionContext& around, Answer& answer);
  bool is_misdirected(const Question& question, const ConnectionContext& around) const;
  Begun refuse_host(std::string_view host, const ConnectionContext& around);
  void report(const ConnectionContext& around) const;
  Begun refuse(const ProblemKind& kind, std::string_view detail);
  Begun begin_traced(const Question& question, const ConnectionContext& around, uint32_t note,
                     request::Requests& requests);
  Begun begin_route(const Question& question, const ConnectionContext& around, uint32_t note,
                    request::Requests& requests);
  Begun begin_api(const Question& question, const ConnectionContext& around, uint32_t note,
                  request::Requests& requests);
  Begun begin_action(const Question& question, const RequestFields& fields, bool is_get_take,
                     const ConnectionContext& around, uint32_t note, request::Requests& requests);
  Begun begin_body(const Question& question, const RequestFields& fields,
                   const ConnectionContext& around, uint32_t note, request::Requests& requests);
  Begun begin_query(const Question& question, const ConnectionContext& around, uint32_t note,
                    request::Requests& requests);
  Begun begin_throttle(const Question& question, const RequestFields& fields, uint32_t note,
                       request::Requests& requests);
  Begun begin_hold(const Question& question, const RequestFields& fields,
                   const ConnectionContext& around, uint32_t note, request::Requests& requests);
  Begun read_body(std::string_view body, const ConnectionContext& around, uint32_t note,
                  request::Requests& requests);
  bool read_query(const Question& question);
  bool may_read(const RequestFields& fields);
  bool may_read(const Question& question, const RequestFields& fields);
  Begun refuse_body(const TakeBody& body);
  bool may_bring_limits(const TakeBody& body, const ConnectionContext& around);
  bool know_client(const RequestFields& fields, const ConnectionContext& around);
  Begun ask_body(const ConnectionContext& around, uint32_t note, request::Requests& requests);
  void ask_subject(const TakeBody& body, const TakeSubject& subject, request::Request request,
                   request::Requests& requests);
  void note_subject(const TakeBody& body, const TakeSubject& subject);
  Begun ask_wait(const TakeBody& body, const ConnectionContext& around, uint32_t note,
                 request::Requests& requests);
  Begun ask_hold(const ConnectionContext& around, uint32_t note, request::Requests& requests);
  bool claim_id(const TakeBody& body, const ConnectionContext& around);
  Begun refuse_other_content();
  static std::string_view user_of(const ConnectionContext& around);
  Begun ask_health(uint32_t note, request::Requests& requests);
  Begun begin_auth(const Question& question, const ConnectionContext& around, uint32_t note,
                   request::Requests& requests);
  bool begin_wait(base::Duration timeout, const ConnectionContext& around);
  void end_wait(const ConnectionContext& around);
  std::string_view hold(std::string_view text, request::Requests& requests) const;

  void take_one(const request::Verdict& verdict, const ConnectionContext& around);
  void take_part(const request::Verdict& verdict, const ConnectionContext& around);
  void take_charge(const request::Verdict& verdict, bool last, const ConnectionContext& around);
  void take_look(const request::Verdict& verdict, bool last, const ConnectionContext& around);
  void answer_again(std::string_view kept, const ConnectionContext& around);
  void append_charge(const request::Verdict& verdict, const ConnectionContext& around);
  bool fail_charge(const request::Verdict& verdict, const ConnectionContext& around);
  void take_hold(const request::HoldCall& call, const request::Verdict& verdict, bool last,
                 const ConnectionContext& around);
  void take_extend(const request::HoldCall& call, std::string_view unit);
  void take_commit(const request::HoldCall& call, const request::Verdict& verdict);
  bool fail_hold(const request::HoldCall& call, const request::Verdict& verdict,
                 const ConnectionContext& around);
  bool fail_undecided(request::HoldAsk ask, const request::Verdict& verdict,
                      const ConnectionContext& around);
  void refuse_ended(request::HoldAsk ask);
  void refuse_for_now(std::string_view why);
  void append_units(std::span<const int64_t> units, base::Buffer& out) const;
  void append_hold(const request::HoldCall& call);
  void append_committed(const request::HoldCall& call);
  void take_counters(const request::Request& request, const request::Verdict& verdict);
  void take_throttle(const request::Verdict& verdict, const ConnectionContext& around);
  void take_auth(const request::Verdict& verdict, const ConnectionContext& around);
  bool fail_by(const request::Verdict& verdict, const ConnectionContext& around);
  bool fail_unmatched(const ConnectionContext& around);
  void note_outcome(bool allowed, const limit::Decision& tightest);
  void append_take(const request::Verdict& verdict, bool allowed, base::Buffer& out);
  void append_limits(const request::Verdict& verdict, base::Buffer& out) const;

  const Subject* subject_of_verdict() const;
  std::string_view rule_of(const request::Verdict& verdict) const;
  std::string_view name_of_inline(const Subject& subject, const request::Verdict& verdict) const;
  std::string_view name_by_limit(const Subject& subject, const request::Verdict& verdict) const;
  void report_limits(const request::Verdict& verdict, const ConnectionContext& around);
  void report_limit(std::string_view rule, std::string_view unit, size_t index,
                    const limit::Limit& limit, const limit::Decision& decision);
  void report_partition(const request::Charge& charge, size_t first,
                        const ConnectionContext& around);
  void note_shown(const limit::Decision& decision);
  std::string_view name_of(const Told& told) const {
    return std::string_view(names_).substr(told.name_first, told.name_bytes);
  }
  std::string_view unit_of(const Told& told) const {
    return std::string_view(names_).substr(told.name_first + told.name_bytes, told.unit_bytes);
  }

  void write_problem(const ConnectionContext& around, Answer& answer) const;
  void write_origin(Answer& answer) const;
  std::string_view allowed_methods() const;
  void write_takes(Answer& answer) const;
  void write_hold(Answer& answer) const;
  void begin_denial(Answer& answer) const;
  void append_violated(base::Buffer& out) const;
  bool is_plain(const ConnectionContext& around) const;
  void write_limits(const ConnectionContext& around, Answer& answer) const;
  static base::Duration jittered(const ConnectionContext& around, base::Duration length);
  void write_auth(const ConnectionContext& around, Answer& answer) const;

  const Route* route_ = nullptr;
  AnswerForm form_ = AnswerForm::problem;
  // Set by `begin`, as the request has them.
  struct Asks {
    bool is_head = false, is_options = false;
    bool is_several = false;  // its body is a list of subjects
    bool has_list = false;    // its units are a list; set for holds alone
    bool each = false;        // its takes are independent
    bool detail = false, always_ok = false;
    bool waits = false;      // a reserve says how long it may wait
    bool takes_get = false;  // HttpOptions::get_takes
  };
  // Set by `take` and `fail`, verdict by verdict; shown by `write`.
  struct Outcome {
    bool allowed = true, denied = false;
    bool any_decided = false;  // of several takes
    bool any_shown = false;    // a limit: that with the place shown_
    bool is_reported = false;  // the problem is counted already
    bool over = false;         // of a charge: a limit is in debt
    // Of a charge: its id was used before; and by this server, so that the requests only look.
    bool is_repeated = false, is_again = false;
  };
  Asks asks_;
  Outcome outcome_;
  bool waits_ = false;  // it is among the requests that wait (begin_wait to end_wait)
  size_t expected_ = 0, taken_ = 0;
  std::string_view body_;  // during `begin`

  std::string origin_;  // of the web page that sent the request; empty: none did

  Problem problem_;
  std::string path_;                           // of a request without a route, cut to a bound
  base::Duration retry_after_{};               // of the problem; 0: not sent
  const ProblemKind* part_problem_ = nullptr;  // of the last take that was not decided
  base::Duration retry_of_denial_{};
  uint64_t generation_ = 0, counters_ = 0;
  base::Time now_{};
  base::Buffer members_;  // of the answer's JSON: members of one take, or the items of `takes`
  std::string names_;     // the names of told_
  std::vector<Told> told_;
  size_t shown_ = 0, last_told_ = 0;         // indices in told_
  std::vector<std::string> limit_names_;     // of limits that came with the request
  std::vector<limit::Limit> inline_limits_;  // these limits, one for each name
  std::vector<Subject> subjects_;

  const AuthProfile* profile_ = nullptr;
  std::string accept_;           // of forward-auth: used only for a refusal
  int64_t auth_remaining_ = -1;  // negative: unknown
  std::string auth_rule_;

  // The id of a charge; null: it has none. While it is claimed `kept` collects the verdicts.
  struct Once {
    std::string id, kept;
    uint64_t content = 0;
    request::ChargeIds::Claim claim;
  };
  bool has_claim() const { return once_ != nullptr && once_->claim; }
  std::unique_ptr<Once> once_;
  // Of a request about a hold: members of the answer that tell the hold; and of a commit that is a
  // charge the decision that members_ show. Null: of another request.
  struct HoldAnswer {
    base::Buffer text;
    limit::Decision shown{};
  };
  std::unique_ptr<HoldAnswer> hold_;
  otlp::OpenSpan span_;  // none: the request is not traced
};

}  // namespace sluice::http
