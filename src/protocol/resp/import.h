// Reads the keys of redis-cell out of a running Redis, so that they can be brought into a store
// here. Redis is only read, with SCAN, TYPE, GETRANGE and PTTL. Blocks the calling thread, the main
// one.
//
// redis-cell keeps a key as a string: its TAT in nanoseconds since 1970, in decimal, which lives
// for as long as the TAT is away. So a string is read as one of its keys iff it is 18 to 20
// digits and its time to live is what is left until then, give or take cell_life_tolerance.
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
  other_type,  // no string
  no_number,   // not 18 to 20 digits, or above 2^63-1
  no_life,     // has no time to live
  other_life,  // its time to live does not fit the number
  expired,     // as fresh by now, or gone since it was listed
  long_key     // longer than a key may be in a command here
};
inline constexpr size_t cell_skips = 6;
// For scripts: "other_type".
std::string_view name_of(CellSkip why);

// The TAT of a key, or why it is none. `life_ms`: as PTTL tells it, at some time between `before`
// and `after`.
struct CellKey {
  int64_t tat = 0;
  std::optional<CellSkip> skip{};
};
CellKey read_cell_key(std::string_view text, int64_t life_ms, base::Time before, base::Time after);

// What the counter of CL.THROTTLE stores of it.
limit::State cell_state(int64_t tat);

// Which keys, and where. `database` is Redis' own.
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
    std::vector<std::string> first;  // names of the first few
  };
  uint64_t keys = 0;   // that were found, each once
  uint64_t cells = 0;  // of redis-cell, that `visit` was given
  std::array<Skipped, cell_skips> skipped;
};

// Visits redis-cell's keys in no order; one that Redis lists twice, as it may, may be visited twice
// and is counted once. A problem of `visit` ends the pass and is that of it. It needs some 40 bytes
// of memory for each key that is found.
using VisitCell = std::function<base::Done(std::string_view key, int64_t tat, bool again)>;
base::Result<CellReport> read_cells(const CellSource& source, const VisitCell& visit);

}  // namespace sluice::resp
