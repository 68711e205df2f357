// Reads the keys of redis-cell from a running Redis, to import them into a store. Redis is only
// read, with SCAN, TYPE, GETRANGE and PTTL. Blocks the calling thread, which is the main thread.
//
// redis-cell stores a key as a string: its TAT in nanoseconds since 1970, in decimal, with an
// expiry at that time. So a string is one of its keys iff it has 18 to 20 digits, and its time to
// live differs from the time to the TAT by at most cell_life_tolerance.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "protocol/store_tools.h"

namespace sluice::resp {

extern const protocol::StoreTools store_tools;

inline constexpr base::Duration cell_life_tolerance = base::seconds(5);

// Why a key is skipped.
enum class CellSkip : uint8_t {
  other_type,  // not a string
  no_number,   // not 18 to 20 digits, or above 2^63 - 1
  no_life,     // no time to live
  other_life,  // a time to live that does not match the number
  expired,     // fresh by now, or deleted after it was listed
  long_key     // longer than a command's key may be here
};
inline constexpr size_t cell_skips = 6;
// The name in output for scripts, such as "other_type".
std::string_view name_of(CellSkip why);

// The TAT of a key, or why it is skipped. `life_ms`: the answer of PTTL at some time between
// `before` and `after`.
struct CellKey {
  int64_t tat = 0;
  std::optional<CellSkip> skip{};
};
CellKey read_cell_key(std::string_view text, int64_t life_ms, base::Time before, base::Time after);

// The state of a counter of CL.THROTTLE with that TAT.
limit::State cell_state(int64_t tat);

// The Redis and the keys to read.
struct CellSource {
  std::string host;
  uint16_t port = 0;
  unsigned database = 0;
  std::string user, password;                                     // empty: none
  std::string pattern;                                            // of SCAN's MATCH
  std::chrono::milliseconds patience = std::chrono::seconds(10);  // for each answer
};

struct CellReport {
  struct Skipped {
    uint64_t keys = 0;
    std::vector<std::string> first;  // the names of the first few
  };
  uint64_t keys = 0;   // keys found, each counted once
  uint64_t cells = 0;  // keys of redis-cell, passed to `visit`
  std::array<Skipped, cell_skips> skipped;
};

// Calls `visit` for each of redis-cell's keys, in any order. Redis may list a key twice; such a key
// is counted once, but may be visited twice. A problem of `visit` ends the pass and is returned.
// The pass needs about 40 bytes of memory per key.
using VisitCell = std::function<base::Done(std::string_view key, int64_t tat, bool again)>;
base::Result<CellReport> read_cells(const CellSource& source, const VisitCell& visit);

}  // namespace sluice::resp
