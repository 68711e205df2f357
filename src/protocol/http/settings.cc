#include "protocol/http/settings.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/check.h"
#include "base/diagnostic.h"
#include "base/units.h"
#include "config/config.h"
#include "config/settings.h"
#include "config/table.h"
#include "policy/read/native_text.h"
#include "policy/rule_set.h"
#include "protocol/http/auth_settings.h"
#include "protocol/http/client_address.h"
#include "protocol/http/commands.h"
#include "protocol/http/options.h"
#include "protocol/http/wait_count.h"
#include "protocol/protocol.h"
#include "server/options.h"
#include "wire/http_authority.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

// The values of `on_store_error` for limits that come with a request.
constexpr std::array<request::OnError, 3> inline_error_answers = {
    request::OnError::error, request::OnError::deny, request::OnError::allow};

constexpr std::string_view throttlecrab_twin = "throttlecrab";

constexpr std::array<std::string_view, 4> gone_styles = {"draft-06", "draft-07",
                                                         "x-ratelimit-epoch", "x-rate-limit"};
constexpr std::string_view no_names =
    "take it out; fields have the names of their style, and a proxy in front can rename them";
constexpr std::string_view no_keys =
    "take it out, and send an `id` with each charge to /v1/charge in place of an Idempotency-Key";

constexpr base::Duration wait_max_max = base::seconds(3'600);
constexpr uint64_t waiting_most = 1'000'000;

// The styles of header fields.
struct Styles {
  static constexpr bool is_list = true;

  static bool read(const config::Written& written, HeaderOptions& its) {
    bool sound = true;
    std::vector<config::Written> items;
    if (!written.node.is_list() || written.node.size() > 0)
      items = items_of(written, "write `headers: [ietf, retry-after]`, or `[]` for none", sound);
    if (!sound) return false;
    for (const HeaderStyle& style : header_styles) its.*style.is_sent = false;
    for (const config::Written& item : items) {
      const auto at = std::ranges::find(header_styles, item.text, &HeaderStyle::name);
      if (at != header_styles.end())
        its.*at->is_sent = true;
      else if (std::ranges::find(gone_styles, item.text) != gone_styles.end())
        sound = item.wrong("the style `" + item.text + "` is gone",
                           "write `ietf` for RateLimit, or `x-ratelimit` for X-RateLimit-Limit, "
                           "-Remaining and -Reset in seconds");
      else
        sound =
            item.wrong_text("is not one of ietf, x-ratelimit, retry-after", "write one of these");
    }
    return sound;
  }
  static std::string text(const HeaderOptions& its) {
    std::vector<std::string> names;
    for (const HeaderStyle& style : header_styles)
      if (its.*style.is_sent) names.emplace_back(style.name);
    return config::list_text(names);
  }
  static std::string values() { return "a list: `ietf`, `x-ratelimit`, `retry-after`; `[]`"; }
};

// A list with at most one word.
struct Twins {
  static constexpr bool is_list = true;

  static bool read(const config::Written& written, bool& throttlecrab) {
    bool sound = true;
    const auto items = items_of(written, "twins: [throttlecrab]", sound);
    if (items.empty()) return false;
    throttlecrab = false;
    for (const config::Written& item : items)
      config::Choice<bool>{{{throttlecrab_twin, true}}}.read(item, throttlecrab);
    return sound;
  }
  static std::string text(bool throttlecrab) {
    return throttlecrab ? "[" + std::string(throttlecrab_twin) + "]" : "[]";
  }
  static std::string values() { return "a list: `throttlecrab`"; }
};

// A fraction below 1 as percent: "0.1" is 10.
struct Fraction {
  static bool read(const config::Written& written, unsigned& to) {
    const std::string_view text = written.text;
    unsigned percent = 0;
    bool sound = text == "0" || (text.starts_with("0.") && text.size() > 2 && text.size() <= 4);
    for (size_t i = 2; sound && text != "0" && i < 4; ++i) {
      const char digit = i < text.size() ? text[i] : '0';
      sound = digit >= '0' && digit <= '9';
      percent = percent * 10 + static_cast<unsigned>(digit - '0');
    }
    if (!sound)
      return written.wrong_text("is not a part of one",
                                "write 0, or a number such as 0.1 with up to two digits");
    to = percent;
    return true;
  }
  static std::string text(unsigned percent) {
    if (percent == 0) return "0";
    return "0." + std::string(percent < 10 ? "0" : "") + std::to_string(percent);
  }
  static std::string values() { return "0 to 0.99"; }
};

// A name for `hosts`, as guard.h compares it.
struct HostName {
  static bool read(const config::Written& written, std::string& to) {
    to = written.text;
    std::transform(to.begin(), to.end(), to.begin(), wire::http_lower);
    const std::string lower = to;
    if (to.ends_with('.')) to.pop_back();
    const auto is_of_name = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
    };
    const bool is_name = !to.empty() && !to.starts_with('.') && !to.ends_with('.') &&
                         to.find("..") == to.npos && std::all_of(to.begin(), to.end(), is_of_name);
    if (is_name || parse_address(to)) return true;
    return written.wrong("`" + lower + "` is not the name of a host",
                         "write the name alone, without scheme, port, path or `*`, as in "
                         "`limits.example.com`");
  }
  static std::string text(const std::string& name) { return config::in_quotes(name); }
  static std::string values() { return "a name alone, without scheme, port and `*`"; }
};

// An origin as browsers send it (RFC 6454, 6.2), in lower case.
struct Origin {
  static bool read(const config::Written& written, std::string& to) {
    to = written.text;
    std::transform(to.begin(), to.end(), to.begin(), wire::http_lower);
    const size_t scheme = to.find("://");
    const std::string_view rest =
        scheme == to.npos ? std::string_view() : std::string_view(to).substr(scheme + 3);
    if (scheme == 0 || rest.empty() || !wire::is_http_authority(rest))
      return written.wrong("`" + to + "` is not an origin of web pages",
                           "write scheme and host, with a port if it is not the scheme's own, and "
                           "no path, as in `https://page.example`");
    // Browsers leave out the scheme's own port.
    for (const std::string_view usual : {"http://:80", "https://:443"}) {
      const size_t cut = usual.find(':', usual.find("//"));
      if (to.starts_with(usual.substr(0, cut)) && to.ends_with(usual.substr(cut)))
        to.resize(to.size() - (usual.size() - cut));
    }
    return true;
  }
  static std::string text(const std::string& origin) { return config::in_quotes(origin); }
  static std::string values() { return "as `https://page.example`"; }
};

config::Choice<request::OnError> answers_on_error() {
  config::Choice<request::OnError> all;
  for (const request::OnError one : inline_error_answers)
    all.all.emplace_back(request::name_of(one), one);
  return all;
}

// ---- Native rules that do not fit the settings, for `sluice check` ----

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

// Warns, in the order of the rules: of entries `header.NAME` and `cookie.NAME` that no profile of
// forward-auth gives. Without profiles nothing is said of them, because a client of the protocol
// may send any entry. And of rules of which none decides, as all are in shadow, where
// `http.unmatched` refuses requests that no rule decides.
void review_rules(const HttpOptions& options, const policy::RuleSet& rules,
                  base::Diagnostics& diagnostics) {
  if (refuses_unmatched(options)) review_shadow(options, rules.native_rules(), diagnostics);
  if (options.auth.profiles.empty()) return;
  for (const policy::Rule& rule : rules.native_rules())
    if (rule.mode != policy::Mode::off) review_entries(options.auth, rule, diagnostics);
}

}  // namespace

std::unique_ptr<protocol::Settings> HttpSettings::clone() const {
  return std::make_unique<HttpSettings>(*this);
}

std::vector<config::Entry> HttpSettings::table() {
  using config::setting;
  using config::Shown;
  using config::Truth;
  const auto always = [](std::string_view help) { return config::About{.help = help}; };
  const auto changed = [](std::string_view help) {
    return config::About{.help = help, .shown = Shown::changed};
  };
  config::About hosts{.flag = "--http-hosts",
                      .variable = "SLUICE_HTTP_HOSTS",
                      .type = "NAME,...",
                      .help =
                          "Names that Host may have in HTTP requests to loopback, besides\n"
                          "localhost, each without port, scheme and `*`",
                      .shown = Shown::changed};
  return {
      setting("unmatched", options.unmatched, config::choice<Unmatched>(unmatched_names),
              always("the answer to `take`, `peek`, `wait` and `batch` if no rule applies: 404, "
                     "`{\"allowed\": true, \"rule\": null}`, or 429")),
      setting("inline_limits", options.inline_limits,
              Truth{"write `inline_limits: false` to refuse limits in requests"},
              always("requests may have `key` and `limits`")),
      setting("headers", options.headers, Styles{},
              always("the [fields](http.md#header-fields) that show limits")),
      setting("max_wait", options.wait_max, config::Length{{1'000}, wait_max_max},
              always("the longest `timeout`")),
      setting("max_waiting", options.waiting_max, config::Number{0, waiting_most},
              always("requests that wait at a time")),
      setting("on_store_error", options.on_store_error, answers_on_error(),
              changed("of limits that come with a request: the answer when the store cannot "
                      "decide; rules have [their own](policy.md#the-keys-of-a-rule). `put` and "
                      "`reset` are 503 in any case")),
      setting("partition_keys", options.partition_keys,
              Truth{"write `partition_keys: true` to have `pk` in RateLimit"},
              changed("members of `ietf` have `pk`")),
      setting("get_takes", options.get_takes,
              Truth{"write `get_takes: true` to have GET /v1/take take"},
              changed("[`GET /v1/take`](http.md#takes-by-get)")),
      setting("twins", options.throttlecrab, Twins{}, changed("other servers' paths")),
      setting("ratelimit", options.headers.ratelimit_all,
              config::Choice<bool>{{{"shown", false}, {"all", true}}},
              changed("whether `RateLimit` has the shown limit or all")),
      setting("retry_jitter", options.retry_jitter_percent, Fraction{},
              changed("the largest part of `Retry-After` that is added to it, at random")),
      setting("hosts", options.hosts, config::ListOf{HostName{}, "hosts: [limits.example.com]"},
              hosts),
      setting("origins", options.origins,
              config::ListOf{Origin{}, "origins: [\"https://page.example\"]"},
              changed("[origins of web pages](http.md#browsers) that may send requests")),
      setting("idle_timeout", options.idle_timeout,
              config::Length{
                  {base::bounds::timeout_us_min}, {base::bounds::timeout_us_max}, base::Duration{}},
              changed("a connection that sends nothing for so long, and waits for no answer, is "
                      "closed; 0: none is")),
      auth_entry(options.auth),
      config::gone_setting("field_names", no_names),
      config::gone_setting("idempotency_ttl", no_keys),
      config::gone_setting("idempotency_memory", no_keys)};
}

// Of listeners to which only this machine comes, and without users: see guard.h.
std::string HttpSettings::note(const config::Config& config) const {
  if (!options.hosts.empty() || !config.users.value.empty()) return {};
  std::string places;
  for (const auto& [listener, its_origin] : config.listen) {
    if (!listener.protocol || *listener.protocol != number_of(description) ||
        !config::is_loopback(listener.address.host))
      continue;
    places += (places.empty() ? "" : ", ") +
              config::format_address(listener.address.host, listener.address.port);
  }
  if (places.empty()) return {};
  return "where Host is a name other than localhost, http at " + places +
         ": 421; name it by `http: { hosts: [NAME] }` or --http-hosts NAME";
}

void HttpSettings::review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const {
  review_rules(options, rules, diagnostics);
}

void HttpSettings::add_to(server::Options& to, protocol::Protocol self) const {
  auto its = std::make_shared<HttpOptions>(options);
  // The secret and the count belong to this server alone.
  SLUICE_CHECK(RAND_bytes(its->partition_secret.data(),
                          static_cast<int>(its->partition_secret.size())) == 1);
  its->waits = std::make_shared<WaitCount>();
  to.session_options[static_cast<size_t>(self)] = std::move(its);
  constexpr std::array<request::Unmatched, unmatched_names.size()> answers = {
      request::Unmatched::error, request::Unmatched::allow, request::Unmatched::deny};
  for (server::ListenerOptions& listener : to.listeners) {
    if (!listener.service.serves(self)) continue;
    listener.timeouts.idle = options.idle_timeout;
    listener.own_unmatched = answers[static_cast<size_t>(options.unmatched)];
  }
}

constinit const protocol::SettingsFormat settings_format = {
    .make = []() -> std::unique_ptr<protocol::Settings> {
      return std::make_unique<HttpSettings>();
    },
    .unmatched =
        [](const protocol::Settings& settings) {
          constexpr std::array<std::string_view, 3> answers = {
              "404 with the problem no-rule, as `http.unmatched` is error",
              "200 with `allowed` true and no rule, as `http.unmatched` is allow",
              "429 with `allowed` false and no rule, as `http.unmatched` is deny"};
          constexpr std::array<std::string_view, 3> answers_with_profiles = {
              "404 with the problem no-rule, and /auth allows, as `http.unmatched` is error",
              "200 with `allowed` true and no rule, and /auth allows, as `http.unmatched` is allow",
              "429 with `allowed` false and no rule, and /auth has the `deny` status of its "
              "profile, as `http.unmatched` is deny"};
          const HttpOptions& its = static_cast<const HttpSettings&>(settings).options;
          return (its.auth.profiles.empty()
                      ? answers
                      : answers_with_profiles)[static_cast<size_t>(its.unmatched)];
        },
};

}  // namespace sluice::http
