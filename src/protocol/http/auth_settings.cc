#include "protocol/http/auth_settings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "config/read_file.h"
#include "config/settings.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

using config::GivenKeys;
using config::setting;
using config::Shown;
using config::Written;
using policy::YamlNode;

constexpr std::string_view hidden_secret = "(hidden)";
constexpr const char* profile_example =
    "write `profiles: { web: { proxy: nginx } }`, and have the proxy ask /auth/web";

bool is_of_nginx(Proxy proxy) {
  return proxy == Proxy::nginx || proxy == Proxy::ingress_nginx;
}

bool is_profile_name(std::string_view name) {
  return !name.empty() && name.size() <= auth_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

// Can a header field carry the text unchanged? Blanks at its ends would be lost.
bool is_sendable_secret(std::string_view text) {
  return !text.empty() && text.size() <= auth_secret_bytes_max && text.front() != ' ' &&
         text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

bool is_short_name(std::string_view name) {
  return name.size() <= auth_name_bytes_max && wire::is_http_field_name(name);
}

bool wrong_count(const Written& written, size_t most) {
  return written.wrong("has more than " + std::to_string(most), "take some out");
}

// The name of a header field that a profile may read, in lower case.
struct FieldName : config::Text {
  static bool read(const Written& written, std::string& to) {
    to = written.text;
    std::transform(to.begin(), to.end(), to.begin(), wire::http_lower);
    if (!is_short_name(to))
      return written.wrong_text(
          "is not the name of a header field",
          "use letters, digits and `-`, up to " + std::to_string(auth_name_bytes_max));
    return to != auth_secret_field ||
           written.wrong("names X-Sluice-Secret, whose value is to stay a secret", "take it out");
  }
  static std::string values() { return "a header field"; }
};

// One that becomes an entry.
struct EntryField : FieldName {
  static bool read(const Written& written, std::string& to) {
    return FieldName::read(written, to) &&
           (to != "host" || written.wrong("names Host, which is the entry `host`", "take it out"));
  }
};

// A cookie's name may have the characters of a field's name (RFC 6265, 4.1.1).
struct CookieName : config::Text {
  static bool read(const Written& written, std::string& to) {
    to = written.text;
    return is_short_name(to) || written.wrong_text("is not the name of a cookie",
                                                   "write the characters in front of the `=`");
  }
  static std::string values() { return "a cookie"; }
};

// A list of different names.
template <class Name>
struct Names {
  static constexpr bool is_list = true;
  std::string_view example;
  size_t most;

  bool read(const Written& written, std::vector<std::string>& to) const {
    bool sound = true;
    for (const Written& item : items_of(written, example, sound)) {
      std::string name;
      if (!Name::read(item, name))
        sound = false;
      else if (std::find(to.begin(), to.end(), name) != to.end())
        sound = item.wrong("has `" + name + "` twice", "take one of them out");
      else
        to.push_back(std::move(name));
    }
    if (to.size() > most) return wrong_count(written, most);
    return sound;
  }
  static std::string text(const std::vector<std::string>& names) {
    return config::ListOf{config::Text{}, ""}.text(names);
  }
  static std::string values() { return "a list: " + Name::values(); }
};

// The entries that all requests of a profile have.
struct FixedEntries {
  static constexpr bool is_list = true;
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  static bool read(const Written& written, Pairs& to) {
    if (!written.node.is_map())
      return written.wrong("must be a map of keys to values", "write `entries: {tier: gold}`");
    bool sound = true;
    for (const auto& [name, value] : written.reader->yaml().entries(written.key, written.node)) {
      const auto text = written.reader->text(std::string(name.text()), value);
      if (!text)
        sound = false;
      else if (name.text().empty() || name.text().size() > auth_entry_bytes_max ||
               text->size() > auth_entry_bytes_max)
        sound = written.reader->written(written.key, name)
                    .wrong("has a key or a value with no bytes or more than " +
                               std::to_string(auth_entry_bytes_max),
                           "shorten it");
      else
        to.emplace_back(name.text(), *text);
    }
    return to.size() > auth_entries_max ? wrong_count(written, auth_entries_max) : sound;
  }
  static std::string text(const Pairs& entries) {
    std::string text;
    for (const auto& [key, value] : entries)
      text += (text.empty() ? "" : ", ") + config::in_quotes(key) + ": " + config::in_quotes(value);
    return text.empty() ? text : "{ " + text + " }";
  }
  static std::string values() { return "a map"; }
};

struct Secret : config::Text {
  static bool take(const Written& written, std::string_view text, std::string& to) {
    if (!to.empty())
      return written.wrong("is one of `secret` and `secret_file`, which are both there",
                           "take one of them out");
    if (!is_sendable_secret(text))
      return written.wrong("has a secret that no header field can have: it must be 1 to " +
                               std::to_string(auth_secret_bytes_max) +
                               " printable ASCII characters without blanks around them",
                           "make one with `openssl rand -hex 32`");
    to = text;
    return true;
  }
  static bool read(const Written& written, std::string& to) {
    if (written.text == hidden_secret)
      return written.wrong("`(hidden)` is what --print-config shows in place of a secret",
                           "write the secret itself, or `secret_file: PATH`");
    return take(written, written.text, to);
  }
};

bool read_secret_file(const Written& written, std::string& to) {
  const config::ReadScope regular_file;  // it is read again with each reload
  auto text = config::read_file(written.reader->beside_file(written.text), written.diagnostics);
  if (!text) return false;
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  return Secret::take(written, *text, to);
}

std::vector<config::Entry> from_table(ProxyFields& from) {
  const auto about = [](std::string_view help) {
    return config::About{.help = help, .shown = Shown::changed};
  };
  config::Entry host = setting("host", from.host, FieldName{}, about("the field with the host"));
  // HTTP/2 has no field Host; the session knows the host of either version's request.
  host.read = [&from](const Written& written) {
    if (!FieldName::read(written, from.host)) return false;
    from.host_may_be_own = from.host == "host";
    if (from.host_may_be_own) from.host.clear();
    return true;
  };
  host.text = [&from] {
    return config::in_quotes(from.host_may_be_own && from.host.empty() ? "host" : from.host);
  };
  return {
      setting("method", from.method, FieldName{}, about("the field with the method")),
      setting("uri", from.uri, FieldName{}, about("the field with the URI; it must be said")),
      std::move(host),
      setting("scheme", from.scheme, FieldName{}, about("the field with the scheme")),
      setting("ip", from.ip, FieldName{},
              about("the field with the client's address; it must be said. `x-forwarded-for` is "
                    "read as a list, `forwarded` as RFC 7239"))};
}

bool check_from(const Written&, const GivenKeys&, ProxyFields& from) {
  from.ip_is_list = from.ip == "x-forwarded-for";
  from.ip_is_forwarded = from.ip == "forwarded";
  return true;
}

std::vector<config::Entry> profile_table(AuthProfile& profile) {
  static const std::string proxies = "write " +
                                     config::one_of({proxy_names.begin(), proxy_names.end()}) +
                                     "; `custom` takes the names of the header fields in `from`";
  const auto always = [](std::string_view help) { return config::About{.help = help}; };
  const auto changed = [](std::string_view help) {
    return config::About{.help = help, .shown = Shown::changed};
  };
  config::Entry secret_file = config::own_setting(
      "secret_file",
      [&profile](const Written& written) { return read_secret_file(written, profile.secret); },
      changed("or a file that holds it"));
  secret_file.values = "a path";
  return {
      setting("proxy", profile.proxy,
              config::choice<Proxy>(proxy_names, "a proxy that is known here", proxies),
              {.help = "[which fields are read](proxies.md#which-header-fields-sluice-reads); it "
                       "must be said, because no default would be safe",
               .required = true}),
      section("from", profile.fields, from_table,
              {.help = "of `custom`: [names of fields](proxies.md#other-proxies)",
               .shown = profile.proxy == Proxy::custom ? Shown::always : Shown::never},
              nullptr, check_from),
      setting("deny", profile.deny,
              config::Choice<uint16_t>{{{"401", 401}, {"403", 403}, {"429", 429}, {"503", 503}},
                                       "a status of a refusal"},
              always("status of a refusal; for `nginx` and `ingress-nginx` 401 or 403, and 403 if "
                     "it is not said")),
      setting("ok", profile.ok,
              config::Choice<uint16_t>{{{"200", 200}, {"204", 204}},
                                       "a status by which a request passes"},
              always("status when the request may pass")),
      setting("n", profile.n, config::Number{0, base::bounds::quota_max},
              always("units that a request takes; with 0 the counters are read and nothing is "
                     "taken")),
      setting("entries", profile.entries, FixedEntries{},
              changed("entries that are the same for all requests of the profile, as `{ tier: "
                      "gold }`, up to 64; they take precedence over those of the request")),
      setting("on_store_error", profile.on_store_error,
              config::Choice<request::OnError>{{{"error", request::OnError::error},
                                                {"deny", request::OnError::deny},
                                                {"allow", request::OnError::allow}}},
              changed("the answer when the store cannot decide and the "
                      "[rule](policy.md#the-keys-of-a-rule) says `error`, which is 503")),
      setting("headers", profile.headers,
              Names<EntryField>{"write `headers: [x-api-key]`", auth_headers_max},
              changed("the header fields that become entries, up to 32 "
                      "([an example](proxies.md#limit-by-api-key-and-by-tenant))")),
      setting("cookies", profile.cookies,
              Names<CookieName>{"write `cookies: [session]`", auth_cookies_max},
              changed("the cookies that become entries, up to 32")),
      setting("ip_depth", profile.ip_depth, config::Number{0, forwarded_entries_max},
              changed("which entry of a list, from the right, is [the client's "
                      "address](proxies.md#trusted-proxies-and-the-clients-address)")),
      setting("ipv6_prefix", profile.ipv6_prefix, config::Number{1, 128},
              changed("how many bits of an address of IPv6 tell clients apart")),
      setting("normalize_path", profile.normalize_path,
              config::Truth{"write `normalize_path: true` to have one name for each path"},
              changed("[one name for each path](proxies.md#several-names-of-one-path)")),
      setting("untrusted", profile.untrusted_direct,
              config::Choice<bool>{{{"refuse", false}, {"direct", true}}},
              changed("what a peer gets that is not trusted: a refusal, or the entries of its own "
                      "request")),
      setting("secret", profile.secret, Secret{},
              {.help = "what `X-Sluice-Secret` has to hold, so that only the proxy may ask",
               .secret = true}),
      std::move(secret_file)};
}

// Completes a profile whose keys were read, and reports those that do not go together.
bool check_profile(const Written& written, const GivenKeys& given, AuthProfile& profile) {
  const auto wrong = [&](std::string_view key, std::string what, std::string remedy) {
    const auto at = given.find(key);
    config::complain(written.reader->place(key, at == given.end() ? written.node : at->second),
                     std::move(what), std::move(remedy), written.diagnostics);
    return false;
  };
  if (!given.contains("proxy"))
    return wrong("proxy",
                 "is missing in the " + written.key +
                     ", and there is no default: each proxy passes on what a client sends under "
                     "the names that another one uses",
                 "add `proxy:` with " + config::one_of({proxy_names.begin(), proxy_names.end()}));
  bool sound = true;
  if (!given.contains("deny") && is_of_nginx(profile.proxy)) profile.deny = 403;
  if (is_of_nginx(profile.proxy) && profile.deny != 401 && profile.deny != 403)
    sound = wrong("deny",
                  "is " + std::to_string(profile.deny) +
                      ", of which nginx makes 500: its auth_request knows 2xx, 401 and 403 alone",
                  "write `deny: 403`, and have nginx answer 429: `error_page 403 =429 @limited;`");
  if (profile.proxy != Proxy::custom) {
    profile.fields = fields_of(profile.proxy);
    if (given.contains("from"))
      sound = wrong("from", "is for `proxy: custom` alone: the others have names of their own",
                    "take it out, or write `proxy: custom`");
  } else if (profile.fields.uri.empty() || profile.fields.ip.empty()) {
    sound = wrong("from",
                  std::string("must say in which header field `custom` proxies send the ") +
                      (profile.fields.uri.empty() ? "URI" : "address of the client"),
                  "write `from: { uri: X-Original-URI, ip: X-Real-IP }`; `ip: forwarded` is RFC "
                  "7239");
  }
  const bool is_list = profile.fields.ip_is_list || profile.fields.ip_is_forwarded;
  if (profile.ip_depth > 0 && !is_list)
    sound = wrong("ip_depth",
                  "counts the entries of a list, and here the address of the client is alone in "
                  "its header field",
                  "take it out");
  if (sound) profile.prepare();
  return sound;
}

// The peers whose fields are believed.
struct Trusted {
  static constexpr bool is_list = true;

  static bool read(const Written& written, TrustedProxies& to) {
    bool sound = true;
    const auto items = items_of(written, "write `trusted_proxies: [127.0.0.0/8, \"::1\"]`", sound);
    if (items.empty()) return false;
    to = {};
    if (items.size() > auth_trusted_max)
      return written.wrong("has more than " + std::to_string(auth_trusted_max),
                           "join ranges that lie beside each other");
    for (const Written& item : items)
      if (!to.add(item.text))
        sound = item.wrong_text("is not an address or a range",
                                "write one as in 10.0.0.0/8, \"fd00::/8\" or 192.0.2.1, or `unix`");
    return sound;
  }
  static std::string text(const TrustedProxies& trusted) {
    return config::ListOf{config::Text{}, ""}.text(trusted.texts());
  }
  static std::string values() { return "a list: an address, a range, `unix`"; }
};

bool read_profiles(const Written& written, AuthOptions& to) {
  if (!written.node.is_map())
    return written.wrong("must be a map of names to profiles", profile_example);
  to.profiles.clear();
  for (const auto& [name, value] : written.reader->yaml().entries(written.key, written.node)) {
    const std::string text(name.text());
    if (!is_profile_name(text)) {
      Written its = written.reader->written(written.key, name);
      its.text = text;
      its.wrong_text("is not the name of a profile",
                     "use 1 to " + std::to_string(auth_name_bytes_max) +
                         " lower-case letters, digits, `_` and `-`");
      continue;
    }
    AuthProfile profile;
    profile.name = text;
    Written its = written.reader->written("profile `" + text + "`", value);
    const size_t before = its.diagnostics.size();
    read_record(its, profile, profile_table, check_profile);
    if (its.diagnostics.size() == before) to.profiles.emplace(text, std::move(profile));
  }
  return to.profiles.size() <= auth_profiles_max || wrong_count(written, auth_profiles_max);
}

std::vector<config::Entry> auth_table(AuthOptions& options) {
  config::Entry profiles{
      .key = "profiles", .about = {.help = "of `/auth/NAME`"}, .is_single = false, .each = ".NAME"};
  profiles.read = [&options](const Written& written) { return read_profiles(written, options); };
  profiles.parts = [&options] {
    config::Table all;
    for (auto& [name, profile] : options.profiles) {
      all.push_back(section(name, profile, profile_table));
      all.back().is_name = true;
    }
    return all;
  };
  profiles.visit_usual = [](const auto& visit) {
    AuthProfile usual;
    visit(profile_table(usual));
  };
  profiles.all_shown = true;
  return {setting("trusted_proxies", options.trusted, Trusted{},
                  {.help = "[the peers whose fields are believed]"
                           "(proxies.md#trusted-proxies-and-the-clients-address)",
                   .shown = options.profiles.empty() ? Shown::changed : Shown::always}),
          std::move(profiles)};
}

}  // namespace

config::Entry auth_entry(AuthOptions& options) {
  return section("auth", options, auth_table);
}

}  // namespace sluice::http
