#include "keep/kept_core.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <utility>

#include "embed/decisions.h"

namespace sluice::detail {

namespace {

constexpr auto look_again = std::chrono::milliseconds(10);  // whether something is committed

// Threads that are begun while it lives block all signals: those are for the threads of the
// program.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

error storage_error(const base::Problem& problem) {
  return {errc::storage, problem.text};
}

}  // namespace

kept_core::kept_core(durable_options where, std::shared_ptr<core> its_core, limiter its_limiter)
    : where_(std::move(where)), core_(std::move(its_core)), limiter_(std::move(its_limiter)) {}

kept_core::~kept_core() {
  if (journal_ == nullptr) return;
  // A child after fork() has none of the threads, and the files are its parent's.
  if (process_ != getpid()) {
    static_cast<void>(journal_.release());
    if (thread_.joinable()) static_cast<void>(new std::thread(std::move(thread_)));
    return;
  }
  {
    const std::lock_guard lock(ending_mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  if (thread_.joinable()) thread_.join();
  // Where memory runs out it is tried once more: the next failure is told, or lost with its text.
  for (bool again : {true, false}) {
    try {
      const auto kept = commit();
      if (!kept) tell("closed without what could not be written: " + kept.why().message);
      break;
    } catch (...) {
      if (!again) tell("closed without what could not be written: no memory");
    }
  }
  closing_ = true;
}

void kept_core::tell(const std::string& text) const {
  if (!where_.tell) return;
  try {
    where_.tell(where_.directory + ": " + text);
  } catch (...) {  // tell must not throw
  }
}

result<void> kept_core::open() {
  const SignalsBlocked blocked;
  core_->store().keep_changes();
  auto opened =
      disk::Journal::open({.path = where_.directory,
                           .sync = where_.sync,
                           .now = [its = core_.get()] { return embed::internal(its->now()); },
                           .tell = [this](const std::string& line) { tell(line); },
                           .log_counters = store::log_counters_for(core_->store())},
                          core_->spaces());
  if (!opened) return storage_error(opened.problem());
  process_ = getpid();
  journal_ = *std::move(opened);
  if (auto loaded = load(); !loaded) return loaded;
  if (where_.commit_every.count() > 0) thread_ = std::thread([this] { keep_committing(); });
  return {};
}

// The log first, as it is newer than the snapshot.
result<void> kept_core::load() {
  store::EmbeddedStore& table = core_->store();
  uint64_t damaged = 0;
  bool no_memory = false;
  const auto restore = [&](const request::CounterRecord& record, bool newest) {
    const store::Restored restored = table.restore(record, newest);
    damaged += restored == store::Restored::nonsense ? 1 : 0;
    no_memory |= restored == store::Restored::no_memory;
  };
  const base::Done read =
      journal_->replay([&](const request::CounterRecord& record) { restore(record, true); });
  if (!read) return storage_error(read.problem());
  table.set_loading(true);
  uint64_t position = 0;
  do {
    if (!journal_->scan(position,
                        [&](const request::CounterRecord& record) { restore(record, false); }))
      return error{errc::storage, where_.directory +
                                      ": the counters cannot be read; `sluice store check " +
                                      where_.directory + "` says more"};
  } while (position != 0 && !no_memory);
  table.set_loading(false);
  if (no_memory)
    return error{errc::no_memory, where_.directory +
                                      ": holds more counters than options::memory_bytes has room "
                                      "for; raise it"};
  journal_->all_is_loaded({.counters = [this] { return core_->store().stats().counters; },
                           .walk = [this](const auto& visit) { return walk(visit); }});
  if (damaged > 0) tell(std::to_string(damaged) + " counters are damaged and start fresh");
  load_holds();
  return {};
}

// Those of an earlier life end, whether new ones are wanted or not.
void kept_core::load_holds() {
  holds_ = std::make_unique<kept_holds>(core_->store(), *journal_);
  const base::Result<bool> any = holds_->has_any();
  if (any && !*any && core_->how().holds_max == 0) return;
  const base::Result<size_t> unreadable =
      any ? core_->keep_holds(*holds_) : base::Result<size_t>(any.problem());
  if (!unreadable)
    tell("the reservations cannot be read, and are lost: " + unreadable.problem().text);
  else if (*unreadable > 0)
    tell(
        std::to_string(*unreadable) +
        " reservations cannot be read, and are lost: what they held stays taken; were they written "
        "by a newer version?");
}

// For a snapshot, which may only have what is committed.
bool kept_core::walk(const std::function<bool(const request::CounterRecord&)>& visit) {
  if (!core_->store().walk(visit)) return false;
  const uint64_t last = core_->store().changes().last();
  while (committed_.load() < last && !closing_.load()) std::this_thread::sleep_for(look_again);
  return committed_.load() >= last;
}

result<void> kept_core::commit() {
  if (process_ != getpid())
    return error{errc::storage, where_.directory +
                                    ": was opened by the process before fork(), which alone can "
                                    "commit"};
  const uint64_t wanted = core_->store().changes().last();
  while (committed_.load() < wanted) {
    const std::lock_guard lock(commit_);
    if (committed_.load() >= wanted) break;  // another thread has
    if (auto kept = commit_once(); !kept) return kept;
  }
  return {};
}

// With commit_. What failed is in the journal still, and goes first.
result<void> kept_core::commit_once() {
  // What waits for the disk fills the table: counters that equal fresh ones need not be written.
  if (failing_) core_->store().sweep_changed(embed::internal(core_->now()));
  if (!failing_) {
    turned_ =
        core_->store().collect([&](const request::CounterRecord& record) { journal_->add(record); },
                               [&](const request::HoldNote& note) {
                                 const auto& text = note.text();
                                 journal_->add_note(note.name(), text ? &*text : nullptr);
                               });
  }
  failing_ = true;
  if (journal_->pending() > 0)
    if (const base::Done written = journal_->commit(); !written)
      return storage_error(written.problem());
  failing_ = false;
  committed_.store(turned_);
  return {};
}

void kept_core::keep_committing() {
  std::unique_lock lock(ending_mutex_);
  while (!ends_.wait_for(lock, where_.commit_every, [this] { return ending_; })) {
    lock.unlock();
    try {
      if (const auto kept = commit(); !kept) tell(kept.why().message);
    } catch (...) {  // commit() says what that means
    }
    lock.lock();
  }
}

}  // namespace sluice::detail
