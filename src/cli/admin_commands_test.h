// A fixture for the commands over the admin port: a server that is made up, and what a command
// prints and ends with.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "cli/admin_answers_test.h"
#include "cli/commands.h"
#include "cli/json_fields.h"
#include "client/fake_http.h"

namespace sluice::cli {

using client::FakeHttp;
using Request = FakeHttp::Request;

class AdminCommands : public testing::Test {
 protected:
  AdminCommands() {
    std::string pattern = testing::TempDir() + "sluice_admin_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~AdminCommands() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  // Has the server answer by method and target, with 404 what is not there.
  std::string answer(const Request& request) {
    std::this_thread::sleep_for(lateness);
    const auto at = answers.find(request.method + " " + request.target);
    if (at != answers.end()) return at->second;
    if (request.target == "/v1/openapi.json")
      return page({{"paths", {{"/v1/counters/{key}", {}}, {"/v1/overrides/{id}", {}}}}});
    return problem(404, "there is nothing here");
  }

  int command(const Words& words) {
    std::ostringstream out_stream, err_stream;
    Outside outside{out_stream, err_stream, false, false,
                    [this](const char* name) -> std::optional<std::string> {
                      const auto at = variables.find(name);
                      if (at == variables.end()) return std::nullopt;
                      return at->second;
                    }};
    const int status = run(words, outside);
    out = out_stream.str();
    err = err_stream.str();
    return status;
  }
  // At the server that is made up.
  int ask(Words words) {
    words.insert(words.end(), {"--admin", server.address()});
    return command(words);
  }

  std::string file(const std::string& name, std::string_view text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  bool said(const std::string& text, std::string_view part) const {
    return text.find(part) != std::string::npos;
  }
  Json result() const { return Json::parse(out, nullptr, false); }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  }

  std::map<std::string, std::string> answers, variables;
  std::chrono::milliseconds lateness{0};
  std::string out, err, folder_;
  FakeHttp server{[this](const Request& request) { return answer(request); }};
};

}  // namespace sluice::cli
