// The interface between a connection and a protocol, without input and output of its own: bytes
// become requests, and verdicts become reply bytes. A session belongs to one connection and one
// thread, holds no socket, and gives the same replies however its input is split. Decisions have
// the time of their batch; for deadlines, ids and spans a session reads Peer::clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/arena.h"
#include "base/buffer.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/hold.h"
#include "request/request.h"

namespace sluice::policy {
struct Planning;
}

namespace sluice::request {

// The answer to a request to which no enforced rule applies; an option of listeners. Plain values.

enum class Unmatched : uint8_t {
  as_protocol,  // the protocol's own answer (policy::Dialect::unmatched)
  allow,        // as by a rule with `unlimited: true`
  deny,         // as by a rule with `deny: true`
  error,        // an error
};
inline constexpr std::array<std::string_view, 4> unmatched_names{"protocol", "allow", "deny",
                                                                 "error"};
inline std::string_view name_of(Unmatched unmatched) {
  return unmatched_names[static_cast<size_t>(unmatched)];
}

// Verdict::error of requests that need a rule (Message::needs_rule) when no rule applies to one.
inline constexpr std::string_view no_rule_applies = "no rule applies";

// Verdict::error of a request that brings limits when the process knows too many different limits.
// Limits that are no longer used are forgotten, so it passes.
inline constexpr std::string_view too_many_inline_limits =
    "too many different limits have arrived with requests; ask with fewer different ones, or later";

// Verdict::error of a request of a message (Requests::guard) that would touch a counter to which
// its user's right does not reach. Nothing of the message was charged.
inline constexpr std::string_view not_permitted =
    "the user's right is limited to other counters than those of this request";

// Verdict::error of a request that waited for units when the server was stopped.
inline constexpr std::string_view server_stops = "the server stops; nothing was taken";

// The requests of one batch. The object is reused, so that a server with steady load allocates
// nothing.
class Requests {
 public:
  void clear() {
    items_.clear();
    entries_.clear();
    limits_.clear();
    if (holds_texts_) [[unlikely]] {
      texts_.clear();
      charge_ids_.clear();
      hold_calls_.clear();
      messages_.clear();
      overdrafts_.clear();
      guarded_.clear();
    }
    holds_texts_ = false;
  }
  // Returns a copy of `text` that is valid until `clear`: for texts that differ from the session's
  // input (unescaped, decompressed).
  std::string_view hold(std::string_view text) {
    holds_texts_ = true;
    char* const copy = texts_.allocate(text.size());
    std::copy(text.begin(), text.end(), copy);
    return {copy, text.size()};
  }
  // The same of an id and its name.
  const ChargeId* hold_id(const ChargeId& id) {
    charge_ids_.push_back({hold(id.name), id.content});
    return &charge_ids_.back();
  }
  // The same of what is asked of a hold; its views are not copied.
  HoldCall* hold(HoldCall call) {
    holds_texts_ = true;
    hold_calls_.push_back(std::move(call));
    return &hold_calls_.back();
  }
  // The same of what holds for a message, for Request::message.
  const Message* hold(const Message& message) {
    if (message == plain_message) return &plain_message;
    holds_texts_ = true;
    messages_.push_back(message);
    return &messages_.back();
  }
  // The same, for Brought::overdrafts.
  const limit::Overdrafts* hold(const limit::Overdrafts& overdrafts) {
    holds_texts_ = true;
    overdrafts_.push_back(overdrafts);
    return &overdrafts_.back();
  }
  // Memory for further texts that are valid until `clear`.
  base::Arena& texts() {
    holds_texts_ = true;
    return texts_;
  }
  // Opens a request: entries and limits that are added until `commit` belong to it. `rollback`
  // drops it.
  void open() {
    entry_first_ = static_cast<uint32_t>(entries_.size());
    limit_first_ = static_cast<uint32_t>(limits_.size());
  }
  void add(Entry entry) { entries_.push_back(entry); }
  void add(const limit::Limit& limit) { limits_.push_back(limit); }
  size_t open_entries() const { return entries_.size() - entry_first_; }
  std::span<const Entry> open_list() const { return std::span(entries_).subspan(entry_first_); }
  // Sets the places of the entries and limits in `request`, and adds it.
  void commit(Request request) {
    request.entry_first = entry_first_;
    request.entry_count = static_cast<uint32_t>(entries_.size()) - entry_first_;
    request.limits.first = limit_first_;
    request.limits.count = static_cast<uint32_t>(limits_.size()) - limit_first_;
    items_.push_back(request);
  }
  void rollback() {
    entries_.resize(entry_first_);
    limits_.resize(limit_first_);
  }

  // The requests of one message of a user with limited rights, who may touch only the counters that
  // the right reaches: where one request would touch another, all are refused (not_permitted).
  struct Guarded {
    enum class Judged : uint8_t { not_yet, permitted, refused };
    size_t first = 0, end = 0;
    std::shared_ptr<const access::User> user;
    access::Right right{};  // of puts it is always `put`
    Judged judged = Judged::not_yet;

    const access::Reach& reach_of(const Request& request) const {
      return user->reach_of(told_as(request.verb) == Verb::put ? access::Right::put : right);
    }
  };
  // Those from `first` on are such a message.
  void guard(size_t first, std::shared_ptr<const access::User> user, access::Right right) {
    if (first == items_.size()) return;
    holds_texts_ = true;  // so that `clear` looks
    guarded_.push_back({first, items_.size(), std::move(user), right});
  }
  bool has_guarded() const { return !guarded_.empty(); }
  std::span<Guarded> guarded() { return guarded_; }

  std::span<const Request> items() const { return items_; }
  std::span<const Entry> descriptor(const Request& r) const {
    return std::span(entries_).subspan(r.entry_first, r.entry_count);
  }
  std::span<const limit::Limit> limits(const Request& r) const {
    return std::span(limits_).subspan(r.limits.first, r.limits.count);
  }
  size_t size() const { return items_.size(); }

 private:
  std::vector<Request> items_;
  std::vector<Entry> entries_;
  std::vector<limit::Limit> limits_;
  base::Arena texts_;
  std::deque<ChargeId> charge_ids_;
  std::deque<HoldCall> hold_calls_;
  std::deque<Message> messages_;
  std::deque<limit::Overdrafts> overdrafts_;
  std::vector<Guarded> guarded_;
  bool holds_texts_ = false;
  uint32_t entry_first_ = 0, limit_first_ = 0;
};

// A counter that a list found, by its key.
struct Listed {
  std::string key;
  limit::Decision decision;
};

// What a charge (Verb::charge) came to. It is allowed in any case.
struct Charged {
  // Units taken from every counter of the enforced rules; nothing: there is none.
  std::optional<int64_t> units{};
  bool over = false;        // a limit of an enforced rule is in debt
  Known known = Known::no;  // what the store knew of its id
};

// The answer to one request: a view of its part of the plan.
struct Verdict {
  bool matched = false;  // a rule applies; otherwise only `error` may be set
  bool allowed = false;
  bool expired = false;  // its wait ended without units: nothing was taken
  // The decision to report; null: no rule applies. Of a charge: of the limit that takes longest
  // until it grants one unit: its retry_after is the time until then, and its `remaining` is below
  // 0 by its debt.
  const limit::Decision* tightest = nullptr;
  // The limit of that decision; null: the counter keeps its limits.
  const limit::Limit* limit = nullptr;
  std::string_view rule{};    // its rule; empty: it has no name
  std::string_view unit{};    // RuleWords::unit of that; set where there are no charges to tell it
  bool inline_limit = false;  // it came with the request
  std::string_view error{};   // not empty: it could not be decided; a text for the client
  Error cause = Error::none;  // the store's reason, if the store could not decide it
  std::optional<base::Duration> waited{};  // of a reply that came late: how long it waited
  Charged charged{};
  uint64_t generation = 0;  // of the policy that decided it, else of the live one; 0: unknown
  // The charges of the enforced rules; none in a reply that comes late. Requests that settle
  // together may share a charge; its cost is the sum of theirs.
  ChargeList charges{};
  // The charge that the session planned (Session::plan), under an enforced rule or one in shadow.
  // Null: it planned none, the reply comes late, or it was not decided.
  const Charge* planned = nullptr;
  const limit::Decision* decisions = nullptr;  // of all charges: those of one by decisions_of
  // Of a reserve that had to wait: what came of it. Null elsewhere (hold_of).
  const HoldCall* hold = nullptr;
  std::span<const Listed> listed{};  // list: in byte order

  // The decisions of one of these charges, one for each of its limits; of a counter that keeps its
  // limits one for each window that it names, or for a peek each that it has (Charge::slot_mask).
  std::span<const limit::Decision> decisions_of(const Charge& charge) const {
    return {decisions + charge.decision_first, charge.decided()};
  }
  // Has the limit that is reported a counter? (`unlimited` and `deny` have none.)
  bool is_counted() const { return limit == nullptr || limit::has_counter(limit->algorithm); }
};

// What came of a message about a hold; null: the request is of another message.
inline const HoldCall* hold_of(const Request& request, const Verdict& verdict) {
  return verdict.hold != nullptr ? verdict.hold : request.message->hold;
}

struct Received {
  size_t consumed = 0;   // bytes of `in` that are not needed again
  bool closing = false;  // the connection must end: the outstanding replies, `end`, close
  // What the session did beside the requests that it added (to unpack texts), as a number of
  // requests: it counts towards the connection's turn.
  size_t work = 0;
};

// What a connection must know of its session between two calls.
struct SessionState {
  // The next request must wait until the last one has its reply, however late that comes: `receive`
  // must not be called before.
  bool holds_back = false;
  // A request waits for units, and ends if the client leaves.
  bool waits_for_units = false;
  // The client has ended such a wait (Session::has_ended_wait).
  bool has_ended_waits = false;
  // It has consumed requests that it has not added yet. So `receive` is called again as soon as it
  // does not hold back, although no byte has arrived; also after a call that reports work.
  bool has_more = false;
  // The replies to a batch may be sent before those to an earlier one. So the connection reads on
  // while the store has not answered, with up to base::bounds::batches_per_connection_max batches
  // under way.
  bool takes_several_batches = false;
  // The client may take as long for the missing part of a request as an idle client.
  bool may_pause = false;
  // Replies are kept back by the client's flow control.
  bool withholds = false;
  // Bytes of memory for a request of which it has consumed a part; and for what its client may
  // leave there as long as it likes: withheld replies, calls that stream.
  size_t unfinished_bytes = 0, kept_bytes = 0;
  // Where several requests may be unfinished at a time: names the oldest of them, so that others
  // which are completed meanwhile do not lengthen its time. 0: there is none, or one at a time.
  uint64_t oldest_unfinished = 0;
  // The monotonic time at which `receive` must be called although no byte has arrived; INT64_MAX:
  // never. The call may be up to a second late, or later where input waits.
  base::Time wakes_at{INT64_MAX};
};

// What is wrong with what the client sent.
struct Fault {
  std::string_view code{};  // under which metrics count it; empty: nothing is wrong
  std::string_view text{};  // for the log, without secrets; valid until the session's next call
};

// Why a connection ends.
enum class Ending : uint8_t {
  announced,  // by `receive`
  refused,    // the client cannot be served at all, or no longer: too many connections, a timeout
  stopping,   // the server stops
};

// What takes too long and depends on the client alone.
enum class Overdue : uint8_t {
  unfinished,  // the oldest unfinished request, which has had its time
  withheld,    // replies that are kept back by flow control: at the end of each send_timeout
};

// state      what happens in it                                    next
// serving    `receive` and `reply`                                 closing: `receive` announces it
//                                                                  ended: `end`
// closing    nothing is received; `reply` for what is outstanding  ended: `end`
// ended      no function is called any more                        -
//
// The connection calls `receive`, `give_up` and `end`, the engine `reply`, `on_parked` and
// `has_ended_wait`. The state that a session tells changes only within these calls, so the
// connection asks for it once after each of its own and after those replies.
class Session {
 public:
  virtual ~Session() = default;

  // Consumes complete frames from the front of `in`, and stops after the frame with which it has
  // added base::bounds::batch_requests_max requests or more. It is called again with the rest while
  // it consumes bytes or adds requests, and later with more bytes after the same rest. `end`: no
  // byte will follow `in`. Bytes that are not a reply (a handshake, a pong, a window update) it
  // appends to `out`, before the replies to these `requests`. Views in `requests` point into `in`
  // or into the session and are valid until the next call; those of a session that takes several
  // batches point into `in` or to memory of Requests::hold.
  virtual Received receive(std::string_view in, bool end, Requests& requests,
                           base::Buffer& out) = 0;

  // Plans the charge of a request under a rule of the protocol's own (policy/rule_set.h), in a
  // protocol that has such rules. Called for each request before it is settled, once more if its
  // plan is made again, and where a user's rights are judged; the last call before the reply
  // counts. `request` as in `reply`.
  virtual void plan(const Request&, policy::Planning&) {}

  // Appends the reply to one request. Where several requests have one reply together, it stores the
  // verdicts and appends the reply with the last of them. `request` is the one that `receive` added
  // or, if it had to wait, a copy with its tag but without its entries and limits. `now`: the time
  // of the decision. Called in the order of the requests of each batch, except for requests that
  // had to wait. False: no reply may follow; the connection flushes its output and closes.
  virtual bool reply(const Request& request, const Verdict& verdict, base::Time now,
                     base::Buffer& out) = 0;

  virtual SessionState state() const { return {}; }

  // The request waits, and its texts were copied: it may let go of them.
  virtual void on_parked(const Request&) {}
  // Has the client ended the wait of this request? Then the verdict is `expired`, unless units were
  // there first.
  virtual bool has_ended_wait(const Request&) const { return false; }

  // Gives up what is overdue, and returns how many: an unfinished request, if others were completed
  // meanwhile; the replies of which the client has taken next to nothing in a whole send_timeout.
  // Nothing: the client has moved nothing on, so that the connection must end.
  virtual std::optional<size_t> give_up(Overdue, base::Buffer&) { return std::nullopt; }

  // The breach of the protocol for which `receive` announced the close; none: the client ended the
  // connection properly.
  virtual Fault fault() const = 0;

  // Appends the bytes that are sent before the close, after all replies. `why`: what a client that
  // is refused is told, also one that has sent nothing yet; otherwise empty.
  virtual void end(Ending ending, std::string_view why, base::Buffer& out) = 0;
};

}  // namespace sluice::request
