// Settings (config/config.h): from the file, variables and flags; mistakes and their messages; what
// `--print-config` prints is read back as the same.
#include "config/config.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <sstream>
#include <vector>

#include "base/units.h"
#include "config/address.h"
#include "config/operations.h"
#include "protocol/protocol.h"
#include "testing/environment_of.h"

namespace sluice::config::config_test {
namespace {

std::string messages(const base::Diagnostics& all) {
  std::string text;
  for (const auto& d : all) text += base::to_string(d) + "\n";
  return text;
}

// Reads a file; returns the messages, "" if there are none.
std::string problems(std::string_view text, Config& config) {
  base::Diagnostics diagnostics;
  read_config(text, "conf/sluice.yaml", config, diagnostics);
  return messages(diagnostics);
}
std::string problems(std::string_view text) {
  Config config;
  return problems(text, config);
}

// The name of the first policy's only option.
std::string option_of(const Config& config) {
  const auto options = config.policy.at(0).files->options();
  EXPECT_EQ(options.size(), 1u);
  return options.empty() ? "" : options.front().first;
}

struct World {
  std::map<std::string, std::string> variables;
  std::ostringstream out, err;
  CommandIo io{out, err, false, false, tests::environment_of(variables)};
};

constexpr const char* good = R"(# all that there is
listen:
  - { protocol: divvy, address: "[::1]:9000" }
  - protocol: divvy
    address: 127.0.0.1
workers: 4
store: { memory: 2GiB }
policy:
  - divvy: rules.ini
    matching: documented
log:
  level: warn
)";

TEST(ReadConfig, ReadsEverySetting) {
  Config config;
  ASSERT_EQ(problems(good, config), "");
  ASSERT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.listen[0].value.address.host, "::1");
  EXPECT_EQ(config.listen[0].value.address.port, 9000);
  EXPECT_EQ(config.listen[0].origin, "conf/sluice.yaml:3");
  EXPECT_EQ(config.listen[1].value.address.port, 8321);
  EXPECT_EQ(config.workers.value, 4u);
  EXPECT_EQ(config.store.memory_bytes.value, uint64_t{2} << 30);
  EXPECT_EQ(config.store.memory_bytes.origin, "conf/sluice.yaml:7");
  ASSERT_EQ(config.policy.size(), 1u);
  EXPECT_EQ(config.policy[0].files->path.value, "conf/rules.ini");
  EXPECT_EQ(option_of(config), "matching: documented");
  EXPECT_EQ(config.log.level.value, spdlog::level::warn);
  EXPECT_EQ(config.options().listeners.size(), 2u);
  EXPECT_EQ(config.options().workers, 4u);
}

TEST(ReadConfig, KeepsDefaultsOfMissingKeys) {
  Config config;
  ASSERT_EQ(problems("policy: [{ divvy: /etc/rules.json }]", config), "");
  ASSERT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.listen[0].value.address.host, "::");
  EXPECT_EQ(config.listen[0].value.address.port, 8321);
  EXPECT_EQ(config.listen[0].origin, "default");
  EXPECT_EQ(config.listen[1].value.protocol, std::nullopt);
  EXPECT_EQ(config.listen[1].value.address.host, "127.0.0.1");
  EXPECT_EQ(config.workers.value, 0u);
  EXPECT_EQ(config.policy[0].files->path.value, "/etc/rules.json");
  EXPECT_EQ(option_of(config), "matching: code");
}

TEST(ReadConfig, RulesAreAPolicyToo) {
  Config config;
  ASSERT_EQ(problems("workers: 1\nrules:\n  - { deny: true }\n  - { unlimited: true }", config),
            "");
  EXPECT_TRUE(config.has_policy());
  EXPECT_EQ(config.rules.value.count, 2u);
  EXPECT_EQ(config.rules.origin, "conf/sluice.yaml:3");
  ASSERT_EQ(config.policy_files().size(), 1u);
  EXPECT_EQ(config.policy_files()[0]->path.value, "conf/sluice.yaml");
  EXPECT_EQ(config.policy_files()[0]->format(), nullptr);

  ASSERT_EQ(problems("rules: [{ deny: true }]\npolicy: [{ divvy: a.ini }]", config), "");
  EXPECT_EQ(config.policy_files().size(), 2u);
}

TEST(ReadConfig, EachListenerMayHaveItsOwnTimeouts) {
  Config config;
  ASSERT_EQ(
      problems("listen: [{ protocol: divvy, address: \"[::1]:1\", request_timeout: 1500ms },\n"
               "  { protocol: limitd, address: \"[::1]:2\", send_timeout: 2m }]\n"
               "policy: [{ divvy: a.ini }]\n",
               config),
      "");
  const auto listeners = config.options().listeners;
  EXPECT_EQ(listeners[0].timeouts.request.us, 1'500'000);
  EXPECT_EQ(listeners[0].timeouts.send, net::Timeouts().send);
  EXPECT_EQ(listeners[1].timeouts.request, net::Timeouts().request);
  EXPECT_EQ(listeners[1].timeouts.send, base::seconds(120));
  const std::string text = print_config(config);
  EXPECT_NE(text.find("address: \"[::1]:1\", request_timeout: 1500ms }"), std::string::npos)
      << text;
  EXPECT_NE(text.find("address: \"[::1]:2\", send_timeout: 120s }"), std::string::npos) << text;
}

TEST(ReadConfig, DropletNeedsNoPolicy) {
  Config config;
  ASSERT_EQ(problems("listen: [{ protocol: droplet, address: \"[::1]\" }]\n"
                     "droplet: { cleanup_interval: 5m }\n",
                     config),
            "");
  EXPECT_EQ(config.listen[0].value.address.port, 3000);
  EXPECT_EQ(config.options().cleanup_interval.us, 300'000'000);
  EXPECT_EQ(config.settings_of(*protocol::find("droplet")).origin, "conf/sluice.yaml:2");
  EXPECT_TRUE(config.policy_files().empty()) << "the example is Divvy's";
  EXPECT_EQ(print_config(config).find("policy"), std::string::npos);

  EXPECT_NE(problems("listen: [{ protocol: droplet, address: \"[::1]\" },"
                     " { protocol: divvy, address: \"[::1]\" }]"),
            "");
}

// A reload reads its own configuration and compares it with the one of the start.
TEST(ReadConfig, ACopySharesNoPoliciesOrSettings) {
  Config config;
  ASSERT_EQ(problems("policy: [{ divvy: a.ini }]", config), "");
  Config copy = config;
  copy.policy[0].files->path.value = "b.ini";
  Flags flags;
  flags.given["--cleanup-interval"] = "7";
  base::Diagnostics diagnostics;
  apply_flags(flags, copy, diagnostics);
  EXPECT_EQ(config.policy[0].files->path.value, "conf/a.ini");
  EXPECT_EQ(config.options().cleanup_interval, base::seconds(60));
  EXPECT_EQ(copy.options().cleanup_interval, base::seconds(7));
}

TEST(ReadConfig, MergesAndAliases) {
  Config config;
  ASSERT_EQ(problems("listen:\n"
                     "  - &here { protocol: divvy, address: \"[::1]:9000\" }\n"
                     "  - { <<: *here, address: \"[::1]:9001\" }\n"
                     "policy: [{ divvy: a.ini }]\n",
                     config),
            "");
  ASSERT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.listen[0].value.address.port, 9000);
  EXPECT_EQ(config.listen[1].value.address.port, 9001);
}

// Each case is line 2 of a file that is right otherwise, and the message about it.
auto read_config_mistakes() {
  struct Case {
    const char* line;
    const char* expected;
  };
  const Case cases[] = {
      {"wrokers: 4", "2:1: error: wrokers: is not a known key; did you mean `workers`?"},
      {"zzz: 4",
       "2:1: error: zzz: is not a known key; known here: listen, workers, connections, drain, "
       "time_zone_data, "
       "store, holds, log, otlp, divvy, droplet, resp, envoy, http, users, admin, policy, rules"},
      {"policy: [{ divvy: b.ini }]",
       "2:1: error: policy: occurs twice, first on line 1; keep one of them"},
      {"workers: 0",
       "2:10: error: workers: `0` is not a number of workers; write `auto` or 1 to 1024"},
      {"workers: many", "2:10: error: workers: `many` is not a number of workers"},
      {"workers: [4]", "2:10: error: workers: must be a single value"},
      {"workers:", "error: workers: has no value"},
      {"[4]: 4", "2:1: error: the file: has a key that is a list or a map"},
      {"store: 1GiB", "2:8: error: store: must be a map of keys to values; its keys are `memory`"},
      {"store: { memory: 1Gib }", "2:18: error: memory: `1Gib` is not a size; write a number and"},
      {"store: { memory: 64KiB }",
       "2:18: error: memory: `64KiB` is not a size from 16MiB to 16GiB; write"},
      {"store: { memory: 1TiB }",
       "2:18: error: memory: `1TiB` is not a size from 16MiB to 16GiB; write"},
      {"store: { durability: sometimes }",
       "2:22: error: durability: `sometimes` is not a durability"},
      {"store: { redis: { nodes: [] } }",
       "2:26: error: nodes: must be a list with at least one entry"},
      {"store: { redis: { nodes: [a], deadline_ms: 0 } }",
       "error: deadline_ms: `0` is not a number of milliseconds; write 1 to 60000"},
      {"store: { redis: { nodes: [a], per_second: { tls: true } } }",
       "error: per_second: names no Redis; write `per_second: { nodes: [\"localhost:6380\"] }`"},
      {"store: { redis: { nodes: [a], over_cache: much } }",
       "error: over_cache: `much` is not a size; write a number and a unit, as in `64MiB`"},
      {"store: { redis: { nodes: [a], patience_ms: 60001 } }",
       "error: patience_ms: `60001` is not a number of milliseconds; write 1 to 60000"},
      {"store: { redis: { nodes: [a], key_prefix: \"divvy:\" } }",
       "error: key_prefix: is that of Divvy's own keys"},
      {"store: { redis: { nodes: [a], across_slots: maybe } }",
       "error: across_slots: `maybe` is not a way to settle over several slots; write `settle` or "
       "`refuse`"},
      {"store: { redis: { nodes: [a], across_slots: [settle] } }",
       "error: across_slots: must be a single value"},
      {"store: { redis: { nodes: [a], tls: yes } }", "error: tls: `yes` is neither true nor false"},
      {"log: { level: loud }",
       "2:15: error: level: `loud` is not a log level; use one of trace, debug, info, warn, error, "
       "off"},
      {"log: { level: inof }", "2:15: error: level: `inof` is not a log level"},
      {"log: { format: xml }",
       "2:16: error: format: `xml` is not a format of the log; write `text`, or `json` for an "
       "object"},
      {"log: { modules: { stroe: debug } }",
       "2:19: error: stroe: is not a known key; did you mean `store`?"},
      {"log: { modules: { store: debgu } }",
       "2:26: error: store: `debgu` is not a log level; did you mean `debug`?"},
      {"log: { modules: [store] }", "2:17: error: modules: must be a map of keys to values"},
      {"log: { denials: { every: some } }",
       "2:26: error: every: `some` is not a number of denials; write 1 to log each, 100 for every"},
      {"log: { denials: { every: 1000000001 } }",
       "2:26: error: every: `1000000001` is not a number"},
      {"log: { denials: 10 }", "2:17: error: denials: must be a map of keys to values"},
      {"store: { redis: { nodes: [\"redis://:secret@host:x\"] } }",
       "error: nodes: `...@host:x` is not an address of a Redis; write HOST:PORT; `username` and"},
      {"log: { levle: info }", "2:8: error: levle: is not a known key; did you mean `le"},
      {"listen: []", "2:9: error: listen: must be a list with at least one entry"},
      {"listen: [{ protocol: divvy, address: \"[::]:1\", send_timeout: 1ms }]",
       "2:62: error: send_timeout: `1ms` is not a length of time from 100ms to 1d; write a "
       "number and a unit, as in `30s`"},
      {"listen: [{ protocol: divvy, address: \"[::]:1\", request_timeout: never }]",
       "2:65: error: request_timeout: `never` is not a length of time from 100ms to"},
      {"listen: [{ protocol: admin, address: \"[::1]:1\", send_timeout: 1s }]",
       "2:63: error: listen: is an admin port, which has timeouts of its own"},
      {"listen: [{ protocol: divvy }]", "2:10: error: listen: has no address"},
      {"listen: [{ address: \"[::]:1\" }]", "2:10: error: listen: has no protocol"},
      {"admin: { token: x }", "2:10: error: token: is not a known key; known here: token_f"},
      {"divvy: { statsd: { tcp: yes } }", "2:25: error: tcp: `yes` is neither true nor false"},
      {"divvy: { statsd: { address: x:y } }", "2:29: error: address: `x:y` is not an address"},
      {"divvy: { metrics: { port: 1 } }", "2:21: error: port: is not a known key"},
      {"droplet: { cleanup_interval: often }",
       "2:30: error: cleanup_interval: `often` is not an interval; write seconds, or a length of "
       "time "
       "as in `5m`; 0 for never"},
      {"droplet: { cleanup_interval: 1000000d }",
       "2:30: error: cleanup_interval: `1000000d` is too long an interval"},
      {"droplet: { cleanup: 1 }", "2:12: error: cleanup: is not a known key"},
      {"listen: [{ protocol: divy, address: \"[::]:1\" }]",
       "2:22: error: protocol: `divy` is not a protocol; did you mean `divvy`?"},
      {"listen: [{ protocol: divvy, address: \"::1:80\" }]",
       "2:38: error: address: `::1:80` is not an address; an IPv6 address goes into brackets"},
      {"listen: [{ protocol: divvy, prot: 1, address: a }]",
       "2:29: error: prot: is not a known key"},
      {"workers: [", "error: is not YAML"},
      {"--- {}", "error: ---: begins a second document, which would not be read; keep one"},
  };
  return std::vector(cases, std::end(cases));
}

TEST(ReadConfig, ReportsErrorsWithPlaceAndRemedy) {
  for (const auto& [line, expected] : read_config_mistakes()) {
    const std::string text = "policy: [{ divvy: a.ini }]\n" + std::string(line) + "\n";
    const std::string said = problems(text);
    EXPECT_NE(said.find(expected), std::string::npos) << line << "\nsays: " << said;
    EXPECT_EQ(said.find("conf/sluice.yaml:"), 0u) << said;
  }
}

// `policy` and `rules` are easily confused.
TEST(ReadConfig, ReportsMisplacedRules) {
  const std::string rule = "{ name: a, match: { k: v }, limit: { quota: 1, window: 1s } }";
  const std::string beside =
      "error: rules: stands in `policy`, which names files; put `rules:` beside it, at the front "
      "of a line\n";
  EXPECT_EQ(problems("policy:\n  rules:\n    - " + rule + "\n"), "conf/sluice.yaml:2:3: " + beside);
  EXPECT_EQ(problems("policy:\n  - divvy: a.ini\n  - rules: [" + rule + "]\n"),
            "conf/sluice.yaml:3:5: " + beside);
  EXPECT_EQ(problems("policy:\n  - " + rule + "\n  - " + rule + "\n"),
            "conf/sluice.yaml:2:16: error: policy: names files, and this is a rule; put it under "
            "`rules:`, at the front of a line\n");
  const std::string said = problems("policy: [{ divvy: a.ini, match: documented }]\n");
  EXPECT_NE(said.find("match: is not a known key"), said.npos) << said;
}

TEST(ReadConfig, RequiresExactlyOneDivvyPolicy) {
  EXPECT_EQ(
      problems(""),
      "conf/sluice.yaml: error: policy: is missing, and so is `rules`: no request would meet a "
      "rule; add `policy: [{ divvy: rules.ini }]` or `rules: [...]`\n");
  EXPECT_EQ(problems("policy: [{ divvy: a.ini }, { divvy: b.ini }]"),
            "conf/sluice.yaml:1:28: error: divvy: a second Divvy policy cannot be reached behind "
            "the first one's default rule; put its rules into the first\n");
  EXPECT_EQ(problems("policy: [{ matching: code }]"),
            "conf/sluice.yaml:1:10: error: policy: names no file; write `{ divvy: rules.ini }`\n");
  EXPECT_EQ(
      problems("policy: [{ divvy: a.ini, matching: strict }]"),
      "conf/sluice.yaml:1:36: error: matching: `strict` is not a way of matching; write `code` "
      "(as Divvy 1.7.1 does it) or `documented` (as its README says)\n");
}

TEST(ReadConfig, AllowsAtMostOneLimitdPolicy) {
  EXPECT_EQ(problems("policy: [{ limitd: a.yaml }]"), "");
  EXPECT_EQ(problems("policy: [{ limitd: a.yaml }, { limitd: b.yaml }]"),
            "conf/sluice.yaml:1:30: error: limitd: there is a limitd policy already; put its "
            "bucket types into the folder FILE.d of the first\n");
  EXPECT_EQ(problems("policy: [{ limitd: a.yaml, divvy: a.ini }]"),
            "conf/sluice.yaml:1:10: error: limitd: stands in one entry with `divvy`; write "
            "`policy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]`\n");
  EXPECT_EQ(problems("policy: [{ limitd: a.yaml, matching: code }]"),
            "conf/sluice.yaml:1:10: error: matching: is Divvy's, and this policy is limitd's; take "
            "it out\n");
}

// Without `listen`, each protocol that has a policy is served at the port where its clients expect
// it. Native rules alone are served by the protocols that listen on loopback by default.
TEST(ReadConfig, ListensByPolicy) {
  const std::pair<const char*, std::vector<uint16_t>> cases[] = {
      {"policy: [{ divvy: a.ini }]", {8321, 8380}},
      {"policy: [{ limitd: a.yaml }]", {9231, 8380}},
      {"policy: [{ divvy: a.ini }, { limitd: a.yaml }]", {8321, 9231, 8380}},
      {"policy: [{ divvy: a.ini }]\nrules: [{ deny: true }]", {8321, 8380}},
      {"rules: []", {6380, 8390, 8380}},
      {"rules: [{ deny: true }]\nstore: { path: d }\nhttp: {}\nadmin: {}", {6380, 8390, 8380}},
      {"listen: [{ protocol: droplet, address: \"[::]:1\" }]", {1}},
  };
  for (const auto& [text, ports] : cases) {
    Config config;
    base::Diagnostics diagnostics;
    read_config(text, "sluice.yaml", config, diagnostics);
    std::vector<uint16_t> got;
    for (const auto& listener : config.listen) got.push_back(listener.value.address.port);
    EXPECT_EQ(got, ports) << text;
  }
  EXPECT_EQ(Config().listen.size(), protocol::all().size() + 1) << "and the admin port";
}

// Other machines must not reach a listener that the file does not name.
TEST(ReadConfig, NativeRulesAreServedOnLoopbackAlone) {
  Config config;
  base::Diagnostics diagnostics;
  read_config("rules: [{ deny: true }]", "sluice.yaml", config, diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  ASSERT_EQ(config.listen.size(), 3u);
  for (const auto& listener : config.listen) {
    EXPECT_TRUE(is_loopback(listener.value.address.host)) << listener.value.address.host;
    EXPECT_EQ(listener.origin, "default");
  }
  EXPECT_EQ(open_listeners(config), "");
  Config without_a_file;
  without_a_file.listen_on_loopback();
  for (const auto& listener : without_a_file.listen)
    EXPECT_TRUE(is_loopback(listener.value.address.host)) << listener.value.address.host;
}

TEST(ReadConfig, NamesTheListenersThatAreOpen) {
  const auto open = [](const std::string& text) {
    Config config;
    base::Diagnostics diagnostics;
    read_config("listen: [" + text + "]\nrules: [{ deny: true }]", "sluice.yaml", config,
                diagnostics);
    EXPECT_TRUE(diagnostics.empty());
    return open_listeners(config);
  };
  EXPECT_EQ(open("{ protocol: resp, address: \"127.0.0.1:1\" }"), "");
  EXPECT_EQ(open("{ protocol: resp, address: \"0.0.0.0:1\" }, "
                 "{ protocol: http, address: \"10.0.0.1:2\" }"),
            "resp, http");
  EXPECT_EQ(open("{ protocol: resp, address: \"0.0.0.0:1\", tls: { certificate: c, key: k } }, "
                 "{ protocol: health, address: \"0.0.0.0:2\" }"),
            "");
}

TEST(ReadConfig, ReportsAllErrorsInOneRun) {
  const std::string said = problems("wrokers: 1\nlog: { level: loud }\nstore: 3\n");
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 4) << said;
}

TEST(ReadConfig, ReportsErrorsForArbitraryBytes) {
  for (const std::string& text :
       {std::string("\0\xff\xfe", 3), std::string(100'000, '['), std::string("&a [*a]"),
        std::string("? {a: b}\n: c"), std::string("- 1"), std::string("just words"),
        std::string("*unknown"), std::string("%YAML 9.9\n---\n")})
    EXPECT_NE(problems(text), "") << text.substr(0, 40);
}

TEST(Precedence, FlagsOverrideTheEnvironmentOverridesTheFile) {
  World world;
  world.variables = {{"SLUICE_WORKERS", "5"},
                     {"SLUICE_MEMORY", "3GiB"},
                     {"SLUICE_LOG_LEVEL", ""},
                     {"SLUICE_CLEANUP_INTERVAL", "5"},
                     {"SLUICE_LOG_FORMAT", "json"}};
  Flags flags;
  flags.given["--workers"] = "6";
  flags.given["--cleanup-interval"] = "7";
  flags.listen = {"divvy=[::]:1", "divvy=localhost:0"};
  Config config;
  base::Diagnostics diagnostics;
  read_config(good, "s.yaml", config, diagnostics);
  apply_environment(world.io, config, diagnostics);
  apply_flags(flags, config, diagnostics);
  ASSERT_EQ(messages(diagnostics), "");
  EXPECT_EQ(config.workers.value, 6u);
  EXPECT_EQ(config.workers.origin, "--workers");
  EXPECT_EQ(config.store.memory_bytes.value, uint64_t{3} << 30);
  EXPECT_EQ(config.store.memory_bytes.origin, "SLUICE_MEMORY");
  EXPECT_EQ(config.options().cleanup_interval.us, 7'000'000);
  EXPECT_NE(print_config(config).find("droplet: { cleanup_interval: 7s }                        # "
                                      "--cleanup-interval\n"),
            std::string::npos)
      << print_config(config);
  EXPECT_EQ(config.log.level.origin, "s.yaml:12");
  EXPECT_EQ(config.log.format.value, log::LogFormat::json);
  EXPECT_EQ(config.log.format.origin, "SLUICE_LOG_FORMAT");
  flags.given["--log-format"] = "text";
  apply_flags(flags, config, diagnostics);
  EXPECT_EQ(config.log.format.value, log::LogFormat::text);
  EXPECT_EQ(config.log.format.origin, "--log-format");
  ASSERT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.listen[1].value.address.host, "localhost");
  EXPECT_EQ(config.listen[1].origin, "--listen");
}

TEST(Precedence, NamesTheFlagOrVariableThatIsWrong) {
  World world;
  world.variables = {{"SLUICE_WORKERS", "x"}};
  Flags flags;
  flags.given["--memory"] = "lots";
  flags.listen = {"divvy", "admin=[::]:1", "divvy=[::]:x"};
  Config config;
  base::Diagnostics diagnostics;
  apply_environment(world.io, config, diagnostics);
  apply_flags(flags, config, diagnostics);
  EXPECT_EQ(messages(diagnostics),
            "error: SLUICE_WORKERS: `x` is not a number of workers; write `auto` or 1 to 1024\n"
            "error: --listen: `divvy` has no `=`; write PROTOCOL=ADDRESS, as in `divvy=[::]:8321`\n"
            "error: --listen: `[::]:x` is not an address; the host must be followed by `:` and a "
            "port from 0 to 65535, not `:x`\n"
            "error: --memory: `lots` is not a size; write a number and a unit, as in `64MiB` or "
            "`2GiB`\n");
}

TEST(PrintConfig, ReadsBackTheSameAndNamesOrigins) {
  Config config;
  base::Diagnostics diagnostics;
  read_config(good, "/etc/sluice.yaml", config, diagnostics);
  Flags flags;
  flags.given["--log-level"] = "error";
  flags.given["--cleanup-interval"] = "90s";
  apply_flags(flags, config, diagnostics);
  config.policy[0].files->path.value = "/etc/odd \"name\"\\\n.ini";
  const std::string text = print_config(config);
  EXPECT_NE(text.find("workers: 4                                               # "
                      "/etc/sluice.yaml:6\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("# --log-level\n"), std::string::npos) << text;

  Config again;
  read_config(text, "/elsewhere/b.yaml", again, diagnostics);
  ASSERT_EQ(messages(diagnostics), "");
  EXPECT_EQ(again.listen.size(), config.listen.size());
  EXPECT_EQ(again.listen[0].value.address.host, config.listen[0].value.address.host);
  EXPECT_EQ(again.workers.value, config.workers.value);
  EXPECT_EQ(again.store.memory_bytes.value, config.store.memory_bytes.value);
  EXPECT_EQ(again.log.level.value, spdlog::level::err);
  EXPECT_EQ(again.options().cleanup_interval, config.options().cleanup_interval);
  EXPECT_EQ(again.options().cleanup_interval, base::seconds(90));
  EXPECT_EQ(again.policy[0].files->path.value, config.policy[0].files->path.value);
  EXPECT_EQ(option_of(again), option_of(config));
}

TEST(PrintConfig, PrintsLogSettingsThatReadBackTheSame) {
  Config config;
  base::Diagnostics diagnostics;
  read_config(
      "policy: [{ divvy: a.ini }]\n"
      "log:\n  format: json\n  modules: { requests: trace, store: \"off\" }\n"
      "  denials: { every: 1k }\n",
      "s.yaml", config, diagnostics);
  const std::string text = print_config(config);
  for (const char* part :
       {"\nlog:\n  level: info ", "\n  format: json ", "# s.yaml:3\n  modules:\n",
        "\n    requests: trace ", "\n    store: off ", "\n  denials: { every: 1000 } "})
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  Config again;
  read_config(text, "b.yaml", again, diagnostics);
  ASSERT_EQ(messages(diagnostics), "");
  const log::LogSettings expected{.level = spdlog::level::info,
                                  .modules = {{log::LogModule::requests, spdlog::level::trace},
                                              {log::LogModule::store, spdlog::level::off}},
                                  .format = log::LogFormat::json};
  EXPECT_EQ(config.log.settings(), expected);
  EXPECT_EQ(again.log.settings(), expected);
  EXPECT_EQ(again.log.denials_every.value, 1000u);
  EXPECT_EQ(again.options().denials_every, 1000u);
}

TEST(PrintConfig, MarksTheBuiltInExample) {
  const std::string text = print_config(Config());
  EXPECT_NE(text.find("# policy: the built-in example (divvy) "), std::string::npos) << text;
  EXPECT_NE(text.find("# policy: the built-in example (limitd) "), std::string::npos) << text;
  EXPECT_NE(text.find("workers: auto "), std::string::npos) << text;
}

}  // namespace
}  // namespace sluice::config::config_test
