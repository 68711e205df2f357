// The thread that looks through the whole store for lists and for pages of the admin port, so that
// no worker does. All lists that are queued when a pass begins are answered by that one pass, each
// owner's in turn; passes and pages take turns. Owned by the server; called from any thread; what
// it answers comes from its own.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "store/catalog.h"
#include "store/list_pass.h"

namespace sluice::engine {

class TableScanner {
 public:
  struct Found {
    std::shared_ptr<const std::vector<std::string>> keys;  // shared by those that ask for the same
    bool failed = false;                                   // the store could not be looked through
  };
  using Answer = std::function<void(Found)>;
  // The connection that a list is for.
  using Owner = const void*;

  // `store` outlives it.
  explicit TableScanner(store::Catalog& store);
  // Ends the pass under way; what is queued gets no answer.
  ~TableScanner();

  // `space` lives as long as `answer` does. The thread begins with the first list.
  void list(Owner owner, const request::Space& space, std::string prefix, Answer answer);
  // The owner's lists get no answer, but for those that are being answered at this moment. A pass
  // that nothing else needs ends.
  void cancel(Owner owner);
  // A look of any kind, which goes in small steps. False: base::bounds::queries_max are queued.
  using Job = std::function<void(store::Catalog& store)>;
  bool look(Job job);

 private:
  struct Wanted {
    const request::Space* space;
    std::string prefix;
    Answer answer;
    size_t number = 0;       // in the pass, once it has begun
    bool cancelled = false;  // before it had begun
  };
  using Shared = std::shared_ptr<Wanted>;
  struct Queue {
    std::deque<Shared> lists;
    std::list<Owner>::iterator turn;
  };

  void start();
  void run();
  std::vector<Shared> take_some(size_t most);
  bool begin_pass();
  void answer_pass();

  store::Catalog& store_;
  std::mutex mutex_;  // guards what is below
  std::condition_variable work_;
  std::unordered_map<Owner, Queue> queues_;  // none of them empty
  std::list<Owner> turns_;                   // of all of queues_, the next one first
  std::deque<Job> jobs_;
  // Under way, from when it has begun; and those that wait for it, from before.
  std::unique_ptr<store::ListPass> pass_;
  std::unordered_multimap<Owner, Shared> taken_;
  bool job_is_next_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::engine
