// For tests of waiting requests and lists: a store that answers `later` when a test wants it,
// clients that record their replies, and engines over one store whose time, wakes and posted work
// the test controls. Single-threaded, except for the thread that makes lists and the threads of a
// durable store.
#pragma once

#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "engine/engine.h"
#include "engine/lists.h"
#include "policy/overrides.h"
#include "policy/read/native.h"
#include "protocol/limitd/rules.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/forwarding_test.h"

namespace sluice::engine::tests {

// Answers `later` in place of another store's decision.
class Wavering final : public store::tests::Forwarding {
 public:
  explicit Wavering(store::Store& inner) : Forwarding(inner) {}

  // Given the groups of a batch, how many are settled before `later`; all: no `later`.
  std::function<size_t(size_t)> settles = [](size_t groups) { return groups; };
  // Is a request that is matched again answered `later`? It is then not resumed.
  std::function<bool()> puts_off = [] { return false; };

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    if (ticket == request::no_ticket) {
      if (puts_off()) return {.settled = 0, .later = true};
      return note(batch, inner_.apply(batch, now, completions, pin, ticket), completions);
    }
    // A batch that was answered `later` calls again only after it was resumed.
    EXPECT_FALSE(asks_.contains({completions, ticket.slot}));
    const size_t count = std::min(settles(batch.groups.size()), batch.groups.size());
    auto first = batch;
    first.groups = batch.groups.first(count);
    store::Applied applied;
    if (count > 0)
      applied = note(first, inner_.apply(first, now, completions, pin, ticket), completions);
    if (applied.later || applied.settled < count || count == batch.groups.size()) return applied;
    asks_.emplace(std::pair(completions, ticket.slot), ticket);
    return {.settled = count, .later = true};
  }
  void abandon(store::CompletionQueue& completions, request::Ticket ticket) override {
    asks_.erase({&completions, ticket.slot});
    inner_.abandon(completions, ticket);
  }
  bool cancel(store::CompletionQueue& completions, request::Ticket ticket,
              base::Time now) override {
    const bool cancelled = inner_.cancel(completions, ticket, now);
    const auto at = parked_.find({&completions, ticket.slot, ticket.generation});
    const bool lost = !cancelled && at != parked_.end() && on_lost && on_lost(at->second);
    if (at != parked_.end() && (cancelled || lost)) parked_.erase(at);
    return cancelled;
  }
  // Resumes the n-th batch that was answered `later`. False: there are fewer.
  bool name(size_t n) {
    if (n >= asks_.size()) return false;
    const auto at = std::next(asks_.begin(), static_cast<std::ptrdiff_t>(n));
    const auto [completions, slot] = at->first;
    const request::Ticket ticket = at->second;
    asks_.erase(at);
    completions->resume_batch(ticket);
    return true;
  }
  size_t asked() const { return asks_.size(); }

  // A parked group: the stored names of its counters, its cost, its arrival, and the value by which
  // it waits in turn for the last of these.
  struct Waiting {
    std::vector<std::string> counters;
    int64_t cost = 0;
    uint64_t arrival = 0, fair_value = 0;
  };
  // The parked groups by completion queue and by their tickets' slots and generations. A group
  // whose answer is on its way is among them.
  const auto& parked() const { return parked_; }
  // Called for a group that was granted and is cancelled before its owner had the answer. False: it
  // is answered nevertheless.
  std::function<bool(const Waiting&)> on_lost;

 private:
  store::Applied note(const request::Batch& batch, const store::Applied& applied,
                      store::CompletionQueue* completions) {
    for (const request::Group& group : batch.groups.first(applied.settled)) {
      if (!group.may_wait) continue;
      const auto key = std::tuple(completions, group.ticket.slot, group.ticket.generation);
      if (group.answered) continue;
      if (!group.parked) {
        parked_.erase(key);
        continue;
      }
      Waiting waiting{.counters = {}, .cost = 0, .arrival = group.arrival};
      for (const auto& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
        waiting.cost = charge.cost;
        waiting.fair_value = charge.fair_value;
        if (limit::is_counted(charge.limits))
          waiting.counters.push_back(charge.space->prefix + std::string(charge.key));
      }
      // A ticket stands for one group, which keeps its place.
      const auto [at, fresh] = parked_.try_emplace(key, waiting);
      if (!fresh) {
        EXPECT_EQ(at->second.arrival, group.arrival);
        at->second = waiting;
      }
    }
    return applied;
  }

  std::map<std::pair<store::CompletionQueue*, uint32_t>, request::Ticket> asks_;
  std::map<std::tuple<store::CompletionQueue*, uint32_t, uint32_t>, Waiting> parked_;
};

struct Reply {
  bool allowed = false, matched = false, delayed = false, counted = false, expired = false;
  int64_t limit = -1, remaining = -1;
  std::string error;
  std::vector<std::pair<std::string, int64_t>> listed;  // keys, and the units left of each
};

// Records its replies by the requests' tags.
struct Client final : request::Session, ReplySink {
  request::Received receive(std::string_view, bool, request::Requests&, base::Buffer&) override {
    return {};
  }
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time,
             base::Buffer&) override {
    take(request, verdict);
    return true;
  }
  request::Fault fault() const override { return {}; }
  void end(request::Ending, std::string_view, base::Buffer&) override {}
  void reply_late(const request::Request& request, const request::Verdict& verdict,
                  base::Time) override {
    take(request, verdict);
  }
  void flush_late(bool) override { unsent = slow; }
  void resume(Batch& batch) override {
    EXPECT_EQ(&batch, suspended);
    named = true;
  }
  bool has_unsent() const override { return unsent; }
  bool is_leaving() const override { return leaving; }

  void take(const request::Request& request, const request::Verdict& verdict) {
    Reply reply;
    reply.allowed = verdict.allowed;
    reply.matched = verdict.matched;
    reply.delayed = verdict.allowed && verdict.waited.has_value();
    reply.counted = verdict.is_counted();
    reply.expired = verdict.expired;
    reply.error = verdict.error;
    for (const request::Listed& item : verdict.listed)
      reply.listed.emplace_back(item.key, item.decision.remaining);
    EXPECT_FALSE(unsent && request.verb == request::Verb::list) << "it is not read to the end";
    if (verdict.tightest != nullptr) {
      reply.limit = verdict.tightest->limit;
      reply.remaining = verdict.tightest->remaining;
    }
    const auto [at, fresh] = replies.emplace(request.tag, reply);
    EXPECT_TRUE(fresh) << "two replies to " << request.tag;
    if (on_reply) on_reply(at->first, reply);
  }

  std::map<std::string, Reply> replies;
  std::function<void(const std::string&, const Reply&)> on_reply;
  Batch* suspended = nullptr;  // its batch, while that waits for the store
  bool named = false;          // the batch can be resumed
  // slow: late replies stay unsent until the test drains them. unsent: some are. leaving: it sends
  // no more requests.
  bool slow = false, unsent = false, leaving = false;
};

// One request: by native rules with the entry `entry: key`, or of limitd's type `item`. Of a list
// `key` is the prefix.
struct Wish {
  std::string tag, entry, key;
  request::Verb verb = request::Verb::take;
  int64_t cost = 1;
  base::Duration wait_at_most{};
  bool must_fit = false;
  std::string tenant{};  // if not empty, an entry beside it
};

// For all worlds: the monotonic time, which never goes back, and how far ahead of it the wall clock
// is.
inline int64_t now_us = 1'800'000'000'000'000;
inline int64_t ahead_us = 0;

// One worker's engine.
struct Seat {
  Seat(store::Store& store, base::Clock& clock, const live::Live& live,
       const policy::Overrides& overrides, TableScanner& scanner,
       std::shared_ptr<spdlog::logger> log)
      : engine({.store = store,
                .clock = clock,
                .live = live,
                .scanner = &scanner,
                .overrides = &overrides,
                .wake = [this] { woken = true; },
                .run = [this](std::function<void()> what) { post(std::move(what)); }},
               std::move(log)) {}

  void ask(Client& client, const std::vector<Wish>& wishes) {
    Batch& batch = engine.next_batch();
    request::Requests& requests = batch.requests;
    for (const Wish& wish : wishes) {
      const Wish& kept = texts.emplace_back(wish);
      requests.open();
      if (kept.entry == "item") requests.add(request::Entry{"type", kept.entry});
      const std::string_view entry = kept.entry == "item" ? "key" : std::string_view(kept.entry);
      requests.add(request::Entry{entry, kept.key});
      if (!kept.tenant.empty()) requests.add(request::Entry{"tenant", kept.tenant});
      requests.commit({.verb = kept.verb,
                       .message = requests.hold(request::Message{
                           .must_fit = kept.must_fit, .wait_at_most = kept.wait_at_most}),
                       .cost = kept.cost,
                       .tag = kept.tag});
    }
    base::Buffer out;
    const Served served =
        engine.serve(batch, protocol::find("limitd").value(), client, out, &client);
    client.suspended = served == Served::later ? &batch : nullptr;
  }
  void resume(Client& client) {
    client.named = false;
    base::Buffer out;
    if (engine.resume(*client.suspended, out) != Served::later) client.suspended = nullptr;
  }
  // Does what a worker does after the policy or overrides have changed.
  void match_again() {
    engine.take_policy();
    engine.match_again();
  }
  // Does what a worker does when it is woken or its timer is due; the timer looks at the clock
  // after a second at most. False: neither.
  bool look(base::Time now) {
    const bool due = timer && (now >= *timer || now_us >= looks_at_us);
    if (!woken.exchange(false) && !due) return false;
    timer = engine.advance();
    looks_at_us = now_us + base::seconds(1).us;
    return true;
  }
  void post(std::function<void()> what) {
    const std::lock_guard lock(mutex);
    posted.push_back(std::move(what));
  }
  bool run_posted() {
    std::function<void()> what;
    {
      const std::lock_guard lock(mutex);
      if (posted.empty()) return false;
      what = std::move(posted.front());
      posted.pop_front();
    }
    what();
    return true;
  }
  void drain(Client& client) {
    client.unsent = false;
    engine.continue_lists(client);
  }

  std::atomic<bool> woken{false};
  std::optional<base::Time> timer;
  int64_t looks_at_us = 0;
  std::mutex mutex;
  std::deque<std::function<void()>> posted;  // guarded
  std::deque<Wish> texts;                    // the texts that requests refer to
  Engine engine;
};

// Engines over one store, with one policy and one table of overrides.
struct World {
  using Make = std::function<std::unique_ptr<store::Store>(request::Spaces&)>;

  // Over a table in memory, or the store that `make` makes.
  explicit World(size_t seats_count, const Make& make = {})
      : made(make ? make(spaces)
                  : std::make_unique<store::EmbeddedStore>(0, base::Hash(1), spaces)),
        store(*made),
        of_store(spaces.known()) {
    for (size_t i = 0; i < seats_count; ++i)
      seats.push_back(std::make_unique<Seat>(store, clock, live, overrides, scanner, log));
  }

  // The first `ending` rules are in force until `end`, in place of the rule whose name their own
  // begins with. `items`: limitd's policy.
  void reload(const std::string& text, size_t ending = 0, base::Time end = {INT64_MAX},
              const std::string& items = "") {
    policy::RuleSet read;
    base::Diagnostics diagnostics;
    policy::read_native(text, "test.yaml", spaces, read, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics));
    auto set = std::make_shared<policy::RuleSet>();
    if (!items.empty()) {
      const limitd::NamedText file{"limitd.yaml", items};
      limitd::LimitdConfig config;
      limitd::read_limitd({&file, 1}, {}, spaces, *set, config, diagnostics);
      EXPECT_FALSE(base::has_errors(diagnostics));
    }
    for (policy::Rule rule : read.native_rules()) {
      if (rule.number < ending) {
        // It has the counters and the name of the rule that it is in place of.
        rule.name = rule.name.substr(0, rule.name.find('-'));
        rule.until = end;
        for (const policy::Rule& other : read.native_rules())
          if (other.name == rule.name) rule.space = other.space;
      }
      set->add(policy::native_dialect, std::move(rule));
    }
    old.push_back(live.exchange(
        std::make_shared<live::LivePolicy>(live::LivePolicy{std::move(set), 0, ++generation})));
  }
  const policy::Rule& rule(const std::string& name) const {
    for (const policy::Rule& one : live.current()->rules->native_rules())
      if (one.name == name) return one;
    throw std::out_of_range(name);
  }
  void set(const std::string& rule_name, const std::string& actor,
           const std::vector<limit::Limit>& limits, base::Time until = {INT64_MAX}) {
    policy::Override one;
    one.rule = rule(rule_name).id;
    one.actor = {actor};
    one.terms.id = policy::key_text(one.actor).size() + 1;
    one.terms.until = until;
    one.terms.limits_id = spaces.intern_limits(limits);
    one.terms.limits = spaces.limits(one.terms.limits_id);
    EXPECT_TRUE(overrides.set(one));
  }
  void remove(const std::string& rule_name, const std::string& actor) {
    overrides.remove(rule(rule_name).id, std::array{actor});
  }
  base::Time now() { return clock.now(); }
  // Sets the wall clock, and lets the clock notice.
  void step_clock(int64_t its_ahead_us) {
    ahead_us = its_ahead_us;
    now_us += 100'000;
    clock.now();
  }

  // The used units of a native rule's counter: from the answer to a put of 0 units, which also
  // works while requests wait. `limit` is the one in force.
  int64_t used(const std::string& rule_name, const std::string& key, const limit::Limit& limit) {
    request::Charge charge;
    charge.space = rule(rule_name).space;
    charge.key = key;
    charge.verb = request::Verb::put;
    charge.cost = 0;
    charge.limits = {&limit, 1};
    charge.limits_id = spaces.intern_limits(charge.limits);
    limit::Decision decision;
    request::Group group{.charge_count = 1};
    // A store that loads has to fetch the counter first.
    while (made->apply({{&group, 1}, {&charge, 1}, {&decision, 1}}, now()).later)
      std::this_thread::yield();
    return limit.quota - decision.remaining;
  }

  std::shared_ptr<spdlog::logger> log =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  request::Spaces spaces;
  base::Clock clock{{[] { return now_us; }, [] { return now_us + ahead_us; }}};
  std::unique_ptr<store::Store> made;
  Wavering store;
  const size_t of_store;  // the spaces that the store holds itself, and as many lists
  live::Live live{live::LivePolicy{std::make_shared<policy::RuleSet>()}};
  std::vector<std::shared_ptr<const live::LivePolicy>>
      old;  // so that no engine is the last to hold a policy
  uint64_t generation = 1;
  policy::Overrides overrides;
  std::vector<std::unique_ptr<Seat>> seats;
  TableScanner scanner{store};
};

}  // namespace sluice::engine::tests
