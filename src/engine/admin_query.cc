#include "engine/admin_query.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/bounds.h"
#include "engine/engine.h"
#include "engine/lists.h"

namespace sluice::engine {

namespace {

constexpr auto answer_limit = std::chrono::seconds(5), list_limit = std::chrono::seconds(30);
// How often a waiting query checks whether the server has stopped.
constexpr auto look_up_every = std::chrono::milliseconds(20);
constexpr auto look_for_commit_every = std::chrono::milliseconds(1);

}  // namespace

void AdminQuery::resume(Batch&) {
  engine_->continue_query(*this);
}

AdminQueries::Outcome AdminQueries::ask(std::shared_ptr<AdminQuery> query) {
  // A query whose client has gone counts until the store has answered it.
  if (count_->fetch_add(1) >= base::bounds::queries_max) {
    count_->fetch_sub(1);
    return Outcome::too_many;
  }
  query->under_way_ =
      std::shared_ptr<void>(nullptr, [count = count_](void*) { count->fetch_sub(1); });
  const auto deadline = Clock::now() + answer_limit;
  auto answered = query->answered_.get_future();
  {
    const std::lock_guard lock(posting_);
    if (ended_) return Outcome::stopping;
    post_(query);
  }
  const Outcome outcome = await(answered, deadline);
  if (outcome != Outcome::answered || query->commit_seq_ == 0) return outcome;
  return await_commit(query->commit_seq_, deadline);
}

AdminQueries::Outcome AdminQueries::list(std::shared_ptr<const request::SpaceIndex> spaces,
                                         std::string prefix, std::string after, size_t max,
                                         std::string from, store::ScanPage& stored) {
  struct Search {
    std::shared_ptr<const request::SpaceIndex> spaces;
    std::string prefix, after, from;
    store::ScanPage found;
    std::promise<void> done;
    std::atomic<bool> given_up{false};  // set by the thread that waited for it
  };
  if (ended_) return Outcome::stopping;
  auto search = std::make_shared<Search>();
  search->spaces = std::move(spaces);
  search->prefix = std::move(prefix);
  search->after = std::move(after);
  search->from = std::move(from);
  auto done = search->done.get_future();
  const bool begun = scanner_.look([search, max](store::Catalog& store) {
    if (search->given_up) return;
    search->found =
        store.scan_page(*search->spaces, search->prefix, search->after, max, search->from);
    search->done.set_value();
  });
  if (!begun) return ended_ ? Outcome::stopping : Outcome::too_many;
  const Outcome outcome = await(done, Clock::now() + list_limit);
  if (outcome == Outcome::answered)
    stored = std::move(search->found);
  else
    search->given_up = true;
  return outcome;
}

AdminQueries::Outcome AdminQueries::await(std::future<void>& answered,
                                          Clock::time_point deadline) const {
  while (!ended_) {
    const auto until = std::min(deadline, Clock::now() + look_up_every);
    if (answered.wait_until(until) == std::future_status::ready) return Outcome::answered;
    if (Clock::now() >= deadline) return Outcome::late;
  }
  return Outcome::stopping;
}

AdminQueries::Outcome AdminQueries::await_commit(uint64_t commit_seq,
                                                 Clock::time_point deadline) const {
  while (committer_->durable_seq() < commit_seq) {
    if (committer_->failed_seq() >= commit_seq) return Outcome::lost;
    if (ended_) return Outcome::stopping;
    if (Clock::now() >= deadline) return Outcome::late;
    std::this_thread::sleep_for(look_for_commit_every);
  }
  return Outcome::answered;
}

}  // namespace sluice::engine
