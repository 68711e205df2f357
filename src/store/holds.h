// The holds of a server (request/hold.h): which units each took from which counters, until when,
// and what was settled. The units themselves are in the store, taken as by any take, so that other
// requests see them without a rule. One for a server, shared by its workers; any thread.
//
//   bound     `most` holds, as many that are settled and remembered, and 512 bytes for each of
//             these; of one user a share of each. Past it a new one is refused (HoldOutcome::full),
//             a settled one is forgotten at once, and others go on.
//   end       A hold ends at its microsecond: `end_due` gives its units back, and is called before
//             the decisions of each batch. So many end at a time that no decision waits long;
//             where more are due the rest end with the next batches.
//   memory    is that of the process: a restart forgets holds, and with the store in memory the
//             counters too.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/hold.h"
#include "request/space.h"
#include "store/store.h"

namespace sluice::store {

class Holds {
 public:
  struct Options {
    size_t most = 1'000'000;
    size_t user_part = 8;  // a user may have so much of `most`; without users all of it
    base::Duration ttl = base::seconds(60), remember = base::seconds(600);
  };

  // Both outlive it.
  Holds(Store& store, request::Spaces& spaces, const Options& options);
  ~Holds();
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  // Which subjects of a reserve a charge is for: bit i is subject i.
  struct Share {
    uint64_t subjects = 0;
    std::string_view rule{};
  };
  // Settles the groups of a reserve, whose charges are Verb::reserve, all for this call, and holds
  // what they take. `shares`: of each of the batch's charges; `units`: of each subject. Without
  // groups nothing is held, but there is a hold. The groups are answered as by Store::apply; where
  // the call is not `done`, `refused` or `failed` nothing was decided.
  void reserve(request::HoldCall& call, const request::HoldTerms& terms,
               const request::Batch& batch, std::span<const Share> shares,
               std::span<const int64_t> units, base::Time now);
  // All but reserve.
  void settle(request::HoldCall& call, base::Time now);
  // Of a commit whose hold is unknown, and whose units are to be charged: remembers it, so that it
  // is charged once. False: it is known meanwhile, so `settle` answers it. `end_claim` says whether
  // it was charged, with what came of it in the call.
  bool claim_commit(request::HoldCall& call, base::Time now);
  void end_claim(const request::HoldCall& call, bool is_charged);

  // Ends the holds that are due, a bounded number of them.
  void end_due(base::Time now);
  // When the next one is due, or must be forgotten; INT64_MAX: there is none. May be earlier.
  base::Time next_due() const { return {next_due_us_.load(std::memory_order_relaxed)}; }

  // What listings tell of a hold.
  struct Listed {
    std::string id, user, holder;
    std::string rule, actor, counter;  // of the first counter; counter: its stored name
    int64_t units = 0;
    base::Duration age{}, ends_in{};
  };
  // Calls `visit` for each hold that is not settled, until it returns false. Takes the locks of
  // some at a time: for a thread of low priority.
  void each(base::Time now, const std::function<bool(const Listed&)>& visit) const;

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
  struct Figures {
    size_t holds = 0, remembered = 0;
    std::array<uint64_t, event_names.size()> events{};
    uint64_t reserved_units = 0, used_units = 0;  // of holds that were committed
  };
  Figures figures() const;
  const Options& options() const { return options_; }

 private:
  struct Source;
  struct Sources;
  class SourceRef;
  struct Counter;
  struct Record;
  struct Packed;
  struct Shard;
  class Loaded;
  struct Settling;
  static constexpr size_t shard_count = 64;
  static constexpr size_t ends_at_once = 256;  // by one call
  // The holds together may have so many bytes each: those of a hold with several counters or parts
  // are more, those of most are fewer.
  static constexpr size_t bytes_of_record = 512;
  // Of a hold that is extended more often the oldest units count as used.
  static constexpr size_t parts_max = 256;

  enum class State : uint8_t { held, committed, released, kept };

  Shard& shard_of(std::string_view name) const;
  SourceRef source_of(const request::Charge& charge, std::string_view rule);
  void add_part(const request::Charge& charge, Counter& counter);
  // What is counted of all holds, and of each user's.
  enum class Room : uint8_t { held, settled, bytes };
  using UserRoom = std::array<size_t, 3>;
  std::atomic<size_t>& room_of(Room room) { return rooms_[static_cast<size_t>(room)]; }
  size_t part_of(size_t most) const;
  bool take_room(Room room, std::string_view user, size_t n, size_t most);
  void leave_room(Room room, std::string_view user, size_t n);
  bool has_bytes(std::string_view user, size_t n);
  void count_bytes(std::string_view name, size_t was, size_t is);
  void insert(Shard& shard, Record& record);
  void forget(Shard& shard, uint32_t place, Loaded& record);
  static void show(request::HoldCall& call, const Settling& settling, const request::Group& group);
  static void keep_shown(const request::HoldCall& call, Record& record);
  static Listed listed(const Record& record, base::Time now);
  void count(Event event) {
    events_[static_cast<size_t>(event)].fetch_add(1, std::memory_order_relaxed);
  }
  void push_due(Shard& shard, uint32_t place, int64_t at_us);
  void note_due(int64_t at_us);
  void answer_held(request::HoldCall& call, const Record& record, base::Time now) const;
  void answer_again(request::HoldCall& call, const Record& record) const;
  request::HoldOutcome gone(const Record& record) const;
  bool apply(request::HoldCall& call, Settling& settling, base::Time now);
  bool settle_all(request::HoldCall& call, Record& record, std::span<const int64_t> used,
                  base::Time now);
  bool extend(request::HoldCall& call, Record& record, base::Time now);
  bool commit(request::HoldCall& call, Record& record, base::Time now);
  bool release(request::HoldCall& call, Record& record, base::Time now);
  void bound_parts(Record& record, base::Time now);
  bool end(Record& record, base::Time now);
  bool forget_old(Shard& shard, uint32_t place, base::Time now);
  void set_state(Record& record, State state, base::Time now);
  void save(Shard& shard, uint32_t place, Loaded& record);
  void end_due_of(Shard& shard, base::Time now, size_t& budget);

  Store& store_;
  request::Spaces& spaces_;
  const Options options_;
  const base::Hash hash_;
  const std::unique_ptr<std::array<Shard, shard_count>> shards_;
  std::atomic<int64_t> next_due_us_{INT64_MAX};
  std::array<std::atomic<size_t>, 3> rooms_{};  // by Room
  std::atomic<size_t> first_shard_{0};
  const std::unique_ptr<Sources> sources_;
  std::mutex users_mutex_;
  std::unordered_map<std::string, UserRoom> users_;
  std::array<std::atomic<uint64_t>, event_names.size()> events_{};
  std::atomic<uint64_t> reserved_units_{0}, used_units_{0};
};

}  // namespace sluice::store
