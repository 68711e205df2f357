// The thread that looks through the whole store for lists, so that no worker does. Owned by the
// server; `list` from any thread; what it answers comes from its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "store/store.h"

namespace sluice::server {

class Lister {
 public:
  using Answer = std::function<void(std::vector<std::string> keys)>;

  // `store` outlives it.
  explicit Lister(store::Store& store);
  // Ends the list under way; those that are queued get no answer.
  ~Lister();

  // False: base::bounds::lists_max are queued already. The thread begins with the first list.
  bool list(const limit::Space& space, std::string prefix, Answer answer);
  // The same for a look of any kind, which goes in small steps.
  using Job = std::function<void(store::Store& store)>;
  bool look(Job job);

 private:
  void run();

  store::Store& store_;
  std::mutex mutex_;
  std::condition_variable wanted_;
  std::deque<Job> jobs_;  // guarded by mutex_, as is the next
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::server
