// What sluice's client sends and understands, against what limitd's own client sent and its server
// answered (tests/conformance/limitd.json).
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "protocol/limitd/message.h"
#include "testing/client_world.h"
#include "tests/support/paths.h"

namespace sluice::limitd {
extern const calls::Dialect client_dialect;

namespace client_vectors_test {
namespace {

using nlohmann::json;

std::string from_hex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    bytes += static_cast<char>(std::strtol(text.substr(i, 2).c_str(), nullptr, 16));
  return bytes;
}

const std::map<std::string, client_verb> verbs = {
    {"TAKE", client_verb::take},   {"WAIT", client_verb::wait}, {"PUT", client_verb::put},
    {"STATUS", client_verb::list}, {"PING", client_verb::ping}, {"GET", client_verb::peek}};

// The recorded reply with `id` in place of its own id. Empty if the reply does not begin with an id
// that is a text.
std::string with_id(std::string_view frame, const std::string& id) {
  std::string_view body;
  size_t bytes = 0;
  if (find_limitd_frame(frame, 1 << 20, body, bytes) != LimitdFrame::whole || body.size() < 2 ||
      body[0] != '\x0a' || static_cast<unsigned char>(body[1]) >= 0x80)
    return "";
  const std::string rest(body.substr(2 + static_cast<unsigned char>(body[1])));
  const std::string whole = std::string("\x0a") + static_cast<char>(id.size()) + id + rest;
  std::string out;
  for (size_t size = whole.size(); size > 0; size >>= 7)
    out += static_cast<char>((size & 0x7F) | (size > 0x7F ? 0x80 : 0));
  return out + whole;
}

void expect_numbers(const json& body, const client_result& result) {
  EXPECT_EQ(result.remaining, body.at("remaining").get<int64_t>());
  EXPECT_EQ(result.limit, body.at("limit").get<int64_t>());
}

void expect_meaning(const json& response, const client_result& result) {
  if (response.contains("error")) {
    EXPECT_EQ(result.error, client_errc::no_rule);
    return;
  }
  EXPECT_EQ(result.error, client_errc::none) << result.text;
  if (response.contains("take")) {
    EXPECT_EQ(result.allowed, response.at("take").at("conformant").get<bool>());
    EXPECT_EQ(result.delayed, response.at("take").value("delayed", false));
    expect_numbers(response.at("take"), result);
  } else if (response.contains("put")) {
    expect_numbers(response.at("put"), result);
  } else if (response.contains("get")) {
    expect_numbers(response.at("get"), result);
  }
}

bool play(const json& step) {
  if (!step.contains("request") || !step.at("request").is_object() ||
      !step.contains("response_hex") || !step.at("response_hex").is_string() ||
      !step.contains("response") || !step.at("response").is_object())
    return false;
  const json& asked = step.at("request");
  const auto verb = asked.contains("method") && asked.at("method").is_string()
                        ? verbs.find(asked.at("method").get<std::string>())
                        : verbs.end();
  if (verb == verbs.end() || !asked.contains("type") || !asked.at("type").is_string()) return false;
  const std::string type = asked.at("type").get<std::string>(), key = asked.value("key", "");
  client_request request;
  request.verb = verb->second;
  request.subject.type = type;
  request.subject.key = key;
  if (asked.contains("count") && asked.at("count").is_number_integer())
    request.n = asked.at("count").get<int64_t>();
  calls::ClientWorld world(client_dialect);
  world.accept(0);
  const client_call_id id = world.submit(request, "call");
  const std::string reply =
      with_id(from_hex(step.at("response_hex").get<std::string>()), std::to_string(id));
  if (id == 0 || reply.empty()) return false;
  world.receive(0, reply + reply);  // limitd sends most replies twice
  EXPECT_EQ(world.ended["call"], 1);
  expect_meaning(step.at("response"), world.results["call"]);
  return true;
}

TEST(LimitdClientVectors, ReadsTheRecordedAnswersOfTheOriginal) {
  std::ifstream file(tests::source_path("tests/conformance/limitd.json"));
  const auto recorded = json::parse(file);
  size_t played = 0;
  for (const auto& one : recorded.at("cases")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    for (const auto& step : one.at("steps")) played += play(step) ? 1u : 0u;
  }
  EXPECT_GT(played, 150u);
}

}  // namespace
}  // namespace client_vectors_test
}  // namespace sluice::limitd
