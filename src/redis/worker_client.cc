#include "redis/worker_client.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/check.h"
#include "limit/aligned_window.h"
#include "limit/debt.h"
#include "limit/decide.h"
#include "limit/gcra.h"
#include "redis/cluster_map.h"
#include "redis/errors.h"
#include "redis/receipts.h"
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
    if (!waiting->queue.empty()) shared_.queues.leave(waiting->queue, waiting->place);
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
    pending.script = nullptr;
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

Error WorkerClient::ask_text(Ticket ticket, const Script& script, std::string call,
                             const TextStep& step, base::Time now) {
  see(now);
  bool fresh;
  Pending& pending = pending_of(ticket, 1, fresh);
  SLUICE_CHECK(fresh);
  pending.script = &script;
  pending.call = std::move(call);
  pending.step = step;
  ++pending.calls;
  return send_text(pending, ticket.slot, false);
}

Error WorkerClient::send_text(Pending& pending, uint32_t slot, bool by_text) {
  Answer& answer = pending.answers.front();
  const bool asking = std::exchange(answer.ask_link, 0) != 0;
  Link* const link = asking                          ? first_.by_id(answer.link)
                     : first_.topology().has_slots() ? first_.of_slot(pending.step.slot)
                                                     : first_.primary();
  if (link == nullptr || !link->takes()) {
    pending.open = false;
    return why_not_sent(link);
  }
  const bool was_idle = first_.is_idle() && (second_ == nullptr || second_->is_idle());
  const base::Time due{now_.us + shared_.patience_us};
  say_asking(*link, asking, due);
  answer.what = Answer::What::awaited;
  answer.error = Error::none;
  answer.by_text = by_text;
  answer.asked = now_;
  answer.link = link->id;
  ++pending.awaited;
  pending.wrote = true;
  if (by_text)
    append_by_text(link->connection.out(), pending.call, *pending.script);
  else
    link->connection.out() += pending.call;
  link->connection.sent({kind_batch, slot, pending.serial, 0}, due);
  shared_.counts.asked.fetch_add(1, std::memory_order_relaxed);
  if (was_idle) completions_.wake();
  return Error::none;
}

WorkerClient::TextAnswer WorkerClient::text_answer(Ticket ticket, base::Time now) {
  see(now);
  if (ticket.slot >= pending_.size()) return {};
  Pending& pending = pending_[ticket.slot];
  if (!pending.open || pending.generation != ticket.generation || pending.script == nullptr) {
    pending.calls = 0;
    return {};
  }
  if (pending.awaited > 0) return {.what = TextAnswer::What::later};
  Answer& answer = pending.answers.front();
  TextAnswer given{TextAnswer::What::error, answer.error, {},
                   pending.script,          pending.step, pending.calls};
  if (answer.what == Answer::What::text) {
    const std::string_view text(pending.texts.data() + answer.at, answer.size);
    if (answer.error == Error::none) {
      given.what = TextAnswer::What::text;
      given.text = text;
    } else if (text.starts_with("NOSCRIPT") && !answer.by_text) {
      given.error = send_text(pending, ticket.slot, true);
      if (given.error == Error::none) return {.what = TextAnswer::What::later};
    } else if ((pending.step.goes_along || !text.starts_with("ASK ")) &&
               is_redirected(first_, text, answer.link, answer.redirects, answer.ask_link)) {
      if (answer.ask_link != 0) answer.link = answer.ask_link;
      given.error = send_text(pending, ticket.slot, answer.by_text);
      if (given.error == Error::none) return {.what = TextAnswer::What::later};
    } else {
      given.error = refusal_of(first_, text, {}, answer.asked);
      if (given.error == Error::read_only) leave_node(first_, answer.link);
    }
  }
  pending.open = false;
  if (given.what == TextAnswer::What::error) {
    pending.calls = 0;
    shared_.counts.errors[static_cast<size_t>(given.error)].fetch_add(1, std::memory_order_relaxed);
  }
  return given;
}

// Returns the charges that have a counter.
std::span<const Charge> WorkerClient::counted_of(std::span<const Charge> charges) {
  if (std::all_of(charges.begin(), charges.end(), is_counted)) return charges;
  counted_.clear();
  std::copy_if(charges.begin(), charges.end(), std::back_inserter(counted_), is_counted);
  return counted_;
}

std::span<const int64_t> WorkerClient::ahead_of(std::span<const Charge> charges,
                                                Queues::Place place) {
  ahead_.clear();
  if (!shared_.queues.any()) return {};
  for (const Charge& charge : charges) {
    key_.assign(charge.space->prefix).append(charge.key).append(charge.space->suffix);
    const bool sets = charge.verb == Verb::put || charge.reset_first;
    place.key = charge.fair_value;
    ahead_.push_back(sets ? 0 : shared_.queues.ahead(key_, place));
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
        *decision =
            limit::debt::charge(nullptr, limit, charge.cost, now, limit::Overdrafts::none, unused);
      else
        *decision = limit::decide(nullptr, limit, charge.cost, now, nullptr);
      hold |= !decision->allowed;
      ++decision;
    }
  }
  if (all) group.allowed = !hold;
  return all;
}

Error WorkerClient::trouble(const Link& link) {
  return link.connection.is_refused() ? Error::auth_failed : Error::store;
}

// Why the link takes no command. Null: no primary is known.
Error WorkerClient::why_not_sent(const Link* link) {
  if (link == nullptr) return Error::store;
  if (link->connection.is_full() || link->connection.is_behind()) return Error::overloaded;
  return trouble(*link);
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
    answer.error = why_not_sent(link);
    return;
  }
  const ScriptCall what{.charges = charges,
                        .ahead = ahead_of(charges, {}),
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
    on_waiting_lost(waiting, trouble(link));
    return;
  }
  if (sender.kind == kind_across) {
    const auto at = across_.find(sender.serial);
    if (at != across_.end()) part_is_lost(*at->second, trouble(link));
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

// Groups whose counters are in several slots of Redis Cluster: they are settled slot by slot, in
// the order of the slots. When one refuses or fails, what was taken before is taken back by its
// receipt, once. So nothing is admitted beyond a limit; a request meanwhile may be refused too
// early. A group that waits goes through its slots in one such pass each time that it asks, and
// holds nothing between two passes; it is queued for one counter (Queues), and the order in which
// such groups are served is this server's alone.

using limit::Decision;
using request::Batch;
using request::Charge;
using request::Error;
using request::Group;
using request::Verb;

namespace {

// How long one answer may have to wait for replicas.
int64_t replicas_wait_us(const Shared& shared) {
  return shared.patience_us - shared.options.deadline.us;
}

}  // namespace

bool WorkerClient::settles_across(const Route& route, std::span<const Charge> charges) const {
  return route.what == Route::What::two_slots && shared_.options.settles_across_slots &&
         std::ranges::all_of(charges, has_receipts);
}

WorkerClient::AcrossGroup& WorkerClient::add_across(const Group& group, const Batch& batch,
                                                    const Route& route, base::Time now,
                                                    const store::Pin& pin) {
  auto made = std::make_unique<AcrossGroup>();
  AcrossGroup& a = *made;
  a.id = ++serial_;
  a.links = route.links;
  a.wanted = wanted_of(group, batch, pin);
  a.asked = now;
  a.is_shadow = group.may_fail;
  std::vector<std::pair<uint16_t, const Charge*>> order;
  for (const Charge& charge : a.wanted->charges) {
    if (!charge.counted) continue;
    key_.clear();
    append_stored_name(key_, charge, shared_.options.key_prefix, true, now);
    order.emplace_back(slot_of(key_), &charge);
  }
  std::ranges::stable_sort(order, {}, &std::pair<uint16_t, const Charge*>::first);
  for (const auto& [slot, charge] : order) {
    if (a.parts.empty() || a.parts.back().slot != slot)
      a.parts.push_back({slot, static_cast<uint32_t>(a.charges.size()), 0, false, {}});
    ++a.parts.back().count;
    a.charges.push_back(*charge);
  }
  const bool remembered = std::ranges::all_of(a.parts, [&](const AcrossGroup::SlotPart& part) {
    const auto charges = std::span<const Charge>(a.charges).subspan(part.first, part.count);
    return id_for(group.id, charges, route.links->topology()) != nullptr;
  });
  if (remembered) {
    a.id_name = group.id->name;
    a.charge_id = {a.id_name, group.id->content};
  }
  // Each part may have to wait for replicas.
  const auto parts = static_cast<int64_t>(a.parts.size());
  a.due = {now.us + shared_.options.deadline.us + parts * replicas_wait_us(shared_)};
  across_[a.id] = std::move(made);
  return a;
}

// Not `none`: nothing was sent, and the group is gone.
Error WorkerClient::begin_across(AcrossGroup& a) {
  const Error error = ask_part(a);
  if (error == Error::none)
    shared_.counts.across.fetch_add(1, std::memory_order_relaxed);
  else
    across_.erase(a.id);
  return error;
}

// Not `none`: nothing was sent.
Error WorkerClient::ask_part(AcrossGroup& a) {
  const AcrossGroup::SlotPart& part = a.parts[a.at];
  // A waiting group has no deadline of its own, but its connections have one.
  base::Time due{now_.us + shared_.patience_us};
  if (!a.waits) due = std::min(due, a.due);
  // With less time than this a healthy node would seem to be late, to all other requests as well.
  const int64_t least_us = shared_.options.deadline.us / 4 + replicas_wait_us(shared_);
  if (due.us - now_.us < least_us) return Error::deadline;
  const bool asking = std::exchange(a.ask_link, 0) != 0;
  Link* const link = asking ? a.links->by_id(a.link) : a.links->of_slot(part.slot);
  if (link == nullptr || !link->takes()) return why_not_sent(link);
  a.link = link->id;
  const std::span<const Charge> charges = std::span(a.charges).subspan(part.first, part.count);
  const ScriptCall what{.charges = charges,
                        .ahead = ahead_of(charges, a.place),
                        .hold = a.hold || a.refused,
                        .receipts = true,
                        .id = a.charge_id ? &*a.charge_id : nullptr,
                        .is_shadow = a.is_shadow,
                        .weight = a.weight,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = true,
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = a.asked,
                        .chance = random_()};
  send(*link, what, a.weight, a.by_text, asking, {kind_across, 0, a.id, 0}, due);
  completions_.wake();  // its deadline needs a timer
  return Error::none;
}

void WorkerClient::on_across_answer(Link& link, AcrossGroup& a, Reply reply,
                                    std::string_view text) {
  if (reply == Reply::error) {
    // Nothing was done in this slot.
    if (is_redirected(*a.links, text, a.link, a.redirects, a.ask_link)) {
      if (a.ask_link != 0) a.link = a.ask_link;
      return go_on_across(a, Error::none);
    }
    if (text.starts_with("NOSCRIPT") && !a.by_text) {
      a.by_text = true;
      a.redirects = 0;
      return go_on_across(a, Error::none);
    }
    const AcrossGroup::SlotPart& part = a.parts[a.at];
    const Error error =
        refusal_of(*a.links, text, std::span(a.charges).subspan(part.first, part.count), a.asked);
    if (error == Error::read_only) leave_node(*a.links, link.id);
    return go_on_across(a, error);
  }
  Error error = Error::none;
  if (!part_is_decided(a, text, error)) return part_is_lost(a, error);
  go_on_across(a, Error::none);
}

// Of one slot's answer. False: it says nothing.
bool WorkerClient::part_is_decided(AcrossGroup& a, std::string_view text, Error& error) {
  AcrossGroup::SlotPart& part = a.parts[a.at];
  const std::string_view receipt = cut_receipt(text);
  const request::Known known = cut_known(text);
  if (known == request::Known::other_content) {
    a.known = known;
    a.at = a.parts.size();
    return true;
  }
  bool allowed = false;
  const ScriptReply said = read_answer(text, std::span(a.charges).subspan(part.first, part.count),
                                       a.wanted->decisions, allowed, a.asked);
  const Weight wanted = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
  if (said == ScriptReply::nonsense || (said != ScriptReply::decided && a.weight >= wanted)) {
    shared_.log_refusal("its script answered \"" + std::string(text.substr(0, 100)) + "\"");
    error = Error::store;
    return false;
  }
  a.by_text = false;
  a.redirects = 0;
  if (said != ScriptReply::decided) {
    a.weight = wanted;
    return true;
  }
  a.weight = Weight::light;
  if (known == request::Known::no) a.known = known;
  part.allowed = allowed;
  part.receipt = receipt;
  a.refused |= !allowed;
  ++a.at;
  return true;
}

// It may have been taken there, so it is not taken back: its units stay taken.
void WorkerClient::part_is_lost(AcrossGroup& a, Error error) {
  const AcrossGroup::SlotPart& part = a.parts[a.at];
  shared_.counts.left_taken.fetch_add(
      most_units_of(std::span(a.charges).subspan(part.first, part.count), a.hold || a.refused),
      std::memory_order_relaxed);
  finish_across(a, error, true);
}

// Does anything still need its answer? Not if its batch was abandoned or its client's deadline has
// passed; nor if it waits and was cancelled or replaced. Units that were used already are charged
// in any case.
bool WorkerClient::is_wanted(const AcrossGroup& a) {
  if (a.charges.front().verb == Verb::charge) return true;
  if (!a.waits) return awaited(a.batch) != nullptr;
  const auto at = asked_.find(a.id);
  return at != asked_.end() && !at->second->cancelled && !at->second->next;
}

void WorkerClient::go_on_across(AcrossGroup& a, Error error) {
  if (error == Error::none && a.at < a.parts.size() && is_wanted(a)) {
    error = ask_part(a);
    if (error == Error::none) return;
    // Where it could not be sent, a waiting group asks again later.
    if (a.waits) error = Error::none;
  }
  finish_across(a, error);
}

// What was taken is taken back unless it is granted as a whole, to a client that still wants it.
void WorkerClient::finish_across(AcrossGroup& a, Error error, bool lost) {
  const bool other = a.known == request::Known::other_content;
  const bool allowed = error == Error::none && a.at == a.parts.size() && !a.refused && !a.hold &&
                       is_wanted(a) && !other;
  // With an id the client sends it again, and each slot knows whether it has charged its part.
  if (!allowed && !(a.charge_id && error != Error::none)) undo(a, error == Error::none && !other);
  if (a.waits) {
    on_waiting_across(a, error, lost, allowed);
    across_.erase(a.id);
    return;
  }
  const Sender batch = a.batch;
  Answer* const answer = awaited(batch);
  if (answer == nullptr) {
    across_.erase(a.id);
    return;
  }
  answer->what = error == Error::none ? Answer::What::across : Answer::What::error;
  answer->error = error;
  answer->at = a.id;
  if (error != Error::none) across_.erase(a.id);
  settled(batch);
}

// Its batch was abandoned once it had been settled.
void WorkerClient::drop_across(uint32_t id) {
  const auto at = across_.find(id);
  if (at == across_.end()) return;
  if (!is_wanted(*at->second)) undo(*at->second, true);
  across_.erase(at);
}

// `refused`: what counts although its group is refused stays charged. Not so after an error, as the
// client may send the request again.
void WorkerClient::undo(AcrossGroup& a, bool refused) {
  for (AcrossGroup::SlotPart& part : a.parts) {
    const auto charges = std::span(a.charges).subspan(part.first, part.count);
    const std::string receipt = std::exchange(part.receipt, {});
    undo_part(a, part, refused ? receipt_if_refused(charges, receipt) : receipt);
    if (!std::exchange(part.allowed, false)) continue;
    // The decisions say what remains without it, as far as is known here.
    for (const Charge& charge : charges) {
      if (charge.verb != Verb::take && charge.verb != Verb::count &&
          charge.verb != Verb::would_take)
        continue;
      for (size_t i = 0; i < charge.limits.size(); ++i) {
        Decision& decision = a.wanted->decisions[charge.decision_first + i];
        const int64_t most = limit::units_max(charge.limits[i]);
        const bool stays = charge.verb == Verb::count && limit::has(charge.counts, i);
        if (limit::has_counter(charge.limits[i].algorithm) && !stays)
          decision.remaining =
              std::min(most - charge.cost_of(i), decision.remaining) + charge.cost_of(i);
      }
    }
  }
}

void WorkerClient::undo_part(AcrossGroup& a, const AcrossGroup::SlotPart& part,
                             std::string_view receipt) {
  const std::span<const Charge> charges = std::span(a.charges).subspan(part.first, part.count);
  const uint64_t units = units_of(charges, receipt);
  if (units == 0) return;
  Link* const link = a.links->of_slot(part.slot);
  // It is not kept for a connection that is down: once there is another, a replica may have taken
  // over that never had the take, and it would take back units of other requests.
  if (link == nullptr || !link->takes_late()) {
    shared_.counts.left_taken.fetch_add(units, std::memory_order_relaxed);
    return;
  }
  const ScriptCall what{.charges = charges,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = true,
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = a.asked};
  const size_t from = link->connection.out().size();
  append_undo(link->connection.out(), what, receipt, shared_.scripts.undo(), texts_);
  link->sent_on.push(std::string_view(link->connection.out()).substr(from));
  link->connection.sent(
      {kind_undo, static_cast<uint32_t>(std::min<uint64_t>(units, UINT32_MAX)), 0, 0},
      {now_.us + shared_.patience_us});
}

void WorkerClient::on_undo(Link& link, const Sender& sender, Reply reply, std::string_view text,
                           const std::string& call) {
  if ((sender.serial & undo_by_text) != 0) --link.undo_texts;
  const bool sent = reply == Reply::error && (send_undo_again(link, sender, text, call) ||
                                              send_on(link, sender, text, call));
  if (sent) return;
  const auto left = undo_answer(reply == Reply::error ? std::string_view() : text);
  shared_.counts.left_taken.fetch_add(left.value_or(sender.slot), std::memory_order_relaxed);
  if (!left) shared_.log_refusal("units were not taken back: " + std::string(text.substr(0, 300)));
}

// It may have been executed; it is not sent again.
void WorkerClient::on_undo_lost(Link& link, const Sender& sender) {
  if ((sender.serial & undo_by_text) != 0) --link.undo_texts;
  link.sent_on.pop();
  shared_.counts.left_taken.fetch_add(sender.slot, std::memory_order_relaxed);
}

// The node does not have the script, so nothing was executed: the call is sent with the text. Of
// many that find it missing the first brings the text, and the others are sent behind it as they
// are, since so many texts would fill the connection. False: it cannot be sent.
bool WorkerClient::send_undo_again(Link& link, const Sender& sender, std::string_view text,
                                   const std::string& call) {
  if (!text.starts_with("NOSCRIPT") || (sender.serial & undo_by_text) != 0) return false;
  if (!link.takes_late()) return false;
  const base::Time due{now_.us + shared_.patience_us};
  const bool behind = link.undo_texts > 0 && (sender.serial & undo_behind) == 0;
  say_asking(link, (sender.serial & undo_asked) != 0, due);
  if (behind)
    link.connection.out() += call;
  else
    append_by_text(link.connection.out(), call, shared_.scripts.undo());
  link.sent_on.push(call);
  if (!behind) ++link.undo_texts;
  const uint32_t how = (sender.serial & undo_asked) | (behind ? undo_behind : undo_by_text);
  link.connection.sent({kind_undo, sender.slot, how, sender.index}, due);
  return true;
}

// What was settled, into the group of the batch.
void WorkerClient::take_over(const AcrossGroup& a, const Batch& batch, Group& group) {
  group.error = Error::none;
  group.parked = group.answered = false;
  group.allowed = !a.refused && !a.hold;
  group.known = a.known;
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  for (size_t k = 0; k < charges.size(); ++k) {
    const Charge& from = a.wanted->charges[k];
    const auto settled = std::ranges::find(a.charges, from.decision_first, &Charge::decision_first);
    charges[k].dropped = settled == a.charges.end() ? 0 : settled->dropped;
    for (size_t i = 0; from.counted && i < from.limits.size(); ++i)
      batch.decisions[charges[k].decision_first + i] = a.wanted->decisions[from.decision_first + i];
  }
}

// Counters of windows that are known to have exceeded their quota (OverCache): they refuse without
// Redis.

using request::Batch;
using request::Charge;
using request::Group;
using request::Verb;

namespace {

std::string_view window_name(const Charge& charge, base::Time now) {
  thread_local std::string name;
  name.clear();
  window_text::append_name(name, charge, now);
  return name;
}

}  // namespace

// Marks the group's charges whose counters are known to have exceeded their quota (OverCache).
// True: there are some.
bool WorkerClient::refuse_remembered(const Batch& batch, const Group& group, base::Time now) {
  if (group.may_wait) return false;  // a waiting group must be decided by its counter
  bool any = false;
  for (Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    if (charge.verb == Verb::put || charge.verb == Verb::charge || charge.reset_first ||
        !window_text::holds(charge))
      continue;
    const limit::Limit& limit = charge.limits.front();
    charge.from_cache = shared_.over_cache->is_over(window_name(charge, now), limit.quota, now);
    if (!charge.from_cache) continue;
    any = true;
    const base::Duration to_end{limit::aligned_window::window_end_us(limit.window.us, now) -
                                now.us};
    batch.decisions[charge.decision_first] = {false, limit.quota, -1, to_end,
                                              charge.cost > limit.quota ? base::never : to_end};
  }
  return any;
}

// Updates the OverCache from the group's answer.
void WorkerClient::remember(const Batch& batch, const Group& group, base::Time asked) {
  for (const Charge& charge : batch.charges.subspan(group.charge_first, group.charge_count)) {
    if (!window_text::holds(charge) || charge.from_cache) continue;
    const limit::Limit& limit = charge.limits.front();
    if (charge.verb == Verb::put || charge.reset_first)
      shared_.over_cache->forget(window_name(charge, asked));
    else if (charge.verb == Verb::count && !batch.decisions[charge.decision_first].allowed)
      shared_.over_cache->remember(window_name(charge, asked), limit.quota,
                                   {limit::aligned_window::window_end_us(limit.window.us, asked)},
                                   asked);
  }
}

// Chooses the connection for a group, and sends commands on whose slot is at another node.

using request::Charge;
using request::Error;

namespace {

// Is the charge's counter in the second Redis, if there is one?
bool is_in_second(const Charge& charge) {
  return window_text::holds(charge) && charge.limits.front().window == base::seconds(1);
}

}  // namespace

WorkerClient::Route WorkerClient::route_of(std::span<const Charge> charges, base::Time now,
                                           bool looks) {
  Route route{Route::What::to, &first_, nullptr};
  if (second_ != nullptr) [[unlikely]] {
    const auto count = std::ranges::count_if(charges, is_in_second);
    if (count > 0) route.links = second_.get();
    if (count > 0 && static_cast<size_t>(count) < charges.size()) {
      route.what = Route::What::two_redis;
      return route;
    }
  }
  if (!route.links->topology().has_slots()) [[likely]] {
    route.link = route.links->primary(looks);
  } else {
    uint16_t slot = 0;
    for (size_t k = 0; k < charges.size(); ++k) {
      key_.clear();
      append_stored_name(key_, charges[k], shared_.options.key_prefix, true, now);
      const uint16_t its = slot_of(key_);
      if (k > 0 && its != slot) {
        route.what = Route::What::two_slots;
        return route;
      }
      slot = its;
    }
    route.link = route.links->of_slot(slot, looks);
  }
  if (route.link == nullptr) route.what = Route::What::unknown;
  return route;
}

// Null: the script does not remember the id.
const request::ChargeId* WorkerClient::id_for(const request::ChargeId* id,
                                              std::span<const Charge> charges,
                                              const Topology& topology) {
  if (id == nullptr || charges.front().verb != request::Verb::charge) return nullptr;
  return remembers(charges, topology.has_slots()) ? id : nullptr;
}

void WorkerClient::say_apart(Route::What what) {
  if (what == Route::What::two_redis)
    shared_.log_refusal(
        "a request needs counters of both Redis in one step; keep limits of one second and longer "
        "ones in one Redis, or ask for each by itself");
  if (what != Route::What::two_slots) return;
  shared_.counts.apart.fetch_add(1, std::memory_order_relaxed);
  shared_.log_refusal(
      std::string("a request needs counters of several slots of Redis Cluster in one step; ") +
      (shared_.options.settles_across_slots ? "" : "set store.redis.across_slots: settle, or ") +
      "have its rules count by the same actor, or ask for each by itself");
}

Links& WorkerClient::links_of(const Link& link) {
  return &link.topology == &shared_.first ? first_ : *second_;
}

// Does the error name another node? Nothing was executed then, so the command may be sent on
// without being charged twice. `link`: the one that answered; `ask_link` is set for ASK, to the
// link for one command. False: do not send it on.
bool WorkerClient::is_redirected(Links& links, std::string_view text, uint32_t link,
                                 uint32_t& redirects, uint32_t& ask_link) {
  if (!links.topology().has_slots()) return false;
  if (text.starts_with("CLUSTERDOWN")) links.topology().want_look();
  const Link* const from = links.by_id(link);
  const auto redirect = redirect_of(text, from != nullptr ? from->host() : std::string());
  if (!redirect) return false;
  links.topology().want_look();
  if (redirect->node.host.empty()) return false;
  if (redirects >= shared_.redirects_max) {
    shared_.counts.given_up.fetch_add(1, std::memory_order_relaxed);
    shared_.log_refusal("a command was sent on " + std::to_string(redirects) +
                        " times and not executed, the last answer was \"" +
                        std::string(text.substr(0, 100)) +
                        "\"; compare CLUSTER SLOTS of the nodes: they may disagree");
    return false;
  }
  ++redirects;
  (redirect->ask ? shared_.counts.asked_on : shared_.counts.moved)
      .fetch_add(1, std::memory_order_relaxed);
  if (redirect->ask)
    ask_link = links.of_node(redirect->node)->id;
  else
    links.topology().follow(*redirect);
  return true;
}

// The node takes no writes: with fixed nodes the next one is tried.
void WorkerClient::leave_node(Links& links, uint32_t link) {
  Link* const at = links.by_id(link);
  if (at == nullptr) return;
  if (links.topology().is_fixed())
    at->connection.leave_node();
  else
    links.topology().want_look();
}

void WorkerClient::on_change(Link& link) {
  completions_.wake();
  if (link.connection.losses() > 0 && link.connection.state() != ConnectionState::up)
    link.topology.want_look();
}

// Sends ASKING: the node then executes the next command, and only that, for a slot that is being
// moved to it.
void WorkerClient::say_asking(Link& link, bool asking, base::Time due) {
  if (!asking) [[likely]]
    return;
  append_array(link.connection.out(), 1);
  append_bulk(link.connection.out(), std::string_view("ASKING"));
  link.connection.sent({kind_asking, 0, 0, 0}, due);
}

void WorkerClient::send(Link& link, const ScriptCall& what, Weight& weight, bool by_text,
                        bool asking, const Sender& sender, base::Time due) {
  say_asking(link, asking, due);
  const Script& script = script_of(what, shared_.scripts, texts_, weight);
  append_call(link.connection.out(), what, script, !by_text, shared_.scripts, texts_);
  link.connection.sent(sender, due);
  shared_.counts.asked.fetch_add(1, std::memory_order_relaxed);
}

// Only the answer of the first command goes to the sender.
void WorkerClient::send_plain(Link& link, const ScriptCall& what, bool asking, const Sender& sender,
                              base::Time due) {
  say_asking(link, asking, due);
  append_plain(link.connection.out(), what);
  link.connection.sent(sender, due);
  shared_.counts.asked.fetch_add(1, std::memory_order_relaxed);
  if (!may_make_key(what)) return;
  send_life(link, what, link.expire_nx != ExpireNx::yes, asking, due);
  if (link.expire_nx != ExpireNx::unknown) return;
  say_asking(link, asking, due);
  append_life(link.connection.out(), what, false);
  link.connection.sent({kind_probe, 0, 0, 0}, due);
  link.expire_nx = ExpireNx::asked;
}

// Sets the expiry of a key. Its slot may move between the count and this command; then the key
// would have no expiry, so this is sent on as well.
void WorkerClient::send_life(Link& link, const ScriptCall& what, bool renews, bool asking,
                             base::Time due) {
  say_asking(link, asking, due);
  std::string& out = link.connection.out();
  const size_t from = out.size();
  append_life(out, what, renews);
  if (link.topology.has_slots()) link.sent_on.push(std::string_view(out).substr(from));
  link.connection.sent({kind_life, 0, 0, 0}, due);
}

void WorkerClient::on_answer(Link& link, const Sender& sender, Reply reply, std::string_view text) {
  command_.clear();
  if (has_copy(link, sender)) {
    if (reply == Reply::error) command_ = link.sent_on.front();  // only errors send it again
    link.sent_on.pop();
  }
  if (reply == Reply::error && pause(link, sender, text, command_)) return;
  take_answer(link, sender, reply, text, command_);
}

// How often the command was sent on, as far as it is still of use.
uint32_t WorkerClient::redirects_of(const Sender& sender) {
  if (sender.kind == kind_batch) {
    const Answer* const answer = awaited(sender);
    return answer == nullptr ? 0 : answer->redirects;
  }
  if (sender.kind == kind_waiting) {
    const auto at = asked_.find(sender.serial);
    return at == asked_.end() ? 0 : at->second->redirects;
  }
  if (sender.kind == kind_across) {
    const auto at = across_.find(sender.serial);
    return at == across_.end() ? 0 : at->second->redirects;
  }
  return sender.index;
}

// Keeps an answer that names another node until its pause is over. There are as many at most as one
// connection may have commands under way; past that there are no pauses. False: there is none.
bool WorkerClient::pause(Link& link, const Sender& sender, std::string_view text,
                         const std::string& command) {
  if (!link.topology.has_slots()) return false;
  const uint32_t times = redirects_of(sender);
  const int64_t pause_us = redirect_pause_us(times);
  if (pause_us == 0 || times >= shared_.redirects_max) return false;
  if (paused_.size() >= base::bounds::redis_commands_max) return false;
  const auto redirect = redirect_of(text, link.host());
  if (!redirect) return false;
  if (redirect->ask)
    link.topology.want_look();
  else
    link.topology.follow(*redirect);
  ++link.paused;
  paused_.emplace(now_.us + pause_us, Paused{&link, sender, std::string(text), command});
  completions_.wake();  // its end needs a timer
  return true;
}

void WorkerClient::end_pauses(base::Time now) {
  while (!paused_.empty() && paused_.begin()->first <= now.us) {
    Paused one = std::move(paused_.extract(paused_.begin()).mapped());
    --one.link->paused;
    // The map knew of this answer when the pause began. What it has learned since then is newer:
    // the node that the answer names may be gone.
    const auto redirect = redirect_of(one.text, one.link->host());
    if (redirect && !redirect->ask) {
      const auto map = one.link->topology.map();
      if (const Node* const owner = map->owner_of(redirect->slot))
        one.text = "MOVED " + std::to_string(redirect->slot) + ' ' + owner->host + ':' +
                   std::to_string(owner->port);
    }
    take_answer(*one.link, one.sender, Reply::error, one.text, one.command);
  }
}

// Handles the answer of a command that no request waits for.
void WorkerClient::on_life(Link& link, const Sender& sender, Reply reply, std::string_view text,
                           const std::string& command) {
  if (sender.kind == kind_undo) return on_undo(link, sender, reply, text, command);
  const bool sent_on =
      reply == Reply::error && has_copy(link, sender) && send_on(link, sender, text, command);
  if (sender.kind == kind_probe) {
    // An error that names another node does not say whether this node knows the command.
    const bool elsewhere = redirect_of(text, link.host()).has_value() ||
                           text.starts_with("TRYAGAIN") || text.starts_with("CLUSTERDOWN");
    link.expire_nx = reply != Reply::error ? ExpireNx::yes
                     : elsewhere           ? ExpireNx::unknown
                                           : ExpireNx::no;
  } else if (sender.kind == kind_life && reply == Reply::error && !sent_on) {
    // another Redis may answer there now
    if (!link.topology.has_slots()) link.expire_nx = ExpireNx::no;
    shared_.log_refusal("a counter was given no end: " + std::string(text.substr(0, 300)));
  }
}

void WorkerClient::on_life_lost(Link& link, const Sender& sender) {
  if (sender.kind == kind_undo) return on_undo_lost(link, sender);
  if (sender.kind == kind_probe) link.expire_nx = ExpireNx::unknown;
  if (has_copy(link, sender)) link.sent_on.pop();
}

// Sends on a command that was not executed, as its slot is at another node or being moved there.
// False: the command is lost.
bool WorkerClient::send_on(Link& link, const Sender& sender, std::string_view text,
                           const std::string& command) {
  Links& links = links_of(link);
  uint32_t redirects = sender.index;
  uint32_t ask_link = 0;
  const auto redirect = redirect_of(text, link.host());
  if (!redirect || !is_redirected(links, text, link.id, redirects, ask_link)) return false;
  Link* const to = ask_link != 0 ? links.by_id(ask_link) : links.of_slot(redirect->slot);
  if (to == nullptr || !to->takes_late()) return false;
  const base::Time due{now_.us + shared_.patience_us};
  say_asking(*to, ask_link != 0, due);
  to->connection.out() += command;
  to->sent_on.push(command);
  // The copy of an undo has the script's hash, also where its text was sent.
  const uint32_t how = sender.kind == kind_undo && ask_link != 0 ? undo_asked : 0;
  to->connection.sent({sender.kind, sender.slot, how, redirects}, due);
  return true;
}

WorkerClient::Route WorkerClient::route_of(const Waiting& w) {
  return route_of(counted_of(w.wanted.charges), now_);
}

// A group whose counters are apart and cannot be settled together may be asked as well: it fails
// then.
bool WorkerClient::may_ask(const Waiting& w) {
  const auto charges = counted_of(w.wanted.charges);
  const Route route = route_of(charges, now_);
  if (route.what == Route::What::to) return route.link->takes();
  if (settles_across(route, charges)) return all_take(*route.links, charges);
  return route.what != Route::What::unknown;
}

bool WorkerClient::all_take(Links& links, std::span<const Charge> charges) {
  bool all = true;
  for (const Charge& charge : charges) {
    key_.clear();
    append_stored_name(key_, charge, shared_.options.key_prefix, true, now_);
    Link* const link = links.of_slot(slot_of(key_));  // looks for the primary if it is unknown
    all &= link != nullptr && link->takes();
  }
  return all;
}

// Groups that wait for units of counters in Redis. The first of each queue asks Redis when its time
// is reached; a command whose answer was lost is not sent again.

using limit::Decision;
using request::Charge;
using request::Error;
using request::Group;
using request::OnError;
using request::Verb;

namespace {

// A waiting group is looked at this often: another server may return units without notice, and so
// may a group over several slots that took some for a moment; and a Redis that is back is noticed
// within this time.
constexpr int64_t look_again_us = 100'000;
// A group at the front of its queue asks Redis this often at most.
constexpr int64_t ask_pause_us = 1'000;
// The pause for each waiting group of a worker between two looks: 20,000 looks a second.
constexpr int64_t look_pause_us = 50;

std::string name_of(const Charge& charge) {
  return charge.space->prefix + std::string(charge.key) + charge.space->suffix;
}

}  // namespace

std::unique_ptr<WorkerClient::WantedGroup> WorkerClient::wanted_of(const Group& group,
                                                                   const request::Batch& batch,
                                                                   const store::Pin& pin) {
  auto wanted = std::make_unique<WantedGroup>();
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  wanted->pin = pin;
  wanted->on_error = group.on_error;
  wanted->charges.assign(charges.begin(), charges.end());
  size_t limits = 0;
  for (const Charge& charge : charges) {
    wanted->keys.emplace_back(charge.key);
    limits += charge.limits.size();
  }
  wanted->limits.reserve(limits);  // so that pointers to them stay valid
  wanted->costs.reserve(limits);
  wanted->overdrafts.reserve(charges.size());
  for (size_t k = 0; k < charges.size(); ++k) {
    Charge& charge = wanted->charges[k];
    charge.key = wanted->keys[k];
    charge.counted = is_counted(charge);
    const size_t first_limit = wanted->limits.size();
    for (size_t i = 0; i < charge.limits.size(); ++i) {
      wanted->limits.push_back(charge.limits[i]);
      wanted->costs.push_back(charge.cost_of(i));
    }
    if (charge.costs != nullptr) charge.costs = wanted->costs.data() + first_limit;
    if (charge.overdrafts != nullptr)
      charge.overdrafts = &wanted->overdrafts.emplace_back(*charge.overdrafts);
    charge.limits = std::span(wanted->limits).subspan(first_limit);
    const auto from = batch.decisions.subspan(charge.decision_first, charge.limits.size());
    charge.decision_first = static_cast<uint32_t>(wanted->decisions.size());
    wanted->decisions.insert(wanted->decisions.end(), from.begin(), from.end());
  }
  return wanted;
}

// Queues the group for the counter with the longest wait.
void WorkerClient::enqueue(Waiting& w, base::Time now) {
  int64_t longest = -1;
  size_t at = 0;
  for (size_t k = 0; k < w.wanted.charges.size(); ++k) {
    for (size_t j = 0; j < w.wanted.charges[k].limits.size(); ++j) {
      const Decision& d = w.wanted.decisions[w.wanted.charges[k].decision_first + j];
      if (d.allowed || d.retry_after.us <= longest) continue;
      longest = d.retry_after.us;
      at = k;
    }
  }
  const Charge& charge = w.wanted.charges[at];
  // A group that can never fit blocks no other, even if it could when it came.
  int64_t most = INT64_MAX;
  for (const limit::Limit& limit : charge.limits)
    if (limit::has_counter(limit.algorithm)) most = std::min(most, limit::units_max(limit));
  const std::string queue = charge.counted && charge.cost <= most ? name_of(charge) : std::string();
  if (queue != w.queue || charge.fair_value != w.place.key) {
    if (!w.queue.empty()) w.place.turn = shared_.queues.leave(w.queue, w.place);
    w.queue = queue;
    w.place.key = charge.fair_value;
    if (!queue.empty()) shared_.queues.enter(queue, w.place, charge.cost, completions_);
  }
  w.at = at;
  const bool put_back =
      std::any_of(charge.limits.begin(), charge.limits.end(), [](const limit::Limit& l) {
        return l.algorithm == limit::Algorithm::fixed_bucket ||
               l.algorithm == limit::Algorithm::concurrency;
      });
  const bool taken_back = shared_.first.has_slots() && shared_.options.settles_across_slots;
  int64_t wait_us = longest < 0 ? ask_pause_us : longest;
  const bool settled = shared_.has_holds.load(std::memory_order_relaxed);
  if (put_back || taken_back || settled || !may_ask(w)) wait_us = std::min(wait_us, look_again());
  wait_us = std::max(wait_us, ask_pause_us);
  const bool ever = !w.queue.empty() && wait_us <= INT64_MAX - now.us;
  schedule(w, ever ? now.us + wait_us : INT64_MAX);
}

// Its place, with the turn that it has now.
Queues::Place WorkerClient::place_of(const Waiting& w) const {
  Queues::Place place = w.place;
  if (!w.queue.empty()) place.turn = shared_.queues.turn_of(w.queue, place);
  return place;
}

// Less often if many groups wait.
int64_t WorkerClient::look_again() const {
  return std::max(look_again_us, static_cast<int64_t>(waiting_.size()) * look_pause_us);
}

// The group's charges have changed: it asks as soon as it is the first.
void WorkerClient::enqueue_anew(Waiting& w) {
  for (const Charge& charge : w.wanted.charges) {
    if (!charge.counted) continue;
    for (size_t i = 0; i < charge.limits.size(); ++i)
      w.wanted.decisions[charge.decision_first + i] = {.allowed = false, .retry_after = {}};
  }
  enqueue(w, now_);
  if (!w.queue.empty()) schedule(w, now_.us);
  completions_.wake();
}

void WorkerClient::schedule(Waiting& w, int64_t due_us) {
  if (w.due_us != INT64_MAX) due_.erase({w.due_us, w.place.number});
  w.due_us = due_us;
  if (due_us != INT64_MAX) due_.emplace(due_us, w.place.number);
}

void WorkerClient::park(Group& group, const request::Batch& batch, base::Time now,
                        const store::Pin& pin) {
  if (!shared_.take_place()) return;
  auto waiting = std::make_unique<Waiting>();
  waiting->ticket = group.ticket;
  waiting->place.number = shared_.queues.new_arrival();
  waiting->wanted = std::move(*wanted_of(group, batch, pin));
  by_arrival_[waiting->place.number] = waiting.get();
  enqueue(*waiting, now);
  group.parked = true;
  group.arrival = waiting->place.number;
  completions_.wake();
  SLUICE_CHECK(waiting_.emplace(key(group.ticket), std::move(waiting)).second);
}

namespace {

// Are these the same charges on the same counters, under the same limits?
bool asks_the_same(std::span<const Charge> a, std::span<const Charge> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Charge& x, const Charge& y) {
    return x.space == y.space && x.key == y.key && x.cost == y.cost && x.limits_id == y.limits_id &&
           x.limits_id != 0 && x.fair_value == y.fair_value;
  });
}

}  // namespace

bool WorkerClient::park(Group& group, const request::Batch& batch, base::Time now,
                        const store::Pin& pin, std::shared_ptr<HeldAsk> hold) {
  see(now);
  park(group, batch, now, pin);
  if (group.parked) waiting_.at(key(group.ticket))->hold = std::move(hold);
  return group.parked;
}

bool WorkerClient::is_asking(request::Ticket ticket) const {
  const auto at = waiting_.find(key(ticket));
  return at != waiting_.end() && at->second->asked && !at->second->cancelled;
}

bool WorkerClient::park_again(Group& group, const request::Batch& batch, const store::Pin& pin) {
  const auto at = waiting_.find(key(group.ticket));
  if (at == waiting_.end() || at->second->cancelled) return false;
  Waiting& w = *at->second;
  group.parked = true;
  const auto charges = batch.charges.subspan(group.charge_first, group.charge_count);
  if (!w.next && asks_the_same(w.wanted.charges, charges)) {
    // It keeps its place, and a call to Redis under way counts: otherwise every change of an
    // override would drop that answer and ask again.
    for (size_t i = 0; i < charges.size(); ++i) w.wanted.charges[i].rule = charges[i].rule;
    w.wanted.pin = pin;
    w.wanted.on_error = group.on_error;
    return true;
  }
  w.next = wanted_of(group, batch, pin);
  if (w.asked) return true;
  take_next(w);
  enqueue_anew(w);
  return true;
}

// This server has returned units to these counters.
void WorkerClient::brought(std::span<const Charge> charges) {
  for (const Charge& charge : charges)
    if (charge.verb == Verb::put || charge.reset_first) shared_.queues.call(name_of(charge));
}

void WorkerClient::look_at(Waiting& w, base::Time now) {
  if (may_ask(w)) return ask_waiting(w, now);
  if (granted_here(w, now)) return;
  schedule(w, now.us + look_again());  // it goes on waiting until Redis is back
}

// Grants by this server's table while Redis does not decide, if the group's rules say so.
bool WorkerClient::granted_here(Waiting& w, base::Time now) {
  // No other table keeps holds.
  if (w.wanted.on_error != OnError::local || w.hold != nullptr) return false;
  Group group{.charge_count = static_cast<uint32_t>(w.wanted.charges.size())};
  decide_here({{&group, 1}, w.wanted.charges, w.wanted.decisions}, group, now, w.wanted.pin);
  if (group.error != Error::none || !group.allowed) return false;
  shared_.counts.errors[static_cast<size_t>(why_not_sent(route_of(w).link))].fetch_add(
      1, std::memory_order_relaxed);
  shared_.counts.local.fetch_add(1, std::memory_order_relaxed);
  answer(w, Error::none, now);
  return true;
}

void WorkerClient::ask_waiting(Waiting& w, base::Time now) {
  bool hold = false;
  Group group{.charge_count = static_cast<uint32_t>(w.wanted.charges.size())};
  settle_without({{&group, 1}, w.wanted.charges, w.wanted.decisions}, group, now, hold);
  const auto charges = counted_of(w.wanted.charges);
  const Route route = route_of(charges, now);
  const bool asking = std::exchange(w.ask_link, 0) != 0;
  Link* const link = asking && route.links != nullptr ? route.links->by_id(w.link) : route.link;
  if (settles_across(route, charges)) return ask_waiting_across(w, route, group, hold, now);
  if (link == nullptr || !link->takes()) {
    say_apart(route.what);
    return on_waiting_lost(w, why_not_sent(link));
  }
  w.link = link->id;
  w.asked = true;
  w.called = false;
  w.serial = ++serial_;
  asked_[w.serial] = &w;
  w.asked_at = now;
  // It has no deadline of its own, but its connection has one.
  const base::Time due{now.us + shared_.patience_us};
  if (w.hold != nullptr) {
    const Script* script = nullptr;
    const std::string call = w.hold->call(ahead_of(charges, place_of(w)), now, script);
    if (w.by_text)
      append_by_text(link->connection.out(), call, *script);
    else
      link->connection.out() += call;
    link->connection.sent({kind_waiting, 0, w.serial, 0}, due);
    shared_.counts.asked.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const ScriptCall what{.charges = charges,
                        .ahead = ahead_of(charges, place_of(w)),
                        .hold = hold,
                        .weight = w.weight,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = route.links->topology().has_slots(),
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = now,
                        .chance = random_()};
  send(*link, what, w.weight, w.by_text, asking, {kind_waiting, 0, w.serial, 0}, due);
}

void WorkerClient::ask_waiting_across(Waiting& w, const Route& route, const Group& group, bool hold,
                                      base::Time now) {
  const request::Batch batch{{}, w.wanted.charges, w.wanted.decisions};
  AcrossGroup& across = add_across(group, batch, route, now, w.wanted.pin);
  across.waits = true;
  across.hold = hold;
  across.place = place_of(w);
  const uint32_t id = across.id;
  if (begin_across(across) != Error::none) return schedule(w, now.us + look_again());
  w.asked = true;
  w.called = false;
  w.serial = id;
  w.asked_at = now;
  asked_[id] = &w;
}

void WorkerClient::on_waiting_answer(Link& link, const Sender& sender, Reply reply,
                                     std::string_view text) {
  const auto at = asked_.find(sender.serial);
  if (at == asked_.end()) return;
  Waiting& w = *at->second;
  asked_.erase(at);
  w.asked = false;
  ScriptReply said = ScriptReply::nonsense;
  bool allowed = false;
  if (reply == Reply::error) {
    const bool moves = text.starts_with("ASK ") || text.starts_with("TRYAGAIN");
    if (w.hold != nullptr && moves) {
      // Its slot is moving, and some of its keys may be at either node; nothing was done.
      on_waiting_decided(w, ScriptReply::decided, false);
      return;
    }
    if (is_redirected(links_of(link), text, w.link, w.redirects, w.ask_link)) {
      if (w.ask_link != 0) w.link = w.ask_link;
    } else if (text.starts_with("NOSCRIPT") && !w.by_text) {
      w.by_text = true;
      w.redirects = 0;
    } else {
      const Error error = refusal_of(links_of(link), text, w.wanted.charges, w.asked_at);
      w.redirects = 0;
      if (error == Error::read_only) leave_node(links_of(link), link.id);
      return on_waiting_refused(w, error);
    }
  } else if (w.hold != nullptr) {
    w.by_text = false;
    w.redirects = 0;
    counted_.clear();
    std::copy_if(w.wanted.charges.begin(), w.wanted.charges.end(), std::back_inserter(counted_),
                 is_counted);
    const HeldAsk::Said held = w.hold->read(text, counted_, w.wanted.decisions, w.asked_at);
    if (held == HeldAsk::Said::nonsense) return on_waiting_lost(w, Error::store);
    if (held != HeldAsk::Said::again) said = ScriptReply::decided;
    allowed = held == HeldAsk::Said::answered;
    if (allowed)
      for (Decision& decision : w.wanted.decisions) decision.allowed = true;
  } else {
    w.by_text = false;
    w.redirects = 0;
    const auto counted = counted_of(w.wanted.charges);
    // Reads into the charges themselves, unless some of them have no counter.
    said = read_answer(
        text, counted.size() == w.wanted.charges.size() ? std::span(w.wanted.charges) : counted_,
        w.wanted.decisions, allowed, w.asked_at);
    const Weight wanted = said == ScriptReply::again_wide ? Weight::wide : Weight::full;
    if (said == ScriptReply::nonsense || (said != ScriptReply::decided && w.weight >= wanted))
      return on_waiting_lost(w, Error::store);
    // The limits that it waits under may be outdated. Only once, as other servers may have other
    // rules permanently.
    if (said == ScriptReply::again_full && w.weight == Weight::light && !w.cancelled)
      completions_.resume_waiter(w.ticket);
    if (said != ScriptReply::decided) w.weight = wanted;
  }
  if (allowed && (w.cancelled || w.next)) give_back(w);
  on_waiting_decided(w, said, allowed);
}

// Of a group over several slots, whose units are taken back unless it is allowed. `lost`: it is not
// known what one slot did.
void WorkerClient::on_waiting_across(const AcrossGroup& a, Error error, bool lost, bool allowed) {
  const auto at = asked_.find(a.id);
  SLUICE_CHECK(at != asked_.end());
  Waiting& w = *at->second;
  asked_.erase(at);
  w.asked = false;
  if (lost) return on_waiting_lost(w, error);
  if (error != Error::none) return on_waiting_refused(w, error);
  if (w.cancelled || w.next || a.at == a.parts.size()) {
    if (!w.next) w.wanted.decisions = a.wanted->decisions;
    return on_waiting_decided(w, ScriptReply::decided, allowed);
  }
  schedule(w, now_.us + look_again());
  completions_.wake();
}

// Where it is cancelled or replaced, what was taken has been returned.
void WorkerClient::on_waiting_decided(Waiting& w, ScriptReply said, bool allowed) {
  if (w.cancelled) return erase(w);
  if (w.next) {
    take_next(w);
    enqueue_anew(w);
    return;
  }
  if (allowed) return answer(w, Error::none, now_);
  if (said == ScriptReply::decided) enqueue(w, now_);
  if (said != ScriptReply::decided || (w.called && !w.queue.empty())) schedule(w, now_.us);
  completions_.wake();
}

// Nothing was done. While Redis takes no writes, a waiting request waits for a node that does.
void WorkerClient::on_waiting_refused(Waiting& w, Error error) {
  if (w.cancelled || error != Error::read_only || w.wanted.on_error != OnError::local)
    return on_waiting_lost(w, error);
  if (w.next) take_next(w);
  if (granted_here(w, now_)) return;
  schedule(w, now_.us + look_again());
  completions_.wake();
}

void WorkerClient::take_next(Waiting& w) {
  w.wanted = std::move(*w.next);
  w.next.reset();
  w.weight = Weight::light;
  w.by_text = false;
  w.redirects = w.ask_link = 0;  // its counters may be at other nodes
}

// It may have been charged, so it is not sent again: its rules say how it is answered.
void WorkerClient::on_waiting_lost(Waiting& w, Error error) {
  w.asked = false;
  if (w.hold != nullptr) w.hold->give_back(false);
  if (w.cancelled) return erase(w);
  if (w.next) take_next(w);
  Group group{.charge_count = static_cast<uint32_t>(w.wanted.charges.size()),
              .on_error = w.wanted.on_error};
  fail({{&group, 1}, w.wanted.charges, w.wanted.decisions}, 0, error, now_, w.wanted.pin);
  // Nothing is held, so that its rules cannot allow it any more.
  const bool is_unheld = w.hold != nullptr && group.error == Error::none && group.allowed;
  answer(w, is_unheld ? error : group.error, now_);
}

void WorkerClient::answer(Waiting& w, Error error, base::Time now) {
  completions_.settle({w.ticket, error, now, std::move(w.wanted.decisions)});
  if (error == Error::none && !w.queue.empty()) {
    shared_.queues.leave(w.queue, w.place, true);
    w.queue.clear();
  }
  erase(w);
}

void WorkerClient::erase(Waiting& w) {
  if (!w.queue.empty()) shared_.queues.leave(w.queue, w.place);
  schedule(w, INT64_MAX);
  by_arrival_.erase(w.place.number);
  if (!w.cancelled) shared_.free_place();
  waiting_.erase(key(w.ticket));
}

// Returns units that were taken for a client that has gone, or under limits that do not apply any
// more.
void WorkerClient::give_back(Waiting& w) {
  if (w.hold != nullptr) return w.hold->give_back(true);
  std::vector<Charge> charges = w.wanted.charges;
  for (Charge& charge : charges) charge.verb = Verb::put;
  const auto counted = counted_of(charges);
  const Route route = route_of(counted, w.asked_at);
  if (route.link == nullptr || !route.link->takes_late()) return;
  Link& link = *route.link;
  const ScriptCall what{.charges = counted,
                        .weight = Weight::full,
                        .key_prefix = shared_.options.key_prefix,
                        .tagged = link.topology.has_slots(),
                        .kept_fresh_for = shared_.options.kept_fresh_for,
                        .now = w.asked_at};
  const size_t from = link.connection.out().size();
  Weight weight;
  send(link, what, weight, true, false, {kind_given, 0, 0, 0}, {now_.us + shared_.patience_us});
  if (link.topology.has_slots())
    link.sent_on.push(std::string_view(link.connection.out()).substr(from));
}

bool WorkerClient::cancel(request::Ticket ticket) {
  const auto at = waiting_.find(key(ticket));
  if (at == waiting_.end()) return false;
  Waiting& w = *at->second;
  if (!w.asked) {
    erase(w);
    return true;
  }
  w.cancelled = true;  // the units of its answer are returned
  if (!w.queue.empty()) shared_.queues.leave(w.queue, w.place);
  w.queue.clear();
  shared_.free_place();
  return true;
}

// A batch may be a little older than the latest time. A larger step back means that the clock was
// set back: then all times here are moved with it.
void WorkerClient::see(base::Time now) {
  constexpr int64_t older_max_us = 1'000'000;
  const int64_t back_us = now_.us - now.us;
  if (back_us <= older_max_us) {
    now_ = std::max(now_, now);
    return;
  }
  now_ = now;
  first_.step_back({back_us});
  if (second_ != nullptr) second_->step_back({back_us});
  for (AnswerBy& one : answers_by_) one.due_us -= back_us;
  for (const auto& [id, across] : across_) across->due.us -= back_us;
  std::set<std::pair<int64_t, uint64_t>> earlier;
  for (const auto& [due_us, arrival] : due_) {
    by_arrival_.at(arrival)->due_us = due_us - back_us;
    earlier.emplace_hint(earlier.end(), due_us - back_us, arrival);
  }
  due_ = std::move(earlier);
  std::multimap<int64_t, Paused> pauses;
  for (auto& [due_us, one] : paused_)
    pauses.emplace_hint(pauses.end(), due_us - back_us, std::move(one));
  paused_ = std::move(pauses);
}

std::optional<base::Time> WorkerClient::advance(base::Time now) {
  see(now);
  end_pauses(now);
  if (!by_arrival_.empty()) {
    called_.clear();
    shared_.queues.take_called(completions_, called_);
    for (const uint64_t arrival : called_) {
      const auto at = by_arrival_.find(arrival);
      if (at == by_arrival_.end()) continue;
      at->second->called = true;
      if (!at->second->asked) schedule(*at->second, now.us);
    }
  }
  while (!due_.empty() && due_.begin()->first <= now.us) {
    Waiting& w = *by_arrival_.at(due_.begin()->second);
    schedule(w, INT64_MAX);
    // A group that is not the first is called once it is.
    if (!w.asked && shared_.queues.is_first(w.queue, w.place.number)) look_at(w, now);
  }
  int64_t next_us = due_.empty() ? INT64_MAX : due_.begin()->first;
  for (Links* const links : {&first_, second_.get()}) {
    if (links == nullptr) continue;
    if (const auto next = links->advance(now)) next_us = std::min(next_us, next->us);
  }
  give_up_late(now);
  if (!paused_.empty()) next_us = std::min(next_us, paused_.begin()->first);
  if (!answers_by_.empty()) next_us = std::min(next_us, answers_by_.front().due_us);
  timer_us_ = next_us;
  if (next_us == INT64_MAX) return std::nullopt;
  return base::Time{next_us};
}

}  // namespace sluice::redis
