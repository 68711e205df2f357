// What was refused in the last day: of each ten minutes a bounded number of notes
// (engine/denials.h), put together from all workers. Plain memory without clock or threads; its
// owner locks.
//
// Past the bound of ten minutes (bounds::denials_kept_max) the rules with most notes lose those
// that were refused least, until all rules have room: so a flood in one rule leaves the notes of
// others, those that were refused more often, and all other times as they are. How many refusals
// that were is counted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "admin/http_server.h"
#include "admin/server_stats.h"
#include "admin/top_board.h"
#include "base/clock.h"
#include "base/time.h"
#include "engine/denials.h"
#include "live/live_policy.h"
#include "request/space.h"
#include "wire/http_session.h"

namespace sluice::admin {

class DenialHistory {
 public:
  static constexpr base::Duration kept_for = base::seconds(86'400);

  // What counters and rule of a note are called.
  struct Owner {
    std::string prefix, suffix;  // of the counters' names
    bool is_counter_known = false;
    std::string dialect, rule;
    std::vector<std::string> keys;  // of the rule's actor
    bool is_rule_known = false;     // false: `rule` is its name in metrics
  };
  using FindOwner = std::function<std::shared_ptr<const Owner>(const engine::Denial&)>;

  struct Record {
    std::shared_ptr<const Owner> owner;
    std::string key, actor;
    bool cut = false;   // only the beginning of the key or of the actor is known
    uint16_t rule = 0;  // its number in metrics
    bool shadow = false;
    limit::Limit limit;
    base::Time first{}, last{};
    uint64_t count = 0;
  };

  // `owner_of` is called once for each new record.
  void add(const engine::DenialTable& table, const FindOwner& owner_of);
  // Drops what is older than a day by `now`, which no step of the clock takes back.
  void forget(base::Time now);

  // What was refused since then, each with all its refusals of the ten minutes that it began in.
  std::vector<Record> since(base::Time since) const;
  // Refusals since then that no record has.
  uint64_t dropped(base::Time since) const;

 private:
  static constexpr int64_t span_us = int64_t{600} * 1'000'000;
  // A day, the span that has begun, and some for a clock that steps.
  static constexpr size_t spans_max = 150;
  struct Span {
    std::unordered_map<uint64_t, Record> records;  // by tag
    uint64_t dropped = 0;
  };

  Span& span_at(base::Time at);
  static void shrink(Span& span);

  std::map<int64_t, Span> spans_;  // by their beginning, in spans
};

// The refusals of the last day, over all workers: collects what each has noted (engine/denials.h)
// every ten seconds and whenever it is asked, and answers /v1/denials. Owned by the server,
// outlives its workers' use. `collect_some` on the housekeeping thread, `answer` on one thread that
// may wait.

class DenialBoard {
 public:
  // All of it outlives this. spaces: null: no counter's name is known.
  DenialBoard(base::Clock& clock, const live::Live& live, const ServerStats& server_stats,
              const request::Spaces* spaces);

  // Before the server serves.
  void add(std::function<void(TopBoard::Visit)> worker);

  // Every ten seconds: has each worker hand on what it has noted, soon, and keeps what was handed
  // on before. Waits for no worker.
  void collect_some();

  // since=DURATION (up to a day), actor, rule, limit=1..1000.
  wire::HttpResponse answer(const wire::HttpRequest& request);

 private:
  // Between the workers and this: who was asked, and what they have handed on. A worker that is
  // late leaves it here.
  struct Tray;

  void ask_workers() const;
  void keep();
  void find_owners(const std::vector<std::unique_ptr<engine::DenialTable>>& tables);

  base::Clock& clock_;
  const live::Live& live_;
  const ServerStats& server_stats_;
  const request::Spaces* const spaces_;
  const base::Time started_;
  std::vector<std::function<void(TopBoard::Visit)>> workers_;
  const std::shared_ptr<Tray> tray_;
  std::mutex mutex_;  // of what follows
  DenialHistory history_;
  // By family and rule; the rule's number in metrics as well, for rules without an id.
  using Named = std::tuple<const void*, uint64_t, uint16_t>;
  std::map<Named, std::shared_ptr<const DenialHistory::Owner>> owners_;
  base::Time asked_at_{};  // by monotonic time; of collect_some
};

}  // namespace sluice::admin
