#include "engine/lists.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "engine/decision_log.h"
#include "engine/late_replies.h"
#include "engine/verdict.h"
#include "protocol/protocol.h"

namespace sluice::engine {

namespace {

constexpr int niceness = 10;
// How many lists are taken from the queues under one lock, which workers wait for.
constexpr size_t taken_per_lock = 64;

}  // namespace

TableScanner::TableScanner(store::Catalog& store) : store_(store) {}

TableScanner::~TableScanner() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (pass_) pass_->stop();
  }
  work_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TableScanner::list(Owner owner, const request::Space& space, std::string prefix,
                        Answer answer) {
  {
    const std::lock_guard lock(mutex_);
    const auto [at, is_new] = queues_.try_emplace(owner);
    if (is_new) at->second.turn = turns_.insert(turns_.end(), owner);
    at->second.lists.push_back(
        std::make_shared<WantedList>(WantedList{&space, std::move(prefix), std::move(answer)}));
    start();
  }
  work_.notify_one();
}

void TableScanner::cancel(Owner owner) {
  // Their answers may hold the last reference to something, so they are destroyed without the lock.
  std::vector<Shared> gone;
  const std::lock_guard lock(mutex_);
  if (const auto at = queues_.find(owner); at != queues_.end()) {
    for (Shared& wanted : at->second.lists) gone.push_back(std::move(wanted));
    turns_.erase(at->second.turn);
    queues_.erase(at);
  }
  const auto [first, last] = taken_.equal_range(owner);
  for (auto at = first; at != last; ++at) {
    at->second->cancelled = true;
    if (pass_) pass_->cancel(at->second->number);
    gone.push_back(std::move(at->second));
  }
  taken_.erase(first, last);
}

bool TableScanner::look(Job job) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || jobs_.size() >= base::bounds::queries_max) return false;
    jobs_.push_back(std::move(job));
    start();
  }
  work_.notify_one();
  return true;
}

void TableScanner::start() {
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
}

void TableScanner::run() {
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), niceness);
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || !jobs_.empty() || !turns_.empty(); });
    if (stopping_) return;
    if (!jobs_.empty() && (job_is_next_ || turns_.empty())) {
      job_is_next_ = false;
      const Job job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job(store_);
      lock.lock();
      continue;
    }
    job_is_next_ = true;
    lock.unlock();
    if (begin_pass()) {
      store_.list_all(*pass_);
      answer_pass();
    }
    lock.lock();
  }
}

// Takes lists from the queues, one of each owner in turn, `most` in all.
std::vector<TableScanner::Shared> TableScanner::take_some(size_t most) {
  std::vector<Shared> some;
  some.reserve(most);
  const std::lock_guard lock(mutex_);
  while (!stopping_ && !turns_.empty() && some.size() < most) {
    const Owner owner = turns_.front();
    Queue& queue = queues_.at(owner);
    some.push_back(queue.lists.front());
    taken_.emplace(owner, std::move(queue.lists.front()));
    queue.lists.pop_front();
    if (queue.lists.empty()) {
      turns_.erase(queue.turn);
      queues_.erase(owner);
    } else {
      turns_.splice(turns_.end(), turns_, queue.turn);
    }
  }
  return some;
}

// Takes lists until there is none left or the pass has enough. Holds the lock only for moments.
// False: the scanner must end.
bool TableScanner::begin_pass() {
  auto pass = std::make_unique<store::ListPass>(store::ListPass::Bounds{
      .keys = base::bounds::listed_max, .bytes = base::bounds::listed_bytes_max});
  std::vector<Shared> all;
  while (pass->size() < base::bounds::lists_per_pass_max) {
    const size_t room = base::bounds::lists_per_pass_max - pass->size();
    const auto some = take_some(std::min(room, taken_per_lock));
    if (some.empty()) break;
    for (const Shared& wanted : some) wanted->number = pass->add(*wanted->space, wanted->prefix);
    all.insert(all.end(), some.begin(), some.end());
  }
  const std::lock_guard lock(mutex_);
  if (stopping_) return false;
  pass_ = std::move(pass);
  for (const Shared& wanted : all)
    if (wanted->cancelled) pass_->cancel(wanted->number);
  return true;
}

// Called without the lock: an answer may lead to another list.
void TableScanner::answer_pass() {
  std::unique_ptr<store::ListPass> pass;
  std::unordered_multimap<Owner, Shared> taken;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    pass = std::move(pass_);
    taken = std::exchange(taken_, {});
  }
  std::vector<Found> found(pass->size());
  for (size_t i = 0; i < found.size(); ++i)
    found[i] = {std::make_shared<const std::vector<std::string>>(pass->take(i)), pass->failed(i)};
  for (auto& [owner, wanted] : taken) wanted->answer(found[wanted->number]);
}

using request::Ticket;
using request::Verb;

// One list, from its request to its reply. See the table in the header.
struct Lists::OpenList final : BatchOwner, std::enable_shared_from_this<Lists::OpenList> {
  enum class State : uint8_t { wanted, searched, found, read };

  OpenList(Lists& its_lists, ReplySink& its_sink) : lists(its_lists), sink(its_sink) {}
  void resume(Batch&) override { lists.read(*this); }

  Lists& lists;
  ReplySink& sink;
  PendingReply asked;
  State state = State::wanted;
  const request::Space* space = nullptr;
  std::shared_ptr<const live::LivePolicy> policy;  // of the rule whose counters are looked for
  std::shared_ptr<const std::vector<std::string>> keys;
  size_t bytes = 0, found_bytes = 0;
  bool failed = false;  // the store could not be looked through
  // asks the store about the keys, one part for each, while the list is read
  Batch* batch = nullptr;
  bool matched = false;
};

struct Lists::Queue {
  explicit Queue(ReplySink& its_sink) : sink(its_sink) {}

  ReplySink& sink;
  std::deque<std::shared_ptr<OpenList>> lists;
  size_t bytes = 0;          // that their requests hold
  bool readable = false;     // it stands in readable_
  std::vector<Ticket> held;  // batches that wait for room for a list
};

namespace {

// How many lists may wait to be read: their keys take no more bytes together than those of lists
// that cannot be sent yet.
constexpr size_t readable_lists_max =
    base::bounds::found_bytes_max / base::bounds::listed_bytes_max;

size_t bytes_of(const std::vector<std::string>& keys) {
  size_t sum = 0;
  for (const std::string& key : keys) sum += sizeof key + key.size();
  return sum;
}

}  // namespace

Lists::Lists(Decider& decider) : decider_(decider) {}
Lists::~Lists() = default;

Lists::Queue* Lists::queue_of(ReplySink& sink) {
  const auto at = queues_.find(&sink);
  return at == queues_.end() ? nullptr : at->second.get();
}

Lists::Started Lists::start(const Batch& batch, const request::Request& request,
                            request::Verdict& verdict) {
  const auto descriptor = batch.requests.descriptor(request);
  SLUICE_CHECK(!descriptor.empty());  // the last entry is the beginning of the keys
  ReplySink* const sink = batch.sink;
  std::string_view error;
  const policy::Rule* const rule = decider_.rules().decider(
      protocol::dialect_of(batch.protocol), descriptor.first(descriptor.size() - 1), error);
  const bool begins = rule != nullptr && decider_.deps().scanner != nullptr && sink != nullptr;
  if (begins && sink->is_leaving()) return Started::begun;
  if (begins) {
    auto& queue = queues_[sink];
    if (queue == nullptr) queue = std::make_shared<Queue>(*sink);
    const bool has_room =
        queue->lists.empty() || (queue->lists.size() < base::bounds::lists_per_connection_max &&
                                 queue->bytes < base::bounds::list_bytes_per_connection_max);
    if (!has_room || bytes_ >= base::bounds::list_bytes_max) {
      if (has_room && queue->held.empty()) held_.push_back(sink);
      queue->held.push_back(batch.ticket);
      return Started::no_room;
    }
  }
  if (decider_.log().should_log(spdlog::level::debug))
    log_decision(decider_.log(), batch, request, batch.plan.parts()[batch.next]);
  if (!begins) {
    verdict.allowed = verdict.matched = rule != nullptr;
    return Started::answered;
  }
  Queue& queue = *queue_of(*sink);
  OpenList& list = *queue.lists.emplace_back(std::make_shared<OpenList>(*this, *sink));
  list.asked.copy(batch.protocol, request, descriptor);
  list.asked.since = decider_.now();
  list.space = rule->space;
  list.policy = decider_.policy();
  list.bytes = list.asked.bytes();
  queue.bytes += list.bytes;
  bytes_ += list.bytes;
  search(queue);
  return Started::begun;
}

// Hands all lists of the queue that are `wanted` to the scanner.
void Lists::search(Queue& queue) {
  for (const auto& list : queue.lists) {
    if (list->state != OpenList::State::wanted) continue;
    list->state = OpenList::State::searched;
    decider_.deps().scanner->list(&queue.sink, *list->space, list->asked.descriptor.back().second,
                                  [this, pin = list->policy, weak = list->weak_from_this()](
                                      const TableScanner::Found& found) {
                                    decider_.deps().run([this, weak, found] {
                                      if (const auto its = weak.lock())
                                        on_found(*its, found.keys, found.failed);
                                    });
                                  });
  }
}

void Lists::on_found(OpenList& list, std::shared_ptr<const std::vector<std::string>> keys,
                     bool failed) {
  Queue& queue = *queue_of(list.sink);
  const size_t bytes = bytes_of(*keys);
  // The first list of a sink that can send is read next: what other lists hold does not count
  // against it, only the number of readable lists does. A list without room is searched again
  // later.
  const bool at_once = queue.lists.front().get() == &list && !list.sink.has_unsent();
  const bool crowded = at_once && readable_.size() >= readable_lists_max;
  if (crowded || (!at_once && found_bytes_ + bytes > base::bounds::found_bytes_max)) {
    list.state = OpenList::State::wanted;
    if (crowded) crowded_.push_back(&list.sink);
    return crowded ? void() : proceed(queue);
  }
  list.state = OpenList::State::found;
  list.keys = std::move(keys);
  list.failed = failed;
  list.found_bytes = bytes;
  found_bytes_ += bytes;
  proceed(queue);
}

void Lists::proceed(ReplySink& sink) {
  if (queues_.empty()) return;
  if (Queue* const queue = queue_of(sink)) proceed(*queue);
}

void Lists::proceed(Queue& queue) {
  if (queue.lists.empty() || queue.sink.has_unsent()) return;
  const OpenList& first = *queue.lists.front();
  if (first.state == OpenList::State::wanted) search(queue);
  if (first.state != OpenList::State::found || std::exchange(queue.readable, true)) return;
  readable_.push_back(&queue.sink);
  read_later();
}

void Lists::read_later() {
  if (readable_.empty() || being_read_ >= base::bounds::lists_read_max) return;
  if (!std::exchange(reading_, true)) decider_.deps().run([this] { read_some(); });
}

// Reads one list; then the worker's other work has its turn.
void Lists::read_some() {
  reading_ = false;
  if (readable_.empty() || being_read_ >= base::bounds::lists_read_max) return;
  Queue& queue = *queue_of(*readable_.front());
  readable_.pop_front();
  queue.readable = false;
  if (!queue.sink.has_unsent()) {
    OpenList& list = *queue.lists.front();
    list.state = OpenList::State::read;
    ++being_read_;
    plan(list);
    read(list);
  }
  search_crowded();
  read_later();
}

// Plans a request for each of its keys, by the live rules.
void Lists::plan(OpenList& list) {
  decider_.take_policy();
  list.policy.reset();
  Batch& batch = decider_.batches().open();
  list.batch = &batch;
  batch.policy = decider_.policy();
  const policy::Dialect* const dialect = protocol::dialect_of(list.asked.protocol);
  std::vector<request::Entry> entries = list.asked.entries();
  std::string_view error;
  const policy::Rule* const rule =
      decider_.rules().decider(dialect, std::span(entries).first(entries.size() - 1), error);
  list.matched = rule != nullptr;
  if (rule == nullptr) return;
  const base::Time now = decider_.now();
  entries.back().key = rule->actor.front();
  for (const std::string& key : *list.keys) {
    entries.back().value = key;
    decider_.rules().match(dialect,
                           {.descriptor = entries,
                            .request = {.verb = Verb::peek, .tag = {}},
                            .now = now,
                            .overrides = decider_.overrides()},
                           batch.plan);
  }
}

// Reads the store's answers. Called again each time the store has said `later`.
void Lists::read(OpenList& list) {
  const base::Time now = decider_.now();
  Batch& batch = *list.batch;
  const store::Store& store = decider_.deps().store;
  batch.owner = nullptr;
  if (!decider_.settle_all(batch, now)) {
    batch.owner = &list;
    return;
  }
  const auto parts = batch.plan.parts();
  std::vector<request::Listed> listed;
  for (size_t i = 0; i < parts.size(); ++i) {
    const request::Verdict verdict = verdict_of(batch.plan, parts[i], store);
    if (verdict.tightest == nullptr || !verdict.error.empty() || !verdict.is_counted()) continue;
    // A counter that is full only because of a PUT is left out, as one that does not exist.
    const limit::Decision& d = *verdict.tightest;
    if (d.reset_after == base::never && d.remaining == d.limit) continue;
    listed.push_back({(*list.keys)[i], d});
  }
  request::Verdict verdict;
  verdict.allowed = true;
  verdict.matched = list.matched;
  verdict.listed = listed;
  if (list.failed && listed.empty()) verdict.error = store.message_for(request::Error::store);
  finish(list, verdict, now);
}

// Frees the list's share of the bounds.
void Lists::release(OpenList& list) {
  bytes_ -= list.bytes;
  found_bytes_ -= list.found_bytes;
  if (list.state != OpenList::State::read) return;
  --being_read_;
  decider_.batches().close(*std::exchange(list.batch, nullptr));
}

void Lists::finish(OpenList& list, const request::Verdict& verdict, base::Time now) {
  ReplySink& sink = list.sink;
  const auto its = list.shared_from_this();
  Queue* queue = queue_of(sink);
  queue->lists.pop_front();
  queue->bytes -= list.bytes;
  release(list);
  log_late(decider_.log(), list.asked, verdict, now);
  if (WorkerStats* const stats = decider_.deps().stats)
    stats->late(list.asked.protocol, Verb::list, verdict, {},
                base::Duration{now.us - list.asked.since.us});
  sink.reply_late(list.asked.request, verdict, now);
  // Each of these calls may end the sink, and with it its queue.
  sink.flush_late(false);
  queue = queue_of(sink);
  if (queue != nullptr && !queue->held.empty()) {
    std::erase(held_, &sink);
    resume(std::exchange(queue->held, {}));
    queue = queue_of(sink);
  }
  if (queue != nullptr && queue->lists.empty() && queue->held.empty()) {
    queues_.erase(&sink);
    sink.on_lists_done();
  } else if (queue != nullptr) {
    proceed(*queue);
  }
  resume_held();
  read_later();
}

void Lists::search_crowded() {
  if (crowded_.empty()) return;
  decider_.deps().run([this] {
    for (ReplySink* const sink : std::exchange(crowded_, {})) proceed(*sink);
  });
}

// The sink may go during this, and its other batches with it.
void Lists::resume(const std::vector<Ticket>& held) {
  for (const Ticket ticket : held) {
    Batch* const batch = decider_.batches().find(ticket);
    if (batch != nullptr && batch->owner != nullptr) batch->owner->resume(*batch);
  }
}

void Lists::resume_held() {
  while (!held_.empty() && bytes_ < base::bounds::list_bytes_max) {
    ReplySink& sink = *held_.front();
    held_.pop_front();
    Queue& queue = *queue_of(sink);
    const auto held = std::exchange(queue.held, {});
    if (queue.lists.empty()) queues_.erase(&sink);
    resume(held);
  }
}

// Lists under way included.
void Lists::forget(ReplySink& sink) {
  const auto at = queues_.find(&sink);
  if (at == queues_.end()) return;
  const auto queue = std::move(at->second);
  queues_.erase(at);
  decider_.deps().scanner->cancel(&sink);
  if (queue->readable) std::erase(readable_, &sink);
  if (!queue->held.empty()) std::erase(held_, &sink);
  std::erase(crowded_, &sink);
  for (const auto& list : queue->lists) {
    if (list->state == OpenList::State::read)
      decider_.deps().store.abandon(decider_.completions(), list->batch->ticket);
    release(*list);
  }
  if (!held_.empty()) decider_.deps().run([this] { resume_held(); });
  search_crowded();
  read_later();
}

void Lists::drop(ReplySink& sink) {
  Queue* const queue = queue_of(sink);
  if (queue == nullptr) return;
  const auto held = queue->held;
  forget(sink);
  held.empty() ? sink.on_lists_done() : resume(held);
}

}  // namespace sluice::engine
