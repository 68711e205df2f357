// Native rules written as the YAML that reads as them, for tests: what is read, written and read
// again must be the same.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "policy/rule_set.h"
#include "policy/text.h"

namespace sluice::policy {

inline std::string yaml_quoted(std::string_view text) {
  static constexpr char hex[] = "0123456789abcdef";
  std::string out = "\"";
  const auto escape = [&](uint32_t character, int digits) {
    out += digits == 2 ? "\\x" : "\\u";
    for (int i = digits - 1; i >= 0; --i) out += hex[character >> (4 * i) & 15];
  };
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = decode(text, i);
    // What cannot stand in YAML as it is.
    const bool control = c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0);
    if (control || c.value == 0x2028 || c.value == 0x2029 || c.value == 0xfffe ||
        c.value == 0xffff) {
      escape(c.value, control ? 2 : 4);
    } else {
      if (c.value == '"' || c.value == '\\') out += '\\';
      out += text.substr(i, c.size);
    }
    i += c.size;
  }
  return out + '"';
}

inline std::string write_native(std::span<const Rule> rules) {
  std::string out = "rules:\n";
  for (const Rule& rule : rules) {
    out += "- mode: ";
    out += rule.mode == Mode::enforce ? "enforce" : rule.mode == Mode::shadow ? "shadow" : "off";
    out += rule.then == Then::stop ? "\n  then: stop\n" : "\n  then: continue\n";
    if (rule.on_store_error != request::OnError::error)
      out += "  on_store_error: " + std::string(name_of(rule.on_store_error)) + "\n";
    if (!rule.name.empty()) out += "  name: " + rule.name + "\n";
    if (!rule.comment.empty()) out += "  comment: " + yaml_quoted(rule.comment) + "\n";
    out += "  match: {";
    // With `?`, because a plain key has at most 1,024 characters.
    for (const Condition& c : rule.conditions)
      out += " ? " + yaml_quoted(c.key) + " : " + yaml_quoted(c.pattern.text()) + ",";
    out += " }\n";
    if (!rule.actor.empty()) {
      out += "  actor: [";
      for (const std::string& actor : rule.actor) out += yaml_quoted(actor) + ", ";
      out += "]\n";
    }
    if (!limit::has_counter(rule.limits.front().algorithm)) {
      out += "  " + std::string(name_of(rule.limits.front().algorithm)) + ": true\n";
      continue;
    }
    out += "  limits:\n";
    for (const limit::Limit& limit : rule.limits) {
      const bool refills = limit.algorithm != limit::Algorithm::fixed_bucket;
      out += "  - { quota: " + std::to_string(limit.quota);
      if (refills) out += ", window: " + std::to_string(limit.window.us) + "us";
      out += ", algorithm: " + std::string(name_of(limit.algorithm));
      if (limit.burst > 0 && refills) out += ", burst: " + std::to_string(limit.burst);
      out += " }\n";
    }
  }
  return out;
}

inline bool same_rule(const Rule& a, const Rule& b) {
  if (a.conditions.size() != b.conditions.size()) return false;
  for (size_t i = 0; i < a.conditions.size(); ++i)
    if (a.conditions[i].key != b.conditions[i].key ||
        a.conditions[i].pattern.text() != b.conditions[i].pattern.text())
      return false;
  return a.name == b.name && a.comment == b.comment && a.pattern == b.pattern &&
         a.actor == b.actor && a.mode == b.mode && a.then == b.then &&
         a.on_store_error == b.on_store_error && a.limits == b.limits && a.space == b.space;
}

}  // namespace sluice::policy
