// The threads of the durable store beside the workers: committing, and loading stored counters.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/background.h"
#include "durable/durable_store.h"
#include "store/changes.h"

namespace sluice::durable {

using request::Error;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

constexpr auto after_failure = milliseconds(100);  // until a failed commit is tried again
constexpr int commits_at_stop = 20;                // tries, with `after_failure` between them
constexpr auto after_no_memory = milliseconds(10'000);
constexpr int scanning_niceness = 19;
constexpr size_t scanned_per_step = 64;
constexpr auto look_again = milliseconds(10);  // whether something is committed

}  // namespace

void DurableStore::keep_committing() {
  const store::Changes& changes = table_->changes();
  const auto interval = std::chrono::microseconds(options_.interval.us);
  for (;;) {
    const auto began = steady_clock::now();
    const uint32_t called = called_.load();
    const bool stopping = stop_committing_.load();
    const int64_t now = now_us();
    if (failing_.load() || changes.last() > turned_) {
      const bool again = failing_.load();
      const bool committed = commit();
      if (!committed && !stopping) rest(after_failure);
      // After a failure the next commit follows at once, as there is more than an interval's
      // changes to write.
      if (!stopping && (again || !committed)) continue;
    } else if (!stopping && options_.durability == Durability::always) {
      asleep_.store(true);
      if (changes.last() <= turned_) called_.wait(called);
      asleep_.store(false);
      continue;
    } else {
      committed_since_us_.store(now);  // nothing had changed, so all is committed
    }
    if (stopping) break;
    if (options_.durability != Durability::interval) continue;
    std::unique_lock lock(loading_mutex_);
    rests_.wait_until(lock, began + interval, [this] { return stopping_ || commits_now_; });
    commits_now_ = false;
  }
  // Commits changes that were made during the last commit, and tries failed ones a last time.
  for (int tries = 0; changes.last() > turned_ || (failing_.load() && journal_->pending() > 0);) {
    if (commit()) continue;
    if (++tries == commits_at_stop) {
      log_->error("{}: stopped without what could not be written", options_.path);
      left_ = true;
      return;
    }
    std::this_thread::sleep_for(after_failure);
  }
}

// Makes one commit. False: it failed, and its changes are kept for the next one.
bool DurableStore::commit() {
  const int64_t began_us = now_us();
  if (!failing_.load()) {
    turned_us_ = began_us;
    turned_ =
        table_->collect([this](const request::CounterRecord& record) { journal_->add(record); },
                        [this](const request::HoldNote& note) {
                          const auto& text = note.text();
                          journal_->add_note(note.name(), text ? &*text : nullptr);
                        });
  }
  const bool pending = journal_->pending() > 0;
  base::Done written;
  if (pending)
    written = journal_->commit();
  else if (failing_.load())
    written = journal_->try_to_write();
  if (written) {
    if (pending) commit_times_.observe(static_cast<uint64_t>(now_us() - began_us));
    durable_seq_.store(turned_);
    committed_since_us_.store(turned_us_);
    failed_seq_.store(0);
    if (failing_.exchange(false)) log_->warn("{}: can be written again", options_.path);
    wake_waiting();
    return true;
  }
  // Decisions that are made from here until workers see `failing_` are given up at the next try.
  failed_seq_.store(table_->changes().last());
  begin_failing(written.problem());
  wake_waiting();
  return false;
}

void DurableStore::begin_failing(const base::Problem& problem) {
  if (failing_.exchange(true)) return;
  log_->error("{}: {}; {}", options_.path, problem.text,
              options_.durability == Durability::always
                  ? "until it can be written, rules are served by their on_store_error"
                  : "until it can be written, counters are kept in memory only");
}

// Waits for `time`, or until it is woken. False: the store stops.
bool DurableStore::rest(milliseconds time) {
  std::unique_lock lock(loading_mutex_);
  return !rests_.wait_for(lock, time, [this] { return stopping_; });
}

void DurableStore::keep_fetching() {
  for (;;) {
    WaitingBatch wanted;
    {
      std::unique_lock lock(loading_mutex_);
      wants_.wait(lock, [this] {
        return stopping_ || !wanted_.empty() || (!loading_.load() && !forgotten_);
      });
      if (stopping_) return;
      if (!loading_.load() && !std::exchange(forgotten_, true))
        journal_->all_is_loaded({.counters = [this] { return table_->stats().counters; },
                                 .walk = [this](const auto& visit) { return walk(visit); }});
      if (wanted_.empty()) continue;
      wanted = std::move(wanted_.front());
      wanted_.pop_front();
      fetching_ = {wanted.completions, wanted.ticket};
    }
    const Error error = fetch(wanted);
    if (wanted.ticket == request::no_ticket || wanted.completions == nullptr) continue;
    // `detach` removes a completion queue under this lock.
    const std::lock_guard waiting(waiting_mutex_);
    if (!waiting_.contains(wanted.completions)) continue;
    if (error != Error::none) {
      const std::lock_guard lock(loading_mutex_);
      if (fetching_ == std::pair(wanted.completions, wanted.ticket))
        failed_.push_back({wanted.completions, wanted.ticket, error});
    }
    wanted.completions->resume_batch(wanted.ticket);
  }
}

Error DurableStore::fetch(const WaitingBatch& wanted) {
  for (const auto& [space, key] : wanted.keys) {
    if (forgotten_) break;  // it is in the table, or known not to exist
    store::Restored restored = store::Restored::yes;
    const auto found = journal_->find(*space, key, [&](const request::CounterRecord& record) {
      restored = table_->restore(record, wanted.now);
    });
    if (found == disk::Journal::Found::failed) return Error::store;
    if (found == disk::Journal::Found::no)
      restored = table_->restore({.space = space, .key = key, .cells = {}}, wanted.now);
    if (restored == store::Restored::no_memory) return Error::memory;
  }
  return Error::none;
}

// Loads all counters, so that afterwards none has to be fetched.
void DurableStore::keep_scanning() {
  // A server that is killed again and again before it has loaded all would never write a snapshot.
  const bool hurries = journal_->is_late();
  if (!hurries) setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), scanning_niceness);
  const auto began = steady_clock::now();
  uint64_t loaded = 0, nonsense = 0;
  for (;;) {
    const Scan scanned = scan(hurries, loaded, nonsense);
    if (scanned == Scan::stopped) return;
    unreadable_.store(scanned == Scan::failed);
    if (scanned == Scan::done) break;
    if (scanned == Scan::no_memory)
      log_->error(
          "{}: there are more counters than store.memory has room for; raise it. Until then each "
          "new counter is looked for on disk, and fails where there is no room",
          options_.path);
    else
      log_->error(
          "{}: the counters cannot be read from disk, and are tried again; see `sluice store check "
          "{}`",
          options_.path, options_.path);
    if (!rest(after_no_memory)) return;
    loaded = nonsense = 0;
  }
  {
    const std::lock_guard lock(loading_mutex_);
    loading_.store(false);
    table_->set_loading(false);
  }
  rests_.notify_all();
  wants_.notify_all();
  if (nonsense > 0)
    log_->error("{}: {} counters are damaged and begin again; see `sluice store check {}`",
                options_.path, nonsense, options_.path);
  if (loaded == 0) return;
  log_->info("{}: {} counters loaded in {} ms", options_.path, loaded,
             std::chrono::duration_cast<milliseconds>(steady_clock::now() - began).count());
}

DurableStore::Scan DurableStore::scan(bool hurries, uint64_t& loaded, uint64_t& nonsense) {
  std::optional<base::Paced> paced;
  if (!hurries) paced.emplace();
  uint64_t position = 0;
  bool no_memory = false;
  do {
    const bool read = journal_->scan(position, [&](const request::CounterRecord& record) {
      const store::Restored restored = table_->restore(record, false);
      if (++loaded % scanned_per_step == 0) base::yield_if_background();
      nonsense += restored == store::Restored::nonsense ? 1 : 0;
      no_memory |= restored == store::Restored::no_memory;
    });
    if (!read) return Scan::failed;
    if (no_memory) return Scan::no_memory;
    const std::lock_guard lock(loading_mutex_);
    if (stopping_) return Scan::stopped;
  } while (position != 0);
  return Scan::done;
}

// For a snapshot: what was visited before its commit may be part of a request whose other counters
// were visited after it, so all of it has to be committed.
bool DurableStore::walk(const std::function<bool(const request::CounterRecord&)>& visit) {
  if (!table_->walk(visit)) return false;
  const uint64_t last = table_->changes().last();
  while (durable_seq_.load() < last && !closing_.load()) std::this_thread::sleep_for(look_again);
  return durable_seq_.load() >= last;
}

}  // namespace sluice::durable
