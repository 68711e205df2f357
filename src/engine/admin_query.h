// A query of the admin port about counters. An HTTP thread creates it and waits for it; a worker's
// engine runs it in rounds, each a batch that the store answers like a batch of requests, so a
// worker is never busy with it for longer than that. The two threads share the object: it belongs
// to the worker until `await` says that it is answered.
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

// What a query uses to plan a round and to read its answers.
struct QueryContext {
  base::Time now;
  const store::Store& store;
  const policy::Overrides* overrides;  // null: there are none; for lookups while planning
};

class AdminQuery : public BatchOwner {
 public:
  // A query under the rules of `policy`, which the query keeps alive.
  explicit AdminQuery(std::shared_ptr<const live::LivePolicy> policy)
      : policy_(std::move(policy)) {}
  const live::LivePolicy& policy() const { return *policy_; }

 protected:
  // Plans the next round in `plan`, which holds the answers of the round before. False: there is no
  // further round. Called on the worker's thread; a round has at most some hundred counters.
  virtual bool next(policy::Plan& plan, const QueryContext& asking) = 0;
  // Does it change counters, so that its answer has to wait for the commit?
  virtual bool changes() const { return false; }

 private:
  friend class Engine;
  friend class AdminQueries;
  void resume(Batch& batch) final;

  const std::shared_ptr<const live::LivePolicy> policy_;
  std::promise<void> answered_;
  uint64_t commit_seq_ = 0;          // store::Committer::commit_seq of its changes
  std::shared_ptr<void> under_way_;  // counts it as under way
  // The engine's.
  Engine* engine_ = nullptr;
  Batch* batch_ = nullptr;
};

// Brings queries to workers and waits for them. Owned by the server; outlives the threads that
// ask.
class AdminQueries {
 public:
  // Hands a query to a worker's engine. Called on any thread.
  using Post = std::function<void(std::shared_ptr<AdminQuery>)>;
  // Both outlive this object.
  AdminQueries(store::Store& store, TableScanner& scanner)
      : committer_(store.committer()), scanner_(scanner) {}
  // Must be called before the first query.
  void set_post(Post post) { post_ = std::move(post); }

  enum class Outcome : uint8_t {
    answered,
    late,      // no answer in time; its changes may still be made
    lost,      // its changes were made, and could not be committed
    too_many,  // base::bounds::queries_max are under way
    failed,    // the store could not read its counters
    stopping,  // the server is
  };
  // Blocks until there is an outcome. Not for a worker's thread.
  Outcome ask(std::shared_ptr<AdminQuery> query);
  // Runs store::Catalog::scan_page on the scanner's thread. Blocks as `ask` does.
  Outcome list(std::shared_ptr<const request::SpaceIndex> spaces, std::string prefix,
               std::string after, size_t max, std::string from, store::ScanPage& stored);

  // Ends all queries, as the workers are gone: each returns `stopping`. After it returns no query
  // is posted. Any thread.
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
