// A naive model of LimitSet for tests: plain loops compare texts. Rules have the same numbers as
// the nodes of LimitSetBuilder.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/envoy/limits.h"

namespace sluice::envoy {

// Tries all ways to divide the text among the stars.
inline bool fits_model(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.front() != '*')
    return !text.empty() && pattern.front() == text.front() &&
           fits_model(pattern.substr(1), text.substr(1));
  for (size_t i = 0; i <= text.size(); ++i)
    if (fits_model(pattern.substr(1), text.substr(i))) return true;
  return false;
}

class LimitsModel {
 public:
  struct Rule {
    uint32_t parent;
    std::string composite;
    bool share_threshold = false;
    uint32_t limit = absent;
  };
  struct Found {
    uint32_t limit = absent;
    std::vector<std::pair<uint32_t, MatchedBy>> steps{};
  };

  LimitsModel() = default;
  explicit LimitsModel(const LimitSet& set) {
    for (const Node& node : set.nodes())
      rules.push_back({node.parent, node.composite, node.share_threshold, node.limit});
  }

  Found find(uint32_t domain, Entries entries) const {
    Found found;
    uint32_t at = domain;
    for (const request::Entry& entry : entries) {
      const std::string joined = std::string(entry.key) + "_" + std::string(entry.value);
      MatchedBy by = MatchedBy::key_and_value;
      uint32_t next = child(at, joined);
      for (uint32_t i = 0; next == absent && i < rules.size(); ++i) {
        const bool is_pattern = rules[i].composite.find('*') != std::string::npos;
        if (rules[i].parent != at || !is_pattern || !fits_model(rules[i].composite, joined))
          continue;
        next = i;
        by = MatchedBy::pattern;
      }
      if (next == absent) {
        next = child(at, std::string(entry.key));
        by = MatchedBy::key;
      }
      if (next == absent) return found;
      found.steps.emplace_back(next, by);
      at = next;
    }
    if (!entries.empty()) found.limit = rules[at].limit;
    return found;
  }

  std::string key(uint32_t domain, Entries entries, const Found& found) const {
    std::string text = rules[domain].composite;
    for (size_t i = 0; i < entries.size(); ++i) {
      std::string value(entries[i].value);
      if (i < found.steps.size()) {
        const auto& [number, by] = found.steps[i];
        const Rule& rule = rules[number];
        const std::string begin = std::string(entries[i].key) + "_";
        std::string pattern = rule.composite;
        if (pattern.starts_with(begin)) pattern.erase(0, begin.size());
        if (by == MatchedBy::pattern && rule.share_threshold && !pattern.empty()) value = pattern;
      }
      text += "_" + std::string(entries[i].key) + "_" + value;
    }
    return text;
  }

  std::vector<Rule> rules;

 private:
  uint32_t child(uint32_t parent, const std::string& composite) const {
    for (uint32_t i = 0; i < rules.size(); ++i)
      if (rules[i].parent == parent && rules[i].composite == composite) return i;
    return absent;
  }
};

}  // namespace sluice::envoy
