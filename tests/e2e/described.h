// Sends requests to the admin port, and checks every answer against docs/openapi.json.
#pragma once

#include <gtest/gtest.h>

#include <cctype>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "tests/support/http_client.h"
#include "tests/support/json_schema.h"
#include "tests/support/paths.h"

namespace sluice::tests {

using Json = nlohmann::json;

inline Json document() {
  std::ifstream file(tests::source_path("docs/openapi.json"));
  return Json::parse(file);
}

inline HttpAnswer ask(uint16_t port, const std::string& method, const std::string& target,
                      std::string_view body = {}, const std::string& headers = {}) {
  static const Json openapi = document();
  HttpAnswer answer = http(port, method, target, body, headers);
  const std::string path = target.substr(0, target.find('?'));
  std::string verb = method;
  for (char& c : verb) c = static_cast<char>(std::tolower(c));
  const Json& paths = openapi.at("paths");
  if (!paths.contains(path) || !paths.at(path).contains(verb)) return answer;
  const Json& responses = paths.at(path).at(verb).at("responses");
  const std::string status = std::to_string(answer.status);
  if (!responses.contains(status)) {
    ADD_FAILURE() << method << " " << target << " answers " << status << ", not described";
    return answer;
  }
  const Json& content = resolved_in(openapi, responses.at(status)).at("content");
  const std::string type = answer.headers["content-type"];
  const std::string plain = type.substr(0, type.find(';'));
  EXPECT_TRUE(content.contains(plain)) << target << " has type " << type;
  if (plain.ends_with("json")) {
    EXPECT_EQ(schema_problem(openapi, content.at(plain).at("schema"), Json::parse(answer.body)), "")
        << answer.body;
  }
  return answer;
}

inline Json json_of(const HttpAnswer& answer) {
  return Json::parse(answer.body);
}

}  // namespace sluice::tests
