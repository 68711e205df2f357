// Follows docs/http.md as a reader does: writes its files, starts its servers and runs its commands
// in a shell, from the first line to the last, and compares what they print with the page.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace sluice::tests::http_docs_test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Replaces what differs from run to run: times, durations other than 0, and sizes that depend on
// their digits.
std::string settled(std::string text) {
  for (const auto& [pattern, with] : std::vector<std::pair<std::string, std::string>>{
           {"(\"(retry_after|reset_after|waited)\": )(?!0[,}])[0-9.]+", "$1(time)"},
           {"(;t=|Retry-After: )[0-9]+", "$1(time)"},
           {"within [0-9a-z]+", "within (time)"},
           {"Date: [^\n]+", "Date: (moment)"},
           {"Content-Length: [0-9]+", "Content-Length: (size)"}})
    text = std::regex_replace(text, std::regex(pattern), with);
  return text;
}

// Executes the page from its first line to its last, in a new folder.
class Reading {
 public:
  Reading() {
    std::filesystem::create_directory(folder_.path() + "/bin");
    std::filesystem::create_symlink(binary_path(), folder_.path() + "/bin/sluice");
  }

  void read() {
    std::ifstream page(source_path("docs/http.md"));
    if (!page.is_open()) throw std::runtime_error("docs/http.md cannot be read");
    const std::regex names_file(".*`([a-z/]+\\.yaml)`:");
    std::string file;
    bool session = false;
    for (std::string line; std::getline(page, line);) {
      std::smatch named;
      const bool indented = line.starts_with("    ");
      if (!line.empty() && !indented && !text_.empty())
        write(std::exchange(file, {}), std::exchange(text_, {}));
      if (line.starts_with("```")) {
        compare();
        session = line == "```console";
      } else if (session && line.starts_with("$ ")) {
        compare();
        command_ = line.substr(2);
      } else if (session) {
        shown_ += line + "\n";
      } else if (indented && !file.empty()) {
        text_ += line.substr(4) + "\n";
      } else if (indented) {
        serve(line.substr(4));
      } else if (std::regex_match(line, named, names_file)) {
        file = named[1];
      }
    }
  }

  size_t commands = 0, files = 0, servers = 0;

 private:
  // Replaces the page's ports by the test's.
  std::string here(std::string text) const {
    const std::string address = "localhost:" + std::to_string(port_);
    text = replaced(text, "localhost:8390", address);
    return replaced(text, "sluice ask http take",
                    "sluice ask http take --timeout 20000 --server " + address);
  }
  std::map<std::string, std::string> environment() const {
    return {{"PATH", folder_.path() + "/bin:/usr/bin:/bin"}, {"SLUICE_WORKERS", "1"}};
  }

  void write(const std::string& name, std::string text) {
    ++files;
    for (const char* port : {":8390\"", ":8380\""}) text = replaced(text, port, ":0\"");
    folder_.write(name, text);
  }

  // Starts a server after stopping the one before it.
  void serve(const std::string& line) {
    if (!line.starts_with("sluice http") && !line.starts_with("sluice serve"))
      throw std::runtime_error("neither a file nor a server: " + line);
    ++servers;
    server_.reset();
    server_ = std::make_unique<Process>(
        Process::Options{
            .arguments = {"-c", "exec " + replaced(line, "sluice http", "sluice http --port 0")},
            .environment = environment(),
            .folder = folder_.path()},
        "/bin/sh");
    port_ = await_listening(*server_, "http");
  }

  Finished shell(const std::string& line) const {
    Process process(
        {.arguments = {"-c", here(line)}, .environment = environment(), .folder = folder_.path()},
        "/bin/sh");
    const auto status = process.wait();
    if (!status) throw std::runtime_error("does not end: " + line);
    return {*status, replaced(process.out(), "\r\n", "\n"), process.err()};
  }

  void compare() {
    const std::string command = std::exchange(command_, {}), shown = std::exchange(shown_, {});
    if (command.empty()) return;
    ++commands;
    Finished said = shell(command);
    EXPECT_EQ(said.status, 0) << command << "\n" << said.err;
    if (!said.out.empty() && !said.out.ends_with('\n')) said.out += '\n';
    EXPECT_EQ(settled(said.out), settled(shown)) << command << "\n" << said.err;
  }

  Folder folder_;
  std::unique_ptr<Process> server_;
  uint16_t port_ = 0;
  std::string command_, shown_, text_;
};

TEST(HttpManual, ShowsTheOutputOfItsCommands) {
  Reading reading;
  reading.read();
  EXPECT_EQ(reading.files, 2u);
  EXPECT_EQ(reading.servers, 4u);
  EXPECT_EQ(reading.commands, 47u);
}

// The names in the first column of the table below a heading.
std::set<std::string> names_below(const std::string& heading, const std::string& first_line) {
  std::ifstream page(source_path("docs/http.md"));
  std::set<std::string> names;
  const std::regex name("`([a-z0-9_-]+)`");
  bool here = false, table = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) here = line == heading;
    table = line.starts_with("|") && (table || line.starts_with(first_line));
    if (!here || !table) continue;
    const std::string first = line.substr(0, line.find(" | ", 2));
    for (std::sregex_iterator at(first.begin(), first.end(), name), end; at != end; ++at)
      names.insert((*at)[1]);
  }
  return names;
}

// The words between `before` and `after` in the error about a section.
std::set<std::string> known_words(const std::string& section, const std::string& before,
                                  const std::string& after) {
  const Folder folder;
  const std::string file = folder.write("sluice.yaml", section);
  const Finished told = run({.arguments = {"check", file}});
  EXPECT_EQ(told.status, 1) << told.out;
  std::set<std::string> keys;
  size_t at = told.err.find(before);
  if (at == told.err.npos) return keys;
  at += before.size();
  std::istringstream rest(told.err.substr(at, told.err.find(after, at) - at));
  for (std::string key; rest >> key;)
    keys.insert(key.ends_with(',') ? key.substr(0, key.size() - 1) : key);
  return keys;
}

TEST(HttpManual, ListsEveryStyle) {
  EXPECT_EQ(names_below("## Header fields", "| style "),
            known_words("http: { headers: [nosuch] }\n", "is not one of ", ";"));
}

}  // namespace
}  // namespace sluice::tests::http_docs_test
