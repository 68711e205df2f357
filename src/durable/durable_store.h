// The store whose counters survive a restart: the table in memory decides, and a thread commits its
// changes to a journal on disk. Workers never read the disk: while counters are loaded after a
// start, a thread fetches a counter that is not in the table yet, and its request waits. Owned by
// main; docs/durability.md says what is promised.
#pragma once

#include <spdlog/logger.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "metrics/cells.h"
#include "metrics/page.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/log/journal.h"
#include "store/metadata_store.h"
#include "store/notes.h"
#include "store/store.h"

namespace sluice::durable {

enum class Durability : uint8_t {
  interval,  // committed once in an interval
  always,    // committed before it is answered
};

struct DurableOptions {
  std::string path;  // of the journal
  Durability durability = Durability::interval;
  base::Duration interval = base::milliseconds(100);
  bool sync = false;      // a commit waits until the medium has the data
  base::Duration wait{};  // for another process that has the journal, at most
};

inline constexpr std::array<uint64_t, 15> commit_bounds_us{
    50,     100,    200,     500,     1'000,   2'000,     5'000,    10'000,
    20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 5'000'000};

// An id of a charge (request::ChargeId) is kept as a counter of a space of its own, in the same
// commit as the charge: a fixed window that tells the content of the charge by what was taken from
// it, and is forgotten with its end. So a charge whose answer was lost in a crash is found again.
class DurableStore final : public store::Store,
                           public store::Committer,
                           public store::Catalog,
                           public store::Notes,
                           public metrics::Source {
 public:
  // Opens the journal and loads what its log has; the counters of its snapshot are loaded
  // gradually. `table` must be empty. `now` is called on any thread.
  static base::Result<std::unique_ptr<DurableStore>> open(
      const DurableOptions& options, std::unique_ptr<store::EmbeddedStore> table,
      request::Spaces& spaces, std::function<base::Time()> now,
      std::shared_ptr<spdlog::logger> log);
  // The same with a journal that is already open. `spaces` outlives the store. For tests.
  DurableStore(const DurableOptions& options, std::unique_ptr<store::EmbeddedStore> table,
               std::unique_ptr<disk::Journal> journal, request::Spaces& spaces,
               std::shared_ptr<spdlog::logger> log);
  base::Done start();
  // Commits the last changes. All completion queues must be detached before.
  ~DurableStore() override;

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions = nullptr, const store::Pin& pin = {},
                       request::Ticket ticket = request::no_ticket) override;
  void abandon(store::CompletionQueue& completions, request::Ticket ticket) override;
  store::Notes* notes() override { return this; }
  base::Done read(const store::VisitNote& visit) override { return journal_->read_notes(visit); }
  void hold_again(const request::Space& space, std::string_view key, size_t parts,
                  const limit::Given& given) override {
    table_->hold_again(space, key, parts, given);
  }
  void append_list(std::string& out, const request::Space& space,
                   std::span<const limit::Limit> limits) const override;
  bool parse_list(std::string_view text, request::Space& space,
                  std::vector<limit::Limit>& limits) const override;
  request::Error keep(request::HoldNote& note) override;
  bool answers_at_once() const override { return !loading_.load(std::memory_order_acquire); }
  bool commits_first() const override { return options_.durability == Durability::always; }
  uint64_t commit_seq(bool needs_commit = false) const override;
  uint64_t durable_seq() const override { return durable_seq_.load(); }
  uint64_t failed_seq() const override { return failed_seq_.load(); }
  bool await_commit(store::CompletionQueue& completions) override;
  void attach(store::CompletionQueue& completions, net::Loop* loop) override;
  std::string_view message_for(request::Error error) const override;
  std::optional<base::Time> advance(store::CompletionQueue& completions, base::Time now) override;
  bool cancel(store::CompletionQueue& completions, request::Ticket ticket, base::Time now) override;
  // Waits until everything is loaded.
  void end_lists() override;
  bool close() override;
  std::vector<std::string> list(const request::Space& space, std::string_view prefix,
                                size_t max) override;
  void list_all(store::ListPass& pass) override;
  store::ScanPage scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                            std::string_view after, size_t max, std::string_view from) override;
  void housekeep(base::Time now) override;
  size_t purge(base::Time now) override;
  bool mark_named(request::Marks& marks, bool first) override;
  store::Stats stats() const override;
  store::KindFigures kind_figures() const override;
  std::string why_not_ready() const override;
  std::string why_degraded() const override;
  void collect(metrics::Page& page) const override;

  // A copy on which a server can be started (disk::Journal::backup), of what was answered before
  // the call. A problem: that cannot be committed. Blocks, for seconds at most; any thread.
  base::Done backup(const std::string& target);
  // The texts that are stored beside the counters; null: the journal has no place for them. Lives
  // as long as the store.
  store::MetadataStore* metadata() { return journal_->metadata(); }

 private:
  // A batch with counters that must be fetched.
  struct WaitingBatch {
    store::CompletionQueue* completions;
    request::Ticket ticket;
    base::Time now;  // the time of its request
    std::vector<std::pair<const request::Space*, std::string>> keys;
  };

  // Why a batch could not get its counters.
  struct Failed {
    store::CompletionQueue* completions;
    request::Ticket ticket;
    request::Error error;
  };

  base::Done replay();
  bool await_loaded();
  store::Applied apply_settled(const request::Batch& batch, base::Time now,
                               store::CompletionQueue* completions, const store::Pin& pin,
                               request::Ticket ticket);
  store::Applied apply_with_ids(const request::Batch& batch, base::Time now,
                                store::CompletionQueue* completions, const store::Pin& pin,
                                request::Ticket ticket);
  bool apply_once(size_t at, const request::Batch& batch, base::Time now,
                  store::CompletionQueue* completions, const store::Pin& pin,
                  request::Ticket ticket);
  store::Applied apply_loading(const request::Batch& batch, base::Time now,
                               store::CompletionQueue* completions, const store::Pin& pin,
                               request::Ticket ticket);
  store::Applied apply_failing(const request::Batch& batch, base::Time now,
                               store::CompletionQueue* completions, const store::Pin& pin);
  bool want(const request::Batch& batch, const request::Group& group, base::Time now,
            store::CompletionQueue* completions, request::Ticket ticket);
  bool is_behind() const;
  static int64_t now_us();  // of a clock that is never set
  bool needs_no_disk(const request::Batch& batch, const request::Group& group) const;
  request::Error take_failure(store::CompletionQueue* completions, request::Ticket ticket);
  void changed();
  void know(store::CompletionQueue& completions);

  void keep_committing();
  bool commit();
  void begin_failing(const base::Problem& problem);
  void wake_waiting();
  void keep_fetching();
  request::Error fetch(const WaitingBatch& wanted);
  void keep_scanning();
  enum class Scan { done, no_memory, failed, stopped };
  Scan scan(bool hurries, uint64_t& loaded, uint64_t& nonsense);
  bool walk(const std::function<bool(const request::CounterRecord&)>& visit);
  bool rest(std::chrono::milliseconds time);

  const DurableOptions options_;
  const request::SpaceRef ids_;          // of the ids of charges
  const request::LimitsRef ids_limits_;  // their list: of one limit
  const std::unique_ptr<store::EmbeddedStore> table_;
  const std::unique_ptr<disk::Journal> journal_;
  const std::shared_ptr<spdlog::logger> log_;

  // Commit numbers, as in store::Changes.
  std::atomic<uint64_t> durable_seq_{0}, failed_seq_{0};
  // Decisions that were answered before this time are committed; as now_us().
  std::atomic<int64_t> committed_since_us_{now_us()};
  std::atomic<bool> failing_{false};     // the last commit failed
  std::atomic<bool> unreadable_{false};  // the last pass through the stored counters failed
  // when collecting for `turned_` began; committing thread only, as is the next
  int64_t turned_us_ = 0;
  uint64_t turned_ = 0;  // the commit under way, or the last one
  metrics::Histogram<commit_bounds_us.size()> commit_times_{commit_bounds_us};  // the committer's
  std::atomic<bool> asleep_{false};  // the committing thread sleeps until `called_` changes
  std::atomic<uint32_t> called_{0};
  std::mutex waiting_mutex_;
  // queues that have ever waited for a commit
  std::unordered_set<store::CompletionQueue*> waiting_;

  std::atomic<bool> loading_{false};
  bool marking_ = false;      // mark_named has begun; housekeeping thread only
  bool forgotten_ = false;    // the journal knows that all is loaded; fetching thread only
  std::mutex loading_mutex_;  // of the three below
  std::condition_variable wants_, rests_;
  std::deque<WaitingBatch> wanted_;
  std::vector<Failed> failed_;
  bool stopping_ = false, no_lists_ = false;
  bool commits_now_ = false;  // a copy waits for it
  std::pair<store::CompletionQueue*, request::Ticket>
      fetching_;  // the batch whose counters are being fetched
  std::atomic<bool> stop_committing_{false};
  std::atomic<bool> closing_{false};    // nothing waits for a commit any more
  bool closed_ = false, left_ = false;  // main thread only; left_: some changes were not committed
  std::thread committer_, fetcher_, scanner_;
};

}  // namespace sluice::durable
