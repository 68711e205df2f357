// Settles the same group in the table in memory and by the scripts in a real Redis: both must
// answer the same. For one thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "limit/gcra.h"
#include "redis/script_call.h"
#include "store/asking_test.h"
#include "tests/support/redis_server.h"

namespace sluice::redis {

using limit::Decision;
using limit::Limit;
using request::Charge;
using request::Group;
using request::Verb;

inline tests::RedisServer& server() {
  static tests::RedisServer the_server;
  return the_server;
}

inline std::string text_of(const Decision& d) {
  return std::string(d.allowed ? "yes" : "no") + " limit " + std::to_string(d.limit) + " left " +
         std::to_string(d.remaining) + " reset " + std::to_string(d.reset_after.us) + " retry " +
         std::to_string(d.retry_after.us);
}

// The limits whose number a counter has. Numbers that come with each request are not part of them.
inline std::vector<Limit> without_numbers(std::vector<Limit> limits) {
  for (Limit& limit : limits)
    if (limit::gcra::is_gcra(limit.algorithm))
      limit = limit::gcra::without_numbers(limit.algorithm);
  return limits;
}

// The charges of one group, and the decisions of the table.
struct Question {
  std::deque<std::string> keys;
  std::deque<std::vector<Limit>> limits;
  std::deque<std::vector<int64_t>> costs;
  std::deque<limit::Overdrafts> overdrafts;
  std::vector<Charge> charges;
  std::vector<Decision> decisions;

  // The last charge has units of its own for each limit.
  void charge_each(std::vector<int64_t> units) {
    costs.push_back(std::move(units));
    charges.back().costs = costs.back().data();
    charges.back().cost = std::accumulate(costs.back().begin(), costs.back().end(), int64_t{0});
  }
  // Each limit of the last charge may owe so much.
  void bound_debt(const std::vector<int64_t>& most) {
    limit::Overdrafts& its = overdrafts.emplace_back();
    for (size_t i = 0; i < most.size(); ++i) its.add(charges.back().limits[i], most[i]);
    charges.back().overdrafts = &its;
  }
  void add(const request::Space& space, std::string key, std::vector<Limit> of,
           request::Spaces& spaces, Verb verb, int64_t cost) {
    keys.push_back(std::move(key));
    limits.push_back(std::move(of));
    Charge c;
    c.space = &space;
    c.key = keys.back();
    c.verb = verb;
    c.cost = cost;
    c.limits = limits.back();
    if (verb == Verb::count) c.counts = limit::all_of(c.limits);
    c.keeps_limits = !space.windows.empty();
    if (!c.keeps_limits) c.limits_id = spaces.intern_limits(without_numbers(limits.back()));
    c.decision_first = static_cast<uint32_t>(decisions.size());
    decisions.resize(decisions.size() +
                     std::max<size_t>(space.windows.size(), limits.back().size()));
    charges.push_back(c);
  }
};

class Both {
 public:
  Both() : client_(server().client()) { client_({"FLUSHALL"}); }

  request::Spaces spaces;
  store::EmbeddedStore table{0, base::Hash(1), spaces};
  bool sweeps = true;    // the table forgets counters that equal fresh ones at once
  int64_t near = 0;      // times of both may differ by less, in us
  bool sparing = false;  // see request::Group
  size_t light = 0, full = 0, wide = 0, again = 0, plain = 0, arrivals = 0;

  // Empty if both agree, else what differs.
  std::string ask(Question& q, base::Time now, Weight least, std::vector<int64_t> ahead = {}) {
    Group group{.charge_count = static_cast<uint32_t>(q.charges.size()), .sparing = sparing};
    std::vector<Charge> theirs = q.charges;
    if (sweeps) table.sweep(now, 2 * table.chains() + 4 * store::EmbeddedStore::stripes);
    table.apply({{&group, 1}, q.charges, q.decisions}, now);
    return follow(q, std::move(theirs), group.allowed, now, least, std::move(ahead));
  }

  // Settles by the scripts what the table has settled. `theirs`: the charges as they were before.
  // Empty if both agree, else what differs.
  std::string follow(const Question& q, std::vector<Charge> theirs, bool allowed_here,
                     base::Time now, Weight least, std::vector<int64_t> ahead = {}) {
    std::vector<Decision> decided(q.decisions.size());
    bool allowed = false;
    ScriptCall ask{.charges = theirs,
                   .ahead = ahead,
                   .sparing = sparing,
                   .weight = least,
                   .key_prefix = "p:",
                   .told = now,
                   .now = now,
                   .chance = chance_++};
    for (int attempt = 0;; ++attempt) {
      if (is_plain(ask)) {
        ++plain;
        std::string bytes;
        append_plain(bytes, ask);
        const tests::RedisReply reply = client_.raw(bytes);
        if (reply.is_error()) return "error: " + reply.text;
        if (may_make_key(ask)) {
          bytes.clear();
          append_life(bytes, ask, false);
          if (client_.raw(bytes).is_error()) return "it gets no end";
        }
        if (read_plain(reply.text, reply.type == tests::RedisReply::Type::nil, theirs[0],
                       decided[theirs[0].decision_first], allowed, now) != ScriptReply::decided)
          return "nonsense: " + reply.text;
        break;
      }
      Weight weight;
      const Script& script = script_of(ask, scripts_, texts_, weight);
      std::string bytes;
      append_call(bytes, ask, script, true, scripts_, texts_);
      tests::RedisReply reply = client_.raw(bytes);
      if (reply.text.starts_with("NOSCRIPT")) {
        bytes.clear();
        append_call(bytes, ask, script, false, scripts_, texts_);
        reply = client_.raw(bytes);
      }
      if (reply.is_error()) return "error: " + reply.text;
      ++(scripts_.is_arrival(script) ? arrivals
         : weight == Weight::light   ? light
         : weight == Weight::full    ? full
                                     : wide);
      const ScriptReply said = read_answer(reply.text, theirs, decided, allowed, now);
      if (said == ScriptReply::nonsense) return "nonsense: " + reply.text;
      if (said == ScriptReply::decided) break;
      if (attempt == 2) return "again and again: " + reply.text;
      ask.weight = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
      ++again;
    }
    std::string wrong;
    if (allowed != allowed_here)
      wrong += std::string("allowed ") + (allowed ? "there" : "here") + " only; ";
    for (size_t k = 0; k < theirs.size(); ++k) {
      if (theirs[k].slot_mask != q.charges[k].slot_mask) wrong += "another mask; ";
      if (theirs[k].dropped != q.charges[k].dropped)
        wrong += "charge " + std::to_string(k) + ": " + std::to_string(q.charges[k].dropped) +
                 " dropped here, " + std::to_string(theirs[k].dropped) + " there; ";
      size_t count = theirs[k].limits.size();
      if (theirs[k].keeps_limits) count = static_cast<size_t>(std::popcount(theirs[k].slot_mask));
      for (size_t i = 0; i < count; ++i) {
        const Decision& a = q.decisions[theirs[k].decision_first + i];
        Decision& b = decided[theirs[k].decision_first + i];
        if (std::abs(a.reset_after.us - b.reset_after.us) < near) b.reset_after = a.reset_after;
        if (std::abs(a.retry_after.us - b.retry_after.us) < near) b.retry_after = a.retry_after;
        if (text_of(a) != text_of(b))
          wrong += "charge " + std::to_string(k) + ": " + text_of(a) + " here, " + text_of(b) +
                   " there; ";
      }
    }
    return wrong;
  }

  tests::RedisClient& client() { return client_; }

 private:
  tests::RedisClient client_;
  Scripts scripts_{Scripts::Time::told};
  LimitTexts texts_;
  uint64_t chance_ = 0;
};

}  // namespace sluice::redis
