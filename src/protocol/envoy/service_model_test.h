// A naive rate limit service for tests: it searches the lists of the files for rules, its counters
// are a map, and the test sets its time. From what it finds, the code under test makes the answer
// (check_request, count_hits, compose_response).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "policy/read/yaml_tree.h"
#include "protocol/envoy/call.h"
#include "protocol/envoy/limit_metrics.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/response.h"
#include "protocol/envoy/window.h"

namespace sluice::envoy::naive {

struct Limit {
  bool unlimited = false;
  uint32_t requests_per_unit = 0;
  WireUnit unit = WireUnit::unknown;
  std::string name;
  std::vector<std::string> replaces;
};

struct Rule {
  std::string key, value;
  std::optional<Limit> limit;
  bool shadow = false, quota = false, share = false;
  MetadataMap metadata;
  std::vector<Rule> children;

  std::string composite() const { return value.empty() ? key : key + "_" + value; }
  bool is_pattern() const { return composite().find('*') != std::string::npos; }
};

inline bool fits(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*')
    return !text.empty() && pattern[0] == text[0] && fits(pattern.substr(1), text.substr(1));
  return fits(pattern.substr(1), text) || (!text.empty() && fits(pattern, text.substr(1)));
}

// ---- Files ----

inline bool is_true(std::string_view word) {
  return word == "true" || word == "yes" || word == "on" || word == "y";
}

inline MetadataMap map_of(policy::YamlNode node, bool outermost);

inline MetadataValue value_of(policy::YamlNode node) {
  if (node.is_map()) return MetadataValue(map_of(node, false));
  if (node.is_list()) {
    MetadataList list;
    for (auto item = node.first_child(); list.size() < node.size(); item = item.next())
      list.push_back(value_of(item));
    return MetadataValue(list);
  }
  if (node.is_null()) return {};
  const std::string text(node.text());
  if (!node.is_plain()) return MetadataValue(text);
  if (is_true(text)) return MetadataValue(true);
  if (text == "null") return {};
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end == 0 ? MetadataValue(number) : MetadataValue(text);
}

// Keys of the outermost map are the texts in the file; keys of inner maps are YAML values.
inline MetadataMap map_of(policy::YamlNode node, bool outermost) {
  MetadataMap map;
  auto key = node.first_child();
  for (size_t i = 0; i < node.size(); i += 2) {
    const auto value = key.next();
    const bool truth = !outermost && key.is_plain() && is_true(key.text());
    map.emplace_back(truth ? "true" : std::string(key.text()), value_of(value));
    key = value.next();
  }
  return map;
}

inline policy::YamlNode member(policy::YamlNode map, std::string_view wanted) {
  auto key = map.first_child();
  for (size_t i = 0; i + 1 < map.size(); i += 2) {
    const auto value = key.next();
    if (key.text() == wanted) return value;
    key = value.next();
  }
  return {};
}
inline std::string text_of(policy::YamlNode map, std::string_view key) {
  const auto node = member(map, key);
  return node && node.is_scalar() ? std::string(node.text()) : "";
}

inline WireUnit unit_of(std::string word) {
  std::ranges::transform(word, word.begin(), [](char c) { return static_cast<char>(toupper(c)); });
  for (int i = 1; i <= 7; ++i)
    if (unit_name(static_cast<WireUnit>(i)) == word) return static_cast<WireUnit>(i);
  return WireUnit::unknown;
}

inline std::vector<Rule> rules_of(policy::YamlNode list) {
  std::vector<Rule> rules;
  if (!list || !list.is_list()) return rules;
  auto node = list.first_child();
  for (size_t i = 0; i < list.size(); ++i, node = node.next()) {
    Rule& rule = rules.emplace_back();
    rule.key = text_of(node, "key");
    rule.value = text_of(node, "value");
    rule.shadow = is_true(text_of(node, "shadow_mode"));
    rule.quota = is_true(text_of(node, "quota_mode"));
    rule.share = is_true(text_of(node, "share_threshold"));
    if (const auto metadata = member(node, "metadata")) rule.metadata = map_of(metadata, true);
    if (const auto limit = member(node, "rate_limit")) {
      Limit& into = rule.limit.emplace();
      into.unlimited = is_true(text_of(limit, "unlimited"));
      const std::string number = text_of(limit, "requests_per_unit");
      into.requests_per_unit = number.empty() ? 0 : static_cast<uint32_t>(std::stoul(number));
      into.unit = unit_of(text_of(limit, "unit"));
      into.name = text_of(limit, "name");
      const auto replaces = member(limit, "replaces");
      for (auto item = replaces.first_child(); into.replaces.size() < replaces.size();
           item = item.next())
        into.replaces.push_back(text_of(item, "name"));
    }
    rule.children = rules_of(member(node, "descriptors"));
  }
  return rules;
}

// ---- The service ----

struct Options {
  ResponseOptions response;
  float near_ratio = 0.8F;
  bool stop_when_over = false, local_cache = false, all_or_nothing = false;
};

class Service {
 public:
  Options options;
  int64_t now = 1'795'334'123;  // seconds
  std::map<std::string, std::string> files;
  std::map<std::string, int64_t> counters;  // by the domain, the entries and the window's start
  HitCounts counts;                         // the sums over all limits
  uint64_t unknown_domains = 0;

  void load() {
    domains_.clear();
    for (const auto& [name, text] : files) {
      policy::YamlDocument document;
      if (policy::parse_yaml(text, document)) continue;
      auto& rules = domains_[text_of(document.root(), "domain")];
      for (Rule& rule : rules_of(member(document.root(), "descriptors")))
        rules.push_back(std::move(rule));
    }
  }

  std::optional<RequestError> ask(const RateLimitRequest& request, RateLimitResponse& response) {
    if (const auto problem = check_request(request)) return problem;
    if (domains_.contains(std::string(request.domain)))
      if (const auto problem = check_overrides(request)) return problem;
    std::vector<Found> found;
    for (const Descriptor& descriptor : request.descriptors)
      found.push_back(find(request, descriptor));
    drop_replaced(found);
    if (options.all_or_nothing)
      charge_all_or_nothing(found);
    else
      charge(found);
    results_.clear();
    for (const Found& one : found) results_.push_back(one.result);
    compose_response(request, results_, options.response, response);
    return std::nullopt;
  }

 private:
  struct Found {
    DescriptorResult result;
    const Rule* rule = nullptr;  // null: no rule with a limit
    std::string counter;
    uint64_t hits = 1;
    bool refund = false;
    int64_t window = 0;
  };

  Found find(const RateLimitRequest& request, const Descriptor& descriptor) {
    Found found;
    found.hits = descriptor.hits_addend.value_or(std::max(request.hits_addend, 1u));
    found.refund = descriptor.is_negative_hits;
    const auto domain = domains_.find(std::string(request.domain));
    if (domain == domains_.end()) {
      ++unknown_domains;
      return found;
    }
    std::string counter = std::string(request.domain);
    const std::vector<Rule>* level = &domain->second;
    const Rule* rule = nullptr;
    size_t depth = 0;
    for (const Entry& entry : request.entries_of(descriptor)) {
      rule = level == nullptr ? nullptr : meet(*level, entry);
      const bool shared = !descriptor.limit && rule != nullptr && rule->share &&
                          rule->is_pattern() && rule->composite() != joined(entry);
      const std::string pattern =
          rule == nullptr ? "" : (rule->value.empty() ? rule->key : rule->value);
      counter += "_" + std::string(entry.key) + "_" + (shared ? pattern : std::string(entry.value));
      level = rule != nullptr && !rule->children.empty() ? &rule->children : nullptr;
      if (rule != nullptr) ++depth;
    }
    if (depth != descriptor.entry_count) rule = nullptr;
    DescriptorResult& result = found.result;
    if (descriptor.limit) {
      result.kind = DescriptorResult::Kind::limited;
      result.limit = {descriptor.limit->requests_per_unit, descriptor.limit->unit, "", 0};
    } else if (rule != nullptr && rule->limit) {
      found.rule = rule;
      result.metadata = &rule->metadata;
      result.kind = rule->limit->unlimited ? DescriptorResult::Kind::unlimited
                                           : DescriptorResult::Kind::limited;
      result.limit = {rule->limit->requests_per_unit, rule->limit->unit, rule->limit->name, 0};
      result.shadow = rule->shadow;
      result.quota = rule->quota;
    }
    found.window = unit_seconds(result.limit.unit);
    result.window_seconds = found.window;
    if (result.kind == DescriptorResult::Kind::limited)
      found.counter = counter + "_" + std::to_string(now - now % found.window);
    return found;
  }

  static std::string joined(const Entry& entry) {
    return std::string(entry.key) + "_" + std::string(entry.value);
  }
  static const Rule* meet(const std::vector<Rule>& rules, const Entry& entry) {
    for (const Rule& rule : rules)
      if (rule.composite() == joined(entry)) return &rule;
    for (const Rule& rule : rules)
      if (rule.is_pattern() && fits(rule.composite(), joined(entry))) return &rule;
    for (const Rule& rule : rules)
      if (rule.composite() == entry.key && !rule.is_pattern()) return &rule;
    return nullptr;
  }

  static void drop_replaced(std::vector<Found>& found) {
    std::set<std::string> replaced;
    for (const Found& one : found)
      if (one.rule != nullptr)
        replaced.insert(one.rule->limit->replaces.begin(), one.rule->limit->replaces.end());
    for (Found& one : found)
      if (one.rule != nullptr && !one.rule->limit->unlimited &&
          replaced.contains(one.rule->limit->name))
        one.result = {};
  }

  int64_t stored(const Found& one) const {
    const auto at = counters.find(one.counter);
    return at == counters.end() ? 0 : at->second;
  }

  void charge(std::vector<Found>& found) {
    const auto is_limited = [](const Found& one) {
      return one.result.kind == DescriptorResult::Kind::limited;
    };
    const auto is_cached = [&](const Found& one) {
      return is_limited(one) && options.local_cache && over_.contains(one.counter);
    };
    const auto would_be_over = [&](const Found& one) {
      return is_limited(one) &&
             standing_uncharged(stored(one), one.hits, one.result.limit.requests_per_unit).over;
    };
    std::vector<bool> takes(found.size(), true);
    if (options.stop_when_over) {
      const bool any_cached = std::ranges::any_of(found, is_cached);
      if (any_cached || std::ranges::any_of(found, would_be_over))
        for (size_t i = 0; i < found.size(); ++i) takes[i] = !any_cached && would_be_over(found[i]);
    }
    for (size_t i = 0; i < found.size(); ++i) {
      Found& one = found[i];
      if (!is_limited(one)) continue;
      one.result.seconds_until_reset = seconds_until_window_ends(now, one.window);
      if (is_cached(one)) {
        one.result.standing = {true, 0};
        add(count_hits_of_local_cache(one.hits, one.result.shadow));
      } else {
        settle(one, takes[i] ? one.hits : 0);
      }
    }
  }

  static uint64_t sum(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

  // Enforced limits settle together; limits in shadow mode and quotas settle by themselves.
  // Refusals are not charged.
  void charge_all_or_nothing(std::vector<Found>& found) {
    const bool any_enforced = !options.response.shadow && !options.response.quota;
    const auto is_together = [&](const Found& one) {
      return any_enforced && !one.refund && !one.result.shadow && !one.result.quota;
    };
    const auto is_limited = [](const Found& one) {
      return one.result.kind == DescriptorResult::Kind::limited;
    };
    std::map<std::string, uint64_t> hits;  // of each counter
    for (const Found& one : found)
      if (is_limited(one) && is_together(one)) hits[one.counter] = sum(hits[one.counter], one.hits);
    const auto fits = [&](const Found& one, uint64_t its_hits) {
      return sum(static_cast<uint64_t>(stored(one)), its_hits) <=
             one.result.limit.requests_per_unit;
    };
    bool all_fit = true;
    for (const Found& one : found)
      if (is_limited(one) && is_together(one)) all_fit = all_fit && fits(one, hits[one.counter]);
    if (all_fit)
      for (const auto& [counter, its_hits] : hits)
        counters[counter] += static_cast<int64_t>(its_hits);
    // If the others settle together, refunds settle after them.
    for (const bool refunds : {false, true}) {
      if (refunds && !any_enforced) break;
      for (Found& one : found) {
        if (!is_limited(one) || (any_enforced && one.refund != refunds)) continue;
        const uint32_t limit = one.result.limit.requests_per_unit;
        one.result.seconds_until_reset = seconds_until_window_ends(now, one.window);
        if (one.refund) {
          settle(one, one.hits);
          continue;
        }
        const bool together = is_together(one);
        const uint64_t its_hits = together ? hits[one.counter] : one.hits;
        const bool over = together ? !all_fit && !fits(one, its_hits) : !fits(one, its_hits);
        if (!together && !over) counters[one.counter] += static_cast<int64_t>(its_hits);
        one.result.standing = over ? Standing{true, 0} : standing_at(stored(one), limit);
        one.result.never_passes = over && its_hits > limit;
      }
    }
  }

  void settle(Found& one, uint64_t hits) {
    const uint32_t limit = one.result.limit.requests_per_unit;
    int64_t& count = counters[one.counter];
    if (one.refund) {
      count = hits > static_cast<uint64_t>(count) ? 0 : count - static_cast<int64_t>(hits);
      one.result.standing = standing_after_refund(count, limit);
      counts.total_negative_hits += hits;
      return;
    }
    const uint64_t most = static_cast<uint64_t>(INT64_MAX) - static_cast<uint64_t>(count);
    count += static_cast<int64_t>(count < 0 ? hits : std::min(hits, most));
    one.result.standing = standing_at(count, limit);
    one.result.never_passes = one.result.standing.over && hits > limit;
    if (one.result.standing.over) over_.insert(one.counter);
    add(count_hits(hits, static_cast<uint64_t>(std::max<int64_t>(count, 0)), limit,
                   options.near_ratio, one.result.shadow));
  }

  void add(const HitCounts& more) {
    counts.total_hits += more.total_hits;
    counts.over_limit += more.over_limit;
    counts.near_limit += more.near_limit;
    counts.within_limit += more.within_limit;
    counts.over_limit_with_local_cache += more.over_limit_with_local_cache;
    counts.shadow_mode += more.shadow_mode;
    counts.total_negative_hits += more.total_negative_hits;
  }

  std::map<std::string, std::vector<Rule>> domains_;
  std::set<std::string> over_;  // the local cache
  std::vector<DescriptorResult> results_;
};

}  // namespace sluice::envoy::naive
