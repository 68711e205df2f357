// The sans-I/O seam between a connection and a protocol: bytes in, requests out; verdicts in, reply
// bytes out. A session belongs to one connection and one thread, holds no socket and reads no
// clock, and must give the same replies however its input is split.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "base/buffer.h"
#include "limit/limit.h"
#include "request/charge.h"

namespace sluice::request {

// Keys of the entries of a request of the verb `log_in`, in this order; the address without its
// port.
inline constexpr std::string_view user_entry = "user", password_entry = "password",
                                  address_entry = "address";

// The error of requests that need a rule (Request::needs_rule) where none applies.
inline constexpr std::string_view no_rule_applies = "no rule applies";

// That of requests that bring limits along, of which too many different ones are known; it passes.
inline constexpr std::string_view too_many_inline_limits =
    "too many different limits have arrived with requests; ask with fewer different ones, or later";

// One thing asked. Its entries are Requests::descriptor(request), the limits that it brought along
// Requests::limits(request). More than twenty members: each verb has some, in one flat array.
struct Request {
  Verb verb = Verb::take;
  bool all = false;          // put: until the counter is as a fresh one, whatever the cost
  bool reset_first = false;  // take: forget the counter first
  // It settles all or nothing with the request in front of it, of the same verb; neither waits nor
  // has `all` or `reset_first`, and at most base::bounds::together_max of one batch do so in a row.
  bool joins = false;
  // Of requests that join one another, all or none of them: where rules that count refuse one of
  // them, only those counters are charged that refuse (Group::sparing).
  bool sparing = false;
  // It is of the same message of the client as the one in front of it: rules that are found by a
  // structure of the protocol's own may look at all of them (policy/finder.h).
  bool sibling = false;
  // Its limits hold in place of a rule's, on a counter of theirs (policy/inline_limits.h).
  bool limits_inline = false;
  // take: it is charged nothing that it is refused, also by rules whose takes count.
  bool strict = false;
  RuleScope scope = RuleScope::all;
  // Where the store cannot decide it fails, whatever its rules want then: what they answer in place
  // of the store says nothing of a counter.
  bool needs_store = false;
  // Of requests that join one another: none of them is charged where no rule applies to this one,
  // and all have the error no_rule_applies.
  bool needs_rule = false;
  bool as_written = false;        // peek: as request::Charge has it
  bool must_fit = false;          // wait: of more than a limit ever allows it is refused at once
  base::Duration wait_at_most{};  // wait: past it the verdict is `expired`; 0: for ever
  // The client's deadline, INT64_MAX: none. What is decided no earlier has Error::deadline, and is
  // not charged unless a store in another process was asked before. Of requests that settle
  // together the earliest holds.
  base::Time answer_by{INT64_MAX};
  uint32_t note = 0;  // the session's own, as is `tag`: what it needs to write the reply
  // Units. Below 0 only where limits come with the request: they are added. Scan: names, at most.
  int64_t cost = 1;
  uint32_t entry_first = 0, entry_count = 0;
  uint32_t limit_first = 0, limit_count = 0;
  std::string_view prefix{};  // list: what the keys begin with; scan: ScanPlace::from
  std::string_view tag{};     // at most base::bounds::tag_bytes_max; scan: ScanPlace::after
};

// The requests of one batch; kept and reused, so that a settled server allocates nothing.
class Requests {
 public:
  void clear() {
    items_.clear();
    entries_.clear();
    limits_.clear();
    if (holds_texts_) [[unlikely]]
      texts_.clear();
    holds_texts_ = false;
  }
  // A copy of `text` that lives until `clear`: of what does not stand in a session's input as it is
  // asked (unescaped, decompressed).
  std::string_view hold(std::string_view text) {
    holds_texts_ = true;
    char* const copy = texts_.allocate(text.size());
    std::copy(text.begin(), text.end(), copy);
    return {copy, text.size()};
  }
  // Where texts may be put that live as long.
  base::Arena& texts() {
    holds_texts_ = true;
    return texts_;
  }
  // Opens a request; entries and limits added afterwards are its own until `commit`. `rollback`
  // drops an open one.
  void open() {
    entry_first_ = static_cast<uint32_t>(entries_.size());
    limit_first_ = static_cast<uint32_t>(limits_.size());
  }
  void add(Entry entry) { entries_.push_back(entry); }
  void add(const limit::Limit& limit) { limits_.push_back(limit); }
  size_t open_entries() const { return entries_.size() - entry_first_; }
  std::span<const Entry> open_list() const { return std::span(entries_).subspan(entry_first_); }
  // What `request` says of its entries and limits is filled in.
  void commit(Request request) {
    request.entry_first = entry_first_;
    request.entry_count = static_cast<uint32_t>(entries_.size()) - entry_first_;
    request.limit_first = limit_first_;
    request.limit_count = static_cast<uint32_t>(limits_.size()) - limit_first_;
    items_.push_back(request);
  }
  void rollback() {
    entries_.resize(entry_first_);
    limits_.resize(limit_first_);
  }

  std::span<const Request> items() const { return items_; }
  std::span<const Entry> descriptor(const Request& r) const {
    return std::span(entries_).subspan(r.entry_first, r.entry_count);
  }
  std::span<const limit::Limit> limits(const Request& r) const {
    return std::span(limits_).subspan(r.limit_first, r.limit_count);
  }
  size_t size() const { return items_.size(); }

 private:
  std::vector<Request> items_;
  std::vector<Entry> entries_;
  std::vector<limit::Limit> limits_;
  base::Arena texts_;
  bool holds_texts_ = false;
  uint32_t entry_first_ = 0, limit_first_ = 0;
};

// Where a scan goes on, as its verdict says it; empty: at the beginning, or it is at its end.
struct ScanPlace {
  std::string_view from{}, after{};
  bool is_end() const { return from.empty() && after.empty(); }
};

// One counter that a list found, by its key; or a scan, by its stored name and without a decision.
struct Listed {
  std::string key;
  limit::Decision decision;
};

// The answer to one request. More than twenty members: what each protocol may tell of it, in one
// place, filled once.
struct Verdict {
  bool allowed = false;
  const limit::Decision* tightest = nullptr;  // the decision to show; null: no rule matched
  // Of the same limit: until it is as fresh if it is allowed; at a refusal until the request could
  // be allowed.
  base::Duration more_after{};
  std::string_view error{};   // not empty: could not be decided, in words for the client
  Error cause = Error::none;  // why not, if it was the store
  std::string_view rule{};    // whose decision is shown; empty: it has no name
  // Of which limit it is; null: the counter keeps its limits.
  const limit::Limit* limit = nullptr;
  bool inline_limit = false;  // the rule is the one for limits that come with the request
  bool matched = false;       // a rule applies; if none does, only the error may be set
  bool delayed = false;       // it was allowed only after a wait
  bool expired = false;       // it waited for as long as it may: nothing was taken
  base::Duration waited{};    // of a reply that came late
  bool counted = true;        // false: the tightest limit has no counter (unlimited, deny)
  uint64_t generation = 0;    // of the policy that decided, or that is live; 0: none is known
  KeyEncoding encoding = KeyEncoding::own;  // of the tightest limit's counter
  // Where limits come with the request: a decision for each window that the charge concerns, or
  // of a peek, that the counter has; bit i of slot_mask: Space::windows[i] is among them.
  std::span<const limit::Decision> slots{};
  uint32_t slot_mask = 0;
  // Of the enforced rules, unless the reply comes late: the decision of limit i of a charge that
  // does not keep its limits is decisions[charge.decision_first + i]. Requests that settle together
  // may share a charge, whose cost is that of all of them.
  ChargeList charges{};
  const limit::Decision* decisions = nullptr;
  // Of the rule of the protocol's own that applies and has data, in shadow or not: these, its
  // charge, and the decisions of that; not of a reply that comes late. Null: none does, or the
  // store could not decide it in shadow. Where the store could not decide one that is enforced,
  // there are the data alone.
  const RuleData* own = nullptr;
  const Charge* own_charge = nullptr;
  std::span<const limit::Decision> own_decisions{};
  std::span<const Listed> listed{};  // list, scan: in byte order
  ScanPlace resume_at{};             // scan
};

struct Received {
  size_t consumed = 0;   // bytes of `in` that are done with
  bool closing = false;  // the peer broke the protocol: after the replies owed comes `farewell`,
                         // then the close
};

class Session {
 public:
  virtual ~Session() = default;

  // Takes complete frames from the front of `in`, up to one with which it has added
  // base::bounds::batch_requests_max requests or more. Called again with the rest while it
  // consumes or adds requests, and with more bytes behind the same rest later. `end`: no byte will
  // follow `in`. What is not a reply (a handshake, a pong, a window update) it appends to `out`,
  // where it stands before the replies to these `requests`. Views in `requests` point into `in` or
  // into the session and live until the next call; those of a session that takes several batches
  // point into `in` or to what Requests::hold gave.
  virtual Received receive(std::string_view in, bool end, Requests& requests,
                           base::Buffer& out) = 0;

  // Appends the reply to one request, or to the last of several that have one reply together: then
  // it gathers the verdicts of those before. `request` is the one that `receive` gave or, of one
  // that had to wait, a copy with its tag and without its entries and limits. `now`: when it was
  // decided. In request order, but for those that had to wait; of several batches each in its own
  // order. False: nothing may follow it; flush and close.
  virtual bool reply(const Request& request, const Verdict& verdict, base::Time now,
                     base::Buffer& out) = 0;

  // May replies to a batch leave before those to an earlier one? Then the connection goes on
  // reading while the store has not answered, and has up to
  // base::bounds::batches_per_connection_max batches under way.
  virtual bool takes_several_batches() const { return false; }

  // Does its next request wait until the one that was received last has its reply, however late
  // that comes? Then `receive` is not called before.
  virtual bool holds_back() const { return false; }
  // Has it consumed requests that it has not added? Then `receive` is called again once it holds
  // back no longer, though nothing has arrived.
  virtual bool has_more() const { return false; }
  // Does it hold back for a request that waits for units? Then the client's end is the request's.
  virtual bool waits_for_units() const { return false; }
  // Has such a wait been ended by another client (ServerView::interrupt) or by its own? Then its
  // verdict is `expired`, unless units were there first. Asked after each `receive`.
  virtual bool is_interrupted() const { return false; }
  // Is that wait one of them?
  virtual bool is_wait_interrupted(const Request&) const { return is_interrupted(); }

  // Memory that it holds for a request of which parts are missing, and has consumed already.
  virtual size_t unfinished_bytes() const { return 0; }
  // May its client take as long as an idle one over the missing parts?
  virtual bool may_pause() const { return false; }

  // When `receive` is called though nothing has arrived, by monotonic time; INT64_MAX: never. Asked
  // after each `receive`; the call may come up to a second late, or later where input waits.
  virtual base::Time wakes_at() const { return {INT64_MAX}; }

  // What the client calls the request, for log lines; empty: nothing.
  virtual std::string_view id_of(const Request&) const { return {}; }

  // By what code the peer's breach of the protocol is counted, which made `receive` announce the
  // close; empty: it took its leave properly.
  virtual std::string_view fault() const = 0;

  // Appends what is sent to the peer before the close that `receive` announced.
  virtual void farewell(base::Buffer& out) = 0;

  // Appends what is sent to a peer that cannot be served at all (too many connections, shutting
  // down), before the close.
  virtual void refuse(std::string_view why, base::Buffer& out) = 0;

  // Appends what is sent to the peer when the server stops, after every reply that it is owed and
  // before the close.
  virtual void goodbye(base::Buffer&) {}
};

}  // namespace sluice::request
