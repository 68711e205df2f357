// What each setting does, as recorded in tests/config/settings.json: keys of a sluice.yaml, flags
// and variables, each with good and wrong values, against what `--print-config` prints or the
// message. With SLUICE_RECORD=FILE it writes the record anew into that file, for a change that is
// meant.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/signals.h"
#include "cli/command_test.h"
#include "config/config.h"
#include "config/operations.h"
#include "config/policy_source.h"
#include "protocol/protocol.h"
#include "testing/environment_of.h"
#include "tests/support/paths.h"

namespace sluice::cli {
namespace {

using Json = nlohmann::ordered_json;
using Lines = std::vector<std::string>;

constexpr std::string_view rule = "rules: [{ deny: true }]\n";

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class SettingsRecord : public CommandTest {
 protected:
  SettingsRecord() : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder_);
    std::filesystem::create_directories("limits/config");
    std::ofstream("limits/config/a.yaml")
        << "domain: a\ndescriptors: [{ key: k, rate_limit: { unit: second, requests_per_unit: 1 } "
           "}]\n";
    std::ofstream("rules.ini") << "[default]\ncreditLimit = 1\nresetSeconds = 60\n";
    std::ofstream("limitd.yaml") << "db: limitd.db\nbuckets: { ip: { size: 1 } }\n";
    std::ofstream("secret") << "a-secret-of-enough-bytes\n";
  }
  ~SettingsRecord() override { std::filesystem::current_path(before_); }

  // The folder as DIR, with one space before a comment, whose column depends on the folder.
  std::string without_folder(std::string text) const {
    for (size_t at = 0; (at = text.find(folder_, at)) != std::string::npos;) {
      text.replace(at, folder_.size(), "DIR");
      const size_t comment = text.find(" #", at);
      if (comment >= text.find('\n', at)) continue;
      const size_t value_end = text.find_last_not_of(' ', comment) + 1;
      text.erase(value_end, comment - value_end);
    }
    return text;
  }

  config::CommandIo io(std::ostream& to, std::ostream& problems, const Json& its) {
    variables.clear();
    if (its.contains("variables"))
      variables = its["variables"].get<std::map<std::string, std::string>>();
    return {to, problems, false, false, tests::environment_of(variables), [this] {
              return std::vector<std::pair<std::string, std::string>>(variables.begin(),
                                                                      variables.end());
            }};
  }

  void write_file(const Json& its) const {
    std::ofstream("sluice.yaml", std::ios::binary)
        << its.value("file", std::string()) << (its.value("whole", false) ? "" : rule);
  }

  // Runs a command of the case with `--print-config`, or as the case says.
  void run_command(const Json& its, Json& result) {
    std::ostringstream out_text, err_text;
    auto world = io(out_text, err_text, its);
    Words words{its["command"].get<std::string>()};
    const bool is_check = words[0] == "check";
    // First, so that an option without its value does not take it for the value, and serve.
    if (!is_check) words.emplace_back("--print-config");
    if (its.contains("file")) {
      write_file(its);
      if (!is_check) words.emplace_back("--config");
      words.emplace_back("sluice.yaml");
    }
    if (its.contains("words"))
      for (const auto& word : its["words"]) words.push_back(word);
    result["status"] = run(words, world);
    Lines printed = lines_of(without_folder(out_text.str()));
    const Lines usual = its.contains("prints") ? Lines() : usual_of(its);
    // Without those that are printed without the case's setting, too.
    std::erase_if(printed, [&](const std::string& line) {
      return std::find(usual.begin(), usual.end(), line) != usual.end();
    });
    result["out"] = printed;
    result["err"] = lines_of(without_folder(err_text.str()));
  }

  // What the command prints without the case's settings.
  const Lines& usual_of(const Json& its) {
    Json plain = {{"command", its["command"]}, {"prints", "all"}};
    if (its.contains("file")) plain["file"] = "";
    if (its.contains("base")) plain["words"] = its["base"];
    const auto [at, fresh] = usual_.try_emplace(plain.dump());
    if (fresh) {
      Json base;
      run_command(plain, base);
      at->second = base["out"].get<Lines>();
    }
    return at->second;
  }

  config::Config read(const Json& its, base::Diagnostics& diagnostics) {
    std::ostringstream unused;
    config::Config config;
    write_file(its);
    if (its.contains("file")) {
      std::ostringstream text;
      text << std::ifstream("sluice.yaml").rdbuf();
      config::read_config(text.str(), "sluice.yaml", config, diagnostics);
    }
    config::apply_environment(io(unused, unused, its), config, diagnostics);
    return config;
  }

  static Lines texts(const base::Diagnostics& all) {
    Lines lines;
    for (const auto& one : all) lines.push_back(base::to_string(one));
    return lines;
  }

  // What a start says after it has read everything.
  void start(const Json& its, Json& result) {
    base::Diagnostics diagnostics;
    const config::Config config = read(its, diagnostics);
    config::check_store(config, diagnostics);
    config::check_listeners(config, diagnostics);
    Lines said = texts(diagnostics);
    for (const std::string& note : config.notes()) said.push_back("note: " + note);
    result["err"] = said;
  }

  // What a reload says if the file was empty at the start.
  void reload(const Json& its, Json& result) {
    base::Diagnostics diagnostics;
    request::Spaces spaces;
    config::PolicySource source(
        read({{"file", ""}}, diagnostics), [&](base::Diagnostics& to) { return read(its, to); },
        spaces);
    const auto first = source.first();
    ASSERT_TRUE(first.rules) << its.dump();
    write_file(its);  // before the reload, which reads no settings if no text has changed
    Lines said;
    for (const auto& line : texts(source.again(first.hash.value_or(0)).diagnostics))
      if (line.find("changed since the start") != std::string::npos) said.push_back(line);
    result["err"] = said;
  }

  const std::filesystem::path before_;
  std::map<std::string, Lines> usual_;
};

TEST_F(SettingsRecord, EachSettingDoesAsRecorded) {
  Json record;
  std::ifstream(tests::source_path("tests/config/settings.json")) >> record;
  const char* const to = std::getenv("SLUICE_RECORD");
  std::string text;
  for (Json& its : record["cases"]) {
    Json result;
    const std::string command = its["command"];
    if (command == "start")
      start(its, result);
    else if (command == "reload")
      reload(its, result);
    else
      run_command(its, result);
    if (to == nullptr) {
      EXPECT_EQ(its["result"].dump(1), result.dump(1)) << its.dump();
    }
    its["result"] = result;
    text += (text.empty() ? "" : ",\n") + its.dump();
  }
  if (to == nullptr) return;
  std::ofstream(before_ / to) << "{\"cases\": [\n" << text << "\n]}\n";
}

// Calls `visit` for each entry of the table, those within maps too.
void each_entry(const config::Table& table,
                const std::function<void(const config::Entry&)>& visit) {
  for (const config::Entry& entry : table) {
    visit(entry);
    if (entry.visit_usual)
      entry.visit_usual([&](const config::Table& parts) { each_entry(parts, visit); });
  }
}

TEST_F(SettingsRecord, HasCasesOfEachSetting) {
  Json record;
  std::ifstream(tests::source_path("tests/config/settings.json")) >> record;
  std::set<std::string> flags, named;
  std::string files;
  for (const Json& its : record["cases"]) {
    files += " " + its.value("file", std::string());
    if (its.contains("words"))
      for (const auto& word : its["words"]) flags.insert(word.get<std::string>());
    if (its.contains("variables"))
      for (const auto& [name, value] : its["variables"].items()) named.insert(name);
  }
  config::Config config;
  size_t keys = 0;
  each_entry(config::table_of(config), [&](const config::Entry& entry) {
    if (!entry.key.empty()) {
      ++keys;
      EXPECT_NE(files.find(" " + std::string(entry.key) + ":"), files.npos) << entry.key;
    }
    if (!entry.about.flag.empty()) {
      EXPECT_TRUE(flags.contains(std::string(entry.about.flag))) << entry.about.flag;
    }
    if (!entry.about.variable.empty()) {
      EXPECT_TRUE(named.contains(std::string(entry.about.variable))) << entry.about.variable;
    }
  });
  EXPECT_GT(keys, 100u);
}

// The names of variables in a text: those of several words, as in REDIS_URL.
Lines variables_in(const std::string& text) {
  static const std::regex name("[A-Z][A-Z0-9]*(_[A-Z0-9]+)+");
  Lines names;
  for (std::sregex_iterator at(text.begin(), text.end(), name), end; at != end; ++at)
    names.push_back(at->str());
  return names;
}

// A drop-in's server, as far as its start goes without listening.
class DropIn : public SettingsRecord {
 protected:
  struct Case {
    std::string name;
    Words words;                                     // that name a sound policy
    std::map<std::string, std::string> original_of;  // its original's variables, by ours
  };
  // Those that take the place of another program.
  const std::vector<Case> cases{{"divvy",
                                 {"rules.ini"},
                                 {{"SLUICE_REDIS", "REDIS_HOST"},
                                  {"SLUICE_REDIS_CLUSTER", "REDIS_CLUSTER"},
                                  {"SLUICE_REDIS_USERNAME", "REDIS_USERNAME"},
                                  {"SLUICE_REDIS_PASSWORD", "REDIS_PASSWORD"},
                                  {"SLUICE_REDIS_PASSWORD_FILE", "REDIS_PASSWORD_FILE"},
                                  {"SLUICE_REDIS_TLS", "REDIS_TLS"}}},
                                {"limitd",
                                 {"--config-file", "limitd.yaml"},
                                 {{"SLUICE_DATA", "DB"}, {"SLUICE_LOG_LEVEL", "LOG_LEVEL"}}},
                                {"droplet", {}, {}},
                                {"envoy",
                                 {"limits"},
                                 {{"SLUICE_REDIS", "REDIS_URL"},
                                  {"SLUICE_REDIS_TLS", "REDIS_TLS"},
                                  {"SLUICE_LOG_LEVEL", "LOG_LEVEL"},
                                  {"SLUICE_LOG_FORMAT", "LOG_FORMAT"}}}};

  // What it says with these variables and words. It never serves: its admin port is that of its
  // listener, and where a variable gives this another one, it has no token. `asked`: gets the names
  // of the variables that it reads.
  Lines said_by(const Case& of, const std::map<std::string, std::string>& its,
                const Words& more = {}, std::set<std::string>* asked = nullptr) {
    std::ostringstream out_text, err_text;
    const auto value_of = tests::environment_of(its);
    config::CommandIo world{
        out_text,
        err_text,
        false,
        false,
        [&](const char* name) {
          if (asked != nullptr) asked->insert(name);
          return value_of(name);
        },
        [&] { return std::vector<std::pair<std::string, std::string>>(its.begin(), its.end()); }};
    Words words{of.name};
    words.insert(words.end(), of.words.begin(), of.words.end());
    words.insert(words.end(), {"--admin", "0.0.0.0:" + std::to_string(port_of(of))});
    words.insert(words.end(), more.begin(), more.end());
    EXPECT_NE(run(words, world), config::exit_ok);
    base::release_signals();
    Lines lines = lines_of(without_folder(err_text.str()));
    std::erase_if(lines, [](const std::string& line) {
      return line.starts_with("error: listen: ");  // of these flags
    });
    for (std::string& line : lines)  // some name where variables are
      if (line.starts_with("environment: ")) line.erase(0, line.find(' ') + 1);
    return lines;
  }

  // The variables that it reads, by what it asks for and by its help.
  std::set<std::string> read_by(const Case& of) {
    std::set<std::string> names;
    said_by(of, {}, {}, &names);
    std::ostringstream help, unused;
    variables.clear();
    config::CommandIo world{help, unused, false, false, tests::environment_of(variables)};
    run({of.name, "--help"}, world);
    for (const std::string& name : variables_in(help.str())) names.insert(name);
    return names;
  }

  static uint16_t port_of(const Case& of) {
    return protocol::describe(*protocol::find(of.name)).port;
  }
};

TEST_F(DropIn, NamesInEachRemedyAVariableThatItReadsAndItsOriginalsOwn) {
  const Lines values{"x", "-1", "0", "99999999999999999999", "true", "always", "a:b:c", ":", ""};
  for (const Case& of : cases) {
    const std::set<std::string> read = read_by(of);
    size_t complaints = 0;
    std::set<std::string> wrong;  // variables of which some value was an error
    for (const std::string& variable : read) {
      for (const std::string& value : values) {
        SCOPED_TRACE(of.name + ", " + variable + "=" + value);
        for (const std::string& line : said_by(of, {{variable, value}})) {
          if (!line.starts_with("error: ") && !line.starts_with("warning: ")) continue;
          ++complaints;
          if (line.starts_with("error: " + variable + ": ")) wrong.insert(variable);
          EXPECT_EQ(line.find("store:"), line.npos) << "it has no sluice.yaml: " << line;
          EXPECT_EQ(line.find("sluice.yaml"), line.npos) << line;
          const Lines named = variables_in(line);
          EXPECT_TRUE(!named.empty() || line.find(variable) != line.npos ||
                      line.find("--") != line.npos)
              << "it names nothing that can be changed: " << line;
          for (const std::string& name : named) {
            EXPECT_TRUE(read.contains(name)) << name << " is not read: " << line;
            if (name != variable) {
              EXPECT_FALSE(of.original_of.contains(name))
                  << "it knows that one as " << of.original_of.at(name) << ": " << line;
            }
          }
        }
      }
    }
    // Each setting that is a number, a size, a length or one of some words is out of its range with
    // some of the values.
    config::Config config;
    config::each_outside(config::table_of(config), [&](const config::Entry& entry) {
      const std::string variable(entry.about.variable);
      const bool is_ranged = entry.values.find(" to ") != std::string::npos ||
                             entry.values.find("`, `") != std::string::npos;
      if (!variable.empty() && is_ranged && read.contains(variable)) {
        EXPECT_TRUE(wrong.contains(variable)) << of.name << ": " << variable;
      }
    });
    EXPECT_GT(wrong.size(), 5u) << of.name;
    EXPECT_GT(complaints, 20u) << of.name;
  }
}

// Flags that want another setting, too.
TEST_F(DropIn, NamesNoFileThatItDoesNotHave) {
  size_t complaints = 0;
  for (const Case& of : cases)
    for (const Words& words : std::vector<Words>{{"--durability", "always"},
                                                 {"--redis-tls"},
                                                 {"--redis-username", "x"},
                                                 {"--redis", "a:1", "--data", "d"}}) {
      SCOPED_TRACE(of.name + " " + words[0]);
      for (const std::string& line : said_by(of, {}, words)) {
        ++complaints;
        EXPECT_EQ(line.find("store:"), line.npos) << line;
        for (const std::string& name : variables_in(line))
          EXPECT_TRUE(read_by(of).contains(name)) << line;
      }
    }
  EXPECT_GT(complaints, 10u);
}

}  // namespace
}  // namespace sluice::cli
