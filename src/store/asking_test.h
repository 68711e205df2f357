// Helpers for tests of a store: limits in short, groups built by hand, and a world of a store with
// its spaces, whose time is an argument. For one thread.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "limit/limit.h"
#include "request/charge.h"
#include "request/space.h"
#include "store/embedded_store.h"

namespace sluice::store::tests {

using limit::Algorithm;
using limit::Decision;
using limit::Limit;
using request::Charge;
using request::Group;
using request::Space;
using request::Ticket;
using request::Verb;

inline Limit bucket(int64_t burst, int64_t quota, int64_t window_us) {
  return {Algorithm::token_bucket, quota, {window_us}, burst};
}
inline Limit fixed(int64_t units) {
  return {Algorithm::fixed_bucket, units, {}, units};
}
inline Limit window(int64_t quota, int64_t us) {
  return {Algorithm::fixed_window, quota, {us}};
}

// One charge of a group.
struct Part {
  std::string key;
  int64_t cost = 1;
  std::vector<Limit> limits;
  uint64_t fair_value = 0;
};

// A group with all that it refers to.
struct Asked {
  Group group;
  std::deque<std::string> keys;
  std::deque<std::vector<Limit>> limits;
  std::vector<Charge> charges;
  std::vector<Decision> decisions;
  bool allowed() const { return group.allowed; }
  const Decision& operator[](size_t i) const { return decisions[i]; }
};

// A completion queue that counts its wakes.
struct Counting {
  int wakes = 0;
  CompletionQueue completions{[this] { ++wakes; }};
  std::vector<Settled> settled;
};

struct World {
  explicit World(size_t memory_bytes = 0, size_t waiting_max = base::bounds::waiting_max)
      : store(memory_bytes, base::Hash(1), spaces, waiting_max) {}

  Asked prepare(const std::vector<Part>& parts, Verb verb = Verb::take) {
    Asked asked;
    for (const Part& part : parts) {
      asked.keys.push_back(part.key);
      asked.limits.push_back(part.limits);
      Charge c;
      c.space = space;
      c.key = asked.keys.back();
      c.verb = verb;
      c.cost = part.cost;
      c.fair_value = part.fair_value;
      if (verb == Verb::count) c.counts = limit::all_of(part.limits);
      c.limits = asked.limits.back();
      c.limits_id = spaces.intern_limits(part.limits);
      c.decision_first = static_cast<uint32_t>(asked.decisions.size());
      asked.decisions.resize(asked.decisions.size() + part.limits.size());
      asked.charges.push_back(c);
    }
    asked.group.charge_count = static_cast<uint32_t>(parts.size());
    return asked;
  }
  void apply(Asked& asked, base::Time now, CompletionQueue* completions = nullptr,
             const Pin& pin = {}) {
    ASSERT_EQ(
        store.apply({{&asked.group, 1}, asked.charges, asked.decisions}, now, completions, pin)
            .settled,
        1u);
  }
  Asked ask(const std::vector<Part>& parts, base::Time now, Verb verb = Verb::take) {
    Asked asked = prepare(parts, verb);
    apply(asked, now);
    return asked;
  }
  // Parks the group if it is refused.
  Asked wait(Counting& at, uint32_t ticket, const std::vector<Part>& parts, base::Time now,
             uint64_t arrival = 0) {
    Asked asked = prepare(parts);
    asked.group.may_wait = true;
    asked.group.ticket = {ticket, 0};
    asked.group.arrival = arrival;
    apply(asked, now, &at.completions);
    return asked;
  }
  Asked put(const std::vector<Part>& parts, base::Time now) { return ask(parts, now, Verb::put); }
  Asked put_all(const Part& part, base::Time now) {
    Asked asked = prepare({part}, Verb::put);
    asked.charges[0].all = true;
    apply(asked, now);
    return asked;
  }
  int64_t left(const Part& part, base::Time now) {
    return ask({part}, now, Verb::peek)[0].remaining;
  }

  // The tickets of the groups that are answered at `now`, in order.
  std::vector<uint32_t> answered(Counting& at, base::Time now) {
    std::vector<uint32_t> tickets;
    // `advance` may stop early; then it asks to be called again at once.
    for (;;) {
      next = store.advance(at.completions, now);
      if (!next || next->us > now.us) break;
    }
    at.settled.clear();
    at.completions.drain(at.settled);
    for (const Settled& s : at.settled) tickets.push_back(s.ticket.slot);
    return tickets;
  }

  request::Spaces spaces;
  EmbeddedStore store;
  const Space* space = spaces.intern("t/", "");
  std::optional<base::Time> next;  // when to call `advance` next, as the last `answered` left it
};

}  // namespace sluice::store::tests
