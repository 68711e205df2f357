#include "tests/planner/session.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bounds.h"

namespace sluice::planner {

namespace {

struct Tier {
  std::string_view name;
  int64_t quota;
};
constexpr Tier tiers[] = {{"small", 2}, {"large", 5}};

// "TIER WHO"
struct Line {
  std::string_view tier, who;
};
Line line_of(std::string_view text) {
  const size_t blank = text.find(' ');
  return {text.substr(0, blank), blank == text.npos ? "" : text.substr(blank + 1)};
}

std::optional<uint32_t> rule_of(std::string_view tier) {
  for (uint32_t i = 0; i < std::size(tiers); ++i)
    if (tiers[i].name == tier) return i;
  return std::nullopt;
}

// A counter's key is `@WHO`.
std::string_view key_text(std::string_view who, base::Arena& texts) {
  char* const key = texts.allocate(who.size() + 1);
  key[0] = '@';
  who.copy(key + 1, who.size());
  return {key, who.size() + 1};
}

class Tiers final : public policy::OwnRules {
 public:
  std::optional<Found> find(std::span<const request::Entry> entries, policy::MatchSteps&,
                            base::Arena& keys) const override {
    Line line;
    for (const auto& [key, value] : entries) {
      if (key == "tier") line.tier = value;
      if (key == "who") line.who = value;
    }
    const auto rule = rule_of(line.tier);
    if (!rule) return std::nullopt;
    return Found{*rule, key_text(line.who, keys), line.who};
  }
  std::string why_none(std::span<const request::Entry>) const override {
    return "There are the tiers small and large.";
  }
  std::optional<Found> owner(const request::Space& space, std::string_view key,
                             base::Arena& keys) const override {
    const auto actor = actor_in(0, key, keys);
    for (uint32_t i = 0; actor && i < std::size(tiers); ++i)
      if (space.prefix == prefix_of(tiers[i])) return Found{i, key, *actor};
    return std::nullopt;
  }
  std::optional<std::string_view> actor_in(uint32_t, std::string_view key,
                                           base::Arena&) const override {
    if (!key.starts_with('@')) return std::nullopt;
    return key.substr(1);
  }
  std::optional<std::string_view> key_of(uint32_t, std::string_view actor,
                                         base::Arena& keys) const override {
    return key_text(actor, keys);
  }

  static std::string prefix_of(const Tier& tier) {
    return "planner:" + std::string(tier.name) + ":";
  }
};

void append_error(std::string_view why, base::Buffer& out) {
  out.append("error ");
  out.append(why);
  out.append('\n');
}

}  // namespace

void add_rules(request::Spaces& spaces, policy::RuleSet& rules) {
  for (const Tier& tier : tiers) {
    policy::Rule rule;
    rule.name = tier.name;
    rule.pattern = tier.name;
    rule.file = "planner";
    rule.actor = {"who"};
    rule.limits = {{limit::Algorithm::fixed_window, tier.quota, base::seconds(3600)}};
    rule.intern(spaces, spaces.hold(Tiers::prefix_of(tier), ""));
    rules.add(dialect, std::move(rule));
  }
  rules.set_own_rules(dialect, std::make_unique<Tiers>());
}

request::Received PlannerSession::receive(std::string_view in, bool, request::Requests& requests,
                                          base::Buffer&) {
  constexpr std::string_view take = "take ", wait = "wait ";
  size_t consumed = 0;
  while (requests.size() < base::bounds::batch_requests_max) {
    const size_t end = in.find('\n', consumed);
    if (end == in.npos) return {consumed, in.size() - consumed > base::bounds::line_bytes_max};
    const std::string_view line = in.substr(consumed, end - consumed);
    consumed = end + 1;
    const bool waits = line.starts_with(wait);
    if (!waits && !line.starts_with(take)) return {consumed, true};
    const std::string_view text = line.substr(take.size());
    if (text.size() > base::bounds::tag_bytes_max) return {consumed, true};
    requests.open();
    requests.add(request::Entry{"tier", line_of(text).tier});
    requests.add(request::Entry{"who", line_of(text).who});
    requests.commit({.verb = waits ? request::Verb::wait : request::Verb::take, .tag = text});
  }
  return {consumed, false};
}

void PlannerSession::plan(const request::Request& request, policy::Planning& planning) {
  const auto [tier, who] = line_of(request.tag);
  if (const auto rule = rule_of(tier))
    planning.charge = {&planning.rules[*rule], key_text(who, planning.texts), who};
}

bool PlannerSession::reply(const request::Request&, const request::Verdict& verdict, base::Time,
                           base::Buffer& out) {
  if (!verdict.error.empty()) {
    append_error(verdict.error, out);
    return true;
  }
  out.append(verdict.allowed ? "yes " : "no ");
  out.append(std::to_string(verdict.tightest != nullptr ? verdict.tightest->remaining : 0));
  out.append('\n');
  return true;
}

void PlannerSession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending == request::Ending::announced) append_error("not a line `take TIER WHO`", out);
  if (ending == request::Ending::refused) append_error(why, out);
}

}  // namespace sluice::planner
