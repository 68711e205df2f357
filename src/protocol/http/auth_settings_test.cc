// The section `auth` of `http` in sluice.yaml: what it is read as, what is reported, and that the
// printed settings are read as the same.
#include "protocol/http/auth_settings.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/diagnostic.h"
#include "config/table.h"
#include "policy/read/yaml_tree.h"
#include "tests/support/dice.h"

namespace sluice::http::auth_settings_test {
namespace {

using tests::Dice;

// "{ profiles: { ... } }", as --print-config shows the section; empty: it does not.
std::string auth_text(AuthOptions& options) {
  const config::Entry entry = auth_entry(options);
  return config::text_of(entry.parts(), config::usual_of(entry));
}

// Reads a section `auth` into `to`, which gets the defaults first; returns what is wrong with it,
// "" if nothing.
std::string problems(const std::string& section, AuthOptions& to,
                     const std::string& file = "sluice.yaml") {
  to = {};
  policy::YamlDocument document;
  if (const auto error = policy::parse_yaml(section, document)) return "no YAML: " + error->message;
  base::Diagnostics diagnostics;
  config::FileReader reader(file, document, diagnostics);
  auth_entry(to).read(reader.written("auth", document.root()));
  std::string all;
  for (const auto& d : diagnostics) all += base::to_string(d) + "\n";
  return all;
}
std::string problems(const std::string& section) {
  AuthOptions ignored;
  return problems(section, ignored);
}
// The problems of a section with one profile `p`. `text` is the profile without its braces.
std::string profile_problems(const std::string& text) {
  return problems("profiles: { p: { " + text + " } }");
}
AuthProfile profile_of(const std::string& text) {
  AuthOptions options;
  EXPECT_EQ(problems("profiles: { p: { " + text + " } }", options), "");
  const AuthProfile* const profile = options.find("p");
  EXPECT_NE(profile, nullptr) << text;
  return profile == nullptr ? AuthProfile() : *profile;
}

TEST(AuthSettings, TrustLoopbackAndHaveNoProfileByDefault) {
  AuthOptions usual;
  EXPECT_EQ(usual.trusted.texts(), (std::vector<std::string>{"127.0.0.0/8", "::1"}));
  EXPECT_TRUE(usual.profiles.empty());
  EXPECT_EQ(auth_text(usual), "");
  AuthOptions same;
  EXPECT_EQ(problems("trusted_proxies: [127.0.0.0/8, \"::1\"]", same), "");
  EXPECT_EQ(auth_text(same), "");
}

TEST(AuthSettings, RequireOnlyTheProxyOfAProfile) {
  for (size_t i = 0; i < proxy_names.size(); ++i) {
    const auto proxy = static_cast<Proxy>(i);
    if (proxy == Proxy::custom) continue;
    const AuthProfile profile = profile_of("proxy: " + std::string(proxy_names[i]));
    const bool is_of_nginx = proxy == Proxy::nginx || proxy == Proxy::ingress_nginx;
    EXPECT_EQ(profile.name, "p");
    EXPECT_EQ(profile.proxy, proxy);
    EXPECT_EQ(profile.deny, is_of_nginx ? 403 : 429);
    EXPECT_EQ(profile.ok, 200);
    EXPECT_EQ(profile.n, 1);
    EXPECT_EQ(profile.on_store_error, request::OnError::error);
    EXPECT_EQ(profile.ipv6_prefix, 128u);
    EXPECT_EQ(profile.fields.uri, fields_of(proxy).uri);
    EXPECT_EQ(profile.fields.ip, fields_of(proxy).ip);
    EXPECT_TRUE(profile.plan.is_made);
  }
}

TEST(AuthSettings, ReadEverySettingOfAProfile) {
  const AuthProfile profile = profile_of(
      "proxy: traefik, deny: 503, ok: 204, n: 0, entries: {tier: gold, \"a b\": \"1\"}, "
      "on_store_error: allow, headers: [X-API-Key, accept], cookies: [Sid], ip_depth: 2, "
      "ipv6_prefix: 64, normalize_path: true, untrusted: direct, secret: \"open sesame\"");
  EXPECT_EQ(profile.deny, 503);
  EXPECT_EQ(profile.ok, 204);
  EXPECT_EQ(profile.n, 0);
  EXPECT_EQ(profile.entries,
            (std::vector<std::pair<std::string, std::string>>{{"tier", "gold"}, {"a b", "1"}}));
  EXPECT_EQ(profile.on_store_error, request::OnError::allow);
  EXPECT_EQ(profile.headers, (std::vector<std::string>{"x-api-key", "accept"}));
  EXPECT_EQ(profile.cookies, std::vector<std::string>{"Sid"});
  EXPECT_EQ(profile.ip_depth, 2u);
  EXPECT_EQ(profile.ipv6_prefix, 64u);
  EXPECT_TRUE(profile.normalize_path);
  EXPECT_TRUE(profile.untrusted_direct);
  EXPECT_EQ(profile.secret, "open sesame");
  EXPECT_EQ(profile.plan.headers.size(), 2u);
  EXPECT_NE(profile.plan.secret, FieldNames::none);
  EXPECT_EQ(profile_of("proxy: caddy, n: 9007199254740991").n, base::bounds::quota_max);
  EXPECT_FALSE(profile_of("proxy: caddy, untrusted: refuse").untrusted_direct);
  EXPECT_EQ(profile_of("proxy: nginx, deny: 401").deny, 401);
}

TEST(AuthSettings, NameTheFieldsOfCustomProxies) {
  const ProxyFields all =
      profile_of(
          "proxy: custom, from: { method: M, uri: My-URI, host: H, scheme: S, ip: X-Client }")
          .fields;
  EXPECT_EQ(all.method, "m");
  EXPECT_EQ(all.uri, "my-uri");
  EXPECT_EQ(all.host, "h");
  EXPECT_EQ(all.scheme, "s");
  EXPECT_EQ(all.ip, "x-client");
  EXPECT_FALSE(all.ip_is_list || all.ip_is_forwarded || all.host_may_be_own ||
               all.scheme_is_optional || all.uri_is_absolute);
  const ProxyFields list =
      profile_of("proxy: custom, from: { uri: u, ip: X-Forwarded-For, host: Host }, ip_depth: 1")
          .fields;
  EXPECT_TRUE(list.ip_is_list && !list.ip_is_forwarded);
  EXPECT_TRUE(list.host.empty() && list.host_may_be_own);
  const ProxyFields forwarded =
      profile_of("proxy: custom, from: { uri: u, ip: forwarded }, ip_depth: 1").fields;
  EXPECT_TRUE(forwarded.ip_is_forwarded && !forwarded.ip_is_list);
}

TEST(AuthSettings, TrustedProxiesReplaceLoopback) {
  AuthOptions options;
  EXPECT_EQ(problems("trusted_proxies: [10.0.0.0/8, \"fd00::/8\", 192.0.2.1, unix]", options), "");
  EXPECT_EQ(options.trusted.texts(),
            (std::vector<std::string>{"10.0.0.0/8", "fd00::/8", "192.0.2.1", "unix"}));
  EXPECT_EQ(auth_text(options),
            "{ trusted_proxies: [\"10.0.0.0/8\", \"fd00::/8\", \"192.0.2.1\", \"unix\"] }");
}

TEST(AuthSettings, AProfileMayUseAMergeKey) {
  AuthOptions options;
  EXPECT_EQ(
      problems("profiles:\n  a: &a { proxy: caddy, n: 5, deny: 503 }\n  b: { <<: *a, n: 6 }\n",
               options),
      "");
  ASSERT_NE(options.find("b"), nullptr);
  EXPECT_EQ(options.find("b")->n, 6);
  EXPECT_EQ(options.find("b")->deny, 503);
}

TEST(AuthSettings, ReadASecretFromAFile) {
  const std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / "sluice_auth_settings_test";
  std::filesystem::create_directories(folder);
  const auto read = [&](const std::string& text, AuthOptions& options) {
    std::ofstream(folder / "proxy.secret", std::ios::binary) << text;
    return problems("profiles: { p: { proxy: caddy, secret_file: proxy.secret } }", options,
                    (folder / "sluice.yaml").string());
  };
  AuthOptions options;
  EXPECT_EQ(read("open sesame\r\n\n", options), "");
  ASSERT_NE(options.find("p"), nullptr);
  EXPECT_EQ(options.find("p")->secret, "open sesame");
  for (const char* const text : {"", "\n", " a", "a\nb", "\x80"})
    EXPECT_NE(read(text, options).find("has a secret that no header field can have"),
              std::string::npos)
        << text;
  std::filesystem::remove_all(folder);
  EXPECT_NE(problems("profiles: { p: { proxy: caddy, secret_file: proxy.secret } }", options,
                     (folder / "sluice.yaml").string())
                .find("proxy.secret: error: cannot be read"),
            std::string::npos);
}

// Sections with a mistake, and the report of it.
auto auth_mistakes() {
  return std::vector{
      std::pair("n: 1",
                "sluice.yaml:1:16: error: proxy: is missing in the profile `p`, and "
                "there is no default: each proxy passes on what a client sends under "
                "the names that another one uses; add `proxy:` with nginx, haproxy, "
                "traefik, caddy, apisix, ingress-nginx or custom\n"),
      std::pair("proxy: envoy", "`envoy` is not a proxy that is known here; write nginx, haproxy"),
      std::pair("proxy: nginx, deny: 429",
                "deny: is 429, of which nginx makes 500: its auth_request knows 2xx, 401 and "
                "403 alone; write `deny: 403`, and have nginx answer 429: `error_page 403 =429 "
                "@limited;`"),
      std::pair("deny: 503, proxy: ingress-nginx", "is 503, of which nginx makes 500"),
      std::pair("proxy: caddy, deny: 404", "`404` is not a status of a refusal; write 401, "),
      std::pair("proxy: caddy, ok: 299", "`299` is not a status by which a request passes"),
      std::pair("proxy: caddy, n: 9007199254740992", "is not an allowed number"),
      std::pair("proxy: caddy, n: -1", "is not an allowed number"),
      std::pair("proxy: caddy, entries: [a]", "entries: must be a map of keys to values"),
      std::pair("proxy: caddy, entries: {a: [b]}", "a: must be a single value"),
      std::pair("proxy: caddy, entries: {\"\": b}", "has a key or a value with no bytes"),
      std::pair("proxy: caddy, on_store_error: local", "`local` is not one of error, deny, allow"),
      std::pair("proxy: caddy, headers: x", "headers: must be a list"),
      std::pair("proxy: caddy, headers: [a b]", "`a b` is not the name of a header field"),
      std::pair("proxy: caddy, headers: [a, A]", "has `a` twice"),
      std::pair("proxy: caddy, headers: [Host]", "names Host, which is the entry `host`"),
      std::pair("proxy: caddy, headers: [X-Sluice-Secret]", "is to stay a secret"),
      std::pair("proxy: caddy, cookies: [a=b]", "`a=b` is not the name of a cookie"),
      std::pair("proxy: caddy, cookies: [a, a]", "has `a` twice"),
      std::pair("proxy: nginx, ip_depth: 1",
                "ip_depth: counts the entries of a list, and here the address of the client is "
                "alone in its header field; take it out"),
      std::pair("proxy: caddy, ip_depth: 129", "write 0 to 128"),
      std::pair("proxy: caddy, ipv6_prefix: 0", "write 1 to 128"),
      std::pair("proxy: caddy, normalize_path: yes", "`yes` is neither true nor false"),
      std::pair("proxy: caddy, untrusted: allow", "`allow` is not one of refuse, direct"),
      std::pair("proxy: caddy, secret: (hidden)",
                "`(hidden)` is what --print-config shows in place of a secret"),
      std::pair("proxy: caddy, secret: \" a\"", "has a secret that no header field can have"),
      std::pair("proxy: caddy, from: {uri: u}",
                "from: is for `proxy: custom` alone: the others have names of their own"),
      std::pair("proxy: custom",
                "from: must say in which header field `custom` proxies send "
                "the URI; write `from: { uri: X-Original-URI, ip: X-Real-IP"),
      std::pair("proxy: custom, from: {uri: u}", "send the address of the client"),
      std::pair("proxy: custom, from: {uri: u, ip: \"a:\"}",
                "`a:` is not the name of a header field"),
      std::pair("proxy: custom, from: {uri: u, ip: i, port: p}", "port: is not a known key"),
      std::pair("proxy: caddy, proxi: x", "did you mean `proxy`?"),
  };
}

TEST(AuthSettings, ReportErrors) {
  for (const auto& [text, told] : auth_mistakes()) {
    const std::string all = profile_problems(text);
    EXPECT_NE(all.find(told), std::string::npos) << text << ": " << all;
    EXPECT_EQ(all.find('\n'), all.size() - 1) << text << ": " << all;  // there is no other report
  }
  for (const auto& [section, told] : {
           std::pair("x: y", "x: is not a known key"),
           std::pair("[]", "must be a map of keys to values"),
           std::pair("trusted_proxies: 10.0.0.0/8", "must be a list with at least one entry"),
           std::pair("trusted_proxies: []", "must be a list with at least one entry"),
           std::pair("trusted_proxies: [10.0.0.0/33]",
                     "`10.0.0.0/33` is not an address or a range; write one as in 10.0.0.0/8, "
                     "\"fd00::/8\" or 192.0.2.1, or `unix`"),
           std::pair("profiles: [a]", "profiles: must be a map of names to profiles"),
           std::pair("profiles: { Web: { proxy: caddy } }", "`Web` is not the name of a profile"),
           std::pair("profiles: { \"\": { proxy: caddy } }", "`` is not the name of a profile"),
           std::pair("profiles: { a: caddy }", "must be a map of keys to values"),
       }) {
    const std::string all = problems(section);
    EXPECT_NE(all.find(told), std::string::npos) << section << ": " << all;
  }
}

TEST(AuthSettings, HaveBounds) {
  const auto list = [](size_t count, std::string_view item, std::string_view value) {
    std::string text;
    for (size_t i = 0; i < count; ++i)
      text += (i > 0 ? ", " : "") + std::string(item) + std::to_string(i) + std::string(value);
    return text;
  };
  const auto told_of = [&](const std::string& key, size_t most, const std::string& open,
                           const std::string& item, const std::string& value,
                           const std::string& close) {
    for (const bool above : {false, true}) {
      const std::string text =
          key + ": " + open + list(most + (above ? 1 : 0), item, value) + close;
      const bool is_top = key == "profiles" || key == "trusted_proxies";
      const std::string all = is_top ? problems(text) : profile_problems("proxy: caddy, " + text);
      EXPECT_EQ(all.find("has more than " + std::to_string(most)) != all.npos, above) << all;
      EXPECT_EQ(all.empty(), !above) << all;
    }
  };
  told_of("headers", auth_headers_max, "[", "h", "", "]");
  told_of("cookies", auth_cookies_max, "[", "c", "", "]");
  told_of("entries", auth_entries_max, "{", "e", ": v", "}");
  told_of("profiles", auth_profiles_max, "{", "p", ": { proxy: caddy }", "}");
  told_of("trusted_proxies", auth_trusted_max, "[", "\"fd00::1:", "\"", "]");
  const std::string long_name(auth_name_bytes_max + 1, 'a'), long_text(257, 'a');
  for (const bool above : {false, true}) {
    const std::string name = long_name.substr(above ? 0 : 1),
                      text = long_text.substr(above ? 0 : 1);
    EXPECT_EQ(problems("profiles: { " + name + ": { proxy: caddy } }").empty(), !above);
    EXPECT_EQ(profile_problems("proxy: caddy, headers: [" + name + "]").empty(), !above);
    EXPECT_EQ(profile_problems("proxy: caddy, cookies: [" + name + "]").empty(), !above);
    EXPECT_EQ(profile_problems("proxy: caddy, secret: " + text).empty(), !above);
    EXPECT_EQ(profile_problems("proxy: caddy, entries: {a: " + text + "}").empty(), !above);
    EXPECT_EQ(profile_problems("proxy: caddy, entries: {" + text + ": a}").empty(), !above);
  }
}

TEST(AuthSettings, AreShownWithoutSecrets) {
  AuthOptions options;
  EXPECT_EQ(
      problems("profiles: { web: { proxy: nginx, secret: sesame }, edge: { proxy: custom, from: "
               "{ uri: U, ip: Forwarded, host: host }, entries: { tier: gold }, "
               "on_store_error: deny } }",
               options),
      "");
  const std::string text = auth_text(options);
  EXPECT_EQ(
      text,
      "{ trusted_proxies: [\"127.0.0.0/8\", \"::1\"], profiles: { \"edge\": { proxy: custom, "
      "from: { uri: \"u\", host: \"host\", ip: \"forwarded\" }, deny: 429, ok: 200, n: 1, "
      "entries: { \"tier\": \"gold\" }, on_store_error: deny }, \"web\": { proxy: nginx, deny: "
      "403, ok: 200, n: 1, secret: (hidden) } } }");
  EXPECT_NE(problems(text).find("`(hidden)` is what --print-config shows"), std::string::npos);
}

// ---- Printed settings are read as the same ----

// All options except the secret and the plan, which is made from the others.
std::string told(const AuthOptions& options) {
  std::string text;
  const auto add = [&](const auto& value) {
    if constexpr (requires { std::to_string(value); })
      text += std::to_string(value) + ";";
    else
      text += std::to_string(value.size()) + ":" + value + ";";
  };
  for (const std::string& one : options.trusted.texts()) add(one);
  for (const auto& [name, p] : options.profiles) {
    add(name);
    for (const std::string& one :
         {p.name, p.fields.method, p.fields.uri, p.fields.host, p.fields.scheme, p.fields.ip})
      add(one);
    for (const bool flag :
         {p.fields.uri_is_absolute, p.fields.host_may_be_own, p.fields.scheme_is_optional,
          p.fields.ip_is_list, p.fields.ip_is_forwarded, p.normalize_path, p.untrusted_direct})
      add(static_cast<int>(flag));
    for (const int64_t number :
         {static_cast<int64_t>(p.proxy), static_cast<int64_t>(p.deny), static_cast<int64_t>(p.ok),
          p.n, static_cast<int64_t>(p.on_store_error), static_cast<int64_t>(p.ip_depth),
          static_cast<int64_t>(p.ipv6_prefix)})
      add(number);
    for (const auto& [key, value] : p.entries) add(key), add(value);
    for (const std::string& one : p.headers) add("h" + one);
    for (const std::string& one : p.cookies) add("c" + one);
  }
  return text;
}

std::string random_text(Dice& dice) {
  static constexpr std::string_view pieces[] = {
      "a",    "B",  "0",  " ",      "\"",   "'",    "\\",     "{", "}", ": ",
      "#",    ", ", "\n", "\t",     "\x7f", "\x1b", "\u00e9", "&", "*", "\u2028",
      "null", "~",  "-",  "\u0085", "<<",   "!!a",  "%",      "[", "]", "\u2029"};
  std::string text;
  for (size_t count = 1 + dice(size_t{6}); count > 0; --count)
    text += pieces[dice(std::size(pieces))];
  return text;
}

AuthProfile random_profile(Dice& dice) {
  AuthProfile profile;
  profile.proxy = static_cast<Proxy>(dice(proxy_names.size()));
  profile.fields = fields_of(profile.proxy);
  if (profile.proxy == Proxy::custom) {
    profile.fields.uri = "x-u|~";
    const auto ip = dice(3);
    profile.fields.ip = ip == 0 ? "*'`" : ip == 1 ? "x-forwarded-for" : "forwarded";
    profile.fields.ip_is_list = ip == 1;
    profile.fields.ip_is_forwarded = ip == 2;
    if (dice(2) == 0) profile.fields.method = "null";
    if (dice(2) == 0) profile.fields.scheme = "!true";
    if (dice(2) == 0) profile.fields.host = "#1";
    profile.fields.host_may_be_own = profile.fields.host.empty() && dice(2) == 0;
  }
  const bool is_of_nginx = profile.proxy == Proxy::nginx || profile.proxy == Proxy::ingress_nginx;
  constexpr uint16_t statuses[] = {401, 403, 429, 503};
  profile.deny = statuses[dice(is_of_nginx ? 2 : 4)];
  profile.ok = dice(2) == 0 ? 200 : 204;
  profile.n = dice(3) == 0 ? base::bounds::quota_max : dice(int64_t{5});
  for (size_t count = dice(size_t{3}); count > 0; --count)
    profile.entries.emplace_back(random_text(dice) + std::to_string(count), random_text(dice));
  constexpr request::OnError answers[] = {request::OnError::error, request::OnError::deny,
                                          request::OnError::allow};
  profile.on_store_error = answers[dice(3)];
  if (dice(2) == 0) profile.headers = {"x-api-key", "&'*", "null"};
  if (dice(2) == 0) profile.cookies = {"Sid", "!!", "~"};
  if (profile.fields.ip_is_list || profile.fields.ip_is_forwarded) profile.ip_depth = dice(3u);
  if (dice(2) == 0) profile.ipv6_prefix = 1 + dice(128u);
  profile.normalize_path = dice(2) == 0;
  profile.untrusted_direct = dice(2) == 0;
  return profile;
}

TEST(AuthSettings, ReadBackTheSameAfterPrinting) {
  static constexpr std::string_view names[] = {"null", "-", "a", "0", "true", "default", "_-9"};
  static constexpr std::string_view ranges[] = {"unix", "10.0.0.0/8", "::/0", "::1", "1.2.3.4"};
  for (uint32_t seed = 1; seed <= 5'000; ++seed) {
    Dice dice(seed);
    AuthOptions options;
    for (const std::string_view range : ranges)
      if (dice(3) == 0) {
        ASSERT_TRUE(options.trusted.add(range));
      }
    for (size_t count = dice(size_t{4}); count > 0; --count) {
      AuthProfile profile = random_profile(dice);
      profile.name = names[dice(std::size(names))];
      options.profiles[profile.name] = profile;
    }
    const std::string text = auth_text(options);
    EXPECT_EQ(text.find('\n'), text.npos) << "seed " << seed;
    AuthOptions again;
    if (!text.empty()) {
      ASSERT_EQ(problems(text, again), "") << text << ", seed " << seed;
    }
    ASSERT_EQ(told(again), told(options)) << text << ", seed " << seed;
    ASSERT_EQ(auth_text(again), text) << "seed " << seed;
  }
}

}  // namespace
}  // namespace sluice::http::auth_settings_test
