// The holds whose counters are in Redis or Valkey, also behind Sentinel and in a cluster
// (store/hold_book.h): what each is, is there as well, changed by the same call of a script as its
// counters (lua_holds.cc). So each server that uses that Redis settles the holds of all others, and
// ends those whose server has gone.
//
//   end       A thread ends those that are due, some at a time: takes pay nothing for it. They end
//             within a second; one that is asked about before is ended then.
//   bound     `most` are held in that Redis, by all servers. Those that are settled are remembered
//             by a key with a TTL each, and are not counted.
//   restart   What Redis loses is lost: a hold without its counter's record gives nothing back.
//   close     A hold that ends with its connection is released by the thread, also one whose answer
//             is on its way then; what Redis cannot settle in a minute ends with its lease, and so
//             do those of a server that is killed.
//   refused   Counters that other programs share, and those that keep their limits, cannot be held;
//             nor, in a cluster, those of several slots by one hold (hold_slots.h).
//
// Calls with an Asker are sent on the worker's own connection; those without one block, on another.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "limit/calendar.h"
#include "redis/blocking_connection.h"
#include "redis/hold_slots.h"
#include "redis/scripts.h"
#include "redis/shared.h"
#include "redis/worker_client.h"
#include "store/hold_book.h"

namespace sluice::redis {

class RedisStore;

class RedisHolds final : public store::HoldBook {
 public:
  RedisHolds(RedisStore& store, const Options& options, Scripts::Time time);
  ~RedisHolds() override;
  RedisHolds(const RedisHolds&) = delete;
  RedisHolds& operator=(const RedisHolds&) = delete;

  bool reserve(request::HoldCall& call, const request::HoldTerms& terms,
               const request::Batch& batch, std::span<const Share> shares,
               std::span<const int64_t> units, base::Time now, const Asker& asker) override;
  // With the time of each call it blocks.
  void close(uint64_t owner, base::Time now) override;
  // How many that end with their connections are remembered here.
  size_t owned() const {
    const std::lock_guard lock(owned_mutex_);
    return owned_.size();
  }
  // Requests of this server wait in order of arrival, those of several in none.
  bool can_wait() const override { return true; }
  bool reserve_or_wait(request::HoldCall& call, const request::HoldTerms& terms,
                       const request::Batch& batch, std::span<const Share> shares,
                       std::span<const int64_t> units, base::Time now, const Asker& asker,
                       std::unique_ptr<Wait>& wait) override;
  void grant(request::HoldCall& call, Wait& wait, base::Time at) override;
  void drop(Wait& wait, bool is_granted, base::Time now) override;
  bool settle(request::HoldCall& call, base::Time now, const Asker& asker) override;
  bool charge_unknown(request::HoldCall& call, const request::Batch& batch,
                      std::span<const Share> shares, base::Time now, const Asker& asker,
                      bool& known) override;
  // Its own thread does. With the time of each call (Scripts::Time::told) it blocks, and ends all.
  void end_due(base::Time now) override;
  void each(base::Time now, const std::function<bool(const Listed&)>& visit) const override;
  // The holds of that Redis, as the thread saw them last; all else is of this server.
  Figures figures() const override;
  const Options& options() const override { return options_; }

 private:
  struct Said;
  class Asked;
  struct Waiting;
  // A call of the script (lua_holds.cc): its keys, then its arguments.
  struct Call {
    size_t keys = 3;
    std::vector<std::string> words{};
  };
  // What a group adds to a call. ahead_at: of its charges, in `words`.
  struct GroupWords {
    std::vector<std::string> keys{}, words{};
    std::vector<size_t> ahead_at{};
  };
  using Build = std::function<Call(uint16_t slot)>;
  // What a request asks of a hold. In a cluster its slot is that of its charges or, without any,
  // the one where the hold of its id is.
  struct Wanted {
    std::string_view name;
    Build build;
    std::optional<uint16_t> slot{};
    // Its id is put at that slot, for so many ms, unless it is at another: then `look` asks there,
    // and the answer counts if there is a hold.
    int64_t claims_ms = 0;
    Build look{};
    bool waits = false;  // a reserve that may wait: what it claims stays
  };
  using Step = WorkerClient::TextStep;
  // Step::at. script: the last call; made: the same where the id says; look: Wanted::look; the
  // others are calls of lua_hold_at.
  enum class At : uint32_t { script, made, look, find, claim, force, tell };
  static constexpr size_t calendars_at = 5;  // of the arguments: the boundaries of calendars
  static constexpr size_t ends_at_once = 50, listed_at_once = 100, calls_max = 12;
  static constexpr size_t calendars_max = 64;

  std::string head_at(uint16_t slot) const;
  uint16_t slot_of_charge(const request::Charge& charge) const;
  std::optional<uint16_t> slot_of_batch(const request::Batch& batch, std::string_view name) const;
  bool is_elsewhere(const request::Group& group, const request::Batch& batch, uint16_t slot) const;
  Call call_of(char what, const request::HoldCall& call, std::span<const int64_t> units,
               base::Duration ttl, uint16_t slot) const;
  Call call_of_reserve(const request::HoldCall& call, const request::HoldTerms& terms,
                       std::span<const int64_t> units, uint16_t slot) const;
  GroupWords words_of(const request::Group& group, const request::Batch& batch,
                      std::span<const Share> shares) const;
  static void add_groups(Call& to, std::span<const GroupWords> groups);
  std::vector<GroupWords> groups_of(const request::Batch& batch, std::span<const Share> shares,
                                    uint16_t slot) const;
  static std::string bytes_of(const Script& script, const Call& call);
  bool reserve(request::HoldCall& call, const request::HoldTerms& terms,
               const request::Batch& batch, std::span<const Share> shares,
               std::span<const int64_t> units, base::Time now, const Asker& asker,
               std::unique_ptr<Wait>* wait);
  void count_reserve(request::HoldCall& call, const Said& said, base::Time now, uint16_t slot);
  void let_go(std::string_view name, bool is_on_its_way);
  bool ask(const Asker& asker, base::Time now, const Wanted& wanted, std::string& text,
           request::Error& error, Step& step);
  request::Error ask_here(base::Time now, const Wanted& wanted, std::string& text, Step& step);
  Answer send_here(uint16_t slot, const Script& script, const Call& call) const;
  Answer send_words(uint16_t slot, std::vector<std::string_view> words,
                    const Script* script = nullptr) const;
  BlockingConnection* line_to(const std::shared_ptr<Endpoint>& endpoint) const;
  // The call that must follow this answer. False: none, it is the last.
  bool follow(const Wanted& wanted, Step& step, std::string& text, const Script*& script,
              base::Time now, Call& next);
  bool is_again(std::string_view text, const Script*& script, const Build& build, uint16_t slot,
                base::Time now, Call& next);
  std::string boundaries(std::span<const limit::Calendar> calendars, base::Time now) const;
  void remember_calendars(const request::Batch& batch);
  static bool read(std::string_view text, Said& said);
  void call_waiting(std::span<const std::string_view> freed);
  void take(request::HoldCall& call, const Said& said);
  static bool read_line(std::string_view line, std::span<request::Charge> counted,
                        std::span<limit::Decision> decisions, bool& allowed, base::Time now);
  bool read_groups(const Said& said, const request::Batch& batch, base::Time now,
                   uint16_t slot) const;
  bool refuses_by_name(const request::Batch& batch) const;
  void say_apart() const;
  void fail(request::HoldCall& call, const request::Batch& batch, request::Error error,
            base::Time now);
  static std::string name_of(const request::HoldCall& call);
  void join_owner(const request::HoldCall& call, int64_t end_us, base::Time now);
  void leave_owner(const std::string& name);
  request::HoldOutcome release(std::string_view name, base::Time now, char what = 'r');
  void release_closed(bool is_last);
  void forget_later(const request::HoldCall& call, const Step& step);
  void forget_claims();
  void learn_slots() const;
  bool end_in_slots(size_t& ended);
  bool end_some(uint16_t slot, base::Time now, size_t& ended, bool* is_away = nullptr);
  void run();
  bool each_of(uint16_t slot, bool places, base::Time now,
               const std::function<bool(const Listed&)>& visit) const;
  void count(Event event, bool is_place, uint64_t times = 1) {
    events_[static_cast<size_t>(event)].fetch_add(times, std::memory_order_relaxed);
    if (is_place)
      of_places_[static_cast<size_t>(event)].fetch_add(times, std::memory_order_relaxed);
  }

  RedisStore& store_;
  Shared& shared_;
  const Options options_;
  const bool is_told_, in_slots_;  // in_slots_: of a Redis Cluster
  const Script plain_, wide_, at_;
  const std::string head_;  // before all keys
  mutable HoldSlots slots_;
  std::atomic<size_t> reservations_{0}, places_{0};  // in that Redis
  std::array<std::atomic<uint64_t>, event_names.size()> events_{}, of_places_{};
  std::atomic<uint64_t> reserved_units_{0}, used_units_{0};
  mutable std::mutex calendars_mutex_;
  std::vector<limit::Calendar> calendars_;  // of the holds that were made here: the last ones
  mutable std::mutex line_mutex_;           // of the next two
  mutable std::map<std::string, std::unique_ptr<BlockingConnection>> lines_;  // by node
  mutable uint64_t lines_of_ = 0;  // the version of the topology
  // Holds that end with their connections. `end_us`: as this server knows it; 0: not yet.
  struct Owned {
    uint64_t owner;
    int64_t end_us;
  };
  mutable std::mutex owned_mutex_;
  std::unordered_map<std::string, Owned> owned_;  // by name
  std::unordered_map<uint64_t, std::unordered_set<std::string>> owners_;
  size_t owned_swept_at_ = 1024;  // at so many those that have ended go
  struct Closed {
    std::string name;
    std::chrono::steady_clock::time_point since;
    bool is_on_its_way = false;  // the reserve had no answer yet
    bool forgets = false;        // no client was told of it
  };
  std::vector<Closed> closing_;  // of the thread
  // Ids that were put at a slot for a reserve that was refused.
  struct Claimed {
    std::string name;
    uint16_t slot;
    uint64_t token;
    std::chrono::steady_clock::time_point since;
  };
  static constexpr size_t claimed_max = 10'000;  // past it they are forgotten by their TTL
  // Guards closed_, claimed_ and ended_, and is for the rest between two looks.
  std::mutex mutex_;
  std::vector<Closed> closed_;
  std::deque<Claimed> claimed_;
  std::condition_variable wake_;
  bool ended_ = false;  // the thread has
  std::atomic<bool> stopping_{false};
  std::atomic<bool> cut_{false};  // connections do not wait any longer
  std::thread thread_;
};

}  // namespace sluice::redis
