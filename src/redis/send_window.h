// How many commands of a connection may be without an answer, so that the last of them is answered
// in time. A Redis that is asked for more than it can do answers all of it too late, although it
// has charged it; so what it could not answer in time must not be sent.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bounds.h"
#include "base/time.h"
#include "redis/ring.h"

namespace sluice::redis {

// Works by the delay of commands, from written to answered. There is no window until commands queue
// at Redis: until then nothing is known of what it can do, and a burst that it may answer in time
// is sent whole. They queue if among those that are left when answers come is one that has waited
// by a sixteenth of the deadline longer than the least delay. Then the answers of a time give the
// rate of Redis, and the window is what it answers in seven eighths of the deadline. The rate is
// known with the second answers that find a queue: of what the first ones took, a part may have
// been a pause of Redis. But if no answers follow those within a sixteenth of the deadline, there
// was none, and they give the rate.
//
// From then on the window is measured by the longest delay of the commands that are sent under it,
// and, once it is reached, of those behind. A window that was reached shrinks to what Redis answers
// in five eighths of the deadline, or grows by a quarter of the way there, at most to twice its
// size; and by one more, so that a connection with a small window catches up with others to the
// same Redis. One that was not reached shrinks so if the delay is past seven eighths. For 20
// deadlines after a late answer, three eighths stand in place of five. If it is neither reached nor
// too large for 20 deadlines, there is no window again.
//
// All times are of one clock, which does not go back. Belongs to a worker's thread.
class SendWindow {
 public:
  // `deadline`: the time after which an answer is late.
  explicit SendWindow(base::Duration deadline) : deadline_us_(deadline.us) {}

  // Would one command more be answered in time? `under_way`: the commands without an answer.
  bool takes(size_t under_way) const { return under_way < window_; }
  // Is it known what Redis can do?
  bool is_known() const { return window_ < none; }
  size_t size() const { return window_; }

  // A command follows; with it so many have no answer.
  void sent(size_t under_way) {
    ++sent_;
    if (under_way >= window_ && !reached_) {
      reached_ = true;
      measure();
    }
  }
  // All commands so far are written at this time.
  void written(int64_t at_us);
  // So many commands, at least one, are answered at this time.
  void answered(uint64_t count, int64_t at_us);
  // The connection is lost: the next one may be to another Redis.
  void lost() { *this = SendWindow({deadline_us_}); }

 private:
  static constexpr size_t none = base::bounds::redis_commands_max;
  // Commands of one turn: those up to the number `until`.
  struct Turn {
    uint64_t until;
    int64_t at_us;
  };

  int64_t most_us() const { return deadline_us_ * 7 / 8; }
  void estimate(bool queued, int64_t from_us, uint64_t count, int64_t at_us);
  void adjust(int64_t at_us);
  void begin(size_t can, int64_t at_us);
  size_t answered_in_time(uint64_t count, int64_t took_us) const;
  void set(size_t window, int64_t at_us);
  // Measures the commands that are sent from now on.
  void measure() {
    from_ = sent_;
    until_ = 0;
    longest_us_ = 0;
  }

  int64_t deadline_us_;
  size_t window_ = none;
  uint64_t sent_ = 0, answered_ = 0;
  Ring<Turn> turns_;              // that have commands without an answer
  int64_t least_us_ = INT64_MAX;  // the least delay
  // The rate while commands queue at Redis: answers in a time.
  bool queued_ = false;
  size_t first_guess_ = 0;  // the window by the first answers that found a queue; 0: none
  int64_t heard_us_ = 0, span_us_ = 0;
  uint64_t span_answers_ = 0;
  // What is measured of the window: commands behind `from_`, up to `until_` (0: none is answered).
  uint64_t from_ = 0, until_ = 0;
  int64_t longest_us_ = 0;
  bool reached_ = false;
  int64_t used_us_ = 0;           // when it was last reached or too large
  int64_t careful_until_us_ = 0;  // after a late answer
};

}  // namespace sluice::redis
