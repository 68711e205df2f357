#include "request/kept_verdict.h"

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/check.h"

namespace sluice::request {
namespace {

using limit::Decision;
using limit::Limit;

constexpr uint32_t nowhere = UINT32_MAX;

// The members of a verdict that are values, and the counts of what follows.
struct KeptHead {
  base::Time now{};
  uint64_t generation = 0;
  Decision tightest{};
  Limit limit{};
  uint32_t charges = 0, limits = 0;
  uint32_t tightest_at = nowhere;  // index among the decisions that follow
  bool has_tightest = false, has_limit = false;
  int64_t charged = 0;
  bool has_charged = false, over = false;
  bool allowed = false, matched = false, inline_limit = false;
};

// One charge; its limits and their decisions follow in two lists, in the order of the charges.
struct KeptCharge {
  int64_t cost = 0;
  uint32_t limits = 0;
  bool has_rule = false, counted = false;
};

template <class Value>
void append_value(const Value& value, std::string& to) {
  static_assert(std::is_trivially_copyable_v<Value>);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

template <class Value>
Value take_value(std::string_view& from) {
  static_assert(std::is_trivially_copyable_v<Value>);
  SLUICE_CHECK(from.size() >= sizeof(Value));
  Value value;
  std::memcpy(&value, from.data(), sizeof value);
  from.remove_prefix(sizeof value);
  return value;
}

void append_text(std::string_view text, std::string& to) {
  append_value(static_cast<uint32_t>(text.size()), to);
  to.append(text);
}

std::string take_text(std::string_view& from) {
  const auto size = take_value<uint32_t>(from);
  SLUICE_CHECK(from.size() >= size);
  std::string text(from.substr(0, size));
  from.remove_prefix(size);
  return text;
}

}  // namespace

void append_kept(const Verdict& verdict, base::Time now, std::string& to) {
  KeptHead head;
  head.now = now;
  head.generation = verdict.generation;
  head.allowed = verdict.allowed;
  head.matched = verdict.matched;
  head.over = verdict.charged.over;
  head.has_charged = verdict.charged.units.has_value();
  head.charged = verdict.charged.units.value_or(0);
  head.inline_limit = verdict.inline_limit;
  head.has_tightest = verdict.tightest != nullptr;
  if (head.has_tightest) head.tightest = *verdict.tightest;
  head.has_limit = verdict.limit != nullptr;
  if (head.has_limit) head.limit = *verdict.limit;
  for (const Charge& charge : verdict.charges) {
    if (charge.keeps_limits) continue;
    ++head.charges;
    for (size_t i = 0; i < charge.limits.size(); ++i, ++head.limits)
      if (&verdict.decisions[charge.decision_first + i] == verdict.tightest)
        head.tightest_at = head.limits;
  }
  append_value(head, to);
  append_text(verdict.rule, to);
  for (const Charge& charge : verdict.charges) {
    if (charge.keeps_limits) continue;
    append_value(KeptCharge{charge.cost, static_cast<uint32_t>(charge.limits.size()),
                            charge.rule != nullptr, charge.counted},
                 to);
    append_text(charge.space->prefix, to);
    append_text(charge.space->suffix, to);
    append_text(charge.key, to);
    if (charge.rule != nullptr) {
      append_text(charge.rule->name, to);
      append_text(charge.rule->unit, to);
    }
    for (const Limit& limit : charge.limits) append_value(limit, to);
    for (size_t i = 0; i < charge.limits.size(); ++i)
      append_value(verdict.decisions[charge.decision_first + i], to);
  }
}

KeptVerdict::KeptVerdict(std::string_view& from) {
  const auto head = take_value<KeptHead>(from);
  rule_ = take_text(from);
  // What points into these lists must not move.
  spaces_.reserve(head.charges);
  keys_.reserve(head.charges);
  rules_.reserve(head.charges);
  charges_.reserve(head.charges);
  limits_.reserve(head.limits);
  decisions_.reserve(head.limits);
  for (uint32_t i = 0; i < head.charges; ++i) {
    const auto kept = take_value<KeptCharge>(from);
    Space& space = spaces_.emplace_back();
    space.prefix = take_text(from);
    space.suffix = take_text(from);
    const std::string& key = keys_.emplace_back(take_text(from));
    if (kept.has_rule) {
      RuleWords& rule = rules_.emplace_back();
      rule.name = take_text(from);
      rule.unit = take_text(from);
    }
    const size_t first = limits_.size();
    for (uint32_t at = 0; at < kept.limits; ++at) limits_.push_back(take_value<Limit>(from));
    for (uint32_t at = 0; at < kept.limits; ++at) decisions_.push_back(take_value<Decision>(from));
    Charge& charge = charges_.emplace_back();
    charge.space = &space;
    charge.key = key;
    charge.cost = kept.cost;
    charge.counted = kept.counted;
    charge.rule = kept.has_rule ? &rules_.back() : nullptr;
    charge.limits = {limits_.data() + first, kept.limits};
    charge.decision_first = static_cast<uint32_t>(first);
  }
  now_ = head.now;
  limit_ = head.limit;
  tightest_ = head.tightest;
  verdict_.generation = head.generation;
  verdict_.allowed = head.allowed;
  verdict_.matched = head.matched;
  verdict_.charged.over = head.over;
  if (head.has_charged) verdict_.charged.units = head.charged;
  verdict_.inline_limit = head.inline_limit;
  verdict_.rule = rule_;
  verdict_.decisions = decisions_.data();
  verdict_.charges = ChargeList(charges_.data(), charges_.size());
  const bool is_listed = head.tightest_at != nowhere;
  if (head.has_tightest) verdict_.tightest = is_listed ? &decisions_[head.tightest_at] : &tightest_;
  if (head.has_limit) verdict_.limit = is_listed ? &limits_[head.tightest_at] : &limit_;
}

}  // namespace sluice::request
