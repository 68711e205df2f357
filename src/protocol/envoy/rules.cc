#include "protocol/envoy/rules.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/arena.h"
#include "base/bounds.h"
#include "base/check.h"
#include "policy/actor_name.h"
#include "policy/dialect.h"
#include "policy/overrides.h"
#include "policy/rule_set.h"
#include "protocol/envoy/dialect.h"

namespace sluice::envoy {
namespace {

using request::Entry;

// The rules that follow those of the limits, in this order: one for overrides in each unit, one for
// overrides in windows of several units, and the rules without a counter.
constexpr std::array override_units = {Unit::second, Unit::minute, Unit::hour, Unit::day,
                                       Unit::month,  Unit::year,   Unit::week};
constexpr size_t other_override = override_units.size(), unknown_domain = other_override + 1,
                 known_domain = unknown_domain + 1, not_loaded = known_domain + 1,
                 fixed_rules = not_loaded + 1;

// The actor is the values that differ from request to request.
std::string_view actor_of(const LimitSet& set, Entries entries, const Walk& walk,
                          base::Arena& texts) {
  std::array<uint8_t, levels_max> levels;
  size_t count = 0;
  for (uint8_t i = 0; i < walk.size; ++i)
    if (set.nodes()[walk.all[i].node].is_actor()) levels[count++] = i;
  return policy::key_text(
      count, [&](size_t i) { return entries[levels[i]].value; },
      [&](size_t bytes) { return texts.allocate(bytes); });
}

// The counter of the limit that the walk has found. One that is unlimited has no key.
policy::OwnRules::Found counter_of(const LimitSet& set, uint32_t domain, Entries entries,
                                   const Walk& walk, base::Arena& texts) {
  const std::string_view actor = actor_of(set, entries, walk, texts);
  if (set.limits()[walk.limit].unlimited) return {walk.limit, {}, actor};
  return {walk.limit, set.key(domain, entries, walk, texts), actor};
}

}  // namespace

// The rules as people see them: a request is a descriptor as calls make it.
struct LimitRules::Tree final : policy::OwnRules {
  explicit Tree(std::shared_ptr<const LimitRules> its_rules) : rules(std::move(its_rules)) {}

  // The domain of a descriptor, and its entries in the order of the message. Nothing: a message
  // cannot have it.
  struct Asked {
    std::string_view domain;
    std::vector<Entry> entries;
  };
  static std::optional<Asked> asked(Entries descriptor) {
    if (descriptor.empty() || descriptor.size() > base::bounds::descriptor_entries_max + 1)
      return std::nullopt;
    return Asked{descriptor.back().value, {descriptor.rbegin() + 1, descriptor.rend()}};
  }

  std::optional<Found> find(Entries descriptor, policy::MatchSteps& steps,
                            base::Arena& keys) const override {
    const LimitSet& set = rules->set_;
    const auto fixed = [&](size_t rule) {
      return Found{static_cast<uint32_t>(set.limits().size() + rule), {}, {}};
    };
    if (rules->not_loaded_) return fixed(not_loaded);
    const auto request = asked(descriptor);
    if (!request) return std::nullopt;
    const uint32_t domain = set.domain(request->domain);
    if (domain == absent) return fixed(unknown_domain);
    const Walk walk = set.find(domain, request->entries, steps);
    if (walk.limit == absent) return std::nullopt;
    return counter_of(set, domain, request->entries, walk, keys);
  }

  std::string why_none(Entries descriptor) const override {
    const LimitSet& set = rules->set_;
    if (rules->not_loaded_) return "No limits are loaded.";
    const auto request = asked(descriptor);
    if (!request) return {};
    const uint32_t domain = set.domain(request->domain);
    if (domain == absent && request->domain.empty())
      return "The request names no domain: add `domain=...`.";
    if (domain == absent)
      return "No file has the domain `" + std::string(request->domain) + "`; there " +
             listed(set.domains());
    policy::MatchSteps steps;
    const Walk walk = set.find(domain, request->entries, steps);
    if (walk.limit != absent || steps.over()) return {};
    const uint32_t last = walk.size == 0 ? domain : walk.all[walk.size - 1].node;
    if (walk.size == request->entries.size())
      return "The descriptor `" + set.path(last) + "` has no rate_limit.";
    const Entry& missed = request->entries[walk.size];
    std::vector<uint32_t> children;
    for (uint32_t i = 0; i < set.nodes().size(); ++i)
      if (set.nodes()[i].parent == last) children.push_back(i);
    return "Below `" + set.path(last) + "` no descriptor fits `" + std::string(missed.key) + "=" +
           std::string(missed.value) + "`; there " + listed(children);
  }

  // "are `path_/pay`, `user`."
  std::string listed(std::span<const uint32_t> nodes) const {
    constexpr size_t most = 10;
    std::string text = nodes.empty() ? "is none" : nodes.size() == 1 ? "is " : "are ";
    for (size_t i = 0; i < std::min(nodes.size(), most); ++i)
      text += (i == 0 ? "`" : ", `") + rules->set_.nodes()[nodes[i]].composite + "`";
    if (nodes.size() > most) text += " and " + std::to_string(nodes.size() - most) + " more";
    return text + ".";
  }

  // Returns the first limit whose keys and values fit the counter's key. It may be the wrong one if
  // a value contains the same text as the part between two values.
  std::optional<Found> owner(const request::Space& space, std::string_view key,
                             base::Arena& keys) const override {
    for (uint32_t i = 0; i < rules->set_.limits().size(); ++i) {
      if (rules->spaces_[i] != &space) continue;
      if (const auto actor = actor_in(i, key, keys)) return Found{i, key, *actor};
    }
    return std::nullopt;
  }

  std::optional<std::string_view> actor_in(uint32_t limit, std::string_view key,
                                           base::Arena& keys) const override {
    const LimitSet& set = rules->set_;
    std::vector<Entry> entries;
    if (limit >= set.limits().size() || !set.read_key(limit, key, entries)) return std::nullopt;
    policy::MatchSteps steps;
    const Walk walk = set.find(set.domain_of(limit), entries, steps);
    if (walk.limit != limit) return std::nullopt;
    return actor_of(set, entries, walk, keys);
  }

  std::optional<std::string_view> key_of(uint32_t limit, std::string_view actor,
                                         base::Arena& keys) const override {
    const LimitSet& set = rules->set_;
    if (limit >= set.limits().size()) return std::nullopt;
    std::vector<uint32_t> path;
    for (uint32_t node = set.limits()[limit].node; set.nodes()[node].level > 0;
         node = set.nodes()[node].parent)
      path.insert(path.begin(), node);
    const auto count = static_cast<size_t>(
        std::ranges::count_if(path, [&](uint32_t node) { return set.nodes()[node].is_actor(); }));
    const auto values = policy::key_values(actor, count);
    if (!values) return std::nullopt;
    std::vector<Entry> entries;
    size_t next = 0;
    for (const uint32_t number : path) {
      const Node& node = set.nodes()[number];
      // The value of an entry that shares its counter is in no key, the pattern's text is.
      const std::string_view value =
          node.is_actor()    ? std::string_view((*values)[next++])
          : node.has_value() ? std::string_view(node.composite).substr(node.key().size() + 1)
                             : std::string_view();
      entries.push_back({node.key(), value});
    }
    policy::MatchSteps steps;
    const uint32_t domain = set.domain_of(limit);
    const Walk walk = set.find(domain, entries, steps);
    if (walk.limit != limit) return std::nullopt;
    return set.key(domain, entries, walk, keys);
  }

  const std::shared_ptr<const LimitRules> rules;
};

const LimitRules* LimitRules::of(const policy::RuleSet& rules) {
  const policy::OwnRules* const own = rules.own_rules(&dialect);
  return own == nullptr ? nullptr : &of(*own);
}

const LimitRules& LimitRules::of(const policy::OwnRules& own) {
  return *static_cast<const Tree&>(own).rules;
}

const FoundRule& LimitRules::plan(size_t rule, std::string_view key, std::string_view actor,
                                  policy::Planning& planning) const {
  planning.charge = {&planning.rules[rule], key, actor};
  return data_[rule];
}

const FoundRule& LimitRules::plan_fixed(size_t place, policy::Planning& planning) const {
  return plan(set_.limits().size() + place, {}, {}, planning);
}

const FoundRule& LimitRules::plan_domain(std::string_view domain,
                                         policy::Planning& planning) const {
  if (not_loaded_) return plan_fixed(not_loaded, planning);
  const bool is_known = domain.empty() ? !set_.domains().empty() : set_.domain(domain) != absent;
  return plan_fixed(is_known ? known_domain : unknown_domain, planning);
}

const FoundRule& LimitRules::plan_probe(policy::Planning& planning) const {
  if (not_loaded_) return plan_fixed(not_loaded, planning);
  size_t place = 0;
  while (override_units[place] != probed_unit) ++place;
  return plan(set_.limits().size() + place, "sluice_health", {}, planning);
}

const FoundRule& LimitRules::plan_limit(uint32_t domain, Entries entries, const Walk& walk,
                                        policy::Planning& planning) const {
  const auto its = counter_of(set_, domain, entries, walk, planning.texts);
  return plan(walk.limit, its.key, its.actor, planning);
}

const FoundRule& LimitRules::plan_override(uint32_t domain, Entries entries, base::Duration window,
                                           policy::Planning& planning) const {
  size_t place = 0;
  while (place < other_override && length_of(override_units[place]) != window) ++place;
  // Windows of several units share a space, so the key must contain the window.
  std::string ending;
  if (place == other_override) ending = "_" + std::to_string(window.us / 1'000'000) + "s";
  return plan(set_.limits().size() + place,
              set_.key(domain, entries, Walk(), planning.texts, ending), {}, planning);
}

namespace {

// The space for the counters of all limits with that window. In a shared Redis it has the names of
// the original.
request::SpaceRef space_of_window(base::Duration window, const RulesOptions& options,
                                  request::Spaces& spaces) {
  const std::string own = "envoy:" + std::to_string(window.us / 1'000'000) + ":";
  request::Space like;
  like.encoding = request::KeyEncoding::window_text;
  like.private_bytes = own.size();
  like.life_jitter = options.life_jitter_s;
  return spaces.hold(own + options.key_prefix, "", like);
}

policy::Rule rule_of(const Limit& limit, const LimitSet& set, const RulesOptions& options,
                     request::Spaces& spaces) {
  policy::Rule rule;
  rule.name = set.path(limit.node);
  rule.comment = std::string(set.name(limit.name));
  rule.pattern = rule.name;
  rule.file = set.file(limit.file);
  rule.line = limit.line;
  // A quota does not refuse a request by itself, so it must not keep the other limits from being
  // charged.
  rule.mode = limit.shadow_mode || limit.quota_mode ? policy::Mode::shadow : policy::Mode::enforce;
  rule.on_store_error = options.on_store_error;
  rule.limits = {numbers_of(limit)};
  for (uint32_t node = limit.node; set.nodes()[node].level > 0; node = set.nodes()[node].parent)
    if (set.nodes()[node].is_actor())
      rule.actor.insert(rule.actor.begin(), std::string(set.nodes()[node].key()));
  rule.counts = limit.counts ? 1 : 0;
  limit::Overdrafts overdrafts;
  overdrafts.add(rule.limits.front(), limit.overdraft);
  if (overdrafts.has_any()) rule.overdrafts = std::make_shared<const limit::Overdrafts>(overdrafts);
  rule.intern(spaces, limit.extended || limit.unlimited
                          ? spaces.hold("envoy:", "")
                          : space_of_window(limit.window, options, spaces));
  return rule;
}

policy::Rule fixed_rule(size_t place, const RulesOptions& options, request::Spaces& spaces) {
  policy::Rule rule;
  rule.file = "envoy";
  rule.on_store_error = options.on_store_error;
  if (place > other_override) {
    rule.name = place == unknown_domain ? "(unknown domain)"
                : place == known_domain ? "(known domain)"
                                        : "(not loaded)";
    rule.limits = {{.algorithm = limit::Algorithm::unlimited}};
    rule.intern(spaces, spaces.hold("envoy:", ""));
    return rule;
  }
  const base::Duration window =
      place < other_override ? length_of(override_units[place]) : base::seconds(1);
  rule.name = place == other_override
                  ? "(override in windows of its own)"
                  : "(override by " + std::string(name_of(override_units[place])) + ")";
  rule.comment = "the limits that come with requests";
  rule.limits = {{limit::Algorithm::aligned_window, 1, window}};
  rule.limits_from = policy::LimitsFrom::numbers;
  rule.counts = 1;
  rule.intern(spaces,
              space_of_window(place < other_override ? window : base::Duration{}, options, spaces));
  return rule;
}

FoundRule::Kind kind_of(size_t place) {
  switch (place) {
    case unknown_domain:
      return FoundRule::Kind::unknown_domain;
    case known_domain:
      return FoundRule::Kind::known_domain;
    case not_loaded:
      return FoundRule::Kind::not_loaded;
    default:
      return FoundRule::Kind::override;
  }
}

}  // namespace

LimitRules::LimitRules(LimitSet set, const RulesOptions& options)
    : set_(std::move(set)),
      not_loaded_(options.not_loaded),
      healthy_not_loaded_(options.healthy_not_loaded),
      serial_([] {
        static std::atomic<uint64_t> made{0};
        return ++made;
      }()) {}

void LimitRules::add(LimitSet set, const RulesOptions& options, request::Spaces& spaces,
                     policy::RuleSet& rules) {
  SLUICE_CHECK(rules.rules(&dialect).empty());
  const std::shared_ptr<LimitRules> its(new LimitRules(std::move(set), options));
  const LimitSet& limits = its->set_;
  const size_t count = limits.limits().size();
  its->data_.resize(count + fixed_rules);
  for (size_t i = 0; i < its->data_.size(); ++i) {
    FoundRule& data = its->data_[i];
    data.rules = its.get();
    data.limit = i < count ? static_cast<uint32_t>(i) : absent;
    data.kind = i < count ? FoundRule::Kind::limit : kind_of(i - count);
    policy::Rule rule = i < count ? rule_of(limits.limits()[i], limits, options, spaces)
                                  : fixed_rule(i - count, options, spaces);
    rule.built_in = i >= count;
    if (i < count) its->spaces_.push_back(rule.space);
    rules.add(dialect, std::move(rule));
  }
  rules.set_own_rules(dialect, std::make_unique<Tree>(its));
}

}  // namespace sluice::envoy
