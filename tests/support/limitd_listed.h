// Compares the buckets in limitd's STATUS with a model of what the original stores (limitdb 3.0.0),
// for any store. One thread.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::tests {

// The model's bucket types, as configuration. No unit drips within the time of a test.
inline const std::string listed_types =
    "  three: { size: 3 }\n  one: { size: 1 }\n"
    "  hourly: { size: 4, per_hour: 1 }\n  single: { size: 1, per_hour: 3 }\n";

class LimitdListed {
 public:
  using Listed = std::vector<std::pair<std::string, int64_t>>;  // keys and remaining units, by key
  struct Type {
    int64_t size;
    bool refills;
  };
  // Like the original, stores a record also when it refuses.
  void take(const std::string& type, const std::string& key, int64_t count) {
    const Type& t = types_.at(type);
    Record record{t.size};
    if (const auto at = stored_.find({type, key}); at != stored_.end()) record = at->second;
    if (record.content >= count) record.content -= count;
    record.reset_is_zero = !t.refills;
    stored_[{type, key}] = record;
  }
  void put(const std::string& type, const std::string& key, int64_t count, bool all) {
    const Type& t = types_.at(type);
    if (all || count >= t.size) {
      stored_.erase({type, key});
      return;
    }
    // The one intended difference: for such a PUT to a bucket without refill, the original makes a
    // full record, and keeps and lists it for ever.
    if (!t.refills && !stored_.contains({type, key})) return;
    // A record that a PUT makes has no reset, so it is listed when it is full.
    Record& record = stored_.try_emplace({type, key}, Record{t.size}).first->second;
    record.content = std::min(t.size, record.content + count);
  }
  Listed status(const std::string& type) const {
    Listed listed;
    for (const auto& [name, record] : stored_) {
      if (name.first != type) continue;
      if (record.reset_is_zero && record.content == types_.at(type).size) continue;
      listed.emplace_back(name.second, record.content);
    }
    return listed;
  }
  const Type& type(const std::string& name) const { return types_.at(name); }

 private:
  struct Record {
    int64_t content = 0;
    bool reset_is_zero = false;
  };
  const std::map<std::string, Type> types_ = {
      {"three", {3, false}}, {"one", {1, false}}, {"hourly", {4, true}}, {"single", {1, true}}};
  std::map<std::pair<std::string, std::string>, Record> stored_;
};

// `server` must have take(type, key, count), put(type, key, count, all), and status(type), which
// returns Listed.
template <class Server>
void expect_listed_as_limitd_does(Server&& server, uint32_t seed, int steps) {
  LimitdListed model;
  Dice dice(seed);
  const std::vector<std::string> types = {"three", "one", "hourly", "single"},
                                 keys = {"a", "b", "c"};
  for (int step = 0; step < steps; ++step) {
    const std::string &type = types[dice(types.size())], &key = keys[dice(keys.size())];
    const int64_t count = 1 + dice(model.type(type).size + 1);
    std::string asked = "TAKE";
    if (dice(2) == 0) {
      server.take(type, key, count);
      model.take(type, key, count);
    } else {
      const bool all = dice(5) == 0;
      asked = all ? "PUT all" : "PUT";
      server.put(type, key, count, all);
      model.put(type, key, count, all);
    }
    asked += " " + std::to_string(count) + " of " + type + " " + key;
    ASSERT_EQ(server.status(type), model.status(type)) << "step " << step << ": " << asked;
  }
}

}  // namespace sluice::tests
