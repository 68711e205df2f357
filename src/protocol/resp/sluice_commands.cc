// SLUICE.*, and replies that combine several verdicts.
#include <algorithm>

#include "base/buffer.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/dialect.h"
#include "protocol/resp/session.h"
#include "protocol/resp/sluice_replies.h"
#include "request/kept_verdict.h"

namespace sluice::resp {

using request::Verb;

namespace {

constexpr std::string_view no_rule = "NORULE no rule applies";
constexpr std::string_view other_charge = "IDINUSE the id was used with another charge";

}  // namespace

void RespSession::sluice(Words words) {
  if (!parse_sluice_command(words, sluice_)) return answer_malformed(sluice_.error);
  const auto is_inline = [](const SluiceSubject& subject) { return subject.is_inline; };
  if (!options_.inline_limits &&
      std::any_of(sluice_.subjects.begin(), sluice_.subjects.end(), is_inline))
    return answer_malformed(
        "ERR limits that come with a command are switched off (resp.inline_limits)");
  if (sluice_.now) return answer_malformed("ERR NOW is not available in this version");
  switch (sluice_.verb) {
    case SluiceVerb::take:
      return commit_subject(sluice_.subjects[0],
                            {.note = sluice_.with_name ? five_and_name : five});
    case SluiceVerb::peek:
      return commit_subject(
          sluice_.subjects[0],
          {.verb = Verb::would_take, .note = sluice_.with_name ? five_and_name : five});
    case SluiceVerb::put:
      return commit_subject(sluice_.subjects[0],
                            {.verb = Verb::put, .all = sluice_.all, .note = left_and_limit});
    case SluiceVerb::reset:
      commit_subject(sluice_.subjects[0], {.verb = Verb::peek, .note = counters | gathered});
      return commit_subject(sluice_.subjects[0],
                            {.verb = Verb::put, .all = true, .note = counters});
    case SluiceVerb::explain:
      return commit_subject(sluice_.subjects[0], {.verb = Verb::would_take, .note = explanation});
    case SluiceVerb::charge:
      return sluice_.id.empty() ? charge() : charge_once();
    case SluiceVerb::mtake:
      return take_several();
    case SluiceVerb::wait:
      return wait();
    case SluiceVerb::info:
      return answer_with([&](wire::RespWriter& out) {
        const request::ServerFigures figures =
            peer_.server == nullptr ? request::ServerFigures() : peer_.server->figures();
        out.map(4);
        out.bulk("version");
        out.bulk(server_version());
        out.bulk("uptime_seconds");
        out.integer(figures.uptime.us / 1'000'000);
        out.bulk("counters");
        out.integer(static_cast<int64_t>(figures.counters));
        out.bulk("counter_memory_bytes");
        out.integer(static_cast<int64_t>(figures.memory_bytes));
      });
    case SluiceVerb::help:
      return answer_with([](wire::RespWriter& out) {
        out.list(help_lines().size());
        for (const std::string_view line : help_lines()) out.simple(line);
      });
  }
}

// PUT and RESET of a key with inline limits affect its own counters only, whatever rules the policy
// has for such takes (RuleScope::dialect). A subject of entries could imitate the descriptors of
// the program's own rules, and must not reach their counters, so it uses RuleScope::native.
void RespSession::commit_subject(const SluiceSubject& subject, request::Request request) {
  const bool is_about_counters = request.verb == Verb::put || request.verb == Verb::peek;
  request.scope = !subject.is_inline  ? request::RuleScope::native
                  : is_about_counters ? request::RuleScope::dialect
                                      : request::RuleScope::all;
  request.needs_store = is_about_counters;
  requests_->open();
  if (subject.is_inline) {
    requests_->add(request::Entry{command_entry, inline_command});
    requests_->add(request::Entry{key_entry, subject.key});
    for (const limit::Limit& limit : sluice_.limits_of(subject)) requests_->add(limit);
    request.limits_inline = true;
    request.counts = subject.counts;
  } else {
    for (const request::Entry& entry : sluice_.entries_of(subject)) requests_->add(entry);
  }
  if (request.verb != Verb::peek && !request.all) request.cost = sluice_.n;
  if (request.note == charged_once && !charges_.back().claim) request.cost = 0;
  if (silent_ && request.note != charged_once) request.note = silent;
  requests_->commit(request);
}

void RespSession::charge() {
  commit_subject(sluice_.subjects[0],
                 {.verb = Verb::charge, .note = sluice_.with_name ? six_and_name : six});
}

// If the id was used before, the request looks at the counters in place of charging them: so its
// reply waits for what the first one waits for, and is an error if the store cannot answer.
void RespSession::charge_once() {
  using Found = request::ChargeIds::Found;
  if (peer_.charge_ids == nullptr)
    return answer_error("ERR this server remembers no ids of charges");
  const SluiceSubject& subject = sluice_.subjects[0];
  request::ChargeContent content;
  if (subject.is_inline) {
    content.add_key(subject.key, sluice_.n);
    const auto limits = sluice_.limits_of(subject);
    for (size_t i = 0; i < limits.size(); ++i)
      content.add_limit(limits[i], limit::has(subject.counts, i));
  } else {
    const auto entries = sluice_.entries_of(subject);
    content.add_entries({entries.begin(), entries.end()}, sluice_.n);
  }
  ChargeOnce once{.user = identity_.is_needed() ? identity_.user() : std::string(),
                  .id = std::string(sluice_.id),
                  .content = content.digest(),
                  .with_name = sluice_.with_name,
                  .silent = silent_};
  const Found found = peer_.charge_ids->claim(once.user, once.id, once.content,
                                              peer_.clock->monotonic(), once.claim);
  if (found == Found::other_content) return answer_error(other_charge);
  if (found == Found::full)
    return answer_error("BUSY the memory for ids of charges is full, try again later");
  request::Request request{.verb = Verb::charge, .note = charged_once};
  if (once.claim) request.charge_id = requests_->hold_id({once.user + ":" + once.id, once.content});
  charges_.push_back(std::move(once));
  commit_subject(subject, request);
}

// In EXEC the command does not wait.
void RespSession::wait() {
  if (!executing_ && ++connections_.waiting > options_.waiting_max) {
    --connections_.waiting;
    return answer("-BUSY too many clients wait, try again later\r\n");
  }
  commit_subject(sluice_.subjects[0], {.verb = executing_ ? Verb::take : Verb::wait,
                                       .must_fit = true,
                                       .wait_at_most = sluice_.timeout,
                                       .note = waited});
  waiting_ = !executing_;
}

// Sends one reply for all subjects. The parts are gathered, and written with the last one.
void RespSession::take_several() {
  const size_t last = sluice_.subjects.size() - 1;
  for (size_t i = 0; i <= last; ++i)
    commit_subject(sluice_.subjects[i],
                   {.joins = i > 0 && !sluice_.each,
                    .note = (sluice_.each ? each_five : joint_five) | (i < last ? gathered : 0u)});
}

// ---- Replies ----

// Adds the verdict to the gathered reply, and writes that if the verdict is its last.
void RespSession::reply_gathered(const request::Request& request, const request::Verdict& verdict,
                                 wire::RespWriter& out) {
  if (!verdict.error.empty() && gathered_.error.empty()) gathered_.error = error_of(verdict);
  const uint32_t kind = request.note & ~gathered;
  if (verdict.error.empty() && verdict.matched) {
    ++gathered_.matched;
    // The counters are counted by the peek before a put, because afterwards they may be gone.
    if (request.verb == Verb::peek) {
      gathered_.counters += live_counters(verdict);
      gathered_.life = std::max(gathered_.life, lives_for(verdict));
    }
    gathered_.allowed &= verdict.allowed;
  }
  if (kind == joint_five || kind == each_five) {
    ++gathered_.part_count;
    gathered_.allowed &= kind == joint_five || verdict.matched;
    wire::RespWriter parts(gathered_.parts, version());
    if (!verdict.error.empty() && kind == each_five)
      parts.error(error_of(verdict));
    else if (verdict.tightest == nullptr)
      kind == each_five ? parts.error(no_rule) : parts.null_list();
    else
      append_five(verdict, verdict.tightest->allowed, parts);
  }
  if ((request.note & gathered) != 0) return;
  write_gathered(kind, out);
  // Keeps the memory of the parts for later replies.
  gathered_.parts.clear();
  gathered_.error.clear();
  gathered_.part_count = gathered_.counters = gathered_.matched = 0;
  gathered_.life = {};
  gathered_.allowed = true;
}

void RespSession::write_gathered(uint32_t kind, wire::RespWriter& out) {
  const bool by_key = kind == ttl || kind == pttl;
  if (!gathered_.error.empty() && kind != each_five) return out.error(gathered_.error);
  if (gathered_.matched == 0 && kind != each_five && !by_key) return out.error(no_rule);
  const bool is_there = gathered_.life.us > 0;
  switch (kind) {
    case ttl:
    case pttl: {
      if (!is_there) return out.integer(-2);
      if (gathered_.life == base::never) return out.integer(-1);
      return out.integer(kind == ttl ? limit::gcra::seconds_up(gathered_.life)
                                     : milliseconds_up(gathered_.life));
    }
    case counters:
      return out.integer(static_cast<int64_t>(gathered_.counters));
    default:
      out.list(1 + gathered_.part_count);
      out.integer(gathered_.allowed && gathered_.error.empty() ? 1 : 0);
      out.raw(gathered_.parts.view());
  }
}

// Replies to a charge with an id, the oldest without a reply.
void RespSession::reply_once(const request::Verdict& verdict, base::Time now,
                             wire::RespWriter& out) {
  using Found = request::ChargeIds::Found;
  ChargeOnce once = std::move(charges_.front());
  charges_.pop_front();
  const request::Request request{.verb = Verb::charge, .note = once.with_name ? six_and_name : six};
  if (verdict.known == request::Known::other_content) {
    once.claim.drop();
    return once.silent ? void() : out.error(other_charge);
  }
  if (once.claim) {
    const bool decided = verdict.error.empty() &&
                         (verdict.tightest != nullptr || options_.unmatched != Unmatched::error);
    if (decided) {
      std::string answer;
      request::append_kept(verdict, now, answer);
      once.claim.finish(std::move(answer), peer_.clock->monotonic());
    } else {
      once.claim.drop();  // nothing was charged
    }
    if (!once.silent) reply_sluice(request, verdict, out);
    return;
  }
  if (once.silent) return;
  if (verdict.cause != request::Error::none) return out.error(error_of(verdict));
  std::string answer;
  switch (
      peer_.charge_ids->find(once.user, once.id, once.content, peer_.clock->monotonic(), answer)) {
    case Found::remembered: {
      std::string_view rest = answer;
      const request::KeptVerdict first(rest);
      return reply_sluice(request, first.verdict(), out);
    }
    case Found::under_way:
      return out.error("TRYAGAIN the first charge with this id has no answer yet");
    case Found::other_content:
      return out.error(other_charge);
    default:
      return out.error("TRYAGAIN the first charge with this id failed");
  }
}

// Replies if no rule applies. Commands other than takes need a rule, so they are answered with an
// error whatever `unmatched` says.
void RespSession::reply_unmatched(const request::Request& request, wire::RespWriter& out) const {
  const bool named = request.note == five_and_name || request.note == six_and_name;
  const bool charges = request.note == six || request.note == six_and_name;
  const bool takes = named || charges || request.note == five || request.note == waited;
  if (options_.unmatched == Unmatched::error || !takes) return out.error(no_rule);
  const bool allowed = options_.unmatched == Unmatched::allow;
  // What no limit holds is in no debt.
  const int64_t told[] = {allowed || charges ? 1 : 0, 0, 0, allowed ? 0 : -1, 0, 0};
  const auto numbers = std::span(told).first(request.note == waited || charges ? 6 : 5);
  if (!named) return out.integers(numbers);
  out.list(numbers.size() + 1);
  for (const int64_t number : numbers) out.integer(number);
  out.null();
}

void RespSession::reply_sluice(const request::Request& request, const request::Verdict& verdict,
                               wire::RespWriter& out) {
  if (!verdict.error.empty()) return out.error(error_of(verdict));
  if (verdict.expired) return out.null_list();
  if (verdict.tightest == nullptr) return reply_unmatched(request, out);
  switch (request.note) {
    case waited:
      return append_waited(verdict, out);
    case five:
      return append_five(verdict, verdict.allowed, out);
    case five_and_name:
      return append_five_and_name(verdict, out);
    case six:
    case six_and_name:
      return append_charged(verdict, request.note == six_and_name, out);
    case explanation:
      return append_explanation(verdict, out);
    default: {
      const int64_t two[] = {shown_remaining(*verdict.tightest), verdict.tightest->limit};
      out.integers(two);
    }
  }
}

}  // namespace sluice::resp
