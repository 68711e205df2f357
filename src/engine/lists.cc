// Lists (limitd's STATUS): which one is begun when, and how its reply comes about.
//
//   wanted    the store has to be looked through
//   searched  the lister has it
//   found     its keys are known; read when it is the first of its recipient's, which has sent all
//   read      the store is asked how these counters stand
//
// A recipient's lists are answered in order, and no list is made for one that is about to go.
// Requests behind a list that has no room wait: their batch is suspended.

#include <algorithm>
#include <utility>

#include "base/bounds.h"
#include "engine/engine.h"
#include "engine/lister.h"
#include "engine/verdict.h"
#include "protocol/protocol.h"

namespace sluice::engine {

using request::Verb;

// One list from its request to its reply; as whose recipient the store's answers come.
struct Engine::List final : Recipient, std::enable_shared_from_this<Engine::List> {
  enum class State : uint8_t { wanted, searched, found, read };

  List(Engine& its_engine, Recipient& its_asker) : engine(its_engine), asker(its_asker) {}
  void reply_late(const request::Request&, const request::Verdict&, base::Time) override {}
  void send_late() override {}
  void go_on() override { engine.read_list(*this); }

  Engine& engine;
  Recipient& asker;
  Parked asked;
  State state = State::wanted;
  const request::Space* space = nullptr;
  // First of the rule whose counters are looked for, then of those by which they are read.
  std::shared_ptr<const live::LivePolicy> policy;
  std::shared_ptr<const std::vector<std::string>> keys;
  size_t bytes = 0, found_bytes = 0;
  bool failed = false;      // the store could not be looked through
  request::Ticket batch{};  // of what the store is asked
  policy::Plan plan;        // a part for each key
  uint32_t settled = 0;
  bool matched = false;
};

struct Engine::ListQueue {
  explicit ListQueue(Recipient& its_asker) : asker(its_asker) {}

  Recipient& asker;
  std::deque<std::shared_ptr<List>> lists;
  size_t bytes = 0;       // of their requests
  bool readable = false;  // it stands in readable_lists_
  bool held = false;      // its batch waits for room for a list
};

namespace {

// Lists that wait to be read: together they hold no more keys than those that cannot be sent yet.
constexpr size_t readable_lists_max =
    base::bounds::found_bytes_max / base::bounds::listed_bytes_max;

size_t bytes_of(const std::vector<std::string>& keys) {
  size_t sum = 0;
  for (const std::string& key : keys) sum += sizeof key + key.size();
  return sum;
}

}  // namespace

Engine::ListQueue* Engine::lists_of(Recipient& recipient) {
  const auto at = lists_.find(&recipient);
  return at == lists_.end() ? nullptr : at->second.get();
}

// all: it has its reply, or will have. later: it has to wait until there is room. ended: the
// session ends.
Served Engine::start_list(const Progress& p, const request::Requests& requests,
                          const request::Request& request, base::Buffer& out) {
  const auto descriptor = requests.descriptor(request);
  request::Verdict verdict;
  std::string_view error;
  const policy::Rule* const rule =
      rules_->decider(protocol::dialect_of(p.protocol), descriptor, error);
  const bool begins = rule != nullptr && lister_ != nullptr && p.recipient != nullptr;
  if (begins && p.recipient->is_leaving()) return Served::all;
  if (begins) {
    auto& queue = lists_[p.recipient];
    if (queue == nullptr) queue = std::make_shared<ListQueue>(*p.recipient);
    const bool has_room =
        queue->lists.empty() || (queue->lists.size() < base::bounds::lists_per_connection_max &&
                                 queue->bytes < base::bounds::list_bytes_per_connection_max);
    if (!has_room || list_bytes_ >= base::bounds::list_bytes_max) {
      const bool was_held = std::exchange(queue->held, true);
      if (has_room && !was_held) held_lists_.push_back(p.recipient);
      return Served::later;
    }
  }
  if (log_->should_log(spdlog::level::debug))
    tell(p.protocol, request.verb, descriptor, p.session->id_of(request), plan_.parts()[p.next],
         p.began);
  if (!begins) {
    verdict.allowed = verdict.matched = rule != nullptr;
    if (tally_ != nullptr) tally_->answered(p.protocol, request.verb, verdict);
    return p.session->reply(request, verdict, p.now, out) ? Served::all : Served::ended;
  }
  ListQueue& queue = *lists_of(*p.recipient);
  List& list = *queue.lists.emplace_back(std::make_shared<List>(*this, *p.recipient));
  list.asked.copy(p.protocol, request, descriptor);
  list.asked.since = clock_.now();
  list.space = rule->space;
  list.policy = policy_;
  list.bytes = list.asked.bytes();
  queue.bytes += list.bytes;
  list_bytes_ += list.bytes;
  search(queue);
  return Served::all;
}

// Has the lister look for all that nobody has looked for.
void Engine::search(ListQueue& queue) {
  for (const auto& list : queue.lists) {
    if (list->state != List::State::wanted) continue;
    list->state = List::State::searched;
    lister_->list(
        &queue.asker, *list->space, list->asked.prefix,
        [this, pin = list->policy, weak = list->weak_from_this()](const Lister::Found& found) {
          run_([this, weak, found] {
            if (const auto its = weak.lock()) on_found(*its, found.keys, found.failed);
          });
        });
  }
}

void Engine::on_found(List& list, std::shared_ptr<const std::vector<std::string>> keys,
                      bool failed) {
  ListQueue& queue = *lists_of(list.asker);
  const size_t bytes = bytes_of(*keys);
  // A recipient's first is about to be read, so what others hold must not keep it from that; only
  // so many are. It is looked for again when one of them has had its turn.
  const bool at_once = queue.lists.front().get() == &list && !list.asker.has_unsent();
  const bool crowded = at_once && readable_lists_.size() >= readable_lists_max;
  if (crowded || (!at_once && found_bytes_ + bytes > base::bounds::found_bytes_max)) {
    list.state = List::State::wanted;
    if (crowded) crowded_lists_.push_back(&list.asker);
    return crowded ? void() : continue_lists(queue);
  }
  list.state = List::State::found;
  list.keys = std::move(keys);
  list.failed = failed;
  list.found_bytes = bytes;
  found_bytes_ += bytes;
  continue_lists(queue);
}

void Engine::continue_lists(Recipient& recipient) {
  if (lists_.empty()) return;
  if (ListQueue* const queue = lists_of(recipient)) continue_lists(*queue);
}

void Engine::continue_lists(ListQueue& queue) {
  if (queue.lists.empty() || queue.asker.has_unsent()) return;
  const List& first = *queue.lists.front();
  if (first.state == List::State::wanted) search(queue);
  if (first.state != List::State::found || std::exchange(queue.readable, true)) return;
  readable_lists_.push_back(&queue.asker);
  read_lists_later();
}

void Engine::read_lists_later() {
  if (readable_lists_.empty() || lists_read_ >= base::bounds::lists_read_max) return;
  if (!std::exchange(reading_lists_, true)) run_([this] { read_some_lists(); });
}

// One, before others of the worker's loop have their turn.
void Engine::read_some_lists() {
  reading_lists_ = false;
  if (readable_lists_.empty() || lists_read_ >= base::bounds::lists_read_max) return;
  ListQueue& queue = *lists_of(*readable_lists_.front());
  readable_lists_.pop_front();
  queue.readable = false;
  if (!queue.asker.has_unsent()) {
    List& list = *queue.lists.front();
    list.state = List::State::read;
    ++lists_read_;
    plan_list(list);
    read_list(list);
  }
  search_crowded();
  read_lists_later();
}

// As a request for each of its keys, by the rules that are live now.
void Engine::plan_list(List& list) {
  take_policy();
  list.policy = policy_;
  list.batch = new_ticket();
  const policy::Dialect* const dialect = protocol::dialect_of(list.asked.protocol);
  std::vector<request::Entry> entries = list.asked.entries();
  std::string_view error;
  const policy::Rule* const rule = rules_->decider(dialect, entries, error);
  list.matched = rule != nullptr;
  if (rule == nullptr) return;
  const base::Time now = clock_.now();
  entries.push_back({rule->actor.front(), {}});
  for (const std::string& key : *list.keys) {
    entries.back().value = key;
    rules_->match(dialect,
                  {.descriptor = entries, .verb = Verb::peek, .now = now, .overrides = overrides()},
                  list.plan);
  }
}

// With what the store answers; as often as it says that it will answer later.
void Engine::read_list(List& list) {
  const base::Time now = clock_.now();
  std::swap(plan_, list.plan);
  std::swap(settled_, list.settled);
  pin_ = &list.policy;
  waiting_[list.batch.slot].recipient = nullptr;
  const auto parts = plan_.parts();
  const bool answered = parts.empty() || settle(parts.back().groups_end, now, list.batch);
  std::vector<request::Listed> listed;
  for (size_t i = 0; answered && i < parts.size(); ++i) {
    const request::Verdict verdict = verdict_of(plan_, parts[i], store_);
    if (verdict.tightest == nullptr || !verdict.error.empty() || !verdict.counted) continue;
    // One that is full and would not have been otherwise without a put is as if it were not.
    const limit::Decision& d = *verdict.tightest;
    if (d.reset_after == base::never && d.remaining == d.limit) continue;
    listed.push_back({(*list.keys)[i], d});
  }
  std::swap(plan_, list.plan);
  std::swap(settled_, list.settled);
  pin_ = &policy_;
  if (!answered) {
    waiting_[list.batch.slot].recipient = &list;
    return;
  }
  request::Verdict verdict;
  verdict.allowed = true;
  verdict.matched = list.matched;
  verdict.listed = listed;
  if (list.failed && listed.empty()) verdict.error = store_.words_of(request::Error::store);
  finish_list(list, verdict, now);
}

// What it takes is free again.
void Engine::release(List& list) {
  list_bytes_ -= list.bytes;
  found_bytes_ -= list.found_bytes;
  if (list.state != List::State::read) return;
  --lists_read_;
  free_ticket(list.batch);
}

void Engine::finish_list(List& list, const request::Verdict& verdict, base::Time now) {
  Recipient& asker = list.asker;
  const auto its = list.shared_from_this();
  ListQueue* queue = lists_of(asker);
  queue->lists.pop_front();
  queue->bytes -= list.bytes;
  release(list);
  tell_late(list.asked, verdict, now);
  if (tally_ != nullptr)
    tally_->late(list.asked.protocol, Verb::list, verdict, {},
                 base::Duration{now.us - list.asked.since.us});
  strict_ = false;
  asker.reply_late(list.asked.request, verdict, now);
  // Each of these may be the end of the asker, and then there is no queue of its own any more.
  asker.send_late();
  queue = lists_of(asker);
  if (queue != nullptr && std::exchange(queue->held, false)) {
    std::erase(held_lists_, &asker);
    asker.go_on();
    queue = lists_of(asker);
  }
  if (queue != nullptr && queue->lists.empty() && !queue->held) {
    lists_.erase(&asker);
    asker.on_lists_done();
  } else if (queue != nullptr) {
    continue_lists(*queue);
  }
  resume_held();
  read_lists_later();
}

void Engine::search_crowded() {
  if (crowded_lists_.empty()) return;
  run_([this] {
    for (Recipient* const asker : std::exchange(crowded_lists_, {})) continue_lists(*asker);
  });
}

void Engine::resume_held() {
  while (!held_lists_.empty() && list_bytes_ < base::bounds::list_bytes_max) {
    Recipient& asker = *held_lists_.front();
    held_lists_.pop_front();
    ListQueue& queue = *lists_of(asker);
    queue.held = false;
    if (queue.lists.empty()) lists_.erase(&asker);
    asker.go_on();
  }
}

// Its lists end, also those under way.
void Engine::forget_lists(Recipient& recipient) {
  const auto at = lists_.find(&recipient);
  const auto queue = std::move(at->second);
  lists_.erase(at);
  lister_->cancel(&recipient);
  if (queue->readable) std::erase(readable_lists_, &recipient);
  if (queue->held) std::erase(held_lists_, &recipient);
  std::erase(crowded_lists_, &recipient);
  for (const auto& list : queue->lists) {
    if (list->state == List::State::read) store_.abandon(port_, list->batch);
    release(*list);
  }
  if (!held_lists_.empty()) run_([this] { resume_held(); });
  search_crowded();
  read_lists_later();
}

void Engine::drop_lists(Recipient& recipient) {
  ListQueue* const queue = lists_of(recipient);
  if (queue == nullptr) return;
  const bool held = queue->held;
  forget_lists(recipient);
  held ? recipient.go_on() : recipient.on_lists_done();
}

}  // namespace sluice::engine
