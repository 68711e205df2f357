// The holds of a server (request/hold.h), as its workers and its admin port see them: which units
// each took from which counters, until when, and what was settled. The units themselves are in the
// store, taken as by any take, so that other requests see them without a rule. One for a server,
// shared by its workers; any thread.
//
//   bound     `most` holds, as many that are settled and remembered; of one user a share of each.
//             Past it a new one is refused (HoldOutcome::full), a settled one is forgotten at once,
//             and others go on.
//   later     A store that has to ask another server or a disk answers later: calls with an Asker
//             return false then. Once its completion queue names the ticket the caller calls again
//             with the same call, or it calls Store::abandon.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/time.h"
#include "request/charge.h"
#include "request/hold.h"
#include "store/completion_queue.h"
#include "store/store.h"

namespace sluice::store {

class HoldBook {
 public:
  struct Options {
    size_t most = 1'000'000;
    size_t user_part = 8;  // a user may have so much of `most`; without users all of it
    base::Duration ttl = base::seconds(60), remember = base::seconds(600);
  };

  // Whom an answer that comes later is named to. Without a queue nobody: the caller calls again
  // whenever it likes.
  struct Asker {
    CompletionQueue* completions = nullptr;
    request::Ticket ticket = request::no_ticket;
    Pin pin{};  // keeps the rules alive of a reserve that waits
  };

  // Which subjects of a message a charge is for: bit i is subject i.
  struct Share {
    uint64_t subjects = 0;
    std::string_view rule{};
  };

  virtual ~HoldBook() = default;

  // 128 random bits in base64url: whoever knows an id may settle the hold.
  static std::string make_id();

  // Settles the groups of a reserve, whose charges are Verb::reserve, all for this call, and holds
  // what they take. `shares`: of each of the batch's charges; `units`: of each subject. Without
  // groups nothing is held, but there is a hold. The groups are answered as by Store::apply; where
  // the call is not `done`, `refused` or `failed` nothing was decided.
  [[nodiscard]] virtual bool reserve(request::HoldCall& call, const request::HoldTerms& terms,
                                     const request::Batch& batch, std::span<const Share> shares,
                                     std::span<const int64_t> units, base::Time now,
                                     const Asker& asker) = 0;
  // What a reserve that waits for units needs once its group is granted.
  class Wait {
   public:
    virtual ~Wait() = default;
  };
  // Can a reserve wait?
  virtual bool can_wait() const { return false; }
  // As `reserve`, where the last group may wait (Group::may_wait). If it is parked the call is
  // `waiting`, and `wait` is what the grant needs: it must live until `grant` or `drop`. If `wait`
  // is set the same reserve is parked already and asked again, by its last group alone; `wait` is
  // replaced then, but where the group is answered already.
  [[nodiscard]] virtual bool reserve_or_wait(request::HoldCall& call,
                                             const request::HoldTerms& terms,
                                             const request::Batch& batch,
                                             std::span<const Share> shares,
                                             std::span<const int64_t> units, base::Time now,
                                             const Asker& asker, std::unique_ptr<Wait>& wait) {
    wait.reset();
    return reserve(call, terms, batch, shares, units, now, asker);
  }
  // Its group was granted then: it is held, or the call says why not, and nothing is.
  virtual void grant(request::HoldCall& /*call*/, Wait& /*wait*/, base::Time /*at*/) {}
  // Nobody waits any more. is_granted: its group was granted, and gives its units back.
  virtual void drop(Wait& /*wait*/, bool /*is_granted*/, base::Time /*now*/) {}
  // The connection that holds say they end with has ended.
  virtual void close(uint64_t /*owner*/, base::Time /*now*/) {}
  // All but reserve.
  [[nodiscard]] virtual bool settle(request::HoldCall& call, base::Time now,
                                    const Asker& asker) = 0;
  // Of a commit whose hold `settle` did not know: settles the groups, whose charges are
  // Verb::charge, and remembers it, so that it is charged once; then the call is `done`, and the
  // groups are answered as by Store::apply. Where the hold is known meanwhile it is answered as by
  // `settle`, `known` is set, and the groups are not.
  [[nodiscard]] virtual bool charge_unknown(request::HoldCall& call, const request::Batch& batch,
                                            std::span<const Share> shares, base::Time now,
                                            const Asker& asker, bool& known) = 0;

  // Ends the holds that are due, a bounded number of them.
  virtual void end_due(base::Time now) = 0;
  // When the next one is due, or must be forgotten; INT64_MAX: there is none. May be earlier.
  base::Time next_due() const { return {next_due_us_.load(std::memory_order_relaxed)}; }

  // What listings tell of a hold.
  struct Listed {
    std::string id, user, holder;
    std::string rule, actor, counter;  // of the first counter; counter: its stored name
    bool is_place = false;
    int64_t units = 0;
    base::Duration age{}, ends_in{};
  };
  // Calls `visit` for each hold that is not settled, until it returns false. May block for a while:
  // for a thread of low priority.
  virtual void each(base::Time now, const std::function<bool(const Listed&)>& visit) const = 0;

  // What the holds that are not settled have of one counter.
  struct OfCounter {
    size_t holds = 0;
    int64_t units = 0;                       // of each of its limits, but those that have places
    int64_t places = 0;                      // of those
    base::Duration first_end{}, last_end{};  // of the holds
  };
  using OfCounters = std::unordered_map<std::string, OfCounter>;  // by the counter's stored name
  // Adds to each counter that is named what is held of it. Looks at every hold once, as `each`.
  // False: this book cannot tell, and nothing was added.
  virtual bool add_held(base::Time /*now*/, OfCounters& /*counters*/) const { return false; }

  enum class Event : uint8_t {
    held,
    refused,
    committed,
    released,
    expired,
    kept,
    late,
    repeated,
    unknown
  };
  static constexpr std::array<std::string_view, 9> event_names = {
      "held", "refused", "committed", "released", "expired", "kept", "late", "repeated", "unknown"};
  using Events = std::array<uint64_t, event_names.size()>;
  struct Figures {
    size_t holds = 0, places = 0, remembered = 0;  // places: of the holds
    Events events{}, of_places{};                  // of_places: of the events
    uint64_t reserved_units = 0, used_units = 0;   // of holds that were committed
  };
  virtual Figures figures() const = 0;
  virtual const Options& options() const = 0;

 protected:
  std::atomic<int64_t> next_due_us_{INT64_MAX};
};

}  // namespace sluice::store
