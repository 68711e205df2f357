// Where holds are in a Redis Cluster: the record of a hold and the lists of ends are in the slot of
// its counters, so that one script changes them together (lua_holds.cc). This finds the slot of an
// id, and knows which slots have holds and when one must be looked at.
//
//   made here   the id ends with its slot, in three digits
//   the         a key beside, in the id's own slot, names the slot: written before the hold, it
//   caller's    outlives it
//   ends        all servers note the slots that have holds in one set. Each looks at a slot when
//               an end is due there that it knows of, and else at all of them in turn, some each
//               time: so it ends what another server held that has gone.
//
// Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace sluice::redis {

class HoldSlots {
 public:
  using Clock = std::chrono::steady_clock;
  // How many slots are looked at in turn, and how often.
  static constexpr size_t in_turn = 100;
  static constexpr std::chrono::milliseconds in_turn_every{200};

  // Stands in the keys of a slot's holds, and puts them there: `{xxxxxxxx}`.
  static std::string tag_of(uint16_t slot);
  // An id of HoldBook::make_id with its slot behind, and the slot of such an id. None: it is not
  // one; one of a caller's may look like it.
  static std::string with_slot(std::string id, uint16_t slot);
  static std::optional<uint16_t> slot_in(std::string_view id);
  // The slot that an answer of the script lua_hold_at begins with. None: it names none.
  static std::optional<uint16_t> slot_said(std::string_view text);

  // Is the slot in the set that all servers read? Set it once Redis has answered that it is.
  bool is_told(uint16_t slot) const;
  void set_told(uint16_t slot);
  // The slots that all servers know of. Returns those that this one knows and they do not, as Redis
  // has lost them.
  std::vector<uint16_t> learn(const std::vector<uint16_t>& told);
  std::vector<uint16_t> known() const;

  // A hold of the slot ends then; never: none does. more: so many were added, or are gone.
  void note(uint16_t slot, base::Duration ends_in, Clock::time_point now, int64_t more = 0);
  // The slot was looked at. `next`: until an end is due there; none: there is none.
  void looked(uint16_t slot, size_t reservations, size_t places, std::optional<base::Duration> next,
              Clock::time_point now);
  // The slots to look at now. They are not named again until an end is due or their turn comes.
  std::vector<uint16_t> due(Clock::time_point now);

  struct Counts {
    size_t reservations = 0, places = 0;
  };
  // In all slots, as they were looked at last, with what was made here since.
  Counts counts() const;

 private:
  struct Slot {
    bool told = false;
    size_t reservations = 0, places = 0;
    int64_t more = 0;  // since it was looked at
    Clock::time_point next = Clock::time_point::max();
  };
  mutable std::mutex mutex_;  // guards the rest
  std::map<uint16_t, Slot> slots_;
  Counts counts_;     // of all slots, but for:
  int64_t more_ = 0;  // what was added since each was looked at
  uint16_t turn_ = 0;
  Clock::time_point turn_at_{};  // the next one
};

}  // namespace sluice::redis
