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

constexpr size_t idempotency_bytes_min = size_t{1} << 20;
constexpr base::Duration idempotency_ttl_max = base::seconds(86'400);
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
  std::vector<HeaderStyle> styles;
  for (YamlNode item = value.first_child(); item; item = item.next()) {
    const auto text = reader.text(key, item);
    if (!text) continue;
    const auto at = std::find(header_style_names.begin(), header_style_names.end(), *text);
    if (at == header_style_names.end())
      complain_choice(reader, key, item, *text, listed(header_style_names));
    else
      styles.push_back(static_cast<HeaderStyle>(at - header_style_names.begin()));
  }
  options_.value.headers.styles = std::move(styles);
}

void HttpSettings::read_field_names(config::FileReader& reader, const std::string& key,
                                    const YamlNode& value) {
  HeaderOptions& headers = options_.value.headers;
  std::vector<config::FileReader::Known> styles;
  for (size_t i = 0; i < header_style_names.size(); ++i) {
    HeaderNames& names = headers.names[i];
    const auto name = [&reader](std::string& to) {
      return [&reader, &to](const std::string& part, const YamlNode& node) {
        if (const auto text = reader.text(part, node)) to = *text;
      };
    };
    styles.push_back({header_style_names[i],
                      [&reader, &names, name](const std::string& style, const YamlNode& node) {
                        reader.map(node, style,
                                   {{"policy", name(names.policy)},
                                    {"limit", name(names.limit)},
                                    {"remaining", name(names.remaining)},
                                    {"reset", name(names.reset)}});
                      }});
  }
  reader.map(value, key, styles);
}

// The names that differ from the defaults, as `{ x-ratelimit: { limit: "X-Limit" } }`; empty: none
// does.
std::string HttpSettings::field_names_text() const {
  std::string text;
  for (size_t i = 0; i < header_style_names.size(); ++i) {
    const HeaderNames& its = options_.value.headers.names[i];
    const HeaderNames usual = default_header_names(static_cast<HeaderStyle>(i));
    std::string parts;
    const auto add = [&](std::string_view part, const std::string& name, const std::string& known) {
      if (name == known) return;
      parts.append(parts.empty() ? "" : ", ").append(part).append(": \"").append(name).append("\"");
    };
    add("policy", its.policy, usual.policy);
    add("limit", its.limit, usual.limit);
    add("remaining", its.remaining, usual.remaining);
    add("reset", its.reset, usual.reset);
    if (parts.empty()) continue;
    text.append(text.empty() ? "{ " : ", ").append(header_style_names[i]);
    text.append(": { ").append(parts).append(" }");
  }
  return text.empty() ? text : text + " }";
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
  std::optional<base::Diagnostic>
      fields_at;  // the place of `headers` or `field_names`, whichever is first in the file
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
        [&](const std::string& key, const YamlNode& value) {
          if (!fields_at) fields_at = reader.place(key, value);
          read_headers(reader, key, value);
        }},
       {"field_names",
        [&](const std::string& key, const YamlNode& value) {
          if (!fields_at) fields_at = reader.place(key, value);
          read_field_names(reader, key, value);
        }},
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
       {"idempotency_ttl",
        length(its.idempotency_ttl, base::seconds(1), idempotency_ttl_max, true)},
       {"idempotency_memory",
        [&](const std::string& key, const YamlNode& value) {
          const auto text = reader.text(key, value);
          if (!text) return;
          const auto bytes = base::parse_size(*text);
          if (bytes && *bytes >= idempotency_bytes_min)
            its.idempotency_bytes = static_cast<size_t>(*bytes);
          else
            config::complain(reader.place(key, value), "`" + *text + "` is not a size it may be",
                             "write one from 1MiB on, as in `64MiB`", reader.diagnostics());
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
        [&](const std::string&, const YamlNode& value) { read_auth(reader, value, its.auth); }}});
  // Checked at the end: `field_names` may give other names to styles that share one by default.
  if (const std::string problem = problem_of(its.headers); fields_at && !problem.empty())
    config::complain(*fields_at, problem,
                     "take one of the two styles out, or give each field a name of its own",
                     reader.diagnostics());
}

std::vector<std::pair<std::string, std::string>> HttpSettings::lines() const {
  const HttpOptions& its = options_.value;
  const HttpOptions usual;
  std::string styles;
  for (const HeaderStyle style : its.headers.styles)
    styles +=
        (styles.empty() ? "" : ", ") + std::string(header_style_names[static_cast<size_t>(style)]);
  // Settings that are shown only if they differ from the defaults.
  std::string more;
  if (its.on_store_error != usual.on_store_error)
    more += ", on_store_error: " + std::string(request::name_of(its.on_store_error));
  if (const std::string names = field_names_text(); !names.empty())
    more += ", field_names: " + names;
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
           ", inline_limits: " + (its.inline_limits ? "true" : "false") + ", headers: [" + styles +
           "], max_wait: " + config::in_one_unit(its.wait_max) +
           ", max_waiting: " + std::to_string(its.waiting_max) + ", idempotency_ttl: " +
           (its.idempotency_ttl.us == 0 ? "0" : config::in_one_unit(its.idempotency_ttl)) +
           ", idempotency_memory: " + base::format_size(its.idempotency_bytes) + more + " }",
       options_.origin}};
}

void HttpSettings::review(const policy::RuleSet& rules, base::Diagnostics& diagnostics) const {
  http::review(options_.value, rules, diagnostics);
}

void HttpSettings::add_to(server::Options& options, protocol::Protocol self) const {
  auto its = std::make_shared<HttpOptions>(options_.value);
  // The secret, and the two objects below, belong to this server alone.
  SLUICE_CHECK(RAND_bytes(its->partition_secret.data(),
                          static_cast<int>(its->partition_secret.size())) == 1);
  its->waits = std::make_shared<WaitCount>();
  if (its->idempotency_ttl.us > 0)
    its->idempotency = std::make_shared<IdempotencyMemory>(
        IdempotencyMemory::Bounds{.ttl = its->idempotency_ttl, .bytes = its->idempotency_bytes});
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
