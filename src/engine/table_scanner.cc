#include "engine/table_scanner.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/bounds.h"

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
        std::make_shared<Wanted>(Wanted{&space, std::move(prefix), std::move(answer)}));
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

}  // namespace sluice::engine
