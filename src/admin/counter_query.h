// Counters as they stand now, and one that is set or forgotten first. Made by a thread that may
// wait; its answers are there once AdminQueries::ask is back.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "admin/live_counters.h"
#include "engine/admin_query.h"

namespace sluice::admin {

struct CounterLimit {
  limit::Limit limit;
  bool allowed = false;  // would a take of 1 be?
  int64_t remaining = 0;
  base::Duration retry_after{}, reset_after{};
  bool of_rule = false;  // where an override replaces only other limits of the rule
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
  std::vector<size_t> probed_;                        // of counters_
  std::vector<std::vector<limit::Limit>> in_probes_;  // of those that keep their limits
};

}  // namespace sluice::admin
