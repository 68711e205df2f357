// Values in the order in which they are served: round robin over the keys that they stand under, in
// the order of their numbers under each. A key comes to the end of the round when one of its values
// was served; a new key is behind those that are there. Without a key (key 0) a value's turn is its
// number, so values without keys are served in the order of their numbers. At most one value of
// each other key is served between a value's coming to the front of its key and its own turn. Not
// thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "base/running_sums.h"

namespace sluice::base {

template <class Value, class Sum>
class Turns {
 public:
  struct Place {
    uint64_t key = 0;
    uint64_t number = 0;  // above 0; later ones have larger ones
    // When its key's turn came, as a number of the same count: `turn_of` where the value stood
    // before; 0: it stood nowhere, or not at the front of its key.
    uint64_t turn = 0;
  };

  bool empty() const { return lines_.empty(); }
  // Of all weights.
  Sum sum() const { return sum_; }
  // The one that is served next, of those that there are.
  const Value& first() const { return first_line().values.first(); }
  uint64_t first_number() const { return first_line().values.first_number(); }

  // False: the key has a value of that number already, and nothing has changed.
  bool insert(const Place& place, Sum weight, Value value) {
    const auto at = lines_.find(place.key);
    if (at == lines_.end()) {
      // Made apart, so that nothing has changed where memory runs out.
      std::map<uint64_t, Line> made;
      Line& line = made[place.key];
      line.values.insert(place.number, weight, std::move(value));
      line.at = {turn_at(place, nullptr), place.number};
      order_.emplace(line.at, &line);
      lines_.merge(made);
    } else {
      Line& line = at->second;
      const uint64_t turn = turn_at(place, &line);
      if (!line.values.insert(place.number, weight, std::move(value))) return false;
      move(line, place.key, turn);
    }
    sum_ += weight;
    return true;
  }
  // It leaves, and its key keeps its turn. False: there is none.
  bool erase(uint64_t key, uint64_t number) { return remove(key, number, 0); }
  // It was served: its key's next turn comes at the number `next`, which is the largest so far.
  bool serve(uint64_t key, uint64_t number, uint64_t next) { return remove(key, number, next); }

  // The same for a key that is there, one of whose values had left before it was served.
  bool has(uint64_t key) const { return lines_.contains(key); }
  void pass(uint64_t key, uint64_t next) { move(lines_.at(key), key, next); }

  // The turn of the value's key, if it is the first of that; else 0.
  uint64_t turn_of(uint64_t key, uint64_t number) const {
    const auto at = lines_.find(key);
    if (at == lines_.end() || at->second.values.first_number() != number) return 0;
    return at->second.at.first;
  }
  // What is served before a value at that place, whether or not it is there: nothing, if it is or
  // would be the first; else all that stands under other keys, and what is before it under its own.
  Sum ahead(const Place& place) const {
    const auto at = lines_.find(place.key);
    const Line* const line = at == lines_.end() ? nullptr : &at->second;
    const bool leads = line == nullptr || line->values.first_number() >= place.number;
    if (empty() ||
        (leads && std::pair(turn_at(place, line), place.number) <= order_.begin()->first))
      return {};
    return line == nullptr ? sum_
                           : sum_ - line->values.sum() + line->values.sum_before(place.number);
  }

 private:
  using At = std::pair<uint64_t, uint64_t>;  // its turn, and the number of its first value
  struct Line {
    At at;
    RunningSums<Value, Sum> values;
  };

  const Line& first_line() const { return *order_.begin()->second; }
  // The turn of the key with that place among its values.
  static uint64_t turn_at(const Place& place, const Line* line) {
    if (place.key == 0 || (line == nullptr && place.turn == 0)) return place.number;
    if (line == nullptr) return place.turn;
    return place.turn == 0 ? line->at.first : std::min(place.turn, line->at.first);
  }
  // Takes no memory.
  void move(Line& line, uint64_t key, uint64_t turn) {
    const uint64_t first = line.values.first_number();
    auto node = order_.extract(line.at);
    line.at = {key == 0 ? first : turn, first};
    node.key() = line.at;
    order_.insert(std::move(node));
  }
  bool remove(uint64_t key, uint64_t number, uint64_t next) {
    const auto at = lines_.find(key);
    if (at == lines_.end()) return false;
    Line& line = at->second;
    const Sum before = line.values.sum();
    if (!line.values.erase(number)) return false;
    sum_ -= before - line.values.sum();
    if (!line.values.empty()) {
      move(line, key, next != 0 ? next : line.at.first);
    } else {
      order_.erase(line.at);
      lines_.erase(at);
    }
    return true;
  }

  std::map<uint64_t, Line> lines_;  // by key
  std::map<At, Line*> order_;
  Sum sum_{};
};

}  // namespace sluice::base
