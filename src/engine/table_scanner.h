// The thread that searches the whole store for lists and for pages of the admin port, so that no
// worker does. One pass answers all lists that are queued when it begins, taking one of each owner
// in turn; passes and pages alternate. Owned by the server; called from any thread; answers are
// delivered on the scanner's own thread.
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
    std::shared_ptr<const std::vector<std::string>> keys;  // shared by lists of the same prefix
    bool failed = false;                                   // the store could not be looked through
  };
  using Answer = std::function<void(Found)>;
  // The connection that a list is for.
  using Owner = const void*;

  // `store` outlives it.
  explicit TableScanner(store::Catalog& store);
  // Ends the pass under way; queued lists get no answer.
  ~TableScanner();

  // Queues a list. `space` lives as long as `answer`. The thread is started by the first list.
  void list(Owner owner, const request::Space& space, std::string prefix, Answer answer);
  // Drops the owner's lists, except those that are being answered at this moment. A pass that no
  // other list needs ends.
  void cancel(Owner owner);
  // Queues any other search, which must work in small steps. False: base::bounds::queries_max are
  // queued.
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
  // The pass under way, once it has begun; and the lists that it is going to answer.
  std::unique_ptr<store::ListPass> pass_;
  std::unordered_multimap<Owner, Shared> taken_;
  bool job_is_next_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace sluice::engine
