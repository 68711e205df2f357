// A fixture for the commands over the admin port: a made-up server, and what a command prints and
// its exit status.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <sstream>
#include <thread>

#include "cli/admin_answers_test.h"
#include "cli/command_test.h"
#include "cli/terminal.h"
#include "testing/fake_http.h"

namespace sluice::cli {

using calls::FakeHttp;
using Request = FakeHttp::Request;

class AdminCommands : public CommandTest {
 protected:
  // The answer to this method and target; 404 if the test has set none.
  std::string answer(const Request& request) {
    std::this_thread::sleep_for(lateness);
    const auto at = answers.find(request.method + " " + request.target);
    if (at != answers.end()) return at->second;
    if (request.target == "/v1/openapi.json")
      return page(
          {{"paths",
            {{"/v1/counters/{key}", {}}, {"/v1/overrides/{id}", {}}, {"/v1/holds/{id}", {}}}}});
    return problem(404, "there is nothing here");
  }

  // Runs the command against the made-up server.
  int ask(Words words) {
    words.insert(words.end(), {"--admin", server.address()});
    return command(words);
  }

  Json result() const { return Json::parse(out, nullptr, false); }
  std::vector<std::string> lines() const {
    std::vector<std::string> all;
    std::istringstream stream(out);
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  }

  std::map<std::string, std::string> answers;
  std::chrono::milliseconds lateness{0};
  FakeHttp server{[this](const Request& request) { return answer(request); }};
};

}  // namespace sluice::cli
