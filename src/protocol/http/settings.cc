#include "protocol/http/settings.h"

#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/units.h"
#include "config/config.h"
#include "config/file_reader.h"
#include "config/settings.h"
#include "protocol/http/auth_settings.h"
#include "protocol/http/client_address.h"
#include "protocol/http/commands.h"
#include "protocol/http/review.h"
#include "protocol/http/wait_count.h"
#include "protocol/protocol.h"
#include "server/options.h"
#include "wire/http_authority.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

using policy::YamlNode;

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
constexpr policy::YamlReader::GoneKey gone_keys[] = {
    {"field_names", no_names}, {"idempotency_ttl", no_keys}, {"idempotency_memory", no_keys}};

constexpr base::Duration wait_max_max = base::seconds(3'600);
constexpr uint64_t waiting_most = 1'000'000;

template <class Names>
std::string listed(const Names& names) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += ", ";
    text += name;
  }
  return text;
}

// The names of the styles in use.
std::string style_names(const HeaderOptions& options) {
  std::vector<std::string_view> names;
  for (const HeaderStyle& style : header_styles)
    if (options.*style.is_sent) names.push_back(style.name);
  return listed(names);
}

std::string yaml_list(const std::vector<std::string>& items) {
  std::string text = "[";
  for (const std::string& item : items)
    text += (text.size() > 1 ? ", " : "") + config::in_quotes(item);
  return text + "]";
}

void complain_choice(config::FileReader& reader, const std::string& key, const YamlNode& value,
                     const std::string& text, const std::string& choices) {
  config::complain(reader.place(key, value), "`" + text + "` is not one of " + choices,
                   "write one of these", reader.diagnostics());
}

// Reads a length of time from `least` to `most`, or 0 if `or_none`. Nothing: it is wrong, which was
// reported.
std::optional<base::Duration> read_length(config::FileReader& reader, const std::string& key,
                                          const YamlNode& value, base::Duration least,
                                          base::Duration most, bool or_none) {
  const auto text = reader.text(key, value);
  if (!text) return std::nullopt;
  const auto length = *text == "0" ? base::Duration{} : base::parse_duration(*text);
  if (length && ((or_none && length->us == 0) || (length->us >= least.us && length->us <= most.us)))
    return length;
  config::complain(reader.place(key, value), "`" + *text + "` is not a length of time it may be",
                   "write one from `" + config::in_one_unit(least) + "` to `" +
                       config::in_one_unit(most) + "`" + (or_none ? ", or 0 for none" : ""),
                   reader.diagnostics());
  return std::nullopt;
}

// Reads a fraction as percent: "0.1" is 10.
std::optional<unsigned> parse_part(std::string_view text) {
  if (text == "0") return 0u;
  if (!text.starts_with("0.") || text.size() < 3 || text.size() > 4) return std::nullopt;
  unsigned percent = 0;
  for (size_t i = 2; i < 4; ++i) {
    const char digit = i < text.size() ? text[i] : '0';
    if (digit < '0' || digit > '9') return std::nullopt;
    percent = percent * 10 + static_cast<unsigned>(digit - '0');
  }
  return percent;
}

// A name for `hosts`, as guard.h compares it. Nothing: it could never be that of a request, which
// was reported.
std::optional<std::string> read_host(std::string text, const base::Diagnostic& place,
                                     base::Diagnostics& diagnostics) {
  std::transform(text.begin(), text.end(), text.begin(), wire::http_lower);
  const std::string written = text;
  if (text.ends_with('.')) text.pop_back();
  const auto is_of_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  const bool is_name = !text.empty() && !text.starts_with('.') && !text.ends_with('.') &&
                       text.find("..") == text.npos &&
                       std::all_of(text.begin(), text.end(), is_of_name);
  if (is_name || parse_address(text)) return text;
  config::complain(place, "`" + written + "` is not the name of a host",
                   "write the name alone, without scheme, port, path or `*`, as in "
                   "`limits.example.com`",
                   diagnostics);
  return std::nullopt;
}

// An origin as browsers send it (RFC 6454, 6.2), in lower case.
std::optional<std::string> read_origin(std::string text, const base::Diagnostic& place,
                                       base::Diagnostics& diagnostics) {
  std::transform(text.begin(), text.end(), text.begin(), wire::http_lower);
  const size_t scheme = text.find("://");
  const std::string_view rest =
      scheme == text.npos ? std::string_view() : std::string_view(text).substr(scheme + 3);
  if (scheme > 0 && !rest.empty() && wire::is_http_authority(rest)) {
    // Browsers leave out the scheme's own port.
    for (const std::string_view usual : {"http://:80", "https://:443"}) {
      const size_t cut = usual.find(':', usual.find("//"));
      if (text.starts_with(usual.substr(0, cut)) && text.ends_with(usual.substr(cut)))
        text.resize(text.size() - (usual.size() - cut));
    }
    return text;
  }
  config::complain(place, "`" + text + "` is not an origin of web pages",
                   "write scheme and host, with a port if it is not the scheme's own, and no path, "
                   "as in `https://page.example`",
                   diagnostics);
  return std::nullopt;
}

constexpr protocol::SettingsFlag flags[] = {
    {"--http-hosts", "SLUICE_HTTP_HOSTS", "NAME,...",
     "Names that Host may have in HTTP requests to loopback, besides localhost"}};

}  // namespace

HttpSettings::HttpSettings() {
  options_.value.auth = default_auth();
}

std::unique_ptr<protocol::Settings> HttpSettings::clone() const {
  return std::make_unique<HttpSettings>(*this);
}

void HttpSettings::read_names(config::FileReader& reader, const std::string& key,
                              const YamlNode& value, const std::string& remedy, ReadName read_name,
                              std::vector<std::string>& to) {
  if (!reader.sequence(key, value, remedy)) return;
  to.clear();
  for (YamlNode item = value.first_child(); item; item = item.next())
    if (auto text = reader.text(key, item))
      if (auto name = read_name(*std::move(text), reader.place(key, item), reader.diagnostics()))
        to.push_back(*std::move(name));
}

void HttpSettings::set(const protocol::SettingsFlag&, std::string_view text,
                       const std::string& origin, const base::Diagnostic& place,
                       base::Diagnostics& diagnostics) {
  std::vector<std::string> hosts;
  while (true) {
    const size_t comma = std::min(text.find(','), text.size());
    if (auto name = read_host(std::string(text.substr(0, comma)), place, diagnostics))
      hosts.push_back(*std::move(name));
    if (comma == text.size()) break;
    text.remove_prefix(comma + 1);
  }
  options_.value.hosts = std::move(hosts);
  options_.origin = options_.origin == "default" ? origin : options_.origin + " and " + origin;
}

// Of listeners to which only this machine comes, and without users: see guard.h.
std::string HttpSettings::note(const config::Config& config) const {
  if (!options_.value.hosts.empty() || !config.users.value.empty()) return {};
  std::string places;
  for (const auto& [listener, origin] : config.listen) {
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

void HttpSettings::read_headers(config::FileReader& reader, const std::string& key,
                                const YamlNode& value) {
  const bool is_none = value.is_list() && value.size() == 0;
  if (!is_none && !reader.sequence(key, value, "headers: [ietf, retry-after], or [] for none"))
    return;
  HeaderOptions& its = options_.value.headers;
  for (const HeaderStyle& style : header_styles) its.*style.is_sent = false;
  for (YamlNode item = value.first_child(); item; item = item.next()) {
    const auto text = reader.text(key, item);
    if (!text) continue;
    const auto at = std::ranges::find(header_styles, *text, &HeaderStyle::name);
    if (at != header_styles.end()) {
      its.*at->is_sent = true;
    } else if (std::ranges::find(gone_styles, *text) != gone_styles.end()) {
      config::complain(reader.place(key, item), "the style `" + *text + "` is gone",
                       "write `ietf` for RateLimit, or `x-ratelimit` for X-RateLimit-Limit, "
                       "-Remaining and -Reset in seconds",
                       reader.diagnostics());
    } else {
      complain_choice(reader, key, item, *text, style_names({true, true, true}));
    }
  }
}

void HttpSettings::read(config::FileReader& reader, const YamlNode& section) {
  HttpOptions& its = options_.value;
  options_.origin = reader.origin(section);
  const auto truth = [&](bool& to, const std::string& remedy) {
    return [&reader, &to, remedy](const std::string& key, const YamlNode& value) {
      to = reader.truth(key, value, remedy).value_or(to);
    };
  };
  const auto number = [&](size_t& to, uint64_t least, uint64_t most) {
    return [&reader, &to, least, most](const std::string& key, const YamlNode& value) {
      if (const auto n = reader.number(key, value, least, most)) to = static_cast<size_t>(*n);
    };
  };
  const auto length = [&](base::Duration& to, base::Duration least, base::Duration most,
                          bool or_none) {
    return [&reader, &to, least, most, or_none](const std::string& key, const YamlNode& value) {
      if (const auto read = read_length(reader, key, value, least, most, or_none)) to = *read;
    };
  };
  reader.map(
      section, "http",
      {{"unmatched",
        [&](const std::string& key, const YamlNode& value) {
          const auto text = reader.text(key, value);
          if (!text) return;
          const auto at = std::find(unmatched_names.begin(), unmatched_names.end(), *text);
          if (at == unmatched_names.end())
            return complain_choice(reader, key, value, *text, listed(unmatched_names));
          its.unmatched = static_cast<Unmatched>(at - unmatched_names.begin());
        }},
       {"inline_limits",
        truth(its.inline_limits, "write `inline_limits: false` to refuse limits in requests")},
       {"on_store_error",
        [&](const std::string& key, const YamlNode& value) {
          const auto text = reader.text(key, value);
          if (!text) return;
          const auto at =
              std::find_if(inline_error_answers.begin(), inline_error_answers.end(),
                           [&](request::OnError one) { return request::name_of(one) == *text; });
          if (at == inline_error_answers.end())
            return complain_choice(reader, key, value, *text, "error, deny, allow");
          its.on_store_error = *at;
        }},
       {"max_wait", length(its.wait_max, base::Duration{1'000}, wait_max_max, false)},
       {"max_waiting", number(its.waiting_max, 0, waiting_most)},
       {"headers",
        [&](const std::string& key, const YamlNode& value) { read_headers(reader, key, value); }},
       {"ratelimit",
        [&](const std::string& key, const YamlNode& value) {
          const auto text = reader.text(key, value);
          if (!text) return;
          if (*text != "shown" && *text != "all")
            return complain_choice(reader, key, value, *text, "shown, all");
          its.headers.ratelimit_all = *text == "all";
        }},
       {"partition_keys",
        truth(its.partition_keys, "write `partition_keys: true` to have `pk` in RateLimit")},
       {"retry_jitter",
        [&](const std::string& key, const YamlNode& value) {
          const auto text = reader.text(key, value);
          if (!text) return;
          if (const auto part = parse_part(*text))
            its.retry_jitter_percent = *part;
          else
            config::complain(reader.place(key, value), "`" + *text + "` is not a part of one",
                             "write 0, or a number such as 0.1 with up to two digits",
                             reader.diagnostics());
        }},
       {"hosts",
        [&](const std::string& key, const YamlNode& value) {
          read_names(reader, key, value, "hosts: [limits.example.com]", read_host, its.hosts);
        }},
       {"origins",
        [&](const std::string& key, const YamlNode& value) {
          read_names(reader, key, value, "origins: [\"https://page.example\"]", read_origin,
                     its.origins);
        }},
       {"idle_timeout", length(its.idle_timeout, {base::bounds::timeout_us_min},
                               {base::bounds::timeout_us_max}, true)},
       {"get_takes", truth(its.get_takes, "write `get_takes: true` to have GET /v1/take take")},
       {"twins",
        [&](const std::string& key, const YamlNode& value) {
          if (!reader.sequence(key, value, "twins: [throttlecrab]")) return;
          its.throttlecrab = false;
          for (YamlNode item = value.first_child(); item; item = item.next()) {
            const auto text = reader.text(key, item);
            if (text && *text != throttlecrab_twin)
              complain_choice(reader, key, item, *text, std::string(throttlecrab_twin));
            its.throttlecrab |= text && *text == throttlecrab_twin;
          }
        }},
       {"auth",
        [&](const std::string&, const YamlNode& value) { read_auth(reader, value, its.auth); }}},
      gone_keys);
}

std::vector<std::pair<std::string, std::string>> HttpSettings::lines() const {
  const HttpOptions& its = options_.value;
  const HttpOptions usual;
  // Settings that are shown only if they differ from the defaults.
  std::string more;
  if (its.on_store_error != usual.on_store_error)
    more += ", on_store_error: " + std::string(request::name_of(its.on_store_error));
  if (its.partition_keys) more += ", partition_keys: true";
  if (its.get_takes) more += ", get_takes: true";
  if (its.throttlecrab) more += ", twins: [" + std::string(throttlecrab_twin) + "]";
  if (its.headers.ratelimit_all) more += ", ratelimit: all";
  if (its.retry_jitter_percent > 0)
    more += ", retry_jitter: 0." + std::string(its.retry_jitter_percent < 10 ? "0" : "") +
            std::to_string(its.retry_jitter_percent);
  if (!its.hosts.empty()) more += ", hosts: " + yaml_list(its.hosts);
  if (!its.origins.empty()) more += ", origins: " + yaml_list(its.origins);
  if (its.idle_timeout.us > 0) more += ", idle_timeout: " + config::in_one_unit(its.idle_timeout);
  if (const std::string auth = auth_text(its.auth); !auth.empty()) more += ", auth: " + auth;
  return {
      {"http: { unmatched: " + std::string(unmatched_names[static_cast<size_t>(its.unmatched)]) +
           ", inline_limits: " + (its.inline_limits ? "true" : "false") + ", headers: [" +
           style_names(its.headers) + "], max_wait: " + config::in_one_unit(its.wait_max) +
           ", max_waiting: " + std::to_string(its.waiting_max) + more + " }",
       options_.origin}};
}

void HttpSettings::review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const {
  http::review(options_.value, rules, diagnostics);
}

void HttpSettings::add_to(server::Options& options, protocol::Protocol self) const {
  auto its = std::make_shared<HttpOptions>(options_.value);
  // The secret and the count belong to this server alone.
  SLUICE_CHECK(RAND_bytes(its->partition_secret.data(),
                          static_cast<int>(its->partition_secret.size())) == 1);
  its->waits = std::make_shared<WaitCount>();
  options.session_options[static_cast<size_t>(self)] = std::move(its);
  constexpr std::array<request::Unmatched, unmatched_names.size()> answers = {
      request::Unmatched::error, request::Unmatched::allow, request::Unmatched::deny};
  for (server::ListenerOptions& listener : options.listeners) {
    if (!listener.service.serves(self)) continue;
    listener.timeouts.idle = options_.value.idle_timeout;
    listener.own_unmatched = answers[static_cast<size_t>(options_.value.unmatched)];
  }
}

constinit const protocol::SettingsFormat settings_format = {
    .subject = protocol::SettingsFormat::Subject::store,
    .flags = flags,
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
          const HttpOptions& its = static_cast<const HttpSettings&>(settings).options();
          return (its.auth.profiles.empty()
                      ? answers
                      : answers_with_profiles)[static_cast<size_t>(its.unmatched)];
        },
};

}  // namespace sluice::http
