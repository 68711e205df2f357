// Follows docs/envoy.md as a reader does: writes its files, starts its servers and runs its
// commands in a shell, from the first line to the last, and compares what they print with the page.
#include <gtest/gtest.h>

#include <chrono>
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

namespace sluice::tests::envoy_docs_test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Replaces what differs from run to run: times, durations and ids.
std::string settled(std::string text) {
  for (const auto& [pattern, with] : std::vector<std::pair<std::string, std::string>>{
           {"(resets|more) in [0-9dhms]+", "$1 in (time)"},
           {"\"durationUntilReset\":\"[0-9]+s\"", "\"durationUntilReset\":\"(time)\""},
           {"RateLimit-Reset: [0-9]+", "RateLimit-Reset: (time)"},
           {";t=[0-9]+", ";t=(time)"},
           {"o-[0-9a-f]{16}", "o-(id)"},
           {"[0-9-]{10}T[0-9:.]+Z", "(moment)"}})
    text = std::regex_replace(text, std::regex(pattern), with);
  return text;
}

int64_t hour() {
  return std::chrono::duration_cast<std::chrono::hours>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

// A command that printed something else than the page shows.
struct Difference {
  std::string command, said, shown;
};

// Executes the page from its first line to its last, in a new folder.
class Reading {
 public:
  Reading() {
    std::filesystem::create_directory(folder_.path() + "/bin");
    std::filesystem::create_symlink(binary_path(), folder_.path() + "/bin/sluice");
  }

  void read() {
    std::ifstream page(source_path("docs/envoy.md"));
    if (!page.is_open()) throw std::runtime_error("docs/envoy.md cannot be read");
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
        serve(line.substr(line.find_first_not_of(' ')));
      } else if (std::regex_match(line, named, names_file)) {
        file = named[1];
      }
    }
  }

  const std::vector<Difference>& differences() const { return differences_; }
  size_t commands = 0, files = 0, servers = 0;

 private:
  // Replaces the page's ports and folders by the test's.
  std::string here(std::string text) const {
    text = replaced(text, "localhost:8080", "localhost:" + std::to_string(http_));
    return replaced(
        text, "sluice ask envoy ",
        "sluice ask envoy --timeout 20000 --server localhost:" + std::to_string(grpc_) + " ");
  }
  std::map<std::string, std::string> environment() const {
    return {{"PATH", folder_.path() + "/bin:/usr/bin:/bin"},
            {"HOST", "127.0.0.1"},
            {"PORT", "0"},
            {"GRPC_HOST", "127.0.0.1"},
            {"GRPC_PORT", "0"},
            {"SLUICE_WORKERS", "1"},
            {"SLUICE_ADMIN_SERVER", "127.0.0.1:" + std::to_string(admin_)}};
  }

  void write(const std::string& name, std::string text) {
    ++files;
    for (const char* port : {"\"0.0.0.0:8081\"", "\"127.0.0.1:8380\""})
      text = replaced(text, port, "\"127.0.0.1:0\"");
    folder_.write(name, text);
  }

  // Starts a server after stopping the one before it.
  void serve(const std::string& line) {
    if (line.find("sluice envoy") == line.npos && line.find("sluice serve") == line.npos)
      throw std::runtime_error("neither a file nor a server: " + line);
    ++servers;
    server_.reset();
    const bool admin = line.find("--admin") != line.npos || line.find(" serve ") != line.npos;
    auto its_environment = environment();
    its_environment.erase("SLUICE_ADMIN_SERVER");
    server_ = std::make_unique<Process>(
        Process::Options{.arguments = {"-c", "exec env " + replaced(here(line), "127.0.0.1:8380",
                                                                    "127.0.0.1:0")},
                         .environment = its_environment,
                         .folder = folder_.path()},
        "/bin/sh");
    grpc_ = await_listening(*server_, "envoy");
    if (line.find("sluice envoy") != line.npos) http_ = await_listening(*server_, "envoy");
    if (admin) admin_ = await_listening(*server_, "admin");
  }

  Finished shell(const std::string& line) const {
    Process process(
        {.arguments = {"-c", here(line)}, .environment = environment(), .folder = folder_.path()},
        "/bin/sh");
    const auto status = process.wait();
    if (!status) throw std::runtime_error("does not end: " + line);
    return {*status, process.out(), process.err()};
  }

  void compare() {
    const std::string command = std::exchange(command_, {}), shown = std::exchange(shown_, {});
    if (command.empty()) return;
    ++commands;
    Finished said = shell(command);
    EXPECT_EQ(said.status, shown.starts_with("denied") ? 1 : 0) << command << "\n" << said.err;
    if (!said.out.ends_with('\n')) said.out += '\n';
    const std::string out = settled(said.out);
    if (out != settled(shown)) differences_.push_back({command, said.out + said.err, shown});
  }

  Folder folder_;
  std::unique_ptr<Process> server_;
  uint16_t grpc_ = 0, http_ = 0, admin_ = 0;
  std::string command_, shown_, text_;
  std::vector<Difference> differences_;
};

// The windows of the page's limits are hours and days: if an hour ends meanwhile, the page is
// executed again.
TEST(EnvoyManual, ShowsTheOutputOfItsCommands) {
  for (int64_t begun = 0;;) {
    begun = hour();
    Reading reading;
    reading.read();
    if (hour() != begun) continue;
    for (const Difference& one : reading.differences())
      ADD_FAILURE() << one.command << "\n" << one.said << "in place of\n" << one.shown;
    EXPECT_EQ(reading.files, 6u);
    EXPECT_EQ(reading.servers, 3u);
    EXPECT_EQ(reading.commands, 18u);
    return;
  }
}

// The names in the first column of each table below a heading.
std::vector<std::set<std::string>> keys_of_tables(const char* file, const std::string& heading) {
  std::ifstream page(source_path(file));
  std::vector<std::set<std::string>> tables;
  const std::regex name("`([a-z_.]+)`");
  bool here = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("## ")) here = line == heading;
    if (!here || !line.starts_with("| ")) continue;
    if (line.starts_with("| key ")) tables.emplace_back();
    if (tables.empty()) continue;
    const std::string first = line.substr(0, line.find(" | "));
    for (std::sregex_iterator at(first.begin(), first.end(), name), end; at != end; ++at)
      tables.back().insert((*at)[1]);
  }
  return tables;
}

// The known keys that the error about an unknown one lists.
std::set<std::string> known_keys(const std::string& refusals, const std::string& place) {
  const size_t line = refusals.find(place), at = refusals.find("known here: ", line);
  std::set<std::string> keys;
  if (line == refusals.npos || at == refusals.npos) return keys;
  std::istringstream rest(refusals.substr(at + 12, refusals.find('\n', at) - at - 12));
  for (std::string key; rest >> key;)
    keys.insert(key.ends_with(',') ? key.substr(0, key.size() - 1) : key);
  return keys;
}

// Those of `envoy:` are in docs/settings.md.
TEST(EnvoyManual, ListsEveryKeyOfAPolicy) {
  const Folder folder;
  folder.write("limits/shop.yaml", "domain: shop\n");
  const std::string file = folder.write("sluice.yaml", "policy: [{ envoy: limits, nosuch: 1 }]\n");
  const Finished told = run({.arguments = {"check", file}});
  EXPECT_EQ(told.status, 1);
  const auto tables = keys_of_tables("docs/envoy.md", "## Settings");
  ASSERT_EQ(tables.size(), 1u);
  // A policy may have the keys of other protocols as well, and docs/gateways.md has those of `xds`.
  std::set<std::string> beside = known_keys(told.err, "sluice.yaml:1:");
  for (const char* other : {"divvy", "matching", "limitd", "envoy", "xds"})
    EXPECT_EQ(beside.erase(other), 1u) << other;
  EXPECT_EQ(tables[0], beside) << told.err;

  const auto of_xds = keys_of_tables("docs/gateways.md", "## The keys of `xds`");
  ASSERT_EQ(of_xds.size(), 2u);
  const auto known = [&](const std::string& policy) {
    const std::string sent = folder.write("sent.yaml", "policy: [{ " + policy + " }]\n");
    const Finished refused = run({.arguments = {"check", sent}});
    EXPECT_EQ(refused.status, 1);
    return known_keys(refused.err, "sent.yaml:1:");
  };
  std::set<std::string> keys = known("xds: { server: \"a:1\", nosuch: 1 }");
  for (const std::string& key : known("xds: { server: \"a:1\", tls: { nosuch: 1 } }"))
    keys.insert("tls." + key);
  EXPECT_EQ(of_xds[0], keys);
  // Of the keys beside a folder, those that are not about files.
  std::set<std::string> of_both = tables[0];
  for (const char* of_files : {"ignore_dot_files", "strict"})
    EXPECT_EQ(of_both.erase(of_files), 1u) << of_files;
  EXPECT_EQ(of_xds[1], of_both);
}

}  // namespace
}  // namespace sluice::tests::envoy_docs_test
