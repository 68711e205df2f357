// The live list of users, and the thread that checks passwords: their hashes are slow by intent, so
// no worker waits for one. Made by the server; any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "access/users.h"

namespace sluice::access {

class Access {
 public:
  // Passwords that wait for a slow check, at most, and those of one source; those who come past it
  // are asked to try again.
  static constexpr size_t checks_max = 1024, checks_of_source_max = 128;

  explicit Access(std::shared_ptr<const Users> users = {});
  ~Access();
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  // One more with each `set`; from 1.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // The live list; never null.
  std::shared_ptr<const Users> users() const;
  // Null: there are none.
  void set(std::shared_ptr<const Users> users);

  // Calls `done` with whether it is that user's password, by the list that is live when it is
  // checked; on a thread of its own, never within this call. A password that is known to be right
  // waits for none that is not, and is always taken: callers ask once for each of their clients at
  // a time. Others wait for one of each other `source` (the client's address), not for all of them.
  // False: too many wait, and `done` is not called.
  bool check(std::string name, std::string password, std::string_view source,
             std::function<void(bool)> done);
  // Nothing is checked any more; what waits is never answered. Returns once nothing is called.
  void stop();

 private:
  struct Check {
    std::string name, password;
    std::function<void(bool)> done;
  };
  void run();
  Check take();

  std::atomic<uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<const Users> users_;
  std::deque<Check> known_;  // of passwords that are known to be right
  std::map<std::string, std::deque<Check>, std::less<>> checks_;  // by source; none is empty
  size_t check_count_ = 0;                                        // of checks_
  std::string last_source_;                                       // that was served
  bool stopping_ = false;
  std::thread thread_;  // begins with the first check
};

}  // namespace sluice::access
