// Sends requests to a listener of the HTTP protocol, and checks every answer, and each request that
// was understood, against docs/openapi-http.json.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/e2e/http_peers.h"
#include "tests/support/json_schema.h"
#include "tests/support/paths.h"

namespace sluice::tests::http_e2e {

// Removes the bounds of lists and objects, which schema_problem does not know.
inline Json without_sizes(Json json) {
  if (json.is_object())
    for (const char* size : {"minItems", "maxItems", "minProperties", "maxProperties"})
      json.erase(size);
  if (json.is_structured())
    for (Json& below : json) below = without_sizes(std::move(below));
  return json;
}

inline const Json& description() {
  static const Json document = [] {
    std::ifstream file(source_path("docs/openapi-http.json"));
    return without_sizes(Json::parse(file));
  }();
  return document;
}

// `json`, or what its `$ref` points to.
inline const Json& resolved(const Json& json) {
  if (!json.contains("$ref")) return json;
  return description().at(Json::json_pointer(json.at("$ref").get<std::string>().substr(1)));
}

inline const Json& described_response(const std::string& name) {
  return description().at("components").at("responses").at(name);
}

inline std::string described_path(const std::string& target) {
  const std::string path = target.substr(0, target.find('?'));
  return path.starts_with("/auth/") ? "/auth/{profile}" : path;
}

// Null: the document does not have this path, or not with this method.
inline const Json* described_operation(const Asked& asked) {
  const Json& paths = description().at("paths");
  const std::string path = described_path(asked.target), method = lower(asked.method);
  if (!paths.contains(path)) return nullptr;
  const Json& item = resolved(paths.at(path));
  if (item.contains(method) && method != asked.method) return &item.at(method);
  // /auth takes any method.
  return path.starts_with("/auth") ? &item.at("get") : nullptr;
}

inline bool is_digits(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

inline void expect_described_headers(const Json& response, const HttpAnswer& answer) {
  // Fields of HTTP itself, and those for web pages that may send requests (docs/http.md).
  static const std::set<std::string> of_all_answers{"access-control-allow-headers",
                                                    "access-control-allow-methods",
                                                    "access-control-allow-origin",
                                                    "access-control-expose-headers",
                                                    "access-control-max-age",
                                                    "connection",
                                                    "content-length",
                                                    "content-type",
                                                    "date",
                                                    "vary"};
  std::set<std::string> known = of_all_answers;
  const Json headers = response.value("headers", Json::object());
  for (const auto& [name, reference] : headers.items()) {
    const Json& header = resolved(reference);
    known.insert(lower(name));
    const auto at = answer.headers.find(lower(name));
    if (at == answer.headers.end()) {
      EXPECT_FALSE(header.value("required", false)) << "lacks " << name;
      continue;
    }
    const Json& schema = header.at("schema");
    const bool number = schema.at("type") == "integer" && is_digits(at->second);
    const Json value = number ? Json(std::stoll(at->second)) : Json(at->second);
    EXPECT_EQ(schema_problem(description(), schema, value, name), "");
  }
  for (const auto& [name, value] : answer.headers)
    EXPECT_TRUE(known.contains(name)) << name << ": " << value << " is not described";
}

// `head`: it is an answer to HEAD, which has no body.
inline void expect_described_response(const Json& reference, const HttpAnswer& answer, bool head) {
  const Json& response = resolved(reference);
  expect_described_headers(response, answer);
  const std::string type = header_of(answer, "content-type");
  if (head || !response.contains("content")) {
    EXPECT_EQ(answer.body, "");
    return;
  }
  const Json& content = response.at("content");
  const std::string plain = type.substr(0, type.find(';'));
  if (!content.contains(plain)) {
    ADD_FAILURE() << "has the type " << type << ": " << answer.body;
    return;
  }
  if (!plain.ends_with("json")) return;
  const Json body = json_body(answer);
  EXPECT_EQ(schema_problem(description(), content.at(plain).at("schema"), body), "") << answer.body;
  const bool is_own_type = plain == "application/problem+json" && !body.contains("allowed");
  if (is_own_type && !body.value("type", "").ends_with("#quota-exceeded")) {
    EXPECT_EQ(body.value("status", 0), answer.status) << answer.body;
  }
}

// A request that was allowed or denied was understood, so the document must describe it, too.
inline void expect_described_request(const Json& operation, const Asked& asked) {
  if (!operation.contains("requestBody")) return;
  const Json& schema =
      operation.at("requestBody").at("content").at("application/json").at("schema");
  EXPECT_EQ(schema_problem(description(), schema, Json::parse(asked.body)), "") << asked.body;
}

inline void expect_described(const Asked& asked, const HttpAnswer& answer) {
  const testing::ScopedTrace trace(
      __FILE__, __LINE__, asked.method + " " + asked.target + ": " + std::to_string(answer.status));
  const bool head = asked.method == "HEAD";
  const Json* const operation = described_operation(asked);
  if (operation == nullptr) {
    const bool has_path = description().at("paths").contains(described_path(asked.target));
    const std::string name = answer.status == 421   ? "WrongHost"
                             : answer.status == 403 ? "Forbidden"
                             : has_path             ? "MethodNotAllowed"
                                                    : "NotFound";
    if (answer.status != 421 && answer.status != 403) {
      EXPECT_EQ(answer.status, has_path ? 405 : 404);
    }
    return expect_described_response(described_response(name), answer, head);
  }
  const Json& responses = operation->at("responses");
  const std::string status = std::to_string(answer.status);
  if (!responses.contains(status)) {
    ADD_FAILURE() << "is not described: " << answer.body;
    return;
  }
  expect_described_response(responses.at(status), answer, head);
  if (answer.status == 200 || answer.status == 429) expect_described_request(*operation, asked);
}

// Sends a request on a new connection.
inline HttpAnswer ask(HttpVersion version, uint16_t port, const Asked& asked) {
  HttpAnswer answer =
      version == HttpVersion::http1 ? Http1(port).ask(asked) : Http2(port).ask(asked);
  expect_described(asked, answer);
  return answer;
}
// Sends a request on that connection.
template <class Connection>
HttpAnswer ask_on(Connection& connection, const Asked& asked) {
  HttpAnswer answer = connection.ask(asked);
  expect_described(asked, answer);
  return answer;
}

// The units left for `subject`. `ask`: sends an Asked and returns its answer.
template <class Ask>
int64_t units_left(const Ask& ask, const Json& subject) {
  const HttpAnswer answer = ask(post("/v1/peek", with(subject, {{"n", 0}})));
  return json_body(answer).value("remaining", int64_t{-1});
}

// The problem's name, after `urn:sluice:problem:` or `#`; "" if the answer is not a problem.
inline std::string problem_of(const HttpAnswer& answer) {
  if (header_of(answer, "content-type") != "application/problem+json") return "";
  const std::string type = json_body(answer).value("type", "");
  return type.substr(type.find_last_of(":#") + 1);
}

}  // namespace sluice::tests::http_e2e
