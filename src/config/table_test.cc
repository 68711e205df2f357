// The table of settings (config/table.h): what is declared, docs/settings.md, which is made from
// it, and variables whose names are nearly right. What each setting takes and prints is recorded in
// tests/config/settings.json.
#include "config/table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/variables.h"
#include "testing/environment_of.h"
#include "tests/support/paths.h"

namespace sluice::config::table_test {
namespace {

using Variables = std::map<std::string, std::string>;

// What a start says about the variables.
std::vector<std::string> said_of(const Variables& variables, const OtherVariables& others = {}) {
  std::ostringstream out, err;
  const CommandIo io{out, err, false, false, tests::environment_of(variables), [&] {
                       return std::vector<std::pair<std::string, std::string>>(variables.begin(),
                                                                               variables.end());
                     }};
  base::Diagnostics diagnostics;
  warn_of_near(io, others, diagnostics);
  std::vector<std::string> all;
  for (const auto& one : diagnostics) all.push_back(base::to_string(one));
  return all;
}

std::vector<std::string> warning(const std::string& name, const std::string& near) {
  return {"warning: " + name + ": is not a variable that is read; did you mean `" + near + "`?"};
}

TEST(NearVariables, AreWarnedOf) {
  EXPECT_EQ(said_of({{"SLUICE_MEMROY", "1GiB"}}), warning("SLUICE_MEMROY", "SLUICE_MEMORY"));
  EXPECT_EQ(said_of({{"SLUICE_WORKER", "4"}}), warning("SLUICE_WORKER", "SLUICE_WORKERS"));
  EXPECT_EQ(said_of({{"SLUICE_LOGLEVEL", "info"}}), warning("SLUICE_LOGLEVEL", "SLUICE_LOG_LEVEL"));
  EXPECT_EQ(said_of({{"SLUICE_REDIS_TSL", "true"}}),
            warning("SLUICE_REDIS_TSL", "SLUICE_REDIS_TLS"));
  // Of a drop-in's own variables too.
  EXPECT_EQ(said_of({{"REDIS_HOTS", "a"}}, {{"REDIS_HOST"}}), warning("REDIS_HOTS", "REDIS_HOST"));
}

TEST(NearVariables, AreNotThoseThatAreReadOrFarOrEmpty) {
  const std::vector<std::string> nothing;
  EXPECT_EQ(said_of({{"SLUICE_MEMORY", "1GiB"}, {"SLUICE_WORKERS", "4"}}), nothing);
  EXPECT_EQ(said_of({{"SLUICE_MEMROY", ""}}), nothing);
  EXPECT_EQ(said_of({{"HOSTNAME", "a"}, {"PATH", "/bin"}, {"POST", "1"}}, {{"HOST", "PORT"}}),
            nothing);
  EXPECT_EQ(said_of({{"REDIS_HOST", "a"}}, {{"REDIS_HOST"}}), nothing);
  // The nearest of several, and none that has no effect.
  const OtherVariables others{{"REDIS_URL", "REDIS_TLS"},
                              [](std::string_view name) { return name.starts_with("TRACING_"); }};
  EXPECT_EQ(said_of({{"REDIS_TL", "true"}}, others), warning("REDIS_TL", "REDIS_TLS"));
  EXPECT_EQ(said_of({{"TRACING_ENABLE", "true"}}, {{"TRACING_ENABLED"}, others.is_known}), nothing);
  // Others' variables of this name's family, which deployments set: no word about them.
  EXPECT_EQ(said_of({{"SLUICE_SERVICE_HOST", "10.0.0.1"},
                     {"SLUICE_SERVICE_PORT", "8390"},
                     {"SLUICE_PORT", "tcp://10.0.0.1:8390"}}),
            nothing);
}

// A reload reads variables again, and must not say the same again.
TEST(NearVariables, AreNoMatterOfReadingThem) {
  const Variables variables{{"SLUICE_MEMROY", "1GiB"}};
  std::ostringstream out, err;
  const CommandIo io{out,
                     err,
                     false,
                     false,
                     [](const char*) { return std::optional<std::string>(); },
                     [&] {
                       return std::vector<std::pair<std::string, std::string>>(variables.begin(),
                                                                               variables.end());
                     }};
  Config config;
  base::Diagnostics diagnostics;
  apply_environment(io, config, diagnostics);
  EXPECT_TRUE(diagnostics.empty());
}

std::vector<std::string> changed(const std::string& before, const std::string& after) {
  Config a, b;
  base::Diagnostics diagnostics;
  read_config("rules: [{ deny: true }]\n" + before, "s.yaml", a, diagnostics);
  read_config("rules: [{ deny: true }]\n" + after, "s.yaml", b, diagnostics);
  EXPECT_TRUE(diagnostics.empty());
  return changed_settings(a, b);
}

TEST(ChangedSettings, AreThoseThatAreWritten) {
  using Paths = std::vector<std::string>;
  const auto profile = [](const std::string& proxy) {
    return "http: { auth: { profiles: { web: { proxy: " + proxy + ", deny: 403 } } } }\n";
  };
  // A proxy brings its fields along.
  EXPECT_EQ(changed(profile("nginx"), profile("traefik")), Paths{"http.auth.profiles.web.proxy"});
  // A folder brings a durability along, and the same folder is no change.
  EXPECT_EQ(changed("", "store: { path: d }\n"), Paths{"store.path"});
  EXPECT_EQ(changed("store: { path: d }\n", "store: { path: d, durability: always }\n"),
            Paths{"store.durability"});
  EXPECT_EQ(changed("store: { path: d }\n", "store: { path: ./x/../d }\n"), Paths{});
  EXPECT_EQ(changed("", "store: { redis: { nodes: [a] } }\n"), Paths{"store.redis"});
}

// A flag or a variable that two entries had would set both.
TEST(SettingsTable, DeclaresEachFlagAndVariableOnce) {
  Config config;
  std::set<std::string> names;
  size_t count = 0;
  each_outside(table_of(config), [&](const Entry& entry) {
    for (const std::string_view name : {entry.about.flag, entry.about.variable}) {
      if (name.empty()) continue;
      EXPECT_TRUE(names.emplace(name).second) << name;
      ++count;
    }
    EXPECT_FALSE(entry.about.help.empty()) << entry.about.flag << entry.about.variable;
  });
  EXPECT_GT(count, 30u);
}

// What a map has by default is what it has when nothing was read.
TEST(SettingsTable, PrintsNoSettingThatWasNotChanged) {
  Config config;
  for (const Entry& entry : table_of(config)) {
    if (!entry.parts || !entry.visit_usual) continue;
    EXPECT_EQ(values_of(entry.parts()), usual_of(entry)) << entry.key;
  }
}

// Everything behind the line that begins the tables is generated. With SLUICE_RECORD=FILE the page
// is written into that file.
TEST(SettingsPage, IsMadeFromTheDeclarations) {
  std::ostringstream read;
  read << std::ifstream(tests::source_path("docs/settings.md")).rdbuf();
  const std::string page = read.str(), begin = "<!-- From here on the page is generated";
  const size_t at = page.find('\n', page.find(begin));
  ASSERT_NE(at, page.npos);
  Config config;
  const std::string wanted = page.substr(0, at + 1) + "\n" + settings_page(table_of(config));
  if (const char* const to = std::getenv("SLUICE_RECORD")) {
    std::ofstream(to) << wanted;
    return;
  }
  EXPECT_TRUE(page == wanted)
      << "docs/settings.md is not what the declarations say; run this test with SLUICE_RECORD=FILE "
         "and put that file in its place";
  // Each row says what its setting means.
  std::istringstream lines(wanted);
  for (std::string line; std::getline(lines, line);) EXPECT_FALSE(line.ends_with("|  |")) << line;
}

}  // namespace
}  // namespace sluice::config::table_test
