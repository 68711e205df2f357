#include "protocol/http/review.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/read/native_text.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

constexpr std::string_view header_prefix = "header.", cookie_prefix = "cookie.";

// Does a profile give requests an entry with that key? Only asked of headers and cookies.
bool gives(const AuthProfile& profile, std::string_view key) {
  const auto has = [](const std::vector<std::string>& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  };
  if (std::ranges::any_of(profile.entries, [&](const auto& entry) { return entry.first == key; }))
    return true;
  return key.starts_with(header_prefix) ? has(profile.headers, key.substr(header_prefix.size()))
                                        : has(profile.cookies, key.substr(cookie_prefix.size()));
}

bool is_given(const AuthOptions& auth, std::string_view key) {
  if (!key.starts_with(header_prefix) && !key.starts_with(cookie_prefix)) return true;
  return std::ranges::any_of(auth.profiles,
                             [&](const auto& named) { return gives(named.second, key); });
}

// What to do about a key that no profile gives.
std::string remedy_for(const AuthOptions& auth, std::string_view key) {
  if (key.starts_with(cookie_prefix))
    return "add `" + std::string(key.substr(cookie_prefix.size())) +
           "` to `cookies` of the profile";
  std::string lower(key);
  std::ranges::transform(lower, lower.begin(), wire::http_lower);
  const std::string name = lower.substr(header_prefix.size());
  std::string remedy;
  if (lower != key) remedy = "write `" + lower + "`, because names of headers are in lower case";
  if (is_given(auth, lower)) return remedy;
  return remedy + (remedy.empty() ? "" : ", and ") + "add `" + name +
         "` to `headers` of the profile";
}

void review_entries(const AuthOptions& auth, const policy::Rule& rule,
                    base::Diagnostics& diagnostics) {
  const auto warn = [&](const std::string& key, const std::string& effect) {
    diagnostics.push_back({.severity = base::Diagnostic::Severity::warning,
                           .file = rule.file,
                           .line = rule.line,
                           .column = 0,
                           .subject = title_of(rule),
                           .message = "no profile of `http.auth` gives `" + key + "`, so " + effect,
                           .remedy = remedy_for(auth, key)});
  };
  for (const policy::Condition& condition : rule.conditions)
    if (!condition.pattern.matches(std::nullopt) && !is_given(auth, condition.key))
      return warn(condition.key, "it applies to no request to /auth");
  for (const std::string& key : rule.actor)
    if (!is_given(auth, key)) return warn(key, "all requests to /auth share one counter by it");
}

// With `error` a request to /auth passes, so nothing is said where there are profiles.
bool refuses_unmatched(const HttpOptions& options) {
  return options.unmatched == Unmatched::deny ||
         (options.unmatched == Unmatched::error && options.auth.profiles.empty());
}

void review_shadow(const HttpOptions& options, std::span<const policy::Rule> rules,
                   base::Diagnostics& diagnostics) {
  const auto in_mode = [](policy::Mode mode) {
    return [mode](const policy::Rule& rule) { return rule.mode == mode; };
  };
  const auto first = std::ranges::find_if(rules, in_mode(policy::Mode::shadow));
  if (first == rules.end() || std::ranges::any_of(rules, in_mode(policy::Mode::enforce))) return;
  diagnostics.push_back(
      {.severity = base::Diagnostic::Severity::warning,
       .file = first->file,
       .line = first->line,
       .column = 0,
       .subject = "rules",
       .message = "all are in shadow, and no rule in shadow decides a request, so `http.unmatched` "
                  "refuses every request: it is `" +
                  std::string(unmatched_names[static_cast<size_t>(options.unmatched)]) + "`",
       .remedy = "write `http: { unmatched: allow }` until a rule is enforced"});
}

}  // namespace

void review(const HttpOptions& options, const policy::RuleSet& rules,
            base::Diagnostics& diagnostics) {
  if (refuses_unmatched(options)) review_shadow(options, rules.native_rules(), diagnostics);
  if (options.auth.profiles.empty()) return;
  for (const policy::Rule& rule : rules.native_rules())
    if (rule.mode != policy::Mode::off) review_entries(options.auth, rule, diagnostics);
}

}  // namespace sluice::http
