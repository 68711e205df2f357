// Takes the engine's verdicts on the requests of an exchange, and collects the answer from them.
#include <openssl/evp.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/decimal.h"
#include "base/text_writer.h"
#include "policy/inline_limits.h"
#include "protocol/http/dialect.h"
#include "protocol/http/exchange.h"
#include "protocol/http/json_text.h"
#include "protocol/http/worker_state.h"
#include "request/kept_verdict.h"
#include "request/session.h"

namespace sluice::http {
namespace {

using limit::Decision;
using request::Charge;
using request::Verdict;

// The most limits in the answer's header fields: the first ones that the request met.
constexpr size_t told_max = 32;

std::span<const Decision> decisions_of(const Verdict& verdict, const Charge& charge) {
  return {verdict.decisions + charge.decision_first, charge.limits.size()};
}

// Did the charge's limits come with the request? Its rule's name does not say so, because a rule of
// the policy may have any name.
bool is_inline(const Charge& charge) {
  return charge.space->prefix == policy::inline_prefix;
}

// Did the peek find a counter? One of a fixed bucket is found by its missing units, as they never
// return by themselves and reset_after says nothing; a full bucket looks like no counter.
bool has_live_counter(const Verdict& verdict, const Charge& charge) {
  if (!charge.counted) return false;
  const auto decisions = decisions_of(verdict, charge);
  for (size_t i = 0; i < decisions.size(); ++i) {
    const limit::Limit& limit = charge.limits[i];
    if (limit.algorithm == limit::Algorithm::fixed_bucket
            ? decisions[i].remaining < decisions[i].limit
            : limit::has_counter(limit.algorithm) && decisions[i].reset_after.us > 0)
      return true;
  }
  return false;
}

// The bytes of the members' names, a boolean and four numbers.
constexpr size_t decision_bytes_max = 192;

void append_decision(const Decision& decision, bool allowed, base::Buffer& out) {
  base::TextWriter writer(out, decision_bytes_max);
  if (allowed)
    writer.put("\"allowed\": true, \"limit\": ");
  else
    writer.put("\"allowed\": false, \"limit\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.limit, 0)));
  writer.put(", \"remaining\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.remaining, 0)));
  writer.put(", \"retry_after\": ");
  if (decision.allowed)
    writer.put('0');
  else
    put_json_seconds(decision.retry_after, writer);
  writer.put(", \"reset_after\": ");
  put_json_seconds(decision.reset_after, writer);
  writer.finish();
}

int64_t debt_of(const Decision& decision) {
  return decision.remaining < 0 ? -decision.remaining : 0;
}

// The same of a charge, which has `over` and `debt` in place of `allowed`.
void append_balance(const Decision& decision, bool over, base::Buffer& out) {
  base::TextWriter writer(out, decision_bytes_max);
  writer.put(over ? "\"over\": true, \"limit\": " : "\"over\": false, \"limit\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.limit, 0)));
  writer.put(", \"remaining\": ");
  writer.put_number(static_cast<uint64_t>(std::max<int64_t>(decision.remaining, 0)));
  writer.put(", \"debt\": ");
  writer.put_number(static_cast<uint64_t>(debt_of(decision)));
  writer.put(", \"retry_after\": ");
  put_json_seconds(decision.retry_after, writer);
  writer.put(", \"reset_after\": ");
  put_json_seconds(decision.reset_after, writer);
  writer.finish();
}

void append_limit(const limit::Limit& limit, base::Buffer& out) {
  out.append(", \"algorithm\": \"");
  out.append(limit::name_of(limit.algorithm));
  out.append("\", \"quota\": ");
  base::append_decimal(limit.quota, out);
  out.append(", \"window\": ");
  append_json_seconds(limit.window, out);
}

}  // namespace

bool Exchange::take(const request::Request& request, const Verdict& verdict, base::Time now,
                    const ConnectionContext& around) {
  if (taken_ == 0) now_ = now;
  ++taken_;
  if (verdict.generation != 0) generation_ = verdict.generation;
  const bool last = taken_ == expected_;
  if (last && waits_) end_wait(around);
  switch (route_->action) {
    case Action::health:
    case Action::crab_health:
      if (verdict.error.empty()) break;
      retry_after_ = base::seconds(1);
      refuse(problems::reduced_capacity, verdict.error);
      break;
    case Action::reset:
      take_counters(request, verdict);
      break;
    case Action::auth:
      take_auth(verdict, around);
      break;
    case Action::throttle:
      take_throttle(verdict, around);
      break;
    case Action::charge:
      is_again_ ? take_look(verdict, last, around) : take_charge(verdict, last, around);
      break;
    default:
      is_several_ ? take_part(verdict, around) : take_one(verdict, around);
  }
  return last;
}

// True: the verdict has no decision to show, and the problem was set as the whole answer.
bool Exchange::fail_by(const Verdict& verdict, const ConnectionContext& around) {
  const bool is_unmatched = verdict.error.empty() ? !verdict.matched && !verdict.expired
                                                  : verdict.error == request::no_rule_applies;
  if (verdict.expired) {
    retry_after_ = base::seconds(1);
    refuse(problems::wait_timeout, "there were not enough units in time; nothing was charged");
    return true;
  }
  if (is_unmatched) return fail_unmatched(around);
  if (verdict.error.empty()) return false;
  // A failure of the store, and a lack of room for inline limits, may pass: 503. Other errors are
  // the request's, and a retry would not help: 400.
  const bool passes =
      verdict.cause != request::Error::none || verdict.error == request::too_many_inline_limits;
  if (passes) retry_after_ = base::seconds(1);
  refuse(passes ? problems::reduced_capacity : problems::bad_request, verdict.error);
  return true;
}

// For a request to which no rule applies. `http.unmatched` decides, except for put and explain,
// which have nothing to answer then. True: the problem was set.
bool Exchange::fail_unmatched(const ConnectionContext& around) {
  const bool takes = route_->action != Action::put && route_->action != Action::explain;
  if (takes && around.options.unmatched != Unmatched::error) {
    const bool allowed = around.options.unmatched == Unmatched::allow;
    allowed_ &= allowed;
    denied_ |= !allowed;
    retry_of_denial_ = base::never;
    return false;
  }
  refuse(problems::no_rule, "no rule of the policy applies to these entries");
  return true;
}

void Exchange::take_one(const Verdict& verdict, const ConnectionContext& around) {
  if (fail_by(verdict, around)) return;
  if (verdict.tightest == nullptr) {
    members_.append(allowed_ ? "\"allowed\": true, \"rule\": null"
                             : "\"allowed\": false, \"rule\": null");
    return;
  }
  report_limits(verdict, around);
  if (route_->action == Action::put) {
    members_.append("\"remaining\": ");
    base::append_decimal(std::max<int64_t>(verdict.tightest->remaining, 0), members_);
    members_.append(", \"limit\": ");
    base::append_decimal(verdict.tightest->limit, members_);
    return;
  }
  note_outcome(verdict.allowed, *verdict.tightest);
  append_take(verdict, verdict.allowed, members_);
  if (route_->action != Action::wait) return;
  members_.append(", \"waited\": ");
  append_json_seconds(verdict.waited, members_);
}

void Exchange::note_outcome(bool allowed, const Decision& tightest) {
  allowed_ &= allowed;
  if (allowed) return;
  denied_ = true;
  retry_of_denial_ = std::max(retry_of_denial_, tightest.retry_after);
}

void Exchange::append_take(const Verdict& verdict, bool allowed, base::Buffer& out) {
  append_decision(*verdict.tightest, allowed, out);
  out.append(", \"rule\": ");
  const std::string_view rule = rule_of(verdict);
  if (rule.empty())
    out.append("null");
  else
    append_json_text(rule, out);
  out.append(", \"mode\": \"enforce\"");
  if (detail_ || route_->action == Action::explain) append_limits(verdict, out);
}

// Appends the item of one of several takes. A take that could not be decided fails the whole
// request, unless the takes are independent (each_).
void Exchange::take_part(const Verdict& verdict, const ConnectionContext& around) {
  const bool is_first = taken_ == 1;
  if (problem_.kind != nullptr && !each_) return;
  if (fail_by(verdict, around)) {
    if (!each_) {
      if (problem_.kind == &problems::no_rule) problem_.pointer = "/takes";
      problem_.has_pointer = problem_.kind == &problems::no_rule;
      return;
    }
    part_problem_ = problem_.kind;
    members_.append(is_first ? "{\"error\": {" : ", {\"error\": {");
    append_problem(problem_, false, members_);
    members_.append("}}");
    problem_.kind = nullptr;
    return;
  }
  is_decided_ = true;
  members_.append(is_first ? "{" : ", {");
  if (verdict.tightest == nullptr) {
    members_.append(around.options.unmatched == Unmatched::allow
                        ? "\"allowed\": true, \"rule\": null"
                        : "\"allowed\": false, \"rule\": null");
  } else if (route_->action == Action::put) {
    members_.append("\"remaining\": ");
    base::append_decimal(std::max<int64_t>(verdict.tightest->remaining, 0), members_);
    members_.append(", \"limit\": ");
    base::append_decimal(verdict.tightest->limit, members_);
  } else {
    if (route_->action != Action::batch) report_limits(verdict, around);
    // Takes that settle together share verdict.allowed, so each shows its tightest limit's outcome.
    const bool allowed = each_ ? verdict.allowed : verdict.tightest->allowed;
    note_outcome(allowed, *verdict.tightest);
    append_take(verdict, allowed, members_);
  }
  members_.append('}');
}

// ---- Charges ----

// Appends the item of one subject, and with an id keeps the verdict for when the charge is sent
// again.
void Exchange::take_charge(const Verdict& verdict, bool last, const ConnectionContext& around) {
  if (verdict.known == request::Known::other_content) {
    refuse_other_content();
  } else if (problem_.kind == nullptr && !fail_charge(verdict, around)) {
    // Another server that shares the store has charged it, or its answer was lost.
    is_repeated_ |= verdict.known == request::Known::yes;
    append_charge(verdict, around);
    if (has_claim()) request::append_kept(verdict, now_, once_->kept);
  }
  if (!last || !has_claim()) return;
  if (problem_.kind != nullptr) return once_->claim.drop();  // nothing was charged
  once_->claim.finish(once_->kept, around.peer.clock->monotonic());
}

// The id was used before. The request looked at the counters, so this answer waits for what the
// first one waits for, and fails if the store cannot answer.
void Exchange::take_look(const Verdict& verdict, bool last, const ConnectionContext& around) {
  if (verdict.cause != request::Error::none && problem_.kind == nullptr) fail_by(verdict, around);
  if (!last || problem_.kind != nullptr) return;
  using Found = request::ChargeIds::Found;
  std::string answer;
  const Found found = around.peer.charge_ids->find(user_of(around), once_->id, once_->content,
                                                   around.peer.clock->monotonic(), answer);
  if (found == Found::remembered) return answer_again(answer, around);
  if (found == Found::other_content) {
    refuse_other_content();
    return;
  }
  retry_after_ = base::seconds(1);
  refuse(problems::reduced_capacity,
         found == Found::under_way
             ? "the first charge with this id has no answer yet; send it again"
             : "the first charge with this id failed; send it again");
}

void Exchange::answer_again(std::string_view kept, const ConnectionContext& around) {
  is_repeated_ = true;
  const size_t count = subjects_.size();
  for (taken_ = 1; taken_ <= count; ++taken_) {
    // Another charge, of fewer subjects, whose content has the same digest.
    if (kept.empty()) {
      refuse_other_content();
      break;
    }
    const request::KeptVerdict one(kept);
    now_ = one.now();
    if (one.verdict().generation != 0) generation_ = one.verdict().generation;
    append_charge(one.verdict(), around);
  }
  taken_ = expected_;
}

// A charge is never refused, so `http.unmatched` decides only between an error and an answer.
bool Exchange::fail_charge(const Verdict& verdict, const ConnectionContext& around) {
  const bool is_unmatched =
      verdict.error.empty() ? !verdict.matched : verdict.error == request::no_rule_applies;
  if (is_unmatched && around.options.unmatched != Unmatched::error) return false;
  if (!fail_by(verdict, around)) return false;
  if (is_several_ && problem_.kind == &problems::no_rule) {
    problem_.pointer = "/takes";
    problem_.has_pointer = true;
  }
  return true;
}

void Exchange::append_charge(const Verdict& verdict, const ConnectionContext& around) {
  base::Buffer& out = members_;
  if (is_several_) out.append(taken_ == 1 ? "{" : ", {");
  out.append("\"charged\": ");
  base::append_decimal(verdict.charged.value_or(0), out);
  out.append(", ");
  if (verdict.tightest == nullptr) {
    out.append("\"over\": false, \"rule\": null");
  } else {
    over_ |= verdict.over;
    report_limits(verdict, around);
    append_balance(*verdict.tightest, verdict.over, out);
    out.append(", \"rule\": ");
    const std::string_view rule = rule_of(verdict);
    if (rule.empty())
      out.append("null");
    else
      append_json_text(rule, out);
    out.append(", \"mode\": \"enforce\"");
    if (detail_) append_limits(verdict, out);
  }
  if (is_several_) out.append('}');
}

// For a reset: the peek's verdict counts the counters, the put's has nothing to add.
void Exchange::take_counters(const request::Request& request, const Verdict& verdict) {
  if (problem_.kind != nullptr) return;
  if (!verdict.error.empty()) {
    retry_after_ = base::seconds(1);
    refuse(problems::reduced_capacity, verdict.error);
  } else if (!verdict.matched) {
    refuse(problems::no_rule, "no rule of the policy applies to these entries");
  } else if (request.verb == request::Verb::peek) {
    for (const Charge& charge : verdict.charges) counters_ += has_live_counter(verdict, charge);
  }
}

// ---- Limits in answers ----

std::string_view Exchange::rule_of(const Verdict& verdict) const {
  const Subject* const subject = subject_of_verdict();
  if (subject == nullptr || !subject->is_inline) return verdict.rule;
  return name_of_inline(*subject, verdict);
}

// The subject of the verdict that is being taken; null: the request has no subjects (forward-auth).
const Exchange::Subject* Exchange::subject_of_verdict() const {
  return taken_ <= subjects_.size() && taken_ > 0 ? &subjects_[taken_ - 1] : nullptr;
}

// The name to show for the tightest limit: of a limit that came with the request its own name, of a
// rule of the policy that the key met as well the rule's.
std::string_view Exchange::name_of_inline(const Subject& subject, const Verdict& verdict) const {
  if (!verdict.inline_limit) return verdict.rule;
  if (subject.name_count == 1) return limit_names_[subject.name_first];
  for (const Charge& charge : verdict.charges) {
    if (!is_inline(charge) || charge.limits.size() != subject.name_count) continue;
    const auto decisions = decisions_of(verdict, charge);
    for (size_t i = 0; i < decisions.size(); ++i)
      if (&decisions[i] == verdict.tightest) return limit_names_[subject.name_first + i];
  }
  return name_by_limit(subject, verdict);
}

// For a late verdict, which has no charges: finds the name by comparing the limits.
std::string_view Exchange::name_by_limit(const Subject& subject, const Verdict& verdict) const {
  for (size_t i = 0; verdict.limit != nullptr && i < subject.name_count; ++i)
    if (inline_limits_[subject.name_first + i] == *verdict.limit)
      return limit_names_[subject.name_first + i];
  return limit_names_[subject.name_first];
}

void Exchange::report_limits(const Verdict& verdict, const ConnectionContext& around) {
  const Subject* const subject = subject_of_verdict();
  if (verdict.charges.empty()) {
    if (verdict.limit == nullptr || !limit::has_counter(verdict.limit->algorithm)) return;
    report_limit(rule_of(verdict), 0, *verdict.limit, *verdict.tightest);
    note_shown(*verdict.tightest);
    return;
  }
  for (const Charge& charge : verdict.charges) {
    const auto decisions = decisions_of(verdict, charge);
    const std::string_view rule =
        charge.rule_name == nullptr ? std::string_view() : std::string_view(*charge.rule_name);
    const bool has_names = subject != nullptr && subject->is_inline && is_inline(charge) &&
                           subject->name_count == decisions.size();
    const size_t first = told_.size();
    for (size_t i = 0; i < decisions.size(); ++i) {
      if (!limit::has_counter(charge.limits[i].algorithm)) continue;
      if (has_names)
        report_limit(limit_names_[subject->name_first + i], 0, charge.limits[i], decisions[i]);
      else
        report_limit(rule, i, charge.limits[i], decisions[i]);
      if (&decisions[i] == verdict.tightest) note_shown(decisions[i]);
    }
    if (around.options.partition_keys) [[unlikely]]
      report_partition(charge, first, around);
  }
}

// Sets the partition key of the limits from told_[first] on: a hash of the counter's key with a
// secret, because others than the actor may see the answer.
void Exchange::report_partition(const Charge& charge, size_t first,
                                const ConnectionContext& around) {
  const auto& secret = around.options.partition_secret;
  std::string text(reinterpret_cast<const char*>(secret.data()), secret.size());
  text.append(charge.space->prefix).append(charge.key);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  const int made =
      EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  SLUICE_CHECK(made == 1 && size >= sizeof(Told::partition));
  for (size_t i = first; i < told_.size(); ++i)
    std::copy_n(digest.begin(), told_[i].partition.size(), told_[i].partition.begin());
}

// Notes the limit that was reported last, the tightest of its take. Of several takes the answer
// shows the tightest limit of all.
void Exchange::note_shown(const Decision& decision) {
  if (last_told_ == told_.size()) return;
  if (last_told_ == shown_) {
    has_shown_ = true;
    return;
  }
  if (has_shown_) {
    const Decision& other = told_[shown_].decision;
    const bool tighter = decision.allowed != other.allowed ? !decision.allowed
                         : !decision.allowed ? decision.retry_after > other.retry_after
                                             : decision.remaining < other.remaining;
    if (!tighter) return;
  }
  has_shown_ = true;
  shown_ = last_told_;
}

// `index` is the limit's position among those of its rule. A limit that an earlier take reported
// appears once, with the decision of the later take; but a refusal stays.
void Exchange::report_limit(std::string_view rule, size_t index, const limit::Limit& limit,
                            const Decision& decision) {
  const size_t first = names_.size();
  names_.append(rule.empty() ? std::string_view("default") : rule);
  if (index > 0) names_.append("-").append(std::to_string(index + 1));
  const std::string_view name = std::string_view(names_).substr(first);
  for (size_t i = 0; i < told_.size(); ++i) {
    if (name_of(told_[i]) != name) continue;
    names_.resize(first);
    last_told_ = i;
    if (told_[i].decision.allowed && told_[i].limit == limit) told_[i].decision = decision;
    return;
  }
  if (told_.size() == told_max) {
    names_.resize(first);
    last_told_ = told_.size();
    return;
  }
  last_told_ = told_.size();
  told_.push_back(
      {static_cast<uint32_t>(first), static_cast<uint32_t>(name.size()), limit, decision});
}

// Appends each limit that the request met, for `explain` with its counter's name. A wait that was
// granted late has only the tightest limit.
void Exchange::append_limits(const Verdict& verdict, base::Buffer& out) const {
  const Subject* const subject = subject_of_verdict();
  out.append(", \"limits\": [");
  bool is_first = true;
  if (verdict.charges.empty() && verdict.limit != nullptr) {
    out.append("{\"name\": ");
    append_json_text(rule_of(verdict), out);
    out.append(", ");
    append_decision(*verdict.tightest, verdict.tightest->allowed, out);
    append_limit(*verdict.limit, out);
    out.append('}');
  }
  for (const Charge& charge : verdict.charges) {
    const auto decisions = decisions_of(verdict, charge);
    const std::string_view rule =
        charge.rule_name == nullptr ? std::string_view() : std::string_view(*charge.rule_name);
    const bool has_names = subject != nullptr && subject->is_inline && is_inline(charge) &&
                           subject->name_count == decisions.size();
    for (size_t i = 0; i < decisions.size(); ++i) {
      out.append(is_first ? "{\"name\": " : ", {\"name\": ");
      is_first = false;
      std::string name(has_names      ? std::string_view(limit_names_[subject->name_first + i])
                       : rule.empty() ? std::string_view("default")
                                      : rule);
      if (!has_names && i > 0) name += "-" + std::to_string(i + 1);
      append_json_text(name, out);
      out.append(", ");
      route_->action == Action::charge
          ? append_balance(decisions[i], debt_of(decisions[i]) > 0, out)
          : append_decision(decisions[i], decisions[i].allowed, out);
      append_limit(charge.limits[i], out);
      if (route_->action == Action::explain) {
        out.append(", \"counter\": ");
        std::string counter = charge.space->prefix;
        counter.append(charge.key).append(charge.space->suffix);
        append_json_text(counter, out);
      }
      out.append('}');
    }
  }
  out.append(']');
}

}  // namespace sluice::http
