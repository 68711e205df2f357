#include "durable/durable_store.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/machine.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/charge_ids.h"
#include "store/changes.h"
#include "store/fallback.h"
#include "store/log/format.h"

namespace sluice::durable {

using request::Charge;
using request::Error;
using request::Group;
using request::OnError;
using request::Ticket;

namespace {

constexpr size_t replaying_max = 4;  // threads

// The counters of ids: `charge-id:USER:ID`. Each is forgotten when its window ends.
constexpr std::string_view ids_prefix = "charge-id:";
constexpr limit::Limit id_limit{limit::Algorithm::fixed_window, limit::used_max,
                                request::ChargeIds::Bounds().remember, 0};

// The units that tell a content: never 0, and no more than the limit has.
constexpr int64_t units_of(uint64_t content) {
  return 1 + static_cast<int64_t>(content % static_cast<uint64_t>(limit::used_max));
}

// Answers a group whose counters could not be fetched by its rules' on_store_error; OnError::local
// cannot be used, as their states are unknown. A parked group leaves its queue first, unless it has
// its answer already.
void answer_unfetched(Group& group, const request::Batch& batch, Error error, base::Time now,
                      store::EmbeddedStore& table, store::CompletionQueue* completions) {
  const bool is_parked = group.arrival != 0 && completions->find_parked(group.ticket) != nullptr;
  if (is_parked && !table.cancel(*completions, group.ticket, now)) {
    group.allowed = group.parked = false;
    group.error = Error::none;
    group.answered = true;
    return;
  }
  store::fall_back(group, batch, error, now);
}

}  // namespace

base::Result<std::unique_ptr<DurableStore>> DurableStore::open(
    const DurableOptions& options, std::unique_ptr<store::EmbeddedStore> table,
    request::Spaces& spaces, std::function<base::Time()> now, std::shared_ptr<spdlog::logger> log) {
  auto journal =
      disk::Journal::open({.path = options.path,
                           .sync = options.sync,
                           .wait = options.wait,
                           .now = std::move(now),
                           .tell = [&](const std::string& line) { log->warn("{}", line); },
                           .log_counters = store::log_counters_for(*table)},
                          spaces);
  if (!journal) return std::move(journal).problem();
  auto store = std::make_unique<DurableStore>(options, std::move(table), *std::move(journal),
                                              spaces, std::move(log));
  if (base::Done started = store->start(); !started) return std::move(started).problem();
  return store;
}

DurableStore::DurableStore(const DurableOptions& options,
                           std::unique_ptr<store::EmbeddedStore> table,
                           std::unique_ptr<disk::Journal> journal, request::Spaces& spaces,
                           std::shared_ptr<spdlog::logger> log)
    : Store(*this, this),
      options_(options),
      ids_(spaces.hold(std::string(ids_prefix), "", request::Space())),
      ids_limits_(spaces.hold_limits({&id_limit, 1})),
      table_(std::move(table)),
      journal_(std::move(journal)),
      log_(std::move(log)) {
  table_->keep_changes();
}

base::Done DurableStore::start() {
  if (base::Done replayed = replay(); !replayed) return replayed;
  // Stored counters can be served even while the disk is full.
  if (const base::Done written = journal_->try_to_write(); !written)
    begin_failing(written.problem());
  loading_ = true;
  table_->set_loading(true);
  fetcher_ = std::thread([this] { keep_fetching(); });
  scanner_ = std::thread([this] { keep_scanning(); });
  committer_ = std::thread([this] { keep_committing(); });
  return {};
}

// Uses several threads, as the start waits for this.
base::Done DurableStore::replay() {
  struct ReplayShare {
    base::Done read;
    bool no_memory = false;
    uint64_t nonsense = 0;
  };
  table_->reserve(journal_->counters_in_log());
  std::vector<ReplayShare> parts(std::min<size_t>(base::processors(), replaying_max));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < parts.size(); ++i) {
    threads.emplace_back([this, i, &parts] {
      ReplayShare& part = parts[i];
      part.read = journal_->replay([&](const request::CounterRecord& record) {
        const store::Restored restored = table_->restore(record, true, {i, parts.size()});
        part.no_memory |= restored == store::Restored::no_memory;
        part.nonsense += restored == store::Restored::nonsense ? 1 : 0;
      });
    });
  }
  for (auto& thread : threads) thread.join();
  uint64_t nonsense = 0;
  base::Done done;
  for (ReplayShare& part : parts) {
    nonsense += part.nonsense;
    if (part.no_memory)
      done = base::Problem{"the counters of " + options_.path +
                           " need more memory than store.memory gives; raise it (--memory)"};
    if (!part.read) done = std::move(part.read);
  }
  if (nonsense > 0)
    log_->error("{}: {} counters are damaged and begin again; see `sluice store check {}`",
                options_.path, nonsense, options_.path);
  return done;
}

DurableStore::~DurableStore() {
  close();
}

bool DurableStore::close() {
  if (std::exchange(closed_, true)) return !left_;
  {
    const std::lock_guard lock(loading_mutex_);
    stopping_ = true;
  }
  wants_.notify_all();
  rests_.notify_all();
  if (fetcher_.joinable()) fetcher_.join();
  if (scanner_.joinable()) scanner_.join();
  stop_committing_ = true;
  called_.fetch_add(1);
  called_.notify_one();
  if (committer_.joinable()) committer_.join();
  closing_ = true;
  return !left_;
}

void DurableStore::end_lists() {
  {
    const std::lock_guard lock(loading_mutex_);
    no_lists_ = true;
  }
  rests_.notify_all();
}

store::Applied DurableStore::apply(const request::Batch& batch, base::Time now,
                                   store::CompletionQueue* completions, const store::Pin& pin,
                                   Ticket ticket) {
  const auto has_id = [](const Group& group) { return group.id != nullptr; };
  if (std::ranges::any_of(batch.groups, has_id)) [[unlikely]]
    return apply_with_ids(batch, now, completions, pin, ticket);
  return apply_settled(batch, now, completions, pin, ticket);
}

// Group by group.
store::Applied DurableStore::apply_with_ids(const request::Batch& batch, base::Time now,
                                            store::CompletionQueue* completions,
                                            const store::Pin& pin, Ticket ticket) {
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    Group& group = batch.groups[i];
    const bool later = group.id != nullptr
                           ? !apply_once(i, batch, now, completions, pin, ticket)
                           : apply_settled({{&group, 1}, batch.charges, batch.decisions}, now,
                                           completions, pin, ticket)
                                 .later;
    if (later) return {.settled = i, .later = true};
    if (group.error != Error::none && !group.may_fail) return {.settled = i + 1};
  }
  return {.settled = batch.groups.size()};
}

namespace {

// What stands for the id of `groups`' first group: the id itself for enforced rules. Each rule in
// shadow has a group of its own before these, told apart by its place among those of the message.
std::string key_of(std::span<const Group> groups) {
  const Group& first = groups.front();
  std::string key(first.id->name);
  if (!first.may_fail) return key;
  uint32_t last = first.charge_first;
  for (const Group& group : groups) {
    if (group.id != first.id) break;
    last = group.charge_first;
  }
  return key.append("#").append(std::to_string(last - first.charge_first));
}

}  // namespace

// Settles charges with their id, or finds that the id is known. False: the store has no answer yet.
bool DurableStore::apply_once(size_t at, const request::Batch& batch, base::Time now,
                              store::CompletionQueue* completions, const store::Pin& pin,
                              Ticket ticket) {
  Group& group = batch.groups[at];
  const std::string key = key_of(batch.groups.subspan(at));
  // Charges, with room for the id behind them. The batch gets what comes of them.
  const auto its = batch.charges.subspan(group.charge_first, group.charge_count);
  std::vector<Charge> charges(its.begin(), its.end());
  size_t decided = 0;
  for (Charge& charge : charges) {
    charge.decision_first = static_cast<uint32_t>(decided);
    decided += charge.keeps_limits ? charge.space->windows.size() : charge.limits.size();
  }
  std::vector<limit::Decision> decisions(decided + 1);
  Charge id;
  id.space = ids_.get();
  id.key = key;
  id.verb = request::Verb::peek;
  id.cost = 0;
  id.limits = {&id_limit, 1};
  id.limits_id = ids_limits_.id();
  id.decision_first = static_cast<uint32_t>(decided);
  charges.push_back(id);

  Group look{.charge_first = static_cast<uint32_t>(its.size()),
             .charge_count = 1,
             .on_error = OnError::error,
             .answer_by = group.answer_by};
  if (apply_settled({{&look, 1}, charges, decisions}, now, completions, pin, ticket).later)
    return false;
  if (look.error != Error::none) {
    store::fall_back(group, batch, look.error, now);
    return true;
  }
  const int64_t known = id_limit.quota - decisions[decided].remaining;
  const int64_t units = units_of(group.id->content);
  group.known = known == 0       ? request::Known::no
                : known == units ? request::Known::yes
                                 : request::Known::other_content;
  if (group.known == request::Known::other_content) return true;
  Group all = group;
  all.charge_first = 0;
  all.id = nullptr;
  if (group.known == request::Known::yes) {
    // They tell how the counters stand.
    for (Charge& charge : charges) {
      charge.cost = 0;
      charge.costs = nullptr;
    }
  } else {
    charges.back().verb = request::Verb::charge;
    charges.back().cost = units;
    ++all.charge_count;
  }
  if (apply_settled({{&all, 1}, charges, decisions}, now, completions, pin, ticket).later)
    return false;
  group.allowed = all.allowed;
  group.error = all.error;
  for (size_t i = 0; i < its.size(); ++i) {
    const Charge& from = charges[i];
    its[i].counted = from.counted;
    its[i].slot_mask = from.slot_mask;
    its[i].dropped = from.dropped;
    std::copy_n(decisions.begin() + from.decision_first, from.decided(),
                batch.decisions.begin() + its[i].decision_first);
  }
  return true;
}

store::Applied DurableStore::apply_settled(const request::Batch& batch, base::Time now,
                                           store::CompletionQueue* completions,
                                           const store::Pin& pin, Ticket ticket) {
  store::Applied applied;
  if (loading_.load(std::memory_order_acquire)) [[unlikely]]
    applied = apply_loading(batch, now, completions, pin, ticket);
  else if (failing_.load(std::memory_order_relaxed)) [[unlikely]]
    applied = apply_failing(batch, now, completions, pin);
  else
    applied = table_->apply(batch, now, completions, pin);
  changed();
  return applied;
}

void DurableStore::append_list(std::string& out, const request::Space& space,
                               std::span<const limit::Limit> limits) const {
  disk::append_list(out, space, limits);
}

bool DurableStore::parse_list(std::string_view text, request::Space& space,
                              std::vector<limit::Limit>& limits) const {
  return disk::parse_list(text, space, limits);
}

Error DurableStore::keep(request::HoldNote& note) {
  if (failing_.load() && options_.durability == Durability::always) return Error::store;
  table_->changes().add_note(store::Changes::note_of(note));
  changed();
  return Error::none;
}

// Replies wait for the next commit, so it must come at once.
void DurableStore::changed() {
  if (options_.durability != Durability::always || !asleep_.load()) return;
  if (table_->changes().last() <= durable_seq_.load()) return;
  if (!asleep_.exchange(false)) return;
  called_.fetch_add(1);
  called_.notify_one();
}

// Settles group by group, as each needs its counters to be loaded.
store::Applied DurableStore::apply_loading(const request::Batch& batch, base::Time now,
                                           store::CompletionQueue* completions,
                                           const store::Pin& pin, Ticket ticket) {
  // Of the first group: it wanted the counters.
  Error failure = take_failure(completions, ticket);
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    Group& group = batch.groups[i];
    const request::Batch one{batch.groups.subspan(i, 1), batch.charges, batch.decisions};
    if (const Error failed = std::exchange(failure, Error::none); failed != Error::none) {
      bool absent = false;
      table_->each_absent(batch, group, [&](const Charge&) { absent = true; });
      if (absent) {
        answer_unfetched(group, batch, failed, now, *table_, completions);
        if (group.error != Error::none && !group.may_fail) return {.settled = i + 1};
        continue;
      }
    }
    if (want(batch, group, now, completions, ticket)) return {.settled = i, .later = true};
    const store::Applied applied = failing_.load() ? apply_failing(one, now, completions, pin)
                                                   : table_->apply(one, now, completions, pin);
    if (applied.settled == 1 && group.error != Error::none && !group.may_fail)
      return {.settled = i + 1};
  }
  return {.settled = batch.groups.size()};
}

// Has the group's missing counters fetched. False: none is missing.
bool DurableStore::want(const request::Batch& batch, const Group& group, base::Time now,
                        store::CompletionQueue* completions, Ticket ticket) {
  WaitingBatch wanted{.completions = completions, .ticket = ticket, .now = now, .keys = {}};
  table_->each_absent(batch, group, [&](const Charge& charge) {
    wanted.keys.emplace_back(charge.space, std::string(charge.key));
  });
  if (wanted.keys.empty()) return false;
  if (completions != nullptr) know(*completions);
  {
    const std::lock_guard lock(loading_mutex_);
    // Without a ticket the caller asks again by itself, so such fetches may be skipped.
    if (ticket != request::no_ticket || wanted_.size() < base::bounds::unnamed_fetches_max)
      wanted_.push_back(std::move(wanted));
  }
  wants_.notify_one();
  return true;
}

Error DurableStore::take_failure(store::CompletionQueue* completions, Ticket ticket) {
  if (ticket == request::no_ticket) return Error::none;
  const std::lock_guard lock(loading_mutex_);
  const auto at = std::find_if(failed_.begin(), failed_.end(), [&](const Failed& f) {
    return f.completions == completions && f.ticket == ticket;
  });
  if (at == failed_.end()) return Error::none;
  const Error error = at->error;
  failed_.erase(at);
  return error;
}

void DurableStore::abandon(store::CompletionQueue& completions, Ticket ticket) {
  const auto its = [&](const auto& x) {
    return x.completions == &completions && x.ticket == ticket;
  };
  const std::lock_guard lock(loading_mutex_);
  std::erase_if(wanted_, its);
  std::erase_if(failed_, its);
  if (fetching_ == std::pair(&completions, ticket)) fetching_ = {};
}

// Used while the disk cannot be written: each rule says what is answered then.
store::Applied DurableStore::apply_failing(const request::Batch& batch, base::Time now,
                                           store::CompletionQueue* completions,
                                           const store::Pin& pin) {
  if (options_.durability != Durability::always) return table_->apply(batch, now, completions, pin);
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    Group& group = batch.groups[i];
    // A group that is parked and asked again has its place in the table already.
    if (group.on_error == OnError::local || group.arrival != 0 || needs_no_disk(batch, group)) {
      table_->apply({batch.groups.subspan(i, 1), batch.charges, batch.decisions}, now, completions,
                    pin);
    } else {
      store::fall_back(group, batch, Error::store, now);
    }
    if (group.error != Error::none && !group.may_fail) return {.settled = i + 1};
  }
  return {.settled = batch.groups.size()};
}

bool DurableStore::needs_no_disk(const request::Batch& batch, const Group& group) const {
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  return std::all_of(charges.begin(), charges.end(), [](const Charge& charge) {
    return request::only_looks(charge.verb) ||
           (!charge.keeps_limits && !limit::is_counted(charge.limits));
  });
}

uint64_t DurableStore::commit_seq(bool needs_commit) const {
  if (options_.durability != Durability::always && !is_behind()) return 0;
  // With durability `always`, a reply that needs its commit was decided before the failure; with
  // `interval` none needs it.
  if (failing_.load(std::memory_order_relaxed) &&
      (!needs_commit || options_.durability != Durability::always))
    return 0;
  const uint64_t last = table_->changes().last();
  return last > durable_seq_.load() ? last : 0;
}

// With `interval` replies do not wait, unless more could be lost than is promised: a reply may be
// sent up to two intervals after the last successful commit began.
bool DurableStore::is_behind() const {
  const int64_t since_us = now_us() - committed_since_us_.load(std::memory_order_relaxed);
  return since_us >= 2 * options_.interval.us;
}

base::Done DurableStore::backup(const std::string& target) {
  constexpr int64_t most_us = 10'000'000, most_failing_us = 1'000'000;
  const int64_t began_us = now_us();
  const uint64_t last = table_->changes().last();
  const bool is_interval = options_.durability == Durability::interval;
  // With `always` nothing is answered that is not committed, unless the disk fails: then some rules
  // are served from memory.
  if (is_interval || failing_.load()) {
    {
      const std::lock_guard lock(loading_mutex_);
      commits_now_ = true;
    }
    rests_.notify_all();
    const auto is_committed = [&] {
      return is_interval ? committed_since_us_.load() >= began_us : durable_seq_.load() >= last;
    };
    while (failing_.load() || !is_committed()) {
      const int64_t waited_us = now_us() - began_us;
      if (failing_.load() && waited_us > most_failing_us)
        return base::Problem{options_.path +
                             ": the disk cannot be written at the moment, so what was answered "
                             "before is not committed and there is no copy; the log says why"};
      if (waited_us > most_us)
        return base::Problem{options_.path +
                             ": what was answered before is not committed after 10 s, so there is "
                             "no copy; try again when the disk is less busy"};
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
  return journal_->backup(target);
}

int64_t DurableStore::now_us() {
  return std::chrono::duration_cast<std::chrono::microseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void DurableStore::know(store::CompletionQueue& completions) {
  if (!completions.introduce()) return;
  const std::lock_guard lock(waiting_mutex_);
  waiting_.insert(&completions);
}

bool DurableStore::await_commit(store::CompletionQueue& completions) {
  know(completions);
  completions.await_commit();
  return std::max(durable_seq_.load(), failed_seq_.load()) < table_->changes().last();
}

void DurableStore::attach(store::CompletionQueue& completions, net::Loop* loop) {
  if (loop != nullptr) return;
  {
    const std::lock_guard lock(waiting_mutex_);
    waiting_.erase(&completions);
  }
  const std::lock_guard lock(loading_mutex_);
  const auto its = [&](const auto& x) { return x.completions == &completions; };
  std::erase_if(wanted_, its);
  std::erase_if(failed_, its);
}

void DurableStore::wake_waiting() {
  const std::lock_guard lock(waiting_mutex_);
  for (store::CompletionQueue* const completions : waiting_) completions->notify_durable();
}

std::string_view DurableStore::message_for(Error error) const {
  if (error == Error::store)
    return "the counters cannot be written to or read from disk; the server's log says why";
  return table_->message_for(error);
}

std::optional<base::Time> DurableStore::advance(store::CompletionQueue& completions,
                                                base::Time now) {
  const auto next = table_->advance(completions, now);
  changed();
  return next;
}

bool DurableStore::cancel(store::CompletionQueue& completions, Ticket ticket, base::Time now) {
  const bool cancelled = table_->cancel(completions, ticket, now);
  changed();
  return cancelled;
}

// Waits until all is loaded. False: it will not be.
bool DurableStore::await_loaded() {
  std::unique_lock lock(loading_mutex_);
  rests_.wait(lock, [this] { return no_lists_ || stopping_ || !loading_.load(); });
  return !no_lists_ && !stopping_;
}

std::vector<std::string> DurableStore::list(const request::Space& space, std::string_view prefix,
                                            size_t max) {
  if (!await_loaded()) return {};
  return table_->list(space, prefix, max);
}

void DurableStore::list_all(store::ListPass& pass) {
  if (await_loaded()) return table_->list_all(pass);
  for (size_t i = 0; i < pass.size(); ++i) pass.fail(i);
}

store::ScanPage DurableStore::scan_page(const request::SpaceIndex& spaces, std::string_view prefix,
                                        std::string_view after, size_t max, std::string_view from) {
  if (!await_loaded()) return {.keys = {}, .failed = true};
  return table_->scan_page(spaces, prefix, after, max, from);
}

std::string DurableStore::why_not_ready() const {
  if (!unreadable_.load()) return {};
  return "the counters that are stored in " + options_.path +
         " cannot be read; look at them with `sluice store check DIR`, repair them with `sluice "
         "store "
         "repair DIR`, or start on a backup";
}

std::string DurableStore::why_degraded() const {
  if (!failing_.load()) return {};
  return "the counters cannot be written to " + options_.path +
         " at the moment; the log says why, and they are tried again without a restart";
}

void DurableStore::housekeep(base::Time now) {
  table_->housekeep(now);
  if (failing_.load()) table_->sweep_changed(now);
}

size_t DurableStore::purge(base::Time now) {
  const size_t gone = table_->purge(now);
  changed();
  return gone;
}

// While counters are being loaded, any spaces and limits that the disk names may come into use.
bool DurableStore::mark_named(request::Marks& marks, bool first) {
  if (first || loading_.load()) marking_ = false;
  if (loading_.load()) return false;
  return table_->mark_named(marks, !std::exchange(marking_, true));
}

store::Stats DurableStore::stats() const {
  store::Stats stats = table_->stats();
  const disk::JournalStats journal = journal_->stats();
  stats.loading = loading_.load();
  stats.failing = failing_.load();
  stats.commits = journal.commits;
  stats.commit_failures = journal.failures;
  stats.committed_counters = journal.counters;
  stats.committed_bytes = journal.bytes;
  stats.log_bytes = journal.log_bytes;
  stats.snapshots = journal.snapshots;
  return stats;
}

store::KindFigures DurableStore::kind_figures() const {
  return {.disk = store::DiskFigures{
              .durability = options_.durability == Durability::always ? "always" : "interval",
              .interval = options_.interval,
              .sync = options_.sync}};
}

void DurableStore::collect(metrics::Page& page) const {
  metrics::Distribution<commit_bounds_us.size()> times;
  commit_times_.add_to(times);
  page.histogram("sluice_commit_seconds",
                 "Time from the beginning of a commit, that is of the collection of what has "
                 "changed, until it was kept.",
                 commit_bounds_us, times.counts, times.sum, 1e6);
}

}  // namespace sluice::durable
