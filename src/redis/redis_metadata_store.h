// A metadata store whose texts are in Redis, shared by all servers that use the same one: a hash, a
// number that every write raises, and the names that were changed last. Each call has a connection
// of its own; a thread reads the number regularly and fetches new changes. Owned by the store;
// docs/redis.md describes what is stored.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "redis/blocking_connection.h"
#include "redis/scripts.h"
#include "redis/shared.h"
#include "store/metadata_store.h"

namespace sluice::redis {

// A set of names, some millions of them, in little more memory than their bytes. Clients choose the
// names, so they are hashed with a secret of the process. One thread.

class NameSet {
 public:
  // False: the name was in the set already; the name was not in it.
  bool insert(std::string_view name);
  bool erase(std::string_view name);
  bool contains(std::string_view name) const;
  size_t size() const { return size_; }
  // The most names that a lookup may have to compare with. For tests.
  size_t longest_search() const;

  // Calls `visit(name)` for each name; `visit` must not change the set.
  template <class Visit>
  void each(Visit&& visit) const {
    for (const uint32_t place : table_)
      if (place > gone) visit(name_at(place));
  }

 private:
  static constexpr uint32_t free = 0, gone = 1;

  std::string_view name_at(uint32_t place) const;
  size_t first_slot(std::string_view name) const;
  size_t find(std::string_view name) const;
  void grow();

  // The names, each after four bytes with its length; offsets count from first_place.
  std::string bytes_;
  std::vector<uint32_t> table_;  // stored offsets by hash; the size is a power of two
  size_t size_ = 0, used_ = 0;   // used_: slots that are not free, erased ones included
};

class RedisMetadataStore final : public store::MetadataStore {
 public:
  // `shared` outlives this object.
  explicit RedisMetadataStore(Shared& shared);
  ~RedisMetadataStore() override;

  // If Redis cannot be reached this is not an error: `watch` delivers the stored texts as soon as
  // it can.
  base::Done read(
      const std::function<void(std::string_view name, std::string_view text)>& visit) override;
  WriteResult write(std::span<const Change> changes) override;
  bool is_shared() const override { return true; }
  void watch(std::shared_ptr<Watcher> watcher) override;

  // The time since this server last knew all stored texts; none: it never did, or there is no
  // watcher. Any thread.
  std::optional<std::chrono::microseconds> age() const;
  // The version of the data of time zones that another server has which uses this Redis, if it is
  // not this server's; empty: none was seen within the last minute. Any thread.
  std::string zones_elsewhere() const;
  // Connects to the node that has the texts, preferably to one that takes writes. Blocks; any
  // thread.
  base::Result<std::unique_ptr<BlockingConnection>> connect(const std::atomic<bool>* stop) const;

 private:
  enum class Looked : uint8_t { done, more };  // more: there are further changes to fetch at once
  struct Keys {
    std::string texts, version, changes, none, zones;
  };

  static Keys keys_for(const Shared& shared);
  bool is_elsewhere(const Answer& answer) const;
  Answer call(BlockingConnection& line, const Script& script,
              std::span<const std::string_view> arguments) const;
  base::Result<std::string> read_all(
      BlockingConnection& line, std::mutex* order,
      const std::function<void(std::span<const Change> page)>& visit);
  void run();
  base::Result<Looked> look(std::unique_ptr<BlockingConnection>& line);
  base::Done notify_all(BlockingConnection& line);
  base::Done notify_unseen(BlockingConnection& line, const NameSet& seen);
  void tell_zones(BlockingConnection& line);
  bool rest(std::chrono::microseconds time);
  static int64_t now_us();

  Shared& shared_;
  const Keys keys_;
  const Script write_, fetch_;
  // The version up to which changes are known here, a number and a time; empty: none are. Used by
  // the thread alone once it runs.
  std::string position_;
  NameSet names_;  // the names that may be known here; guarded by the watcher's `order`
  std::shared_ptr<Watcher> watcher_;
  std::minstd_rand random_;
  std::atomic<int64_t> known_us_{0};
  std::atomic<bool> stopping_{false};
  // When zones are told again; used by the thread alone.
  std::chrono::steady_clock::time_point zones_due_{};
  mutable std::mutex zones_mutex_;
  std::string zones_elsewhere_;
  std::chrono::steady_clock::time_point zones_seen_{};  // that version
  std::mutex mutex_;                                    // for the rest between two looks
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace sluice::redis
