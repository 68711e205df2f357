// What the numbers in stored records stand for: the spaces and lists of limits of the store, and
// which of this process's they are. Filled at open by one thread; then the one that commits gives
// out numbers while any others look them up.
//
// A number that no stored record names stands for something else in time. To find those out the
// committing thread begins a round, which forgets what is named; then all records that were there
// are met (`is_known`, `resolve`), and each that is committed meanwhile names what it does; when
// `all_are_met` is said the others are free. The first round is that of the start, when all is
// loaded.
//
// What a record is found to name while the store is loaded is known to this process
// (request/space.h) until `all_is_loaded`; after that nothing here depends on the process's ids but
// what is looked up by them, which is compared with the serial of what they stand for.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "disk/journal.h"
#include "disk/record.h"
#include "request/space.h"

namespace sluice::disk {

class Dictionary {
 public:
  // `spaces` outlives it. A round is needed when there are so many numbers more than the last left,
  // and a quarter of those.
  explicit Dictionary(request::Spaces& spaces, size_t more_min = 1024)
      : spaces_(spaces), more_min_(more_min) {}
  ~Dictionary();
  Dictionary(const Dictionary&) = delete;
  Dictionary& operator=(const Dictionary&) = delete;

  // One stored entry; the numbers of each kind come in order, from 1.
  base::Done load_space(uint32_t number, std::string_view value);
  base::Done load_limits(uint32_t number, std::string_view value);

  // Numbers, free ones included.
  size_t spaces() const { return families_.places.size(); }
  size_t lists() const { return lists_.places.size(); }

  // The number of what a record names; a new one if it has none, which is then among the fresh.
  // With the lock of the record's counter: that is why what it names is known.
  uint32_t number_of(const request::Space& space) {
    const Numbered of = space.id < space_numbers_.size() ? space_numbers_[space.id] : Numbered();
    if (of.number != 0 && of.serial == space.serial) [[likely]]
      return of.number;
    return add(space);
  }
  uint32_t number_of_limits(uint32_t limits_id) {
    if (limits_id == 0) return 0;
    const Numbered of =
        limits_id < limits_numbers_.size() ? limits_numbers_[limits_id] : Numbered();
    if (of.number != 0 && of.serial == spaces_.serial_of_limits(limits_id)) [[likely]]
      return of.number;
    return add_limits(limits_id);
  }

  // Entries that are not committed yet: written with the first block that uses them.
  struct Fresh {
    bool is_space;
    uint32_t number;
    std::string value;
  };
  const std::vector<Fresh>& fresh() const { return fresh_; }
  void all_are_committed() { fresh_.clear(); }

  // Any thread. 0: nothing of that space is stored. Before `all_is_loaded`.
  uint32_t find(const request::Space& space) const;
  // What a stored counter is here. False: it names what the dictionary lacks, or its state does not
  // fit its limits.
  bool resolve(const StoredCounter& stored, Record& record) const;
  // The same of one that is past its time: what it names is not to be known for that.
  bool is_known(const StoredCounter& stored) const;
  // Every record that was stored when the round began has been met. Any thread.
  void all_are_met() { all_met_.store(true); }
  // Nothing is found or resolved any more. Any thread but those who do.
  void all_is_loaded();

  // The committing thread's, while there is no round. Is another one worth its time?
  bool wants_round();
  void begin_round();
  // The last one could not be ended: none is needed before there are more.
  void put_off_round() { left_ = used_; }
  // Numbers that are not free.
  size_t used() const { return used_; }

 private:
  struct Named {
    std::atomic<bool> named{false};  // since the round began
    bool is_free = false;            // the committer's
  };
  // Readers take no lock, so one lives until the round after that in which it became free.
  struct LimitList : Named {
    std::vector<limit::Limit> limits;
    std::atomic<uint32_t> id{0};  // of this process's lists; 0: no counter that names it was met
    request::LimitsRef held;      // guarded
  };
  struct Family : Named {
    request::Space like;
    std::atomic<const request::Space*> space{nullptr};  // null: as above
    request::SpaceRef held;                             // guarded
  };
  // Its number stands for another in time.
  template <class T>
  struct Slot {
    std::atomic<T*> its{nullptr};
  };
  template <class T>
  using Slots = request::StableList<Slot<T>>;  // the n-th has number n + 1
  struct Numbered {
    uint32_t number = 0, serial = 0;
  };

  uint32_t add(const request::Space& space);
  uint32_t add_limits(uint32_t limits_id);
  // Numbers of one kind. The committer's, but for what is in `places`.
  template <class T, class Numbers>
  struct Kind {
    Slots<T> places;
    Numbers numbers;  // also the free ones, as the entries on disk say of them
    std::vector<uint32_t> free;
    std::vector<std::unique_ptr<T>> retired;
  };
  template <class T, class Numbers, class Key>
  uint32_t put(Kind<T, Numbers>& kind, std::unique_ptr<T> one, const Key& key);
  template <class T, class Numbers, class Key>
  uint32_t name(Kind<T, Numbers>& kind, const Key& key);
  template <class T, class Numbers>
  void find_free(Kind<T, Numbers>& kind);
  static std::pair<std::string_view, std::string_view> key_of(const Family& family);
  static std::string key_of(const LimitList& list);
  template <class T>
  static T* at(const Slots<T>& places, uint32_t number);
  template <class T>
  static void free_all(Slots<T>& places);
  LimitList* list_of(const StoredCounter& stored) const;
  Family* family_of(const StoredCounter& stored) const;
  const request::Space* space_of(Family& family) const;
  uint32_t id_of(LimitList& list) const;
  void find_free();

  request::Spaces& spaces_;
  const size_t more_min_;
  // By identity, and by what is stored of a list. A space has one number at most, free or not: it
  // is part of its counters' keys.
  Kind<Family, std::map<std::pair<std::string_view, std::string_view>, uint32_t>> families_;
  Kind<LimitList, std::unordered_map<std::string, uint32_t>> lists_;
  // The committer's, as is all that follows but for what is atomic or guarded. Numbers that are not
  // free, and how many of them the last round left.
  size_t used_ = 0, left_ = 0;
  std::atomic<bool> all_met_{false};
  std::vector<Numbered> space_numbers_, limits_numbers_;  // by the process's ids
  std::vector<Fresh> fresh_;
  mutable std::mutex mutex_;
  std::vector<uint32_t> shared_numbers_;  // of spaces, for `find`; guarded
};

}  // namespace sluice::disk
