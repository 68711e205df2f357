// The holds of one process (store/hold_book.h), which settles them in its own store.
//
//   bound     Beside that of all books 512 bytes for each of `most`.
//   end       A hold ends at its microsecond: `end_due` gives its units back, and is called before
//             the decisions of each batch. So many end at a time that no decision waits long;
//             where more are due the rest end with the next batches.
//   restart   A store that outlives the process (Store::notes) keeps each hold in the commit of its
//             counters' changes. With the store in memory a restart forgets both.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/time.h"
#include "limit/limit.h"
#include "request/hold.h"
#include "request/space.h"
#include "store/hold_book.h"
#include "store/notes.h"
#include "store/store.h"

namespace sluice::store {

class Holds final : public HoldBook {
 public:
  // Both outlive it.
  Holds(Store& store, request::Spaces& spaces, const Options& options);
  ~Holds() override;
  Holds(const Holds&) = delete;
  Holds& operator=(const Holds&) = delete;

  // Takes over the holds of the last start, and ends those that were due since. Returns how many
  // could not be read; the problem: none could. Before any other call; may take as long as the
  // store needs to load their counters, 10 s at most.
  base::Result<size_t> restore(base::Time now);

  bool reserve(request::HoldCall& call, const request::HoldTerms& terms,
               const request::Batch& batch, std::span<const Share> shares,
               std::span<const int64_t> units, base::Time now, const Asker& asker) override;
  bool can_wait() const override { return true; }
  bool reserve_or_wait(request::HoldCall& call, const request::HoldTerms& terms,
                       const request::Batch& batch, std::span<const Share> shares,
                       std::span<const int64_t> units, base::Time now, const Asker& asker,
                       std::unique_ptr<Wait>& wait) override;
  void grant(request::HoldCall& call, Wait& wait, base::Time at) override;
  void drop(Wait& wait, bool is_granted, base::Time now) override;
  void close(uint64_t owner, base::Time now) override;
  bool settle(request::HoldCall& call, base::Time now, const Asker& asker) override;
  bool charge_unknown(request::HoldCall& call, const request::Batch& batch,
                      std::span<const Share> shares, base::Time now, const Asker& asker,
                      bool& known) override;
  void end_due(base::Time now) override;
  void each(base::Time now, const std::function<bool(const Listed&)>& visit) const override;
  bool add_held(base::Time now, OfCounters& counters) const override;
  Figures figures() const override;
  const Options& options() const override { return options_; }

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
  struct Waiting;
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
  SourceRef source_of(const request::Space& space, std::span<const limit::Limit> limits,
                      uint32_t limits_id, std::string_view rule,
                      const limit::Overdrafts* overdrafts);
  // A note that is filled at the latest when this goes, as a commit waits for that: what finds no
  // memory to say what it is, is gone.
  class NoteRef {
   public:
    NoteRef() = default;
    explicit NoteRef(std::shared_ptr<request::HoldNote> note) : note_(std::move(note)) {}
    NoteRef(NoteRef&&) = default;
    NoteRef& operator=(NoteRef&& other) noexcept {
      std::swap(note_, other.note_);
      return *this;
    }
    ~NoteRef() {
      if (note_ != nullptr && !note_->is_filled()) note_->fill(std::nullopt);
    }
    request::HoldNote* get() const { return note_.get(); }
    request::HoldNote* operator->() const { return note_.get(); }
    explicit operator bool() const { return note_ != nullptr; }

   private:
    std::shared_ptr<request::HoldNote> note_;  // null: the store forgets holds
  };
  NoteRef new_note(std::string_view name) const;
  bool reserve(request::HoldCall& call, const request::HoldTerms& terms,
               const request::Batch& batch, std::span<const Share> shares,
               std::span<const int64_t> units, base::Time now, const Asker& asker,
               std::unique_ptr<Wait>* wait);
  bool answer_if_known(request::HoldCall& call, Shard& shard, const std::string& name,
                       const request::Batch* batch, base::Time now);
  void describe(Record& record, const request::HoldCall& call, const request::HoldTerms& terms,
                const std::string& name, std::span<const int64_t> units, base::Time now) const;
  static void put_shadows_last(Record& record);
  void note_waiting(Waiting& waiting, base::Time now) const;
  void give_back(Record& record, base::Time now);
  void note_as_it_is(Shard& shard, const std::string& name);
  std::string text_of(Record& record) const;
  bool read(std::string_view text, Record& record);
  void end_missed(base::Time now);
  bool keep(request::HoldCall& call, request::HoldNote* note);
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
  bool are_known(std::span<const request::Charge> charges, base::Time now, const Asker& asker);
  void settle(Shard& shard, uint32_t place, request::HoldCall& call, base::Time now);
  static int64_t charged_of(const request::HoldCall& call, const request::Batch& batch,
                            std::span<const Share> shares);
  static void show_charged(const request::HoldCall& call, const request::Batch& batch,
                           std::span<const Share> shares, Record& record);
  void insert(Shard& shard, Record& record, request::HoldNote* note);
  void forget(Shard& shard, uint32_t place, Loaded& record);
  static void show(request::HoldCall& call, const Settling& settling, const request::Group& group);
  static void keep_shown(const request::HoldCall& call, Record& record);
  static Listed listed(const Record& record, base::Time now);
  // Calls `visit` for each hold that is held, under its shard's lock, and after every few of them
  // `pause` without a lock, until that returns false.
  void each_held(const std::function<void(const Record&)>& visit,
                 const std::function<bool()>& pause) const;
  void count(Event event, bool is_place) {
    events_[static_cast<size_t>(event)].fetch_add(1, std::memory_order_relaxed);
    if (is_place) of_places_[static_cast<size_t>(event)].fetch_add(1, std::memory_order_relaxed);
  }
  bool move_places(request::HoldCall& call, Record& record, base::Time to, base::Time now,
                   request::HoldNote* note);
  void join_owner(const Record& record);
  void leave_owner(const Record& record);
  void push_due(Shard& shard, uint32_t place, int64_t at_us);
  void note_due(int64_t at_us);
  void answer_held(request::HoldCall& call, const Record& record, base::Time now) const;
  void answer_again(request::HoldCall& call, const Record& record) const;
  request::HoldOutcome gone(const Record& record) const;
  bool apply(request::HoldCall& call, Settling& settling, base::Time now, request::HoldNote* note);
  static std::span<const int64_t> nothing_of(const Record& record);
  bool settle_all(request::HoldCall& call, Record& record, std::span<const int64_t> used,
                  base::Time now, request::HoldNote* note);
  bool extend(request::HoldCall& call, Record& record, base::Time now, request::HoldNote* note);
  bool commit(request::HoldCall& call, Record& record, base::Time now, request::HoldNote* note);
  bool release(request::HoldCall& call, Record& record, base::Time now, request::HoldNote* note);
  void bound_parts(Record& record, base::Time now);
  bool end(Record& record, base::Time now, request::HoldNote* note);
  bool forget_old(Shard& shard, uint32_t place, base::Time now);
  void set_state(Record& record, State state, base::Time now);
  void save(Shard& shard, uint32_t place, Loaded& record, request::HoldNote* note);
  void end_due_of(Shard& shard, base::Time now, size_t& budget);

  Store& store_;
  Notes* const notes_;  // null: the store forgets holds
  request::Spaces& spaces_;
  const Options options_;
  const base::Hash hash_;
  const std::unique_ptr<std::array<Shard, shard_count>> shards_;
  std::array<std::atomic<size_t>, 3> rooms_{};  // by Room
  std::atomic<size_t> first_shard_{0};
  const std::unique_ptr<Sources> sources_;
  std::mutex users_mutex_;
  std::unordered_map<std::string, UserRoom> users_;
  std::array<std::atomic<uint64_t>, event_names.size()> events_{}, of_places_{};
  std::atomic<size_t> places_{0};  // of the holds
  // By connection, the names of the holds that end with it. Taken with the mutex of a shard.
  std::mutex owners_mutex_;
  std::unordered_map<uint64_t, std::unordered_set<std::string>> owners_;
  std::atomic<uint64_t> reserved_units_{0}, used_units_{0};
};

}  // namespace sluice::store
