// SLUICE.RESERVE, MRESERVE, ACQUIRE, EXTEND, COMMIT, RELEASE and RENEW: what they ask of holds
// (request/hold.h), and their replies. An id and what it reserves are the same over each protocol.
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "protocol/resp/session.h"
#include "protocol/resp/sluice_command.h"
#include "request/charge.h"
#include "request/charge_ids.h"
#include "request/hold.h"

namespace sluice::resp {

using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verb;

namespace {

// What a command asks. An EXTEND without units sets the end alone.
HoldAsk ask_of(const SluiceCommand& command) {
  switch (command.verb) {
    case SluiceVerb::extend:
      return command.units.empty() ? HoldAsk::renew : HoldAsk::extend;
    case SluiceVerb::commit:
      return HoldAsk::commit;
    case SluiceVerb::release:
      return HoldAsk::release;
    case SluiceVerb::renew:
      return HoldAsk::renew;
    default:
      return HoldAsk::reserve;
  }
}

// "12", or of several subjects "12 and 0"
std::string units_text(std::span<const int64_t> units) {
  std::string text;
  for (const int64_t one : units) text += (text.empty() ? "" : " and ") + std::to_string(one);
  return text;
}

std::string ended_text(HoldAsk ask) {
  switch (ask) {
    case HoldAsk::reserve:
      return "IDINUSE the reservation with this id has ended: make a new id for another";
    case HoldAsk::commit:
      return "ENDED the reservation has ended, and a rule of it ignores commits that come late "
             "(`late_commit: ignore`); nothing was charged";
    default:
      return "ENDED the reservation has ended: it was released, or its ttl is over; end the work, "
             "or make another reservation";
  }
}

}  // namespace

// A reserve takes from its subjects. A commit that names them charges them if its hold is unknown.
// Everything else is one request without a subject.
void RespSession::hold() {
  if (has_two_lists())
    return answer_malformed(
        "ERR two subjects bring different limits for one key, and a reservation has one list for "
        "each: give them keys of their own, or reserve each by itself");
  const bool each = sluice_.verb == SluiceVerb::mreserve;
  if (each && sluice_.timeout.us > 0)
    return answer_malformed(
        "ERR a reservation of several subjects does not wait for units: leave WAIT out");
  HoldCall call = hold_call();
  const bool reserves = call.ask == HoldAsk::reserve;
  call.waits = reserves && sluice_.timeout.us > 0 && !executing_;
  const bool waits = call.waits;
  if (waits && !begin_wait()) return;
  const size_t count = sluice_.subjects.size();
  const bool together = each || count > 1;
  const request::Message* const its =
      message({.together = together,
               .needs_rule = together && options_.unmatched != Unmatched::allow,
               .must_fit = waits,
               .wait_at_most = waits ? sluice_.timeout : base::Duration{},
               .hold = requests_->hold(std::move(call))});
  const uint32_t note = (each                                ? holds_reply
                         : sluice_.verb == SluiceVerb::renew ? renewal
                                                             : hold_reply) |
                        (sluice_.with_units ? with_units : 0u);
  for (size_t i = 0; i < count; ++i)
    commit_subject(sluice_.subjects[i],
                   {.verb = reserves ? Verb::reserve : Verb::charge,
                    .message = its,
                    .note = note | (i + 1 < count ? gathered : 0u)},
                   sluice_.units[i]);
  if (count > 0) return;
  requests_->open();
  requests_->commit({.verb = Verb::settle,
                     .scope = request::RuleScope::native,
                     .message = its,
                     .note = note | (silent_ ? silent : 0u),
                     .cost = 0,
                     .tag = {}});
}

HoldCall RespSession::hold_call() const {
  HoldCall call{.ask = ask_of(sluice_),
                .id = sluice_.id,
                .ttl = sluice_.ttl,
                .holder = sluice_.holder,
                .is_place = sluice_.verb == SluiceVerb::acquire,
                .closes = sluice_.closes};
  if (identity_.is_needed()) call.user = requests_->hold(identity_.user());
  if (call.ask != HoldAsk::reserve) {
    call.units = sluice_.units;
  } else if (!call.id.empty()) {
    request::ChargeContent content;
    for (size_t i = 0; i < sluice_.subjects.size(); ++i)
      add_content(sluice_.subjects[i], sluice_.units[i], content);
    call.content = content.digest();
  }
  return call;
}

// Do two subjects bring different lists of limits for one key?
bool RespSession::has_two_lists() const {
  const auto& subjects = sluice_.subjects;
  for (size_t i = 0; i < subjects.size(); ++i)
    for (size_t j = 0; j < i; ++j) {
      const SluiceSubject &one = subjects[i], &other = subjects[j];
      if (one.is_inline && other.is_inline && one.key == other.key &&
          (one.counts != other.counts ||
           !std::ranges::equal(sluice_.limits_of(one), sluice_.limits_of(other))))
        return true;
    }
  return false;
}

// ---- Replies ----

// Adds the verdict to the gathered reply, and writes that if the verdict is its last.
void RespSession::reply_hold(const request::Request& request, const request::Verdict& verdict,
                             wire::RespWriter& out) {
  const bool is_last = (request.note & gathered) == 0;
  const bool is_unmatched = verdict.error.empty() ? !verdict.matched && verdict.tightest == nullptr
                                                  : verdict.error == request::no_rule_applies;
  if (request.verb != Verb::settle) {
    ++gathered_.part_count;
    gathered_.unmatched |= is_unmatched;
    gathered_.allowed &= verdict.allowed || is_unmatched;
  }
  if (!verdict.error.empty() && !is_unmatched && gathered_.error.empty())
    gathered_.error = error_of(verdict);
  wire::RespWriter parts(gathered_.parts, version());
  if (const limit::Decision* const its = verdict.tightest) {
    const int64_t two[] = {its->limit, shown_remaining(*its)};
    parts.integers(two);
    if (!gathered_.shown || request::is_tighter_of_charge(*its, *gathered_.shown))
      gathered_.shown = *its;
  } else {
    parts.null_list();
  }
  if (!is_last) return;
  if (verdict.expired)  // its wait is over
    out.null_list();
  else
    write_hold(*request::hold_of(request, verdict), request.note, out);
  end_gathered();
}

void RespSession::write_hold(const HoldCall& call, uint32_t note, wire::RespWriter& out) const {
  if (const std::string error = error_of_hold(call); !error.empty()) {
    if (call.outcome == HoldOutcome::wrong_number) report(request::malformed_code, error);
    return out.error(error);
  }
  if (call.ask == HoldAsk::release) return out.integer(call.returned);
  if (kind_of(note) == renewal) return out.integer(milliseconds_up(call.ends_in));
  if (call.ask != HoldAsk::commit) return write_held(call, note, out);
  out.list(5);
  out.integer(call.repeated ? 0 : 1);
  out.integer(call.late ? 1 : 0);
  out.integer(call.returned);
  out.integer(call.charged);
  if (call.has_decision)
    out.integer(shown_remaining(call.decision));
  else if (gathered_.shown)
    out.integer(shown_remaining(*gathered_.shown));
  else
    out.null();
}

// Replies to a reserve or an EXTEND.
void RespSession::write_held(const HoldCall& call, uint32_t note, wire::RespWriter& out) const {
  const bool reserves = call.ask == HoldAsk::reserve;
  const bool is_held = call.outcome == HoldOutcome::done;
  const bool denied = reserves ? !gathered_.allowed ||
                                     (gathered_.unmatched && options_.unmatched == Unmatched::deny)
                               : !is_held;
  const bool has_units = (note & with_units) != 0;
  const bool each = kind_of(note) == holds_reply;
  const size_t parts = !each ? 3 : denied ? 0 : gathered_.part_count;
  out.list(2 + parts + (has_units ? 1 : 0));
  out.integer(denied ? 0 : 1);
  if (!denied && is_held)
    out.bulk(call.made_id);
  else
    out.null();
  if (!each) {
    const std::optional<limit::Decision> shown = reserves            ? gathered_.shown
                                                 : call.has_decision ? std::optional(call.decision)
                                                                     : std::nullopt;
    shown ? out.integer(shown->limit) : out.null();
    shown ? out.integer(shown_remaining(*shown)) : out.null();
    const base::Duration retry = shown ? shown->retry_after : base::never;
    out.integer(denied ? milliseconds_up(retry) : is_held ? milliseconds_up(call.ends_in) : 0);
  } else if (!denied) {
    out.raw(gathered_.parts.view());
  }
  if (has_units) out.integers(call.reserved);
}

// The error to reply with; empty: there is none.
std::string RespSession::error_of_hold(const HoldCall& call) const {
  switch (call.outcome) {
    case HoldOutcome::done:
    case HoldOutcome::refused:
    case HoldOutcome::not_held:
    case HoldOutcome::failed:
      break;
    case HoldOutcome::unknown: {
      std::string text =
          "NOID no reservation has this id: it was never made, it is of another user, or it ended "
          "so long ago that it is forgotten";
      if (call.ask == HoldAsk::commit)
        text += "; to charge what was used all the same, send its SUBJECT along";
      return text;
    }
    case HoldOutcome::in_use:
      return "IDINUSE the id names another reservation: an id belongs to one reservation, which "
             "may be sent again unchanged";
    case HoldOutcome::settled:
      return "SETTLED the reservation is committed, with " + units_text(call.used) + " units; " +
             (call.ask == HoldAsk::reserve ? "make a new id for another" : "nothing was changed");
    case HoldOutcome::ended:
      return ended_text(call.ask);
    case HoldOutcome::wrong_number:
      return "ERR N must have one number for each subject of the reservation: " +
             std::to_string(call.reserved.size());
    case HoldOutcome::no_places:
      return "NOPLACES no limit that applies to this subject has places: ACQUIRE is for limits "
             "with `algorithm: concurrency`; RESERVE takes units of all others";
    case HoldOutcome::waiting:
    case HoldOutcome::full:
      return "BUSY there are as many reservations as the server keeps, try again later";
  }
  if (!gathered_.error.empty()) return gathered_.error;
  if (gathered_.unmatched && options_.unmatched == Unmatched::error) return std::string(no_rule);
  if (call.outcome == HoldOutcome::failed && call.ask != HoldAsk::reserve)
    return "TRYAGAIN the store cannot decide it";
  return {};
}

}  // namespace sluice::resp
