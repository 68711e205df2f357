#include "redis/worker_client.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/gcra.h"
#include "redis/errors.h"
#include "redis/window_text.h"
#include "store/fallback.h"

namespace sluice::redis {

using limit::Decision;
using request::Batch;
using request::Charge;
using request::Error;
using request::Group;
using request::OnError;
using request::Ticket;
using request::Verb;
using store::Applied;

namespace {

bool is_counted(const Charge& charge) {
  return !charge.from_cache && (charge.keeps_limits || limit::is_counted(charge.limits));
}

}  // namespace

WorkerClient::WorkerClient(Shared& shared, store::CompletionQueue& completions, net::Loop& loop,
                           uint64_t seed)
    : shared_(shared),
      completions_(completions),
      first_(*this, shared.first, loop, link_ids_, seed),
      random_(static_cast<std::minstd_rand::result_type>(seed)) {
  if (shared.options.has_second())
    second_ = std::make_unique<Links>(static_cast<LinkOwner&>(*this), shared.second, loop,
                                      link_ids_, seed);
  completions_.wake();  // lets `advance` connect it
}

WorkerClient::~WorkerClient() {
  for (auto& [ticket, waiting] : waiting_) {
    if (!waiting->queue.empty()) shared_.queues.leave(waiting->queue, waiting->arrival);
    if (!waiting->cancelled) shared_.free_place();
  }
  shared_.queues.forget(completions_);
}

WorkerClient::Pending& WorkerClient::pending_of(Ticket ticket, size_t groups, bool& fresh) {
  if (ticket.slot >= pending_.size()) pending_.resize(ticket.slot + 1);
  Pending& pending = pending_[ticket.slot];
  fresh = !pending.open || pending.generation != ticket.generation ||
          pending.answers.size() - pending.done != groups;
  if (fresh) {
    pending.open = true;
    pending.generation = ticket.generation;
    pending.serial = ++serial_;
    pending.done = pending.awaited = 0;
    pending.wrote = false;
    pending.answers.assign(groups, {});
    pending.texts.clear();
  }
  return pending;
}

Applied WorkerClient::apply(const Batch& batch, base::Time now, const store::Pin& pin,
                            Ticket ticket) {
  see(now);
  // Without a ticket the batch cannot be named later: groups that need no Redis are answered, and
  // groups that wait are replaced.
  if (ticket == request::no_ticket) {
    for (size_t i = 0; i < batch.groups.size(); ++i) {
      Group& group = batch.groups[i];
      bool hold = false;
      group.error = Error::none;
      group.allowed = group.parked = group.answered = false;
      const bool settled = settle_without(batch, group, now, hold);
      if (group.arrival == 0) {
        if (settled) continue;
        return {i, true};
      }
      // A group that no counter applies to any more is allowed now, or waits for another policy.
      const bool goes_on =
          settled && group.allowed ? cancel(group.ticket) : park_again(group, batch, pin);
      if (!goes_on) group.answered = true;
    }
    return {batch.groups.size(), false};
  }
  bool fresh;
  Pending& pending = pending_of(ticket, batch.groups.size(), fresh);
  if (fresh) {
    const bool was_idle = first_.is_idle() && (second_ == nullptr || second_->is_idle());
    for (size_t i = 0; i < batch.groups.size(); ++i) ask(batch, i, pending, ticket.slot, now, pin);
    // A deadline needs a timer, which `advance` sets.
    if (pending.awaited > 0 &&
        (was_idle || (!answers_by_.empty() && answers_by_.front().due_us < timer_us_)))
      completions_.wake();
  }
  if (pending.awaited > 0) return {0, true};
  return hand_out(batch, pending, ticket.slot, now, pin, ticket);
}

void WorkerClient::abandon(Ticket ticket) {
  if (ticket.slot >= pending_.size()) return;
  Pending& pending = pending_[ticket.slot];
  if (!pending.open || pending.generation != ticket.generation) return;
  for (const Answer& answer : pending.answers)
    if (answer.what == Answer::What::across) drop_across(answer.at);
  pending.open = false;
  pending.serial = ++serial_;  // answers to the old serial are dropped
}

// Returns the charges that have a counter.
std::span<const Charge> WorkerClient::counted_of(std::span<const Charge> charges) {
  if (std::all_of(charges.begin(), charges.end(), is_counted)) return charges;
  counted_.clear();
  std::copy_if(charges.begin(), charges.end(), std::back_inserter(counted_), is_counted);
  return counted_;
}

std::span<const int64_t> WorkerClient::ahead_of(std::span<const Charge> charges, uint64_t arrival) {
  ahead_.clear();
  if (!shared_.queues.any()) return {};
  for (const Charge& charge : charges) {
    key_.assign(charge.space->prefix).append(charge.key).append(charge.space->suffix);
    const bool sets = charge.verb == Verb::put || charge.reset_first;
    ahead_.push_back(sets ? 0 : shared_.queues.ahead(key_, arrival));
  }
  return ahead_;
}

// Decides the charges that have no counter. True: there are no others, and the group is settled.
// `hold`: one of them refuses.
bool WorkerClient::settle_without(const Batch& batch, Group& group, base::Time now, bool& hold) {
  bool all = true;
  int64_t unused = 0;
  hold = false;
  for (Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    charge.counted = is_counted(charge);
    if (charge.counted) {
      all = false;
      continue;
    }
    if (charge.from_cache) {
      hold = true;
      continue;
    }
    Decision* decision = &batch.decisions[charge.decision_first];
    for (const limit::Limit& limit : charge.limits) {
      if (charge.verb == Verb::put)
        *decision = limit::put(nullptr, limit, charge.cost, charge.all, now, nullptr);
      else if (charge.verb == Verb::peek)
        *decision = limit::peek(nullptr, limit, now);
      else if (charge.verb == Verb::charge)
        *decision = limit::debt::charge(nullptr, limit, charge.cost, now, unused);
      else
        *decision = limit::decide(nullptr, limit, charge.cost, now, nullptr);
      hold |= !decision->allowed;
      ++decision;
    }
  }
  if (all) group.allowed = !hold;
  return all;
}

Error WorkerClient::trouble(const Link* link) {
  if (link != nullptr && link->connection.is_refused()) return Error::auth_failed;
  return Error::store;
}

void WorkerClient::ask(const Batch& batch, size_t i, Pending& pending, uint32_t slot,
                       base::Time now, const store::Pin& pin) {
  Group& group = batch.groups[i];
  Answer& answer = pending.answers[pending.done + i];
  answer.what = Answer::What::nothing;
  if (group.arrival != 0) return;
  if (group.answer_by <= now) {
    answer.what = Answer::What::late;
    return;
  }
  const bool remembered = shared_.over_cache != nullptr && refuse_remembered(batch, group, now);
  bool hold = false;
  if (settle_without(batch, group, now, hold)) return;
  const auto charges = counted_of(batch.charges.subspan(group.charge_first, group.charge_count));
  const bool looks = shared_.options.wait_replicas > 0 && !pending.wrote &&
                     std::ranges::all_of(charges, request::only_looks, &Charge::verb);
  const Route route = route_of(charges, now, looks);
  Link* link = route.link;
  const bool spares = group.sparing && charges.front().verb != Verb::charge;
  if (settles_across(route, charges) && !spares) {
    AcrossGroup& across = add_across(group, batch, route, now, pin);
    across.hold = hold;
    across.batch = {kind_batch, slot, pending.serial, static_cast<uint32_t>(pending.done + i)};
    answer.asked = now;
    answer.error = begin_across(across);
    answer.what = answer.error == Error::none ? Answer::What::awaited : Answer::What::error;
    if (answer.error != Error::none) return;
    ++pending.awaited;
    pending.wrote = true;
    if (group.answer_by >= across.due) return;
    answers_by_.push_back({group.answer_by.us, slot, pending.serial, across.batch.index});
    std::ranges::push_heap(answers_by_, std::less<>());
    return;
  }
  const bool asking = std::exchange(answer.ask_link, 0) != 0;
  if (asking) link = route.links->by_id(answer.link);
  if (link == nullptr || !link->takes()) {
    say_apart(route.what);
    answer.what = Answer::What::error;
    answer.error =
        link != nullptr && link->connection.is_full() ? Error::overloaded : trouble(link);
    return;
  }
  const ScriptCall what{.charges = charges,
                        .ahead = ahead_of(charges, 0),
                        .hold = hold,
                        .sparing = group.sparing,
                        .looks = remembered && group.sparing,
                        .id = id_for(group.id, charges, route.links->topology()),
                        .is_shadow = group.may_fail,
                        .weight = answer.weight,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = route.links->topology().has_slots(),
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = now,
                        .chance = random_()};
  answer.what = Answer::What::awaited;
  answer.asked = now;
  answer.second = route.links != &first_;
  answer.link = link->id;
  answer.plain = is_plain(what);
  ++pending.awaited;
  const Sender sender{kind_batch, slot, pending.serial, static_cast<uint32_t>(pending.done + i)};
  const base::Time due{now.us + shared_.patience_us};
  pending.wrote |= !looks;
  if (answer.plain)
    send_plain(*link, what, asking, sender, due);
  else
    send(*link, what, answer.weight, answer.by_text, asking, sender, due);
  if (group.answer_by >= due) return;
  answers_by_.push_back({group.answer_by.us, slot, sender.serial, sender.index});
  std::ranges::push_heap(answers_by_, std::less<>());
}

Applied WorkerClient::hand_out(const Batch& batch, Pending& pending, uint32_t slot, base::Time now,
                               const store::Pin& pin, Ticket ticket) {
  // A group that must be asked again is sent at once. The groups after it are decided, but answered
  // later, as replies keep their order.
  size_t again = batch.groups.size();
  for (size_t i = 0; i < batch.groups.size(); ++i) {
    Group& group = batch.groups[i];
    Answer& answer = pending.answers[pending.done + i];
    group.known = request::Known::no;
    if (answer.what != Answer::What::text) continue;
    group.error = Error::none;
    group.allowed = group.parked = group.answered = false;
    if (read_group(batch, i, pending, answer)) continue;
    const bool by_text = answer.by_text;
    ask(batch, i, pending, slot, now, pin);
    answer.by_text = by_text;
    again = std::min(again, i);
  }
  for (size_t i = 0; i < again; ++i) {
    Group& group = batch.groups[i];
    const Answer& answer = pending.answers[pending.done + i];
    if (answer.what == Answer::What::nothing) {
      bool hold = false;
      group.error = Error::none;
      group.allowed = group.parked = group.answered = false;
      // `deny` always refuses: the group waits only for another policy.
      if (settle_without(batch, group, now, hold)) {
        if (!group.allowed && group.may_wait) park(group, batch, now, pin);
      } else if (!park_again(group, batch, pin)) {
        group.answered = true;
      }
    } else if (answer.what == Answer::What::late) {
      group.allowed = group.parked = group.answered = false;
      group.error = Error::deadline;  // then its rules' on_store_error does not apply
    } else if (answer.what == Answer::What::error) {
      fail(batch, i, answer.error, now, pin);
    } else {
      bool hold = false;
      if (answer.what == Answer::What::across) {
        take_over(*across_.at(answer.at), batch, group);
        across_.erase(answer.at);
      }
      const bool allowed = group.allowed;
      settle_without(batch, group, now, hold);
      group.allowed = allowed;
      if (!allowed && group.may_wait) park(group, batch, now, pin);
      if (shared_.over_cache != nullptr) remember(batch, group, answer.asked);
      if (shared_.queues.any())
        brought(batch.charges.subspan(group.charge_first, group.charge_count));
    }
    if (group.error == Error::none || group.may_fail) continue;
    pending.done += i + 1;
    if (pending.done == pending.answers.size()) pending.open = false;
    return {i + 1, false};
  }
  pending.done += again;
  if (again == batch.groups.size()) {
    pending.open = false;
    return {again, false};
  }
  if (pending.awaited > 0) return {again, true};
  // It could not be sent again, so the groups after it may be answered.
  const Batch rest{batch.groups.subspan(again), batch.charges, batch.decisions};
  const Applied applied = hand_out(rest, pending, slot, now, pin, ticket);
  return {again + applied.settled, applied.later};
}

// Reads the answer into the group and its decisions. False: it must be asked again.
bool WorkerClient::read_group(const Batch& batch, size_t i, Pending& pending, Answer& answer) {
  Group& group = batch.groups[i];
  std::string_view text(pending.texts.data() + answer.at, answer.size);
  if (answer.error != Error::none) {
    // Redis has refused the whole command: nothing was done.
    if (text.starts_with("NOSCRIPT") && !answer.by_text) {
      answer.by_text = true;
      answer.redirects = 0;
      return false;
    }
    Links& links = links_of(answer);
    if (is_redirected(links, text, answer.link, answer.redirects, answer.ask_link)) {
      if (answer.ask_link != 0) answer.link = answer.ask_link;
      return false;
    }
    if (answer.plain && text.ends_with("would overflow")) {
      answer.weight = Weight::full;  // the full script fills it up
      return false;
    }
    answer.what = Answer::What::error;
    answer.error = refusal_of(
        links, text, batch.charges.subspan(group.charge_first, group.charge_count), answer.asked);
    if (answer.error == Error::read_only) leave_node(links, answer.link);
    return true;
  }
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  if (answer.plain) return read_plain_group(batch, group, answer, text);
  group.known = cut_known(text);
  if (group.known == request::Known::other_content) return true;
  ScriptReply said;
  if (std::all_of(charges.begin(), charges.end(), is_counted)) {
    said = read_answer(text, charges, batch.decisions, group.allowed, answer.asked);
  } else {
    counted_of(charges);
    said = read_answer(text, counted_, batch.decisions, group.allowed, answer.asked);
    auto counted = counted_.cbegin();
    for (Charge& charge : charges)
      if (is_counted(charge)) charge.dropped = counted++->dropped;
  }
  if (said == ScriptReply::decided) return true;
  const Weight wanted = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
  if (said == ScriptReply::nonsense || answer.weight >= wanted) {
    shared_.log_refusal("its script answered \"" + std::string(text.substr(0, 100)) + "\"");
    answer.what = Answer::What::error;
    answer.error = Error::store;
    return true;
  }
  answer.weight = wanted;
  answer.by_text = false;
  answer.redirects = 0;
  return false;
}

bool WorkerClient::read_plain_group(const Batch& batch, Group& group, Answer& answer,
                                    std::string_view text) {
  const Charge& charge =
      counted_of(batch.charges.subspan(group.charge_first, group.charge_count)).front();
  if (read_plain(text, answer.nil, charge, batch.decisions[charge.decision_first], group.allowed,
                 answer.asked) == ScriptReply::nonsense) {
    answer.what = Answer::What::error;
    answer.error = refusal_of(links_of(answer), "FOREIGN the value is not a number", {&charge, 1},
                              answer.asked);
  }
  return true;
}

// Returns the error that the text means, and logs it; for a value that is not a counter, with its
// key.
Error WorkerClient::refusal_of(const Links& links, std::string_view text,
                               std::span<const Charge> charges, base::Time asked) {
  shared_.note_cluster_error(links.topology(), text);
  const Error error = error_of(text);
  std::string told(text.substr(0, 300));
  if (error == Error::wrong_type || error == Error::no_number) {
    bool own = true, clients_key = false;
    for (const Charge& charge : charges) {
      if (!is_counted(charge)) continue;
      if (window_text::holds(charge)) {
        own = false;
      } else {
        own &= charge.space->encoding == request::KeyEncoding::own;
        clients_key |= charge.space->encoding == request::KeyEncoding::tat_text;
      }
      key_.clear();
      append_stored_name(key_, charge, shared_.options.key_prefix, links.topology().has_slots(),
                         asked);
      told.append("; key ").append(key_, 0, 600);
    }
    // Keys that other programs share cannot be renamed.
    told += clients_key ? "; it may be another program's: use another key for the limit"
            : own       ? "; delete it, or choose another store.redis.key_prefix"
                        : "; delete it";
  }
  shared_.log_refusal(told);
  return error;
}

// Answers the group by its rules' on_store_error.
void WorkerClient::fail(const Batch& batch, size_t i, Error error, base::Time now,
                        const store::Pin& pin) {
  Group& group = batch.groups[i];
  shared_.counts.errors[static_cast<size_t>(error)].fetch_add(1, std::memory_order_relaxed);
  if (group.on_error != OnError::local) {
    const OnError wanted = group.on_error;
    store::fall_back(group, batch, error, now);
    group.on_error = wanted;
    return;
  }
  shared_.counts.local.fetch_add(1, std::memory_order_relaxed);
  // A waiting group waits here, where Redis is asked again as soon as it is back.
  const bool may_wait = std::exchange(group.may_wait, false);
  decide_here(batch, group, now, pin);
  group.may_wait = may_wait;
  if (may_wait && group.error == Error::none && !group.allowed) park(group, batch, now, pin);
}

void WorkerClient::decide_here(const Batch& batch, Group& group, base::Time now,
                               const store::Pin& pin) {
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  std::vector<std::vector<limit::Limit>> kept;
  const std::vector<Charge> before(charges.begin(), charges.end());
  for (Charge& charge : charges) {
    // Limits whose numbers come with the call are in no list.
    if (!charge.keeps_limits &&
        !std::ranges::any_of(charge.limits, limit::gcra::is_gcra, &limit::Limit::algorithm)) {
      charge.limits = shared_.divided(charge.limits, charge.limits_id);
      continue;
    }
    kept.emplace_back(charge.limits.begin(), charge.limits.end());
    for (limit::Limit& limit : kept.back()) limit = shared_.share_of(limit);
    charge.limits = kept.back();
  }
  shared_.table->apply({{&group, 1}, batch.charges, batch.decisions}, now, &completions_, pin);
  for (size_t k = 0; k < charges.size(); ++k) {
    charges[k].limits = before[k].limits;
    charges[k].limits_id = before[k].limits_id;
  }
}

// The place for a group's answer; null: the answer is not awaited any more.
WorkerClient::Answer* WorkerClient::awaited(const Sender& sender) {
  Pending& pending = pending_[sender.slot];
  if (!pending.open || pending.serial != sender.serial) return nullptr;
  Answer& answer = pending.answers[sender.index];
  return answer.what == Answer::What::awaited ? &answer : nullptr;
}

void WorkerClient::settled(const Sender& sender) {
  Pending& pending = pending_[sender.slot];
  if (--pending.awaited == 0) completions_.resume_batch({sender.slot, pending.generation});
}

// `command`: its copy (Link::sent_on), if there is one.
void WorkerClient::take_answer(Link& link, const Sender& sender, Reply reply, std::string_view text,
                               const std::string& command) {
  if (sender.kind == kind_waiting) return on_waiting_answer(link, sender, reply, text);
  if (sender.kind == kind_across) {
    const auto at = across_.find(sender.serial);
    if (at != across_.end()) on_across_answer(link, *at->second, reply, text);
    return;
  }
  if (sender.kind != kind_batch) return on_life(link, sender, reply, text, command);
  Answer* const answer = awaited(sender);
  if (answer == nullptr) return;
  std::string& texts = pending_[sender.slot].texts;
  answer->what = Answer::What::text;
  answer->error = reply == Reply::error ? Error::store : Error::none;
  answer->nil = reply == Reply::nil;
  answer->at = static_cast<uint32_t>(texts.size());
  answer->size = static_cast<uint32_t>(std::min<size_t>(text.size(), 64 << 10));
  texts.append(text.substr(0, answer->size));
  settled(sender);
}

bool WorkerClient::on_late(Link& link, const Sender& sender) {
  if (sender.kind == kind_waiting) return false;  // a waiting group has no deadline
  if (sender.kind == kind_across) {
    const auto at = across_.find(sender.serial);
    if (at == across_.end()) return true;
    if (at->second->waits) return false;
    part_is_lost(*at->second, Error::deadline);
    return true;
  }
  if (sender.kind != kind_batch) {
    // Copies of commands are dropped in the order of the answers, which may be held for a WAIT.
    if (has_copy(link, sender)) return false;
    on_life_lost(link, sender);
    return true;
  }
  Answer* const answer = awaited(sender);
  if (answer == nullptr) return true;
  answer->what = Answer::What::error;
  answer->error = Error::deadline;
  settled(sender);
  return true;
}

void WorkerClient::on_lost(Link& link, const Sender& sender) {
  if (sender.kind == kind_waiting) {
    const auto at = asked_.find(sender.serial);
    if (at == asked_.end()) return;
    Waiting& waiting = *at->second;
    asked_.erase(at);
    on_waiting_lost(waiting, trouble(&link));
    return;
  }
  if (sender.kind == kind_across) {
    const auto at = across_.find(sender.serial);
    if (at != across_.end()) part_is_lost(*at->second, trouble(&link));
    return;
  }
  if (sender.kind != kind_batch) return on_life_lost(link, sender);
  Answer* const answer = awaited(sender);
  if (answer == nullptr) return;
  answer->what = Answer::What::error;
  answer->error = Error::store;
  settled(sender);
}

// Gives up groups whose client's deadline has passed. The top of the heap is then a deadline of a
// group that is still awaited.
void WorkerClient::give_up_late(base::Time now) {
  while (!answers_by_.empty()) {
    const AnswerBy first = answers_by_.front();
    const Sender sender{kind_batch, first.slot, first.serial, first.index};
    Answer* const answer = awaited(sender);
    if (answer != nullptr && first.due_us > now.us) return;
    std::ranges::pop_heap(answers_by_, std::less<>());
    answers_by_.pop_back();
    if (answer == nullptr) continue;
    answer->what = Answer::What::late;
    shared_.counts.errors[static_cast<size_t>(Error::deadline)].fetch_add(
        1, std::memory_order_relaxed);
    settled(sender);
  }
}

}  // namespace sluice::redis
