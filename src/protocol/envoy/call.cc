#include "protocol/envoy/call.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "base/bounds.h"
#include "limit/calendar.h"
#include "limit/shown.h"
#include "policy/rule_set.h"
#include "protocol/envoy/window.h"

namespace sluice::envoy {
namespace {

constexpr uint32_t grpc_unknown = 2, grpc_invalid_argument = 3;

}  // namespace

std::optional<RequestError> check_request(const RateLimitRequest& request) {
  if (request.domain.empty())
    return RequestError{grpc_unknown, "rate limit domain must not be empty"};
  if (request.descriptors.empty())
    return RequestError{grpc_unknown, "rate limit descriptor list must not be empty"};
  return std::nullopt;
}

std::optional<base::Duration> override_window(const LimitOverride& limit) {
  const int64_t unit = unit_seconds(limit.unit);
  const int64_t units = limit.unit_multiplier.value_or(1);
  constexpr int64_t seconds_max = std::numeric_limits<int64_t>::max() / base::seconds(1).us;
  if (unit == 0 || units == 0 || units > seconds_max / unit) return std::nullopt;
  return base::seconds(unit * units);
}

std::optional<RequestError> check_overrides(const RateLimitRequest& request) {
  for (size_t i = 0; i < request.descriptors.size(); ++i) {
    const std::optional<LimitOverride>& limit = request.descriptors[i].limit;
    if (!limit || override_window(*limit)) continue;
    std::string message = "descriptors[" + std::to_string(i) + "].limit.";
    if (unit_seconds(limit->unit) == 0) {
      const std::string_view name = unit_name(limit->unit);
      message += "unit: ";
      message +=
          name.empty() ? std::to_string(static_cast<int32_t>(limit->unit)) : std::string(name);
      message += " is not a unit";
    } else {
      message += "unit_multiplier: " + std::to_string(limit->unit_multiplier.value_or(1)) +
                 " units are not a window";
    }
    return RequestError{grpc_invalid_argument, std::move(message)};
  }
  return std::nullopt;
}

namespace {

using request::Verb;
using wire::GrpcStatus;

constexpr std::string_view too_many_together =
    "at most 64 descriptors of one request are charged together, as all_or_nothing and "
    "stop_when_over do";
static_assert(base::bounds::together_max == 64);

uint64_t hits_of(const RateLimitRequest& message, const Descriptor& descriptor) {
  return descriptor.hits_addend.value_or(std::max(message.hits_addend, uint32_t{1}));
}

int64_t cost_of(uint64_t hits) {
  return static_cast<int64_t>(std::min<uint64_t>(hits, INT64_MAX));
}

int64_t unix_seconds(base::Time now) {
  return now.us / 1'000'000 - (now.us % 1'000'000 < 0 ? 1 : 0);
}

uint32_t as_u32(int64_t number) {
  return static_cast<uint32_t>(std::clamp<int64_t>(number, 0, UINT32_MAX));
}

// The unit of a window of the calendar has the same name.
WireUnit unit_of(limit::Calendar::Unit unit) {
  switch (unit) {
    case limit::Calendar::Unit::hour:
      return WireUnit::hour;
    case limit::Calendar::Unit::day:
      return WireUnit::day;
    case limit::Calendar::Unit::week:
      return WireUnit::week;
    case limit::Calendar::Unit::month:
      return WireUnit::month;
    case limit::Calendar::Unit::year:
      return WireUnit::year;
  }
  return WireUnit::unknown;
}

CurrentLimit told(const limit::Limit& numbers, std::string_view name) {
  if (numbers.calendar) return {as_u32(numbers.quota), unit_of(numbers.calendar.unit()), name, 0};
  const WindowInUnits units = window_in_units(numbers.window);
  return {as_u32(numbers.quota), units.unit, name, units.multiplier};
}

// The limit as the response shows it. The unit is that of the file or the request if the window is
// still theirs, else the largest unit of which the window is a whole multiple. `limit`: the limit
// of the files; null: it came with the request.
CurrentLimit current_limit(const limit::Limit& numbers, const Limit* limit,
                           const Descriptor& descriptor, std::string_view name) {
  const uint32_t quota = as_u32(numbers.quota);
  if (limit != nullptr && !limit->extended && !numbers.calendar && numbers.window == limit->window)
    return {quota, static_cast<WireUnit>(limit->unit), name, 0};
  if (limit == nullptr && descriptor.limit && numbers.window == override_window(*descriptor.limit))
    return {quota, descriptor.limit->unit, name, descriptor.limit->unit_multiplier.value_or(0)};
  return told(numbers, name);
}

// To a look (0 hits), which takes nothing, a counter in debt refuses; exactly 0 left is not debt.
bool is_over(const limit::Decision& decision, Verb verb) {
  return !decision.allowed || (verb == Verb::peek && decision.remaining < 0);
}

// Of an aligned window that counts past its limit the count decides.
Standing standing_of(const limit::Limit& numbers, const limit::Decision& decision, Verb verb,
                     const Descriptor& descriptor) {
  const bool is_window = numbers.algorithm == limit::Algorithm::aligned_window;
  const int64_t count = numbers.quota - decision.remaining;
  if (is_window && descriptor.is_negative_hits)
    return standing_after_refund(count, as_u32(numbers.quota));
  if (is_window && verb != Verb::take && verb != Verb::would_take)
    return standing_at(count, as_u32(numbers.quota));
  return standing_decided(!is_over(decision, verb), decision.remaining);
}

// Whole seconds until the window ends. A window shorter than a second counts as one second.
int64_t until_window_ends(base::Duration window, base::Time now) {
  return seconds_until_window_ends(unix_seconds(now), std::max<int64_t>(window.us / 1'000'000, 1));
}

int64_t until_window_ends(const limit::Limit& limit, base::Time now) {
  if (!limit.calendar) return until_window_ends(limit.window, now);
  return seconds_rounded_up({limit.calendar.window(now).end_us - now.us});
}

// Sets the times for a limit without an aligned window, from the algorithm's decision. A look that
// is refused has no retry_after: until the counter is fresh, its debt is paid.
void fill_times(const limit::Decision& decision, bool over, DescriptorResult& result) {
  const base::Duration wait =
      over && !decision.allowed ? decision.retry_after : decision.reset_after;
  result.never_passes = over && wait == base::never;
  result.seconds_until_reset =
      result.never_passes || wait == base::never ? result.window_seconds : seconds_rounded_up(wait);
}

}  // namespace

std::string_view why_refused(std::string_view authorization, const RateLimitRequest& message,
                             access::Identity& identity) {
  using access::Right;
  if (!identity.authorize(authorization)) return access::why_unknown(authorization);
  if (!identity.may(Right::take))
    return "this needs the right `take`, which the user does not have";
  const bool gives_back = std::ranges::any_of(message.descriptors, &Descriptor::is_negative_hits);
  if (gives_back && !identity.may(Right::put))
    return "to give hits back needs the right `put`, which the user does not have";
  return {};
}

bool EnvoyOptions::settles_all_or_nothing(std::string_view domain) const {
  return all_or_nothing || (!all_or_nothing_domains.empty() &&
                            std::find(all_or_nothing_domains.begin(), all_or_nothing_domains.end(),
                                      domain) != all_or_nothing_domains.end());
}

void Call::begin(size_t descriptors) {
  open_ = 0;
  healthy_ = false;
  limits_ = nullptr;
  if (error_.kind != CallError::Kind::ok) error_ = {};
  results_.assign(descriptors, {});
  planned_.assign(descriptors, nullptr);
  planned_question_ = nullptr;
  replaced_by_ = 0;
  rules_.clear();
  names_.clear();
}

void Call::ask(uint32_t number, const EnvoyOptions& options, base::Time deadline,
               request::Requests& requests) {
  number_ = number;
  begin(message.descriptors.size());
  if (kuadrant) {
    ask_kuadrant(options, deadline, requests);
  } else if (const auto problem = check_request(message)) {
    fail(CallError::Kind::request, static_cast<GrpcStatus>(problem->grpc_code), problem->message);
  } else if (check_overrides(message)) {
    // A wrong override is an error only if the domain is known.
    probe(probe_index, requests);
  } else {
    ask_all(options, deadline, requests);
  }
}

void Call::guard(size_t first, const access::Identity& identity, request::Requests& requests) {
  if (identity.is_limited()) [[unlikely]]
    requests.guard(first, identity.limited(), access::Right::take);
}

void Call::ask_health(uint32_t number, const EnvoyOptions& options, request::Requests& requests) {
  number_ = number;
  message.domain = {};
  begin(0);
  healthy_ = true;
  probe(health_index, requests);
  if (options.healthy_with_store || !options.store_was_reached->load(std::memory_order_relaxed))
    probe(store_index, requests);
}

void Call::probe(uint32_t index, request::Requests& requests) {
  requests.open();
  // A peek at a counter that does not exist: a store that can be reached answers it.
  if (index == store_index)
    requests.add(limit::Limit{.algorithm = limit::Algorithm::aligned_window,
                              .quota = 1,
                              .window = length_of(probed_unit)});
  requests.add(request::Entry{domain_entry, message.domain});
  requests.commit({.verb = Verb::peek,
                   .scope = request::RuleScope::dialect,
                   .message = requests.hold(request::Message{.needs_store = index == store_index}),
                   .note = number_ << index_bits | index,
                   .tag = {}});
  ++open_;
}

void Call::ask_all(const EnvoyOptions& options, base::Time deadline, request::Requests& requests) {
  const std::span<const Descriptor> all = message.descriptors;
  const bool strict = options.settles_all_or_nothing(message.domain);
  // If no limit is enforced, no limit can keep the others from being charged.
  const bool any_enforced = !options.response.shadow && !options.response.quota;
  const bool together = (strict && any_enforced) || options.sparing;
  if (together && all.size() > base::bounds::together_max)
    return fail(CallError::Kind::request, GrpcStatus::invalid_argument, too_many_together);
  const request::Message apart{
      .refused = strict ? request::Refused::nothing : request::Refused::counts,
      .answer_by = deadline};
  request::Message joined = apart;
  joined.together = together;
  if (options.sparing && !strict) joined.refused = request::Refused::spares;
  // Refunds settle separately, so the descriptors that settle together come first.
  for (const bool refunds : {false, true}) {
    const request::Message* const its = requests.hold(refunds ? apart : joined);
    for (size_t i = 0; i < all.size(); ++i) {
      if (together && all[i].is_negative_hits != refunds) continue;
      if (!together && refunds) return;
      const uint64_t hits = hits_of(message, all[i]);
      const bool peeks = hits == 0 && !together;
      ask_one(i,
              {.verb = all[i].is_negative_hits ? Verb::put
                       : peeks                 ? Verb::peek
                                               : Verb::take,
               .message = its,
               .note = number_ << index_bits | static_cast<uint32_t>(i),
               .cost = cost_of(hits),
               .tag = {}},
              requests);
    }
  }
}

void Call::ask_kuadrant(const EnvoyOptions& options, base::Time deadline,
                        request::Requests& requests) {
  if (message.domain.empty()) return;  // the answer is UNKNOWN
  fail(check_kuadrant(message, *kuadrant));
  if (error_.kind != CallError::Kind::ok) return;
  const request::Message* const its =
      kuadrant_message(message, *kuadrant, options, deadline, requests);
  for (size_t i = 0; i < message.descriptors.size(); ++i) {
    const Descriptor& descriptor = message.descriptors[i];
    request::Request request = kuadrant_request(descriptor, *kuadrant);
    if (kuadrant->method == Method::report) request.cost = cost_of(hits_of(message, descriptor));
    request.message = its;
    request.note = number_ << index_bits | static_cast<uint32_t>(i);
    ask_one(i, request, requests);
  }
}

// Adds the entries in the order that rules.h describes.
void Call::ask_one(size_t index, const request::Request& request, request::Requests& requests) {
  const Descriptor& descriptor = message.descriptors[index];
  requests.open();
  if (descriptor.limit)
    requests.add(limit::Limit{.algorithm = limit::Algorithm::aligned_window,
                              .quota = descriptor.limit->requests_per_unit,
                              .window = *override_window(*descriptor.limit)});
  const auto entries = message.entries_of(descriptor);
  for (size_t i = entries.size(); i-- > 0;)
    requests.add(request::Entry{entries[i].key, entries[i].value});
  requests.add(request::Entry{domain_entry, message.domain});
  requests.commit(request);
  ++open_;
}

void Call::plan(const request::Request& request, policy::Planning& planning) {
  const LimitRules& rules = LimitRules::of(planning.own);
  const uint32_t index = request.note & index_mask;
  if (index == store_index)
    rules.plan_probe(planning);
  else if (index >= probe_index)
    planned_question_ = &rules.plan_domain(message.domain, planning);
  else
    planned_[index] = plan_descriptor(index, rules, planning);
}

// Null: no limit applies.
const FoundRule* Call::plan_descriptor(size_t index, const LimitRules& rules,
                                       policy::Planning& planning) {
  const LimitSet& set = rules.set();
  const uint32_t domain = set.domain(message.domain);
  if (rules.are_not_loaded() || domain == absent)
    return &rules.plan_domain(message.domain, planning);
  const Descriptor& descriptor = message.descriptors[index];
  const Entries entries = message.entries_of(descriptor);
  if (descriptor.limit)
    return &rules.plan_override(domain, entries, *override_window(*descriptor.limit), planning);
  const Walk walk = set.find(domain, entries, planning.steps);
  if (walk.limit == absent || is_replaced(walk.limit, domain, rules, planning.steps))
    return nullptr;
  return &rules.plan_limit(domain, entries, walk, planning);
}

// Does a limit that another descriptor of the message has found replace this one? Overrides replace
// nothing.
bool Call::is_replaced(uint32_t limit, uint32_t domain, const LimitRules& rules,
                       policy::MatchSteps& steps) {
  constexpr uint64_t steps_per_pattern = 8;
  const LimitSet& set = rules.set();
  if (message.descriptors.size() == 1 || !set.may_be_replaced(limit)) return false;
  if (replaced_by_ != rules.serial()) {
    replaced_by_ = 0;
    replaced_.clear();
    for (const Descriptor& other : message.descriptors) {
      if (other.limit) continue;
      const Walk walk = set.find(domain, message.entries_of(other), steps);
      if (!steps.spend(1 + walk.tried * steps_per_pattern)) return false;
      if (walk.limit == absent) continue;
      const auto& names = set.limits()[walk.limit].replaces;
      replaced_.insert(replaced_.end(), names.begin(), names.end());
    }
    std::ranges::sort(replaced_);
    replaced_by_ = rules.serial();
  }
  return std::ranges::binary_search(replaced_, set.limits()[limit].name);
}

bool Call::take(const request::Request& request, const request::Verdict& verdict, base::Time now,
                const EnvoyOptions& options) {
  --open_;
  if (span != nullptr) [[unlikely]]
    span->note(verdict);
  const uint32_t index = request.note & index_mask;
  // Nothing came of the plan if the request could not be decided for another reason than the store.
  const bool is_planned =
      verdict.error.empty() || verdict.cause != request::Error::none || verdict.planned != nullptr;
  const FoundRule* const own = !is_planned                          ? nullptr
                               : index < message.descriptors.size() ? planned_[index]
                                                                    : planned_question_;
  const bool charges = !kuadrant || kuadrant->method == Method::report;
  if (metrics != nullptr && own != nullptr && charges && index < message.descriptors.size())
    count(*own, verdict, message.descriptors[index], options.sparing);
  if (index >= health_index) {
    take_health(index, own, verdict, options);
  } else if (!verdict.error.empty()) {
    using Kind = CallError::Kind;
    if (verdict.error == request::not_permitted)
      fail(Kind::refused, GrpcStatus::permission_denied, verdict.error);
    else if (verdict.cause == request::Error::none)
      fail(Kind::rules, GrpcStatus::unknown, verdict.error);
    else if (verdict.cause == request::Error::deadline && request.message->answer_by <= now)
      fail(Kind::expired, GrpcStatus::deadline_exceeded, "the caller's deadline has passed");
    else if (verdict.cause == request::Error::deadline)
      fail(Kind::late, GrpcStatus::unavailable, verdict.error);
    else
      fail(Kind::store, store_status(options), verdict.error);
  } else if (own != nullptr && own->kind == FoundRule::Kind::not_loaded) {
    fail(CallError::Kind::rules, GrpcStatus::unknown, "no rate limit configuration loaded");
  } else if (index == probe_index) {
    take_probe(own);
  } else if (kuadrant && request.message->hold != nullptr) {
    fail(take_kuadrant_hold(*request::hold_of(request, verdict), options, *kuadrant));
  } else {
    DescriptorResult& result = results_[index];
    if (own != nullptr && verdict.planned == nullptr)
      take_failed(*own, options);
    else if (own != nullptr)
      take_own(*own, verdict, now, message.descriptors[index], result);
    take_native(verdict, request.verb, now, result);
  }
  return open_ == 0;
}

// The store could not decide a limit that settles separately. With shadow_mode that is ignored.
void Call::take_failed(const FoundRule& rule, const EnvoyOptions& options) {
  if (!rule.rules->set().limits()[rule.limit].shadow_mode)
    fail(CallError::Kind::store, store_status(options), "the store cannot decide a quota");
}

// Kuadrant's gateway lets pass or refuses, as it is told, where the service is not available.
wire::GrpcStatus Call::store_status(const EnvoyOptions& options) const {
  return kuadrant ? GrpcStatus::unavailable : options.error_code;
}

void Call::take_probe(const FoundRule* own) {
  if (metrics != nullptr && own != nullptr && own->kind == FoundRule::Kind::unknown_domain)
    metrics->count_unknown_domain(message.domain, message.descriptors.size());
  if (own == nullptr || own->kind != FoundRule::Kind::known_domain) return;
  const auto problem = check_overrides(message);
  fail(CallError::Kind::request, static_cast<GrpcStatus>(problem->grpc_code), problem->message);
}

void Call::take_health(uint32_t index, const FoundRule* own, const request::Verdict& verdict,
                       const EnvoyOptions& options) {
  if (index == store_index) {
    const bool reached = verdict.error.empty();
    if (reached) options.store_was_reached->store(true, std::memory_order_relaxed);
    healthy_ = healthy_ && reached;
    return;
  }
  if (own != nullptr) limits_ = own->rules->shared_from_this();
  const bool is_loaded = own == nullptr || own->kind != FoundRule::Kind::not_loaded ||
                         own->rules->is_healthy_not_loaded();
  const bool has_domains = own != nullptr && own->kind == FoundRule::Kind::known_domain;
  healthy_ = healthy_ && verdict.error.empty() && is_loaded &&
             (has_domains || !options.healthy_with_domains);
}

void Call::take_own(const FoundRule& rule, const request::Verdict& verdict, base::Time now,
                    const Descriptor& descriptor, DescriptorResult& result) {
  using Kind = FoundRule::Kind;
  if (rule.kind != Kind::limit && rule.kind != Kind::override) return;
  // Null: the limit came with the request.
  const Limit* const limit =
      rule.kind == Kind::limit ? &rule.rules->set().limits()[rule.limit] : nullptr;
  std::string_view name;
  if (limit != nullptr) {
    name = rule.rules->set().name(limit->name);
    result.metadata = limit->metadata.get();
    result.shadow = limit->shadow_mode;
    result.quota = limit->quota_mode;
    if (open_ > 0 && (rules_.empty() || rules_.back().get() != rule.rules))
      rules_.push_back(rule.rules->shared_from_this());
  }
  // An override at the server may have changed the numbers of the file or of the request.
  const limit::Limit& numbers = verdict.planned->limits[0];
  if (numbers.algorithm == limit::Algorithm::unlimited) {
    result.kind = DescriptorResult::Kind::unlimited;
    return;
  }
  result.kind = DescriptorResult::Kind::limited;
  result.limit = current_limit(numbers, limit, descriptor, name);
  result.window_seconds = seconds_rounded_up(limit::shown(numbers, now).window);
  if (numbers.burst > 0 && numbers.burst != numbers.quota)
    result.burst = static_cast<uint64_t>(numbers.burst);
  const limit::Decision& decision = verdict.decisions_of(*verdict.planned)[0];
  result.standing = standing_of(numbers, decision, verdict.planned->verb, descriptor);
  switch (numbers.algorithm) {
    case limit::Algorithm::aligned_window:
      // The time for the window that was decided, which may be over by now. The decision of a fresh
      // counter has no time.
      result.seconds_until_reset = decision.reset_after.us > 0
                                       ? seconds_rounded_up(decision.reset_after)
                                       : until_window_ends(numbers, now);
      result.never_passes = result.standing.over && decision.retry_after == base::never;
      break;
    case limit::Algorithm::deny:
      // The time for the window of the limit that `deny` replaces, because a response never has 0.
      result.seconds_until_reset =
          until_window_ends(limit == nullptr ? base::Duration{} : limit->window, now);
      result.never_passes = true;
      break;
    default:
      fill_times(decision, result.standing.over, result);
  }
}

// Replaces the descriptor's result by that of the tightest native rule, if that one is stricter. An
// exceeded limit with shadow_mode does not count as stricter.
void Call::take_native(const request::Verdict& verdict, Verb verb, base::Time now,
                       DescriptorResult& result) {
  const limit::Decision* const d = verdict.tightest;
  if (d == nullptr || verdict.limit == nullptr) return;
  if (verdict.planned != nullptr) {
    const auto own = verdict.decisions_of(*verdict.planned);
    if (d >= own.data() && d < own.data() + own.size()) return;
  }
  if (verdict.limit->algorithm == limit::Algorithm::unlimited) return;
  DescriptorResult native;
  native.kind = DescriptorResult::Kind::limited;
  char* const name = names_.allocate(verdict.rule.size());
  std::copy(verdict.rule.begin(), verdict.rule.end(), name);
  native.limit = told(*verdict.limit, {name, verdict.rule.size()});
  native.standing = standing_decided(!is_over(*d, verb), d->remaining);
  native.window_seconds = seconds_rounded_up(limit::shown(*verdict.limit, now).window);
  native.metadata = result.metadata;
  fill_times(*d, native.standing.over, native);
  const bool own_over = result.standing.over && !result.shadow;
  const bool is_stricter =
      result.kind != DescriptorResult::Kind::limited ||
      (native.standing.over != own_over ? native.standing.over
       : native.standing.over           ? native.seconds_until_reset > result.seconds_until_reset
                                        : native.standing.remaining < result.standing.remaining);
  if (is_stricter) result = native;
}

void Call::count(const FoundRule& rule, const request::Verdict& verdict,
                 const Descriptor& descriptor, bool sparing) {
  using Kind = FoundRule::Kind;
  if (rule.kind == Kind::unknown_domain) return metrics->count_unknown_domain(message.domain, 1);
  const uint64_t hits = hits_of(message, descriptor);
  if ((rule.kind != Kind::limit && rule.kind != Kind::override) || hits == 0) return;
  const Limit* const limit =
      rule.kind == Kind::limit ? &rule.rules->set().limits()[rule.limit] : nullptr;
  if (limit != nullptr && limit->unlimited) return;
  const bool shadow = limit != nullptr && limit->shadow_mode;
  HitCounts counts;
  // Both count even if the store could not decide.
  if (descriptor.is_negative_hits)
    counts.total_negative_hits = hits;
  else
    counts.total_hits = hits;
  if (!descriptor.is_negative_hits && verdict.planned != nullptr) {
    const limit::Limit& numbers = verdict.planned->limits[0];
    const limit::Decision& decision = verdict.decisions_of(*verdict.planned)[0];
    if (numbers.algorithm == limit::Algorithm::unlimited) return;
    // Was its group allowed? Quotas and limits with shadow_mode settle separately.
    const bool settles = shadow || (limit != nullptr && limit->quota_mode) || verdict.allowed;
    const bool is_counting =
        verdict.planned->verb == Verb::count && limit::has(verdict.planned->counts, 0);
    const bool is_charged =
        is_counting ? settles || !decision.allowed || !sparing : settles && decision.allowed;
    const int64_t now_counted = std::max<int64_t>(numbers.quota - decision.remaining, 0);
    if (verdict.planned->from_cache)
      counts = count_hits_of_local_cache(hits, shadow);
    else if (is_charged && (decision.allowed || verdict.planned->overdrafts == nullptr))
      counts = count_hits(hits, static_cast<uint64_t>(now_counted), as_u32(numbers.quota),
                          metrics->near_ratio(), shadow);
    else if (!decision.allowed)
      counts = count_refused(hits, shadow);
  }
  metrics->count({*rule.rules, rule.limit, message.domain, message.entries_of(descriptor)}, counts);
}

void Call::fail(CallError::Kind kind, GrpcStatus status, std::string_view text) {
  fail({kind, status, std::string(text)});
}

void Call::fail(CallError error) {
  using Kind = CallError::Kind;
  const Kind kind = error.kind;
  if (error_.kind != Kind::ok || kind == Kind::ok) return;
  error_ = std::move(error);
  // These are counted of ShouldRateLimit.
  if (metrics == nullptr || kind == Kind::refused || kuadrant) return;
  const bool is_store = kind == Kind::store || kind == Kind::late || kind == Kind::expired;
  metrics->count(is_store ? ServiceStat::redis_error : ServiceStat::service_error);
}

void Call::respond(const EnvoyOptions& options, RateLimitResponse& response) const {
  const bool is_let_pass = compose_response(message, results_, options.response, response);
  if (is_let_pass && metrics != nullptr) metrics->count(ServiceStat::global_shadow_mode);
}

void Call::respond_kuadrant(const EnvoyOptions& options, RateLimitResponse& response) {
  if (message.domain.empty() || kuadrant->is_about_hold()) return;
  kuadrant->code = Code::ok;
  if (kuadrant->method != Method::check_rate_limit) return;
  respond(options, response);
  kuadrant->code = response.overall_code;
}

}  // namespace sluice::envoy
