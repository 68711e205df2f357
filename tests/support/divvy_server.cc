#include "tests/support/divvy_server.h"

#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace sluice::tests {

Folder::Folder() : path_((std::filesystem::temp_directory_path() / "sluice-XXXXXX").string()) {
  if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("no folder at " + path_);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::write(const std::string& name, std::string_view text) const {
  std::string path = path_ + '/' + name;
  if (name.find('/') != std::string::npos)
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
  return path;
}

DivvyServer::DivvyServer(Process::Options options) {
  start(std::move(options));
}

DivvyServer::DivvyServer(const std::string& file, std::string_view policy,
                         Process::Options options) {
  options.arguments.insert(options.arguments.begin(), "divvy");
  options.arguments.push_back(folder_.write(file, policy));
  start(std::move(options));
}

void DivvyServer::start(Process::Options options) {
  options.environment.try_emplace("PORT", "0");
  options.environment.try_emplace("SLUICE_LOG_LEVEL", "warn");
  process_ = std::make_unique<Process>(options);
  port_ = await_listening(*process_);
}

DivvyServer::~DivvyServer() {
  if (process_->wait(std::chrono::steady_clock::now())) return;
  process_->signal(SIGTERM);
  EXPECT_EQ(process_->wait(soon()), 0) << "the server's end on SIGTERM";
}

TcpClient DivvyServer::client(const std::string& host) const {
  auto client = TcpClient::connect(port_, host);
  if (!client) throw std::runtime_error("the server refuses a connection over " + host);
  return *std::move(client);
}

uint16_t await_listening(Process& process, const std::string& protocol) {
  const std::string start = "sluice: " + protocol + " listening on ";
  while (const auto line = process.read_line()) {
    if (line->starts_with(start))
      return static_cast<uint16_t>(std::stoi(line->substr(line->rfind(':') + 1)));
  }
  throw std::runtime_error("the server did not start: " + process.err());
}

}  // namespace sluice::tests
