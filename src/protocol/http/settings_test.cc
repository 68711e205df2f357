// The `http` section of sluice.yaml. auth_settings_test.cc tests its section `auth`.
#include "protocol/http/settings.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <sstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/load_policy.h"
#include "config/printed_test.h"
#include "protocol/http/wait_count.h"
#include "protocol/protocol.h"
#include "server/options.h"

namespace sluice::http::settings_test {
namespace {

// Reads a sluice.yaml with the `http` section `section` into `config`; returns what is wrong with
// it, "" if nothing.
std::string problems(const std::string& section, config::Config& config) {
  base::Diagnostics diagnostics;
  config::read_config("listen: [{ protocol: http, address: a }]\nhttp: " + section + "\n",
                      "sluice.yaml", config, diagnostics);
  std::string all;
  for (const auto& one : diagnostics) all += base::to_string(one) + "\n";
  return all;
}
std::string problems(const std::string& section) {
  config::Config config;
  return problems(section, config);
}

HttpOptions options_of(const config::Config& config) {
  const auto number = static_cast<size_t>(*protocol::find("http"));
  const auto options = config.options().session_options[number];
  return static_cast<const HttpOptions&>(*options);
}
HttpOptions options_of(const std::string& section) {
  config::Config config;
  EXPECT_EQ(problems(section, config), "");
  return options_of(config);
}

std::string line_of(const config::Config& config) {
  return config::printed_line(config, "http");
}

TEST(HttpSettings, HaveTheDocumentedDefaults) {
  const HttpOptions its = options_of(config::Config());
  EXPECT_EQ(its.unmatched, Unmatched::error);
  EXPECT_TRUE(its.inline_limits);
  EXPECT_FALSE(its.get_takes);
  EXPECT_FALSE(its.throttlecrab);
  EXPECT_FALSE(its.partition_keys);
  EXPECT_EQ(its.on_store_error, request::OnError::error);
  EXPECT_EQ(its.wait_max, base::seconds(60));
  EXPECT_EQ(its.waiting_max, 10'000u);
  EXPECT_EQ(its.headers, (HeaderOptions{.ietf = true, .x_ratelimit = false, .retry_after = true}));
  EXPECT_EQ(its.retry_jitter_percent, 0u);
  EXPECT_TRUE(its.hosts.empty());
  EXPECT_TRUE(its.origins.empty());
  EXPECT_EQ(its.idle_timeout, base::Duration());
  EXPECT_NE(its.waits, nullptr);
  EXPECT_TRUE(its.auth.profiles.empty());
}

// What these settings say of the rules of a sluice.yaml with both.
std::string said_of(const std::string& rules, const std::string& section) {
  config::Config config;
  base::Diagnostics diagnostics;
  config::read_config(
      "rules:\n" + rules + "listen: [{ protocol: http, address: a }]\nhttp: " + section + "\n",
      "sluice.yaml", config, diagnostics);
  request::Spaces spaces;
  const auto read = config::load_policy(config.policy_files(), spaces, diagnostics, config.own);
  if (!read) return "the rules are wrong";
  base::Diagnostics said;
  dynamic_cast<const HttpSettings&>(config.settings_of(*protocol::find("http")))
      .review(*read, said);
  std::string all;
  for (const auto& one : said) all += base::to_string(one) + "\n";
  return all;
}

TEST(HttpSettings, WarnOfEntriesThatNoProfileGives) {
  const auto rule = [](const std::string& match, const std::string& more = "") {
    return "- { name: r, match: { " + match + " }" + more + ", limit: { quota: 1, window: 1s } }\n";
  };
  const std::string web =
      "{ auth: { profiles: { web: { proxy: caddy, headers: [X-Tenant], "
      "cookies: [Id], entries: { header.tier: gold } } } } }";
  for (const char* match : {"header.x-tenant: \"*\"", "cookie.Id: \"*\"", "header.tier: gold",
                            "path: /a", "headers: a"})
    EXPECT_EQ(said_of(rule(match), web), "") << match;
  // A client of the protocol, without forward-auth, may send any entry.
  EXPECT_EQ(said_of(rule("header.X-Api-Key: \"*\""), "{}"), "");
  EXPECT_EQ(said_of(rule("header.X-Api-Key: \"*\"", ", mode: off"), web), "");
  const auto warning = [](const std::string& key, const std::string& remedy) {
    return "sluice.yaml:2: warning: rule r: no profile of `http.auth` gives `" + key +
           "`, so it applies to no request to /auth; " + remedy + "\n";
  };
  EXPECT_EQ(said_of(rule("header.X-Tenant: \"*\""), web),
            warning("header.X-Tenant",
                    "write `header.x-tenant`, because names of headers are in lower case"));
  EXPECT_EQ(said_of(rule("header.x-api-key: \"*\""), web),
            warning("header.x-api-key", "add `x-api-key` to `headers` of the profile"));
  EXPECT_EQ(said_of(rule("cookie.id: \"*\""), web),
            warning("cookie.id", "add `id` to `cookies` of the profile"));
  EXPECT_EQ(said_of(rule("path: /a", ", actor: header.x"), web),
            "sluice.yaml:2: warning: rule r: no profile of `http.auth` gives `header.x`, so all "
            "requests to /auth share one counter by it; add `x` to `headers` of the profile\n");
}

TEST(HttpSettings, WarnWhereAllRulesAreInShadowAndTheRestIsRefused) {
  const std::string shadow =
      "- { name: a, mode: shadow, limit: { quota: 1, window: 1s } }\n"
      "- { name: b, mode: \"off\", limit: { quota: 1, window: 1s } }\n";
  const std::string enforced = "- { name: c, limit: { quota: 1, window: 1s } }\n";
  const std::string profile = "auth: { profiles: { web: { proxy: caddy } } }";
  for (const char* answer : {"error", "deny"})
    EXPECT_EQ(said_of(shadow, std::string("{ unmatched: ") + answer + " }"),
              "sluice.yaml:2: warning: rules: all are in shadow, and no rule in shadow decides a "
              "request, so `http.unmatched` refuses every request: it is `" +
                  std::string(answer) +
                  "`; write `http: { unmatched: allow }` until a rule is enforced\n");
  EXPECT_NE(said_of(shadow, "{ unmatched: deny, " + profile + " }"), "");
  // What /auth is asked with `error` passes.
  EXPECT_EQ(said_of(shadow, "{ unmatched: error, " + profile + " }"), "");
  EXPECT_EQ(said_of(shadow, "{ unmatched: allow }"), "");
  EXPECT_EQ(said_of(shadow + enforced, "{ unmatched: deny }"), "");
  EXPECT_EQ(said_of(enforced, "{ unmatched: deny }"), "");
}

TEST(HttpSettings, DescribeTheAnswerWithoutARule) {
  for (const std::string answer : {"error", "allow", "deny"}) {
    config::Config config;
    EXPECT_EQ(problems("{ unmatched: " + answer + " }", config), "");
    EXPECT_TRUE(settings_format.unmatched(config.settings_of(*protocol::find("http")))
                    .ends_with(", as `http.unmatched` is " + answer));
    EXPECT_EQ(settings_format.unmatched(config.settings_of(*protocol::find("http"))).find("/auth"),
              std::string_view::npos);
    EXPECT_EQ(
        problems("{ unmatched: " + answer + ", auth: { profiles: { web: { proxy: caddy } } } }",
                 config),
        "");
    EXPECT_TRUE(
        settings_format.unmatched(config.settings_of(*protocol::find("http")))
            .ends_with((answer == "deny" ? ", and /auth has the `deny` status of its profile"
                                         : ", and /auth allows") +
                       (", as `http.unmatched` is " + answer)));
  }
}

TEST(HttpSettings, ReachTheSessions) {
  EXPECT_EQ(options_of("{ unmatched: allow }").unmatched, Unmatched::allow);
  EXPECT_EQ(options_of("{ unmatched: deny }").unmatched, Unmatched::deny);
  EXPECT_EQ(options_of("{ unmatched: error }").unmatched, Unmatched::error);
  EXPECT_FALSE(options_of("{ inline_limits: false }").inline_limits);
  EXPECT_TRUE(options_of("{ get_takes: true }").get_takes);
  EXPECT_TRUE(options_of("{ twins: [throttlecrab] }").throttlecrab);
  EXPECT_TRUE(options_of("{ partition_keys: true }").partition_keys);
  for (const auto& [word, answer] :
       {std::pair("error", request::OnError::error), std::pair("deny", request::OnError::deny),
        std::pair("allow", request::OnError::allow)})
    EXPECT_EQ(options_of(std::string("{ on_store_error: ") + word + " }").on_store_error, answer);
  EXPECT_EQ(options_of("{ max_wait: 1ms }").wait_max, base::milliseconds(1));
  EXPECT_EQ(options_of("{ max_wait: 1h }").wait_max, base::seconds(3'600));
  EXPECT_EQ(options_of("{ max_waiting: 0 }").waiting_max, 0u);
  EXPECT_EQ(options_of("{ max_waiting: 1000000 }").waiting_max, 1'000'000u);
  EXPECT_EQ(options_of("{ headers: [x-ratelimit, ietf] }").headers,
            (HeaderOptions{.ietf = true, .x_ratelimit = true, .retry_after = false}));
  EXPECT_TRUE(options_of("{ ratelimit: all }").headers.ratelimit_all);
  EXPECT_FALSE(options_of("{ ratelimit: shown }").headers.ratelimit_all);
  EXPECT_EQ(options_of("{ retry_jitter: 0 }").retry_jitter_percent, 0u);
  EXPECT_EQ(options_of("{ retry_jitter: 0.1 }").retry_jitter_percent, 10u);
  EXPECT_EQ(options_of("{ retry_jitter: 0.05 }").retry_jitter_percent, 5u);
  EXPECT_EQ(options_of("{ retry_jitter: 0.99 }").retry_jitter_percent, 99u);
  EXPECT_EQ(options_of("{ hosts: [A.example.com, b] }").hosts,
            (std::vector<std::string>{"a.example.com", "b"}));
  EXPECT_EQ(options_of("{ hosts: [SLUICE., 10.0.0.1, '[::1]', a_b-c.d] }").hosts,
            (std::vector<std::string>{"sluice", "10.0.0.1", "[::1]", "a_b-c.d"}));
  EXPECT_EQ(
      options_of("{ origins: ['https://A.example.com', 'http://a:80', 'https://a:443', "
                 "'https://a:80', 'http://[::1]:80', 'http://localhost:3000', 'app://x'] }")
          .origins,
      (std::vector<std::string>{"https://a.example.com", "http://a", "https://a", "https://a:80",
                                "http://[::1]", "http://localhost:3000", "app://x"}));
  const HttpOptions auth = options_of(
      "{ auth: { trusted_proxies: [10.0.0.0/8], profiles: { web: { proxy: nginx } } } }");
  ASSERT_NE(auth.auth.find("web"), nullptr);
  EXPECT_EQ(auth.auth.find("web")->deny, 403);
}

// Sessions of one server share state; servers do not.
TEST(HttpSettings, AreNotSharedBetweenServers) {
  config::Config config;
  EXPECT_EQ(problems("{ partition_keys: true }", config), "");
  const HttpOptions one = options_of(config), two = options_of(config);
  EXPECT_NE(one.waits, two.waits);
  EXPECT_NE(one.partition_secret, two.partition_secret);
}

TEST(HttpSettings, ApplyTimeoutsToTheirListenersOnly) {
  config::Config config;
  EXPECT_EQ(problems("{ idle_timeout: 90s }", config), "");
  config.listen.push_back({{*protocol::find("divvy"), {"b", 1}}});
  const server::Options options = config.options();
  ASSERT_EQ(options.listeners.size(), 2u);
  EXPECT_EQ(options.listeners[0].timeouts.idle, base::seconds(90));
  EXPECT_EQ(options.listeners[1].timeouts.idle, base::Duration());
}

TEST(HttpSettings, ReadBackTheSameAfterPrinting) {
  for (const std::string section :
       {"{}", "{ unmatched: allow, inline_limits: false }",
        "{ headers: [ietf, retry-after, x-ratelimit], ratelimit: all }",
        "{ max_wait: 1500ms, max_waiting: 17 }", "{ headers: [retry-after] }",
        "{ max_wait: 2m, idle_timeout: 90s, retry_jitter: 0.07, on_store_error: allow }",
        "{ retry_jitter: 0.5, on_store_error: deny, hosts: [a, 'b.c'], origins: ['http://x:1'] }",
        "{ get_takes: true, twins: [throttlecrab], partition_keys: true }", "{ headers: [] }",
        "{ auth: { trusted_proxies: [10.0.0.0/8, unix], profiles: { web: { proxy: nginx, deny: 401 "
        "}, edge: { proxy: traefik, n: 2, headers: [x-api-key] } } } }"}) {
    config::Config config;
    EXPECT_EQ(problems(section, config), "") << section;
    const std::string line = line_of(config);
    EXPECT_TRUE(line.starts_with("http: {")) << line;
    config::Config again;
    EXPECT_EQ(problems(line.substr(line.find('{')), again), "") << line;
    EXPECT_EQ(line_of(again), line);
    const HttpOptions a = options_of(config), b = options_of(again);
    EXPECT_EQ(std::tie(a.unmatched, a.inline_limits, a.get_takes, a.throttlecrab, a.on_store_error,
                       a.wait_max, a.waiting_max, a.headers),
              std::tie(b.unmatched, b.inline_limits, b.get_takes, b.throttlecrab, b.on_store_error,
                       b.wait_max, b.waiting_max, b.headers))
        << line;
    EXPECT_EQ(
        std::tie(a.partition_keys, a.retry_jitter_percent, a.hosts, a.origins, a.idle_timeout),
        std::tie(b.partition_keys, b.retry_jitter_percent, b.hosts, b.origins, b.idle_timeout))
        << line;
  }
}

TEST(HttpSettings, RefuseNamesAndOriginsThatNoRequestCanHave) {
  for (const auto& [section, told, remedy] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"{ hosts: ['a:8390'] }", "`a:8390` is not the name of a host", "without scheme, port"},
           {"{ hosts: ['http://a'] }", "`http://a` is not the name", "the name alone"},
           {"{ hosts: ['*.example.com'] }", "`*.example.com` is not the name", "or `*`"},
           {"{ hosts: [''] }", "has no value", "write one value"},
           {"{ hosts: ['a..b'] }", "`a..b` is not the name", "the name alone"},
           {R"({ hosts: ['a"b'] })", "is not the name", "the name alone"},
           {"{ origins: [page.example] }", "`page.example` is not an origin", "scheme and host"},
           {"{ origins: ['https://page.example/'] }", "is not an origin", "no path"},
           {"{ origins: ['null'] }", "is not an origin", "scheme and host"},
           {"{ origins: ['https://a:b'] }", "is not an origin", "scheme and host"}}) {
    const std::string wrong = problems(section);
    EXPECT_TRUE(wrong.starts_with("sluice.yaml:2:")) << section << ": " << wrong;
    EXPECT_NE(wrong.find(told), std::string::npos) << section << ": " << wrong;
    EXPECT_NE(wrong.find(remedy), std::string::npos) << section << ": " << wrong;
  }
}

TEST(HttpSettings, TakeHostsFromAFlagAndAVariable) {
  const std::string flag = "--http-hosts", variable = "SLUICE_HTTP_HOSTS";
  config::Config config;
  EXPECT_EQ(problems("{ hosts: [of-the-file] }", config), "");
  const auto environment = [&](const char* name) -> std::optional<std::string> {
    return name == variable ? std::optional<std::string>("Of-the-Variable.,b") : std::nullopt;
  };
  std::ostringstream out, err;
  const config::CommandIo io{.out = out, .err = err, .environment = environment};
  base::Diagnostics diagnostics;
  config::apply_environment(io, config, diagnostics);
  EXPECT_EQ(options_of(config).hosts, (std::vector<std::string>{"of-the-variable", "b"}));
  config::Flags flags;
  flags.given[flag] = "sluice";
  config::apply_flags(flags, config, diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  EXPECT_EQ(options_of(config).hosts, std::vector<std::string>{"sluice"});
  for (const std::string wrong : {"", "a,", "a,,b", "a b", "a:1"}) {
    flags.given[flag] = wrong;
    diagnostics.clear();
    config::apply_flags(flags, config, diagnostics);
    ASSERT_EQ(diagnostics.size(), 1u) << wrong;
    EXPECT_EQ(diagnostics[0].subject, flag);
  }
}

// What `check` and the start say of listeners that refuse names.
TEST(HttpSettings, SayWhichListenersRefuseNames) {
  const auto notes = [](const std::string& text) {
    config::Config config;
    base::Diagnostics diagnostics;
    config::read_config(text, "sluice.yaml", config, diagnostics);
    EXPECT_FALSE(base::has_errors(diagnostics)) << text;
    return config.notes();
  };
  const std::string loopback = "listen: [{ protocol: http, address: '127.0.0.1:8390' }]\n";
  EXPECT_EQ(notes(loopback),
            std::vector<std::string>{
                "where Host is a name other than localhost, http at 127.0.0.1:8390: 421; name it "
                "by `http: { hosts: [NAME] }` or --http-hosts NAME"});
  const std::vector<std::string> none;
  EXPECT_EQ(notes(loopback + "http: { hosts: [a] }\n"), none);
  EXPECT_EQ(notes(loopback + "users: [{ name: a, token_file: app.token, rights: [take] }]\n"),
            none);
  EXPECT_EQ(notes("listen: [{ protocol: http, address: '0.0.0.0:8390' }]\n"), none);
  EXPECT_EQ(notes("listen: [{ protocol: resp, address: '127.0.0.1:8390' }]\n"), none);
}

TEST(HttpSettings, HaveTheirLineAsOrigin) {
  config::Config config;
  EXPECT_EQ(problems("{ unmatched: deny }", config), "");
  EXPECT_EQ(line_of(config),
            "http: { unmatched: deny, inline_limits: true, headers: [ietf, retry-after], max_wait: "
            "60s, max_waiting: 10000 }");
  EXPECT_EQ(config.settings_of(*protocol::find("http")).origin, "sluice.yaml:2");
}

TEST(HttpSettings, RefuseWhatIsGoneByName) {
  for (const std::string style : {"draft-06", "draft-07", "x-ratelimit-epoch", "x-rate-limit"}) {
    EXPECT_EQ(problems("{ headers: [ietf, " + style + "] }"),
              "sluice.yaml:2:25: error: headers: the style `" + style +
                  "` is gone; write `ietf` for RateLimit, or `x-ratelimit` for X-RateLimit-Limit, "
                  "-Remaining and -Reset in seconds\n");
  }
  EXPECT_EQ(problems("{ field_names: { retry-after: { reset: X-Retry } } }"),
            "sluice.yaml:2:9: error: field_names: is gone; take it out; fields have the names of "
            "their style, and a proxy in front can rename them\n");
  for (const std::string key : {"idempotency_ttl", "idempotency_memory"}) {
    EXPECT_EQ(problems("{ " + key + ": 1 }"),
              "sluice.yaml:2:9: error: " + key +
                  ": is gone; take it out, and send an `id` with each charge to /v1/charge in "
                  "place of an Idempotency-Key\n");
  }
}

TEST(HttpSettings, ReportErrorsWithPlaceAndRemedy) {
  for (const auto& [section, told, remedy] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"{ unmatched: maybe }", "`maybe` is not one of error, allow, deny",
            "write one of these"},
           {"{ unmatched: [] }", "unmatched", ""},
           {"{ inline_limits: 3 }", "inline_limits", "write `inline_limits: false`"},
           {"{ get_takes: 3 }", "get_takes", "write `get_takes: true`"},
           {"{ partition_keys: maybe }", "partition_keys", "write `partition_keys: true`"},
           {"{ on_store_error: local }", "`local` is not one of error, deny, allow", "write one"},
           {"{ max_wait: 0 }", "`0` is not a length of time", "write a number and a unit"},
           {"{ max_wait: 61m }", "`61m` is not a length of time", "write a number and a unit"},
           {"{ max_wait: 10 }", "`10` is not a length of time", "write a number and a unit"},
           {"{ max_waiting: 1000001 }", "max_waiting", "1000000"},
           {"{ max_waiting: -1 }", "max_waiting", ""},
           {"{ headers: ietf }", "headers", "headers: [ietf, retry-after]"},
           {"{ headers: {} }", "headers", "`[]` for none"},
           {"{ headers: [itef] }", "`itef` is not one of ietf, x-ratelimit, retry-after",
            "write one"},
           {"{ ratelimit: some }", "`some` is not one of shown, all", "write one"},
           {"{ retry_jitter: 1 }", "`1` is not a part of one", "write 0, or a number such as 0.1"},
           {"{ retry_jitter: 0.123 }", "`0.123` is not a part of one", "write 0"},
           {"{ retry_jitter: 0. }", "`0.` is not a part of one", "write 0"},
           {"{ retry_jitter: -0.1 }", "`-0.1` is not a part of one", "write 0"},
           {"{ hosts: a }", "hosts", "hosts: [limits.example.com]"},
           {"{ origins: 3 }", "origins", "origins: ["},
           {"{ idle_timeout: 30 }", "`30` is not a length", "or 0 for none"},
           {"{ idle_timeout: 1ms }", "`1ms` is not a length", "or 0 for none"},
           {"{ idle_timeout: 2d }", "`2d` is not a length", "or 0 for none"},
           {"{ twins: [redis] }", "`redis` is not one of throttlecrab", "write one"},
           {"{ twins: throttlecrab }", "twins", "twins: [throttlecrab]"},
           {"{ auth: { profiles: { web: { proxy: apache } } } }", "apache", "nginx"},
           {"{ other: 3 }", "other", ""}}) {
    const std::string wrong = problems(section);
    EXPECT_TRUE(wrong.starts_with("sluice.yaml:2:")) << section << ": " << wrong;
    EXPECT_NE(wrong.find(told), std::string::npos) << section << ": " << wrong;
    EXPECT_NE(wrong.find(remedy), std::string::npos) << section << ": " << wrong;
  }
}

}  // namespace
}  // namespace sluice::http::settings_test
