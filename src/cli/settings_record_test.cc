// What each setting does, as recorded in tests/config/settings.json: keys of a sluice.yaml, flags
// and variables, each with good and wrong values, against what `--print-config` prints or the
// message. With SLUICE_RECORD=FILE it writes the record anew into that file, for a change that is
// meant.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <vector>

#include "cli/command_test.h"
#include "config/config.h"
#include "config/operations.h"
#include "config/policy_source.h"
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

}  // namespace
}  // namespace sluice::cli
