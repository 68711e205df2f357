// What the admin port asks of the counters. A thread of its own makes it and waits; a worker's
// engine has the store answer, round by round, as it does for a batch of requests, and is held up
// by it for no longer. Shared by the two: until `await` says that it is answered it belongs to the
// worker.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>

#include "engine/batch.h"
#include "live/live_policy.h"
#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "store/store.h"

namespace sluice::engine {

class Engine;
class TableScanner;

// What a round is planned and read by.
struct QueryContext {
  base::Time now;
  const store::Store& store;
  const policy::Overrides* overrides;  // null: there are none; to be looked up in while planning
};

class AdminQuery : public BatchOwner {
 public:
  // By the rules of that policy, which it keeps alive.
  explicit AdminQuery(std::shared_ptr<const live::LivePolicy> policy)
      : policy_(std::move(policy)) {}
  const live::LivePolicy& policy() const { return *policy_; }

 protected:
  // Plans a round; in `plan` are the answers of the one before. False: there is none. On the
  // worker's thread, at most some hundred counters a round.
  virtual bool next(policy::Plan& plan, const QueryContext& asking) = 0;
  // Must what it did be committed before it is answered?
  virtual bool changes() const { return false; }

 private:
  friend class Engine;
  friend class AdminQueries;
  void resume(Batch& batch) final;

  const std::shared_ptr<const live::LivePolicy> policy_;
  std::promise<void> answered_;
  uint64_t commit_seq_ = 0;          // store::Committer::commit_seq, of what it changed
  std::shared_ptr<void> under_way_;  // counts it
  // The engine's.
  Engine* engine_ = nullptr;
  Batch* batch_ = nullptr;
};

// Brings queries to workers and waits for them. Owned by the server; outlives the threads that
// ask.
class AdminQueries {
 public:
  // Has a worker's engine run a query. Any thread.
  using Post = std::function<void(std::shared_ptr<AdminQuery>)>;
  // All of it outlives this.
  AdminQueries(store::Store& store, TableScanner& scanner)
      : committer_(store.committer()), scanner_(scanner) {}
  // Before anything is asked.
  void set_post(Post post) { post_ = std::move(post); }

  enum class Outcome : uint8_t {
    answered,
    late,      // not in time; what was asked for may still be done
    lost,      // it was done, and could not be committed
    too_many,  // base::bounds::queries_max are under way
    failed,    // the store could not look
    stopping,  // the server is
  };
  // Blocks; not for a worker.
  Outcome ask(std::shared_ptr<AdminQuery> query);
  // A search by the scanner's thread, as store::Catalog::scan_page. As above.
  Outcome list(std::shared_ptr<const request::SpaceIndex> spaces, std::string prefix,
               std::string after, size_t max, std::string from, store::ScanPage& stored);

  // Nothing is asked or waited for any more: the workers are gone. From its return on nothing is
  // posted. Any thread.
  void end() {
    const std::lock_guard lock(posting_);
    ended_ = true;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Outcome await(std::future<void>& answered, Clock::time_point deadline) const;
  Outcome await_commit(uint64_t commit_seq, Clock::time_point deadline) const;

  store::Committer* const committer_;  // null: nothing is waited for
  TableScanner& scanner_;
  Post post_;
  std::mutex posting_;
  std::atomic<bool> ended_{false};  // set with the mutex held
  std::shared_ptr<std::atomic<size_t>> count_ = std::make_shared<std::atomic<size_t>>(0);
};

}  // namespace sluice::engine
