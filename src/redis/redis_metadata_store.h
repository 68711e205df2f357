// A metadata store whose texts are in Redis, shared by all servers that use the same one: a hash, a
// number that every write raises, and the names that were changed last. Each call has a connection
// of its own; a thread looks at the number and fetches what is new. Owned by the store;
// docs/redis.md tells what is stored.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "redis/blocking_connection.h"
#include "redis/name_set.h"
#include "redis/scripts.h"
#include "redis/shared.h"
#include "store/metadata_store.h"

namespace sluice::redis {

class RedisMetadataStore final : public store::MetadataStore {
 public:
  // `shared` outlives it.
  explicit RedisMetadataStore(Shared& shared);
  ~RedisMetadataStore() override;

  // A Redis that cannot be asked is not an error: `watch` brings what is kept as soon as it can.
  bool read(const std::function<void(std::string_view name, std::string_view text)>& visit,
            std::string& problem) override;
  Written write(std::span<const Change> changes, std::string& problem) override;
  bool is_shared() const override { return true; }
  void watch(std::shared_ptr<Watcher> watcher) override;

  // Since all that is kept was known here; none: there is no watcher, or it never was. Any thread.
  std::optional<std::chrono::microseconds> age() const;

 private:
  enum class Looked : uint8_t { done, more, failed };
  struct Keys {
    std::string texts, version, changes, none;
  };

  std::unique_ptr<BlockingConnection> connect(const std::atomic<bool>* stop,
                                              std::string& problem) const;
  static Keys keys_for(const Shared& shared);
  bool is_elsewhere(const Answer& answer) const;
  Answer call(BlockingConnection& line, const Script& script,
              std::span<const std::string_view> arguments) const;
  // `order`: held while each page is fetched and visited, if not null.
  bool read_all(BlockingConnection& line, std::string& version, std::string& problem,
                std::mutex* order, const std::function<void(std::span<const Change> page)>& visit);
  void run();
  Looked look(BlockingConnection& line, std::string& problem);
  bool notify_all(BlockingConnection& line, std::string& problem);
  bool notify_unseen(BlockingConnection& line, const NameSet& seen, std::string& problem);
  bool rest(std::chrono::microseconds time);
  static int64_t now_us();

  Shared& shared_;
  const Keys keys_;
  const Script write_, fetch_;
  // Up to where the changes are known here: a number and a time, as the version; empty: nothing is.
  // Of the thread once there is one.
  std::string position_;
  NameSet names_;  // of all that may be known here; under the watcher's order
  std::shared_ptr<Watcher> watcher_;
  std::minstd_rand random_;
  std::atomic<int64_t> known_us_{0};
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;  // of the rest between two looks
  std::condition_variable stop_;
  std::thread thread_;
};

}  // namespace sluice::redis
