// Does what a reader of docs/client.md does: starts its server, compiles its programs with the
// library that was built, and runs them. They must print what the page shows; without the server
// they must say so and fail.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/paths.h"
#include "tests/support/process.h"

namespace sluice::tests::client_docs_test {
namespace {

struct Page {
  std::map<std::string, std::string> files;                   // by name
  std::vector<std::pair<std::string, std::string>> sessions;  // a command, what it prints
};

// A file follows a line that ends with its name in backquotes and a colon. Its text is indented or
// a block of code.
Page read_page() {
  Page page;
  std::ifstream in(source_path("docs/client.md"));
  const std::regex names_file(".*`([a-z]+\\.(cc|yaml))`:");
  std::string file, block;
  for (std::string line; std::getline(in, line);) {
    std::smatch named;
    if (line.starts_with("```")) {
      const std::string opens = line.substr(3);
      block = block.empty() ? opens : "";
      if (block.empty()) file.clear();
    } else if (block == "cpp") {
      page.files[file] += line + "\n";
    } else if (block == "console" && line.starts_with("$ ")) {
      page.sessions.emplace_back(line.substr(2), "");
    } else if (block == "console") {
      page.sessions.back().second += line + "\n";
    } else if (std::regex_match(line, named, names_file)) {
      file = named[1];
    } else if (line.starts_with("    ") && file.ends_with(".yaml")) {
      page.files[file] += line.substr(4) + "\n";
    } else if (!line.empty()) {
      file.clear();
    }
  }
  return page;
}

std::string run_shell(const std::string& command, const std::string& folder) {
  Process shell({.arguments = {"-c", "cd '" + folder + "' && " + command}}, "/bin/sh");
  EXPECT_EQ(shell.wait(soon()), 0) << command << "\n" << shell.err();
  return shell.out();
}

// Holds a port without listening: connections are refused, and no other program gets the port.
class HeldPort {
 public:
  explicit HeldPort(uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    const int on = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  ~HeldPort() { close(socket_); }
  HeldPort(const HeldPort&) = delete;
  HeldPort& operator=(const HeldPort&) = delete;

 private:
  int socket_;
};

void expect_failure(const std::string& program) {
  Process run({}, program);
  EXPECT_EQ(run.wait(soon()), 1) << program;
  EXPECT_EQ(run.out(), "") << program;
  EXPECT_TRUE(std::regex_match(run.err(), std::regex("no(t all were)? answer(ed)?: [^\n]+\n")))
      << program << "\n"
      << run.err();
}

TEST(ClientDocs, EveryProgramPrintsWhatThePageShowsAndFailsWithoutItsServer) {
  Page page = read_page();
  ASSERT_EQ(page.files.count("sluice.yaml") + page.files.count("limitd.yaml"), 2u);
  ASSERT_EQ(page.sessions.size(), 9u);
  const Folder folder;
  // Free ports in place of the page's.
  std::map<std::string, std::string> ports;
  std::vector<uint16_t> real_ports;
  std::string config = page.files["sluice.yaml"];
  const std::regex listens("protocol: ([a-z]+), address: \"127.0.0.1:([0-9]+)\"");
  std::vector<std::pair<std::string, std::string>> listeners;
  for (std::sregex_iterator at(config.begin(), config.end(), listens), end; at != end; ++at)
    listeners.emplace_back((*at)[1], (*at)[2]);
  ASSERT_EQ(listeners.size(), 5u);
  config = std::regex_replace(config, std::regex("127.0.0.1:[0-9]+"), "127.0.0.1:0");
  folder.write("limitd.yaml", page.files["limitd.yaml"]);
  Process server({.arguments = {"serve", "--config", folder.write("sluice.yaml", config)},
                  .environment = {{"SLUICE_LOG_LEVEL", "warn"}}});
  for (const auto& [protocol, port] : listeners) {
    real_ports.push_back(await_listening(server, protocol));
    ports["127.0.0.1:" + port] = "127.0.0.1:" + std::to_string(real_ports.back());
  }

  const std::string build = std::filesystem::path(binary_path()).parent_path();
  for (auto& [name, text] : page.files) {
    if (!name.ends_with(".cc")) continue;
    for (const auto& [shown, real] : ports)
      for (size_t at = 0; (at = text.find(shown, at)) != text.npos; at += real.size())
        text.replace(at, shown.size(), real);
    folder.write(name, text);
    run_shell("g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -I'" + source_path("include") +
                  "' " + name + " -o " + name.substr(0, name.size() - 3) + " -L'" + build +
                  "' -lsluice-client -Wl,-rpath,'" + build + "'",
              folder.path());
  }
  for (const auto& [command, shown] : page.sessions)
    EXPECT_EQ(run_shell(command, folder.path()), shown) << command;
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(soon()), 0);

  const std::list<HeldPort> held(real_ports.begin(), real_ports.end());
  for (const auto& [name, text] : page.files)
    if (name.ends_with(".cc") && text.find("127.0.0.1") != text.npos)
      expect_failure(folder.path() + "/" + name.substr(0, name.size() - 3));
}

}  // namespace
}  // namespace sluice::tests::client_docs_test
