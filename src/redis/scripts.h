// The scripts that decide inside Redis, put together from redis/lua.h: a light one for each set of
// algorithms, for takes and peeks under the limits that a counter was written under; one with
// everything, in each of the two arithmetics; those for a single take whose counter is a time of
// arrival (redis/arrival.h); and those for counters that are shared with other programs. Owned by
// the store; any thread; the scripts live as long as this object.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "limit/limit.h"

namespace sluice::redis {

struct Script {
  explicit Script(std::string its_text);
  std::string text;
  std::string sha;  // for EVALSHA: 40 hex digits
};

// A bit for each algorithm.
using Algorithms = uint32_t;
inline constexpr size_t algorithm_sets = 1 << 9;
constexpr Algorithms algorithm_bit(limit::Algorithm algorithm) {
  return Algorithms{1} << static_cast<unsigned>(algorithm);
}

class Scripts {
 public:
  // told: time is the last argument of each script, in microseconds; for tests.
  enum class Time { redis, told };
  explicit Scripts(Time time = Time::redis);
  ~Scripts();

  // receipts: it answers with them (redis/receipts.h).
  const Script& light(Algorithms algorithms, bool receipts = false);
  const Script& full(bool wide) const { return wide ? full_wide_ : full_plain_; }
  const Script& remaining_text() const { return remaining_text_; }
  const Script& window_text() const { return window_text_; }
  // What a script of arrival.h decides: a token bucket, gcra_cell in our own form and in
  // redis-cell's, gcra_crab, gcra_redis.
  enum class Arrival : uint8_t { bucket, cell, shared_cell, crab, redis };
  const Script& arrival(Arrival which) const { return arrivals_[static_cast<size_t>(which)]; }
  // Is it one of those?
  bool is_arrival(const Script& script) const {
    return &script >= arrivals_.data() && &script < arrivals_.data() + arrivals_.size();
  }
  const Script& undo() const { return undo_; }

 private:
  const Time time_;
  const Script full_plain_, full_wide_, remaining_text_, window_text_, undo_;
  const std::array<Script, 5> arrivals_;  // by Arrival
  std::mutex mutex_;                      // held by a thread that makes a light script
  std::array<std::atomic<const Script*>, algorithm_sets> light_{}, light_with_receipts_{};
};

// The text of the script about holds (lua_holds.cc), in either arithmetic.
std::string holds_text(bool wide, Scripts::Time time);

}  // namespace sluice::redis
