// Settings for the access to a Redis, for answers where no rule applies, and for failing stores.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/settings.h"
#include "protocol/protocol.h"
#include "testing/environment_of.h"

namespace sluice::config::reach_settings_test {
namespace {

struct World {
  std::map<std::string, std::string> variables;
  std::ostringstream out, err;
  CommandIo io{out, err, false, false, tests::environment_of(variables)};
};

std::string problems(std::string_view text, Config& config) {
  base::Diagnostics diagnostics;
  read_config(text, "conf/sluice.yaml", config, diagnostics);
  std::string all;
  for (const auto& d : diagnostics) all += base::to_string(d) + "\n";
  return all;
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const std::string policy = "policy: [{ divvy: a.ini }]\n";
const std::string in_file =
    policy + "store: { redis: { nodes: [\"a:1\"], username: u, password: p, tls: false } }\n";

redis::Options reached(const Config& config) {
  return config.store.redis_access.over(config.store.redis->value);
}

TEST(RedisAccess, PasswordFilesAreRelativeToSluiceYaml) {
  Config config;
  EXPECT_EQ(problems(policy + "store: { redis: { nodes: [\"a:1\"], password_file: pw, per_second: "
                              "{ nodes: [\"b:1\"], password_file: /pw2 } } }\n",
                     config),
            "");
  EXPECT_EQ(reached(config).password_file, "conf/pw");
  EXPECT_EQ(reached(config).second.password_file, "/pw2");
  const std::string printed = print_config(config);
  EXPECT_TRUE(has(printed,
                  "    password_file: \"" + std::filesystem::absolute("conf/pw").string() + "\"\n"))
      << printed;
  EXPECT_TRUE(has(printed, "      password_file: \"/pw2\"\n")) << printed;
  for (const char* both : {"password: a, password_file: b", "password_file: b, password: a"}) {
    Config other;
    EXPECT_TRUE(
        has(problems(policy + "store: { redis: { nodes: [\"a:1\"], " + both + " } }\n", other),
            "take one of them out"))
        << both;
  }
}

// What is printed is read back as the same.
TEST(RedisSettings, ReadAndPrintAcrossSlots) {
  const auto read = [](const std::string& text, Config& config) {
    EXPECT_EQ(problems(text, config), "");
    return config.store.redis->value;
  };
  const auto with = [](const std::string& more) {
    return policy + "store: { redis: { nodes: [\"a:1\"], cluster: true" + more + " } }\n";
  };
  Config by_default, refusing, settling;
  EXPECT_FALSE(read(with(""), by_default).settles_across_slots);
  EXPECT_FALSE(read(with(", across_slots: refuse"), refusing).settles_across_slots);
  const redis::Options options = read(with(", across_slots: settle"), settling);
  EXPECT_TRUE(options.settles_across_slots);
  EXPECT_FALSE(options == refusing.store.redis->value);
  EXPECT_TRUE(by_default.store.redis->value == refusing.store.redis->value);
  EXPECT_FALSE(has(print_config(by_default), "across_slots"));
  const std::string printed = print_config(settling);
  EXPECT_TRUE(has(printed, "    across_slots: settle\n")) << printed;
  Config again;
  base::Diagnostics diagnostics;
  read_config(printed, "/elsewhere/b.yaml", again, diagnostics);
  ASSERT_TRUE(again.store.redis.has_value()) << printed;
  EXPECT_TRUE(again.store.redis->value.settles_across_slots);
}

TEST(RedisAccess, FlagsOverrideVariablesWhichOverrideTheFile) {
  Config config;
  EXPECT_EQ(problems(in_file, config), "");
  EXPECT_EQ(reached(config).username, "u");
  World world;
  base::Diagnostics diagnostics;
  world.variables = {{"SLUICE_REDIS_USERNAME", "v"},
                     {"SLUICE_REDIS_PASSWORD_FILE", "file"},
                     {"SLUICE_REDIS_TLS", "true"}};
  apply_environment(world.io, config, diagnostics);
  EXPECT_EQ(reached(config).username, "v");
  EXPECT_EQ(reached(config).password, "");
  EXPECT_EQ(reached(config).password_file, "file");
  EXPECT_TRUE(reached(config).tls);
  Flags flags;
  flags.given["--redis-username"] = "w";
  flags.given["--redis-password-file"] = "flag";
  apply_flags(flags, config, diagnostics);
  EXPECT_EQ(reached(config).username, "w");
  EXPECT_EQ(reached(config).password_file, "flag");
  EXPECT_TRUE(diagnostics.empty());
  world.variables = {{"SLUICE_REDIS_TLS", "maybe"}};
  apply_environment(world.io, config, diagnostics);
  EXPECT_EQ(diagnostics.size(), 1u);
}

TEST(RedisAccess, WarnsOfCredentialsWithoutARedis) {
  Config config;
  EXPECT_EQ(problems(policy, config), "");
  World world;
  base::Diagnostics diagnostics;
  world.variables = {{"SLUICE_REDIS_PASSWORD", "secret"}};
  apply_environment(world.io, config, diagnostics);
  check_store(config, diagnostics);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].severity, base::Diagnostic::Severity::warning);
  EXPECT_EQ(diagnostics[0].subject, "SLUICE_REDIS_PASSWORD");
  EXPECT_FALSE(has(print_config(config) + base::to_string(diagnostics[0]), "secret"));
}

TEST(RedisAccess, APasswordFileIsReadWithoutItsLineEnd) {
  const std::string file = testing::TempDir() + "sluice_pw_" + std::to_string(::getpid());
  std::ofstream(file) << "one\r\n";
  redis::Options options;
  base::Diagnostics diagnostics;
  EXPECT_TRUE(read_redis_passwords(options, diagnostics));
  EXPECT_EQ(options.password, "");
  options.password_file = options.second.password_file = file;
  EXPECT_TRUE(read_redis_passwords(options, diagnostics));
  EXPECT_EQ(options.password, "one");
  EXPECT_EQ(options.second.password, "one");
  std::ofstream(file) << std::string(5000, 'x');
  EXPECT_FALSE(read_redis_passwords(options, diagnostics));
  std::filesystem::remove(file);
  EXPECT_FALSE(read_redis_passwords(options, diagnostics));
  EXPECT_EQ(diagnostics.size(), 4u);
}

// Two formats of policies have an option of this name: it belongs to the one whose file is in the
// same entry.
TEST(OnStoreError, BelongsToThePolicyOfTheSameListItem) {
  Config config;
  EXPECT_EQ(problems("policy:\n- { on_store_error: local, divvy: a.ini }\n"
                     "- { envoy: b, on_store_error: deny }\n",
                     config),
            "");
  const std::string printed = print_config(config);
  EXPECT_TRUE(has(printed, "    on_store_error: local ")) << printed;
  EXPECT_TRUE(has(printed, "    on_store_error: deny ")) << printed;
  EXPECT_TRUE(has(problems("policy: [{ divvy: a.ini, on_store_error: maybe }]\n", config),
                  "`maybe` is not an answer"));
  EXPECT_TRUE(has(problems("policy: [{ limitd: a.yaml, on_store_error: local }]\n", config),
                  "and this policy is limitd's"));
}

TEST(Unmatched, IsReadAndPrintedForEachListener) {
  Config config;
  EXPECT_EQ(problems("listen:\n- { protocol: divvy, address: \"[::]:1\", unmatched: allow }\n"
                     "- { protocol: divvy, address: \"[::]:2\" }\n" +
                         policy,
                     config),
            "");
  ASSERT_EQ(config.listen.size(), 2u);
  EXPECT_EQ(config.listen[0].value.unmatched, request::Unmatched::allow);
  EXPECT_EQ(config.listen[1].value.unmatched, request::Unmatched::as_protocol);
  EXPECT_EQ(config.options().listeners[0].unmatched, request::Unmatched::allow);
  Config again;
  EXPECT_EQ(problems(print_config(config), again), "");
  EXPECT_EQ(again.listen[0].value.unmatched, request::Unmatched::allow);
}

TEST(Unmatched, IsRejectedForListenersWithTheirOwnSetting) {
  const auto of = [](const std::string& listener) {
    Config config;
    return problems("listen: [{ address: \"[::1]:1\", " + listener + " }]\n" + policy, config);
  };
  EXPECT_TRUE(
      has(of("protocol: divvy, unmatched: maybe"), "`maybe` is not one of allow, deny, error"));
  EXPECT_TRUE(has(of("protocol: admin, unmatched: allow"), "an admin port, which has no rules"));
  size_t own = 0;
  for (const protocol::Description* one : protocol::all()) {
    if (!has_own_unmatched(number_of(*one))) continue;
    ++own;
    const std::string name(one->name);
    EXPECT_TRUE(has(of("protocol: " + name + ", unmatched: deny"),
                    "write `" + name + ": { unmatched: deny }`"))
        << of("protocol: " + name + ", unmatched: deny");
  }
  EXPECT_EQ(own, 2u);
}

TEST(Unmatched, TheFlagSetsAllListenersThatSupportIt) {
  Config config;
  base::Diagnostics diagnostics;
  Flags flags;
  flags.given["--unmatched"] = "error";
  apply_flags(flags, config, diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  for (const auto& [listener, origin] : config.listen) {
    const bool can = listener.protocol && !has_own_unmatched(*listener.protocol);
    EXPECT_EQ(listener.unmatched,
              can ? request::Unmatched::error : request::Unmatched::as_protocol);
  }
  std::erase_if(config.listen, [](const auto& one) {
    return one.value.protocol && !has_own_unmatched(*one.value.protocol);
  });
  apply_flags(flags, config, diagnostics);
  EXPECT_EQ(diagnostics.size(), 1u);
}

}  // namespace
}  // namespace sluice::config::reach_settings_test
