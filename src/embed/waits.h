// What waits for units: each with its deadline and its callback. Answers are gathered under the
// lock and handed out; callbacks are called by who runs what is due, after it is let go. Memory for
// all that may become of a wait is there before it is asked for, so no callback is lost where
// memory runs out: the wait ends with errc::no_memory, or goes on. Any thread.
#pragma once

#include <sluice/limiter.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/time.h"
#include "embed/reservations.h"
#include "embed/scratch.h"
#include "request/charge.h"
#include "request/request.h"
#include "store/completion_queue.h"
#include "store/store.h"

namespace sluice::detail {

class core;

class waits {
 public:
  explicit waits(core& its_core);

  // One of the two lists says what is asked.
  struct Asked {
    view<charge> charges;
    view<entry> descriptor;
    bool by_policy = false;
    int64_t cost = 1;                                  // by the policy
    std::shared_ptr<reservations::Pending> pending{};  // of a reserve
  };
  // What became of a reserve is in Asked::pending.
  waiting wait(const Asked& asked, time_point deadline, wait_callback callback, time_point now);
  bool cancel(wait_id id, time_point now);

  struct Waiting {
    wait_id id = 0;
    time_point deadline;
    wait_callback callback;
    std::vector<handle> handles;  // of the charges, as are the next two
    std::vector<std::string> keys;
    std::vector<int64_t> costs;
    std::vector<std::string> words;  // of the descriptor, key and value in turn
    bool by_policy = false;
    std::shared_ptr<reservations::Pending> pending;
    size_t bytes = 0;
    uint64_t arrival = 0;
    decision last;  // as it was refused last; once it has its answer, that
  };
  using Done = std::list<Waiting>;
  // Moves the answers that there are to the end of `done`. Returns when it must be called again.
  // `ends`: the times at which overrides end.
  time_point run(time_point now, const std::set<time_point>& ends, Done& done);

  // Rules or overrides are exchanged by `exchange`, with this lock and the gate closed; then all
  // that waits is matched again in its order. What went out of force stays known until then.
  void change(time_point now, const std::function<void()>& exchange);

  // A reservation ends then, by which `run` has to be called, as units come back.
  void note_end(time_point end);

  // Reserves that wait are dropped: the book goes before this.
  void drop_holds() noexcept;

 private:
  // What came of asking the store.
  struct Asking {
    decision answer;
    bool parked = false;    // it has no answer yet
    bool answered = false;  // it was parked, and its answer is on its way
    bool asked = false;     // the store was asked; else what is parked is as it was
    bool fits = true;       // false: it can never be granted as things are
  };
  // Of one wait: where it stands in each of the lists.
  struct Place {
    Done::iterator waiting;
    std::set<std::pair<time_point, wait_id>>::iterator deadline;
  };

  // `arrival` 0: for the first time; else in place of what is parked under the ticket.
  Asking ask(const Asked& asked, base::Time now, request::Ticket ticket, uint64_t& arrival);
  Asking ask_by_policy(const Asked& asked, base::Time now, request::Ticket ticket,
                       uint64_t& arrival);
  Asking ask_by_charges(const Asked& asked, base::Time now, request::Ticket ticket,
                        uint64_t& arrival);
  Asking ask_to_hold(const Asked& asked, base::Time now, request::Ticket ticket, uint64_t& arrival);
  void drop_hold(Waiting& one, bool is_granted, base::Time now) noexcept;
  Asking settle(request::Batch batch, base::Time now, const store::Pin& pin, uint64_t& arrival);
  void ask_again(Waiting& one, base::Time now) noexcept;
  Asking ask_anew(Waiting& one, base::Time now);
  bool cancel_parked(wait_id id, base::Time now) noexcept;
  void ask_all_again(base::Time now);
  static request::Ticket ticket_of(wait_id id) {
    return {static_cast<uint32_t>(id), static_cast<uint32_t>(id >> 32)};
  }
  static wait_id id_of(request::Ticket ticket) {
    return uint64_t{ticket.generation} << 32 | ticket.slot;
  }
  waiting refuse_late(const Asked& asked, time_point now);
  static size_t bytes_of(const Asked& asked);
  static void remember(Waiting& one, const Asked& asked);
  Done take_out(std::map<wait_id, Place>::iterator at, base::Time now);
  void finish(wait_id id, const decision& answer, base::Time now);
  decision granted(wait_id id, const decision& answer, base::Time at);
  void drain();
  void drain_named(base::Time now);
  void expire(time_point now);
  void signal() noexcept;

  core& core_;
  std::mutex mutex_;  // guards all below but `woken_`
  std::atomic<bool> woken_{false};
  store::CompletionQueue completions_;
  embed::Scratch scratch_;
  std::vector<request::Entry> entries_;  // scratch
  wait_id last_id_ = 0;
  Done waiting_;
  std::map<wait_id, Place> places_;  // in order of arrival
  std::set<std::pair<time_point, wait_id>> deadlines_;
  Done done_;
  size_t bytes_ = 0;                     // of what waits
  time_point next_ = latest_time;        // as `run` said
  time_point ran_{};                     // when it did
  std::vector<store::Settled> settled_;  // scratch, as is the next
  std::vector<request::Ticket> named_;
};

}  // namespace sluice::detail
