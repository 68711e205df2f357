// Of one policy: whose counter a stored name is, and which rule holds for it. Built by a thread
// that may take its time, then read by any. It does not keep the policy, which has to be there when
// it is asked: a reload waits until no thread holds the old one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "admin/admin.h"
#include "admin/admin_json.h"
#include "base/clock.h"
#include "engine/admin_query.h"
#include "live/live_policy.h"
#include "live/override_registry.h"
#include "live/window_json.h"
#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "request/space.h"
#include "store/hold_book.h"
#include "store/store.h"
#include "wire/shown_name.h"

namespace sluice::admin {

class LiveCounters {
 public:
  // `others`: Overrides::spaces.
  LiveCounters(const policy::RuleSet& rules, std::span<const request::Space* const> others);

  // Of rules that have counters and are not switched off, and of overrides of such. They outlive
  // this.
  const request::SpaceIndex& spaces() const { return spaces_; }

  struct Owner {
    const policy::Rule* rule = nullptr;  // null: no such counter
    const policy::Dialect* dialect = nullptr;
    const request::Space* space = nullptr;
    std::string_view key;     // in that; a view of what was asked
    std::string actor{};      // by which overrides know it
    bool overridden = false;  // the counter is one of an override, or its limits are
  };
  // Where rules share their counters (limitd's type and its overrides), the first that would apply
  // to the key. overrides: held (Overrides::hold), or null: there are none.
  Owner find(std::string_view stored, base::Time now, const policy::Overrides* overrides) const;

 private:
  struct Member {
    const policy::Rule* rule;
    const policy::Dialect* dialect;
  };
  Owner found_owner(const request::Space& space, std::string_view key,
                    const policy::RuleSet::DialectRules& list) const;

  request::SpaceIndex spaces_;
  // Of whose dialect the sessions plan.
  std::unordered_map<uint32_t, const policy::RuleSet::DialectRules*> with_own_;
  // In order: by their space's id; and those whose overrides have other spaces, by its prefix.
  std::unordered_map<uint32_t, std::vector<Member>> members_;
  std::unordered_map<std::string_view, std::vector<Member>> by_prefix_;
};

// Counters as they stand now, and one that is set or forgotten first. Made by a thread that may
// wait; its answers are there once AdminQueries::ask is back.

struct CounterLimit {
  limit::Limit limit;
  bool allowed = false;  // would a take of 1 be?
  int64_t remaining = 0;
  base::Duration retry_after{}, reset_after{};
  bool of_rule = false;  // where an override replaces only other limits of the rule
  base::Time at{};       // when it was asked
  int64_t overdraft = limit::Overdrafts::none;
};

struct CounterState {
  std::string stored, key;
  LiveCounters::Owner owner;  // its key is the one above
  // The answer.
  bool moved = false;  // its override came or went meanwhile
  uint64_t override_id = 0;
  bool keeps_limits = false;
  request::Error error = request::Error::none;
  std::vector<CounterLimit> limits{};
};

// The limits of a charge that is settled, beside its decisions. Where the counter keeps them they
// are as droplet's: so many units that come back evenly.
std::vector<limit::Limit> limits_of(const request::Charge& charge,
                                    std::span<const limit::Decision> decisions);

// Counters of one query at most, so that a worker is not held up by it.
inline constexpr size_t counters_asked_max = 100;

class CounterQuery final : public engine::AdminQuery {
 public:
  enum class Change : uint8_t {
    none,
    set,     // the one counter is as a fresh one, then `used` units are taken, at once
    forget,  // it is as a fresh one
  };
  CounterQuery(std::shared_ptr<const live::LivePolicy> policy, std::vector<CounterState> counters,
               Change change = Change::none, int64_t used = 0);

  std::vector<CounterState>& counters() { return counters_; }
  // More units were asked for than a fresh counter has; nothing was done.
  bool too_much() const { return too_much_; }
  // The change was denied: its limits are others than they were a moment ago, or deny whatever is
  // asked. The counter may be as a fresh one.
  bool denied() const { return denied_; }
  // The most that can be.
  int64_t most() const { return most_; }

 protected:
  bool next(policy::Plan& plan, const engine::QueryContext& asking) override;
  bool changes() const override { return changed_; }

 private:
  enum class Stage : uint8_t { begin, limits_known, looked, asked };
  request::Charge& ask(policy::Plan& plan, const CounterState& one,
                       const engine::QueryContext& asking, request::Verb verb, int64_t cost,
                       std::span<const limit::Limit> limits = {});
  bool plan_change(policy::Plan& plan, const engine::QueryContext& asking);
  void plan_looks(policy::Plan& plan, const engine::QueryContext& asking);
  void read_looks(const policy::Plan& plan);
  bool plan_probes(policy::Plan& plan, const engine::QueryContext& asking);
  void read_probes(const policy::Plan& plan);

  std::vector<CounterState> counters_;
  const Change change_;
  const int64_t used_;
  Stage stage_ = Stage::begin;
  bool too_much_ = false, denied_ = false, changed_ = false;
  int64_t most_ = 0;
  base::Time now_{};
  std::vector<size_t> probed_;                        // of counters_
  std::vector<std::vector<limit::Limit>> in_probes_;  // of those that keep their limits
};

// Counters' names, and what their limits say, as JSON. Pure functions; any thread.

// `counter` and `path`; of one that is not shown whole its length and digest as well.
inline void put_name(Json& json, std::string_view name) {
  json["counter"] = wire::shown_beginning(name);
  json["path"] = wire::path_of_name(name);
  if (wire::is_shown_whole(name)) return;
  json["bytes"] = name.size();
  json["digest"] = wire::name_digest(name);
}

// A text that a client sent; one that is not shown whole by its beginning, and its length.
inline void put_text(Json& json, const char* key, const char* bytes_key, std::string_view text) {
  json[key] = wire::shown_beginning(text);
  if (!wire::is_shown_whole(text)) json[bytes_key] = text.size();
}

// Null: there is no such time.
inline Json seconds_of(base::Duration time) {
  if (time == base::never) return nullptr;
  return static_cast<double>(time.us) / 1e6;
}

inline Json to_json(const CounterLimit& one) {
  Json json = live::to_json(one.limit);
  live::put_calendar(json, one.limit);
  live::put_window(json, one.limit, one.at);
  if (one.overdraft < limit::Overdrafts::none) json["overdraft"] = one.overdraft;
  if (one.of_rule) json["of_rule"] = true;
  json["allowed"] = one.allowed;
  json["remaining"] = one.remaining;
  json["retry_after"] = seconds_of(one.retry_after);
  json["reset_after"] = seconds_of(one.reset_after);
  return json;
}

// Tells what holds have of a counter whose limits are listed under that key: `held` of each, which
// is at most what is used of it (`asked`: the units that an allowed one has as taken though they
// are not), and `holds`, if there are any. A unit whose window is over is held no longer.
void put_held(Json& json, const char* key, std::span<const CounterLimit> limits,
              const store::HoldBook::OfCounter& held, int64_t asked = 0);

// The admin port's answers about counters: /v1/counters, and /v1/explain, which says what would be
// decided now. Owned by the server, outlives the HTTP server; the handlers are all slow ones, and
// so run on its second thread alone (admin/http_server.h).

class CounterRoutes {
 public:
  // All of it outlives this.
  struct Deps {
    const live::Live& live;
    engine::AdminQueries& queries;
    base::Clock& clock;
    store::Store& store;
    const policy::Overrides* overrides = nullptr;  // null: there are none
    live::ChangeLog* changes = nullptr;            // receives what is set and reset; null: none
    const store::HoldBook* holds = nullptr;        // null: the store keeps none
  };
  explicit CounterRoutes(const Deps& world) : deps_(world) {}

  void add_to(Admin& admin);

 private:
  wire::HttpResponse list(const wire::HttpRequest& request);
  wire::HttpResponse list_of_actor(const std::string& actor);
  wire::HttpResponse one(const Admin::Call& call, CounterQuery::Change change, int64_t used);
  // Adds the counters of these names that exist to a page; `told`: the last that was.
  std::optional<wire::HttpResponse> show(const std::shared_ptr<const live::LivePolicy>& policy,
                                         const LiveCounters& live,
                                         std::span<const std::string> names,
                                         const store::HoldBook::OfCounters& held, Items& items,
                                         std::string& told);
  // What is held of the counters of these names. Looks at all holds, so it is asked once for an
  // answer. Empty: it is not known.
  store::HoldBook::OfCounters held_of(std::span<const std::string> names) const;
  wire::HttpResponse put(const Admin::Call& call);
  wire::HttpResponse explain(const wire::HttpRequest& request);
  std::shared_ptr<const LiveCounters> counters(const live::LivePolicy& policy);
  // The name that a path means. Where it has a mark the store is searched for it, as often as names
  // that begin alike do not fit into one search, but not for long. Nothing: `problem` says why.
  std::optional<std::string> meant_by(const Admin::Call& call, wire::HttpResponse& problem);
  engine::AdminQueries::Outcome find(const std::string& beginning, const wire::NameMark& mark,
                                     std::optional<std::string>& found);
  // problem_of, with the store's reason where it could not be searched.
  wire::HttpResponse problem_of_search(engine::AdminQueries::Outcome outcome) const;
  // Those that there are, in their order.
  std::vector<CounterState> states(const LiveCounters& live, std::span<const std::string> stored);

  const Deps deps_;
  // That thread's. Of the policy that was live when last asked, and of which version of the spaces
  // of overrides; a stale one may name what is not known any more, and is not looked into.
  std::shared_ptr<const LiveCounters> counters_;
  uint64_t generation_ = 0;
  uint64_t others_ = 0;
};

// What is said where a query came to nothing.
wire::HttpResponse problem_of(engine::AdminQueries::Outcome outcome);

}  // namespace sluice::admin
