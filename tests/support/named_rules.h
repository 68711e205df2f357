// Named rule sets for benchmarks and property tests: native YAML with any number of rules, and a
// request that only the last rule matches.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace sluice::tests {

struct NamedRules {
  const char* name;
  std::string (*match)(size_t i, size_t count);  // of rule i: the text in the braces of `match`
  std::vector<std::pair<std::string, std::string>> (*last)(size_t count);
};

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Exact values: each rule names a tenant and an api.
inline std::string exact_match(size_t i, size_t) {
  return "tenant: t" + std::to_string(i) + ", api: search";
}
inline Pairs exact_last(size_t count) {
  return {{"tenant", "t" + std::to_string(count - 1)}, {"api", "search"}, {"ip", "192.168.100.17"}};
}

// Three keys: one with few values, one with an exact value or a prefix, one with any value.
inline std::string mixed_match(size_t i, size_t) {
  const std::string number = std::to_string(i);
  return std::string("method: ") + (i % 3 == 0 ? "POST" : "GET") + ", path: \"/pantry/" + number +
         (i % 2 == 0 ? "\"" : "/*\"") + ", ip: \"*\"";
}
inline Pairs mixed_last(size_t count) {
  const size_t i = count - 1;
  return {{"method", i % 3 == 0 ? "POST" : "GET"},
          {"path", "/pantry/" + std::to_string(i) + (i % 2 == 0 ? "" : "/oatmeal")},
          {"ip", "192.168.100.17"}};
}

// Prefixes of each other (`/v1*`, `/v12*`, `/v123*`), so that many rules fit a path, with any ip.
// Only the method tells the last rule from the others.
inline std::string overlapping_match(size_t i, size_t count) {
  return std::string("method: ") + (i + 1 == count ? "GET" : "\"P*\"") + ", path: \"/api/v" +
         std::to_string(i) + "*\", ip: \"*\"";
}
inline Pairs overlapping_last(size_t count) {
  return {{"method", "GET"},
          {"path", "/api/v" + std::to_string(count - 1) + "/cookies"},
          {"ip", "192.168.100.17"}};
}

inline const NamedRules named_rules[] = {
    {"exact values", exact_match, exact_last},
    {"three keys mixed", mixed_match, mixed_last},
    {"overlapping prefixes and *", overlapping_match, overlapping_last},
};

inline std::string text_of(const NamedRules& set, size_t count) {
  std::string text = "rules:\n";
  for (size_t i = 0; i < count; ++i)
    text += "- name: r" + std::to_string(i) + "\n  match: { " + set.match(i, count) +
            " }\n  limit: { quota: 100, window: 1m, algorithm: fixed_window }\n";
  return text;
}

}  // namespace sluice::tests
