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

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/decider.h"
#include "engine/reply_sink.h"

namespace sluice::engine {

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
  struct List;
  struct Queue;
  Queue* queue_of(ReplySink& sink);
  void search(Queue& queue);
  void on_found(List& list, std::shared_ptr<const std::vector<std::string>> keys, bool failed);
  void proceed(Queue& queue);
  void read_later();
  void read_some();
  void plan(List& list);
  void read(List& list);
  void finish(List& list, const request::Verdict& verdict, base::Time now);
  void release(List& list);
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
