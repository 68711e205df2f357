// Lists (limitd's STATUS): which one is begun when, and how its reply comes about. Used by the
// worker's thread alone.
//
//   wanted    the store has to be looked through
//   searched  the scanner has it
//   found     its keys are known; read when it is the first of its sink's, which has sent all
//   read      the store is asked how these counters stand
//
// A sink's lists are answered in order, and no list is made for one that is about to go. Requests
// behind a list that has no room wait: their batch is suspended.
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

#include "engine/batch.h"
#include "engine/late_replies.h"
#include "store/catalog.h"
#include "store/list_pass.h"

namespace sluice::engine {

// The thread that searches the whole store for lists and for pages of the admin port, so that no
// worker does. One pass answers all lists that are queued when it begins, taking one of each owner
// in turn; passes and pages alternate. Owned by the server; called from any thread; answers are
// delivered on the scanner's own thread.

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
  struct WantedList {
    const request::Space* space;
    std::string prefix;
    Answer answer;
    size_t number = 0;       // in the pass, once it has begun
    bool cancelled = false;  // before it had begun
  };
  using Shared = std::shared_ptr<WantedList>;
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

class Lists {
 public:
  explicit Lists(Decider& decider);
  ~Lists();

  enum class Started : uint8_t {
    answered,  // at once, by `verdict`
    begun,     // the reply comes later, or the sink is about to go
    no_room,   // the batch must wait; its owner is resumed when there is room
  };
  // Starts the list that `request` asks for.
  Started start(const Batch& batch, const request::Request& request, request::Verdict& verdict);

  bool has(ReplySink& sink) const { return !queues_.empty() && queues_.contains(&sink); }
  // The sink has sent its output: its next list may be read.
  void proceed(ReplySink& sink);
  // The sink is about to go: its lists end, its other requests go on.
  void drop(ReplySink& sink);
  // The sink goes: all of its lists end.
  void forget(ReplySink& sink);

 private:
  struct OpenList;
  struct Queue;
  Queue* queue_of(ReplySink& sink);
  void search(Queue& queue);
  void on_found(OpenList& list, std::shared_ptr<const std::vector<std::string>> keys, bool failed);
  void proceed(Queue& queue);
  void read_later();
  void read_some();
  void plan(OpenList& list);
  void read(OpenList& list);
  void finish(OpenList& list, const request::Verdict& verdict, base::Time now);
  void release(OpenList& list);
  void search_crowded();
  void resume_held();
  void resume(const std::vector<request::Ticket>& held);

  Decider& decider_;
  std::unordered_map<ReplySink*, std::shared_ptr<Queue>> queues_;
  std::deque<ReplySink*> readable_;  // whose next list can be read; each once, in order
  std::deque<ReplySink*> crowded_;   // whose next list waits until other lists are read
  std::deque<ReplySink*> held_;      // whose batches wait for base::bounds::list_bytes_max
  size_t bytes_ = 0, found_bytes_ = 0, being_read_ = 0;
  bool reading_ = false;  // read_some is scheduled
};

}  // namespace sluice::engine
