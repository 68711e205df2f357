// A limiter's core whose counters are kept in a journal on disk: loaded when it is opened, and
// committed by the thread that calls commit(), or by a thread of its own if asked for. Any thread.
#pragma once

#include <sluice/durable.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "embed/core.h"
#include "keep/kept_holds.h"
#include "store/log/journal.h"

namespace sluice::detail {

class kept_core {
 public:
  // The core is made already, and its table is empty.
  kept_core(durable_options where, std::shared_ptr<core> its_core, limiter its_limiter);
  ~kept_core();
  kept_core(const kept_core&) = delete;
  kept_core& operator=(const kept_core&) = delete;

  // Opens the directory and loads it; begins what commit_every asks for.
  result<void> open();
  result<void> commit();
  limiter& its_limiter() { return limiter_; }

 private:
  result<void> load();
  void load_holds();
  result<void> commit_once();
  bool walk(const std::function<bool(const request::CounterRecord&)>& visit);
  void keep_committing();
  void tell(const std::string& text) const;

  const durable_options where_;
  const std::shared_ptr<core> core_;  // goes after the journal, which uses its spaces
  limiter limiter_;
  std::unique_ptr<disk::Journal> journal_;
  std::unique_ptr<kept_holds> holds_;  // null: there are none
  int process_ = 0;                    // that has opened it

  std::mutex commit_;                    // of the thread that commits; guards the next two
  uint64_t turned_ = 0;                  // the commit under way, or the last one
  bool failing_ = false;                 // the last commit failed, and the journal holds it
  std::atomic<uint64_t> committed_ = 0;  // the last commit that is kept

  std::mutex ending_mutex_;
  std::condition_variable ends_;
  bool ending_ = false;               // guarded by ending_mutex_
  std::atomic<bool> closing_{false};  // nothing is committed any more
  std::thread thread_;
};

}  // namespace sluice::detail
