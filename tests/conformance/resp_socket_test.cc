// What was recorded of redis-cell, throttlecrab and Redis (resp.json), replayed against the real
// `sluice resp` over its socket, one server for each case: with each packet sent whole, and with
// every byte sent by itself. Where a step has a decision, sluice answers that instead.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/paths.h"
#include "tests/support/resp_client.h"

namespace sluice::tests::resp_socket_test {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;
using Type = RespValue::Type;

// How much longer than its pauses a case may take until its answers mean nothing: there is a case
// in which a unit comes back after a tenth of a second.
constexpr Milliseconds slip_max{90};

struct RespCase {
  json recorded;
  std::string name() const { return recorded["dialect"].get<std::string>() + " " + title(); }
  std::string title() const { return recorded["name"]; }
  bool has(const char* flag) const { return recorded.contains(flag); }
};

void PrintTo(const RespCase& c, std::ostream* out) {
  *out << c.name();
}

const std::vector<RespCase>& resp_cases() {
  static const std::vector<RespCase> all = [] {
    std::ifstream file(tests::source_path("tests/conformance/resp.json"));
    const json recording = json::parse(file);
    std::vector<RespCase> cases;
    for (const json& recorded : recording["cases"]) cases.push_back({recorded});
    return cases;
  }();
  return all;
}

// ---- What is sent ----

std::string unbase64(const std::string& text) {
  static constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xFF));
  }
  return bytes;
}

std::string word_of(const json& word) {
  if (word.is_string()) return word;
  if (word.contains("b64")) return unbase64(word["b64"]);
  std::string text;
  for (int i = 0; i < word.at("repeat")[1].get<int>(); ++i) text += word["repeat"][0];
  return text;
}

std::string bytes_of_command(const json& command) {
  std::vector<std::string> words;
  for (const json& word : command) words.push_back(word_of(word));
  return to_resp(words);
}

std::string bytes_of(const json& step) {
  if (step.contains("raw")) return step["raw"];
  if (step.contains("cmd")) return bytes_of_command(step["cmd"]);
  std::string bytes;
  for (const json& command : step.at("pipeline")) bytes += bytes_of_command(command);
  return bytes;
}

// ---- What is due ----

// What a step has to be answered with.
struct Due {
  std::vector<json> replies;
  bool closed = false;
};

// What the step says, or what its decision says in place of all that.
Due due_of(const json& step) {
  const json& from = step.contains("decision") ? step["decision"] : step;
  Due due;
  if (from.contains("reply")) due.replies.push_back(from["reply"]);
  if (from.contains("replies"))
    for (const json& reply : from["replies"]) due.replies.push_back(reply);
  due.closed = from.value("closed", false);
  return due;
}

bool fits(const json& due, const RespValue& got);

bool has_all(const json& pairs, const RespValue& got) {
  if (got.type != Type::map && got.type != Type::list) return false;
  std::map<std::string, const RespValue*> found;
  for (size_t i = 0; i + 1 < got.list.size(); i += 2) found[got.list[i].text] = &got.list[i + 1];
  return std::all_of(pairs.items().begin(), pairs.items().end(), [&](const auto& pair) {
    const auto at = found.find(pair.key());
    return at != found.end() && fits(pair.value(), *at->second);
  });
}

bool fits_list(const json& due, Type type, const RespValue& got) {
  return got.type == type && got.list.size() == due.size() &&
         std::equal(due.begin(), due.end(), got.list.begin(), fits);
}

bool fits_map(const json& due, const RespValue& got) {
  json items = json::array();
  for (const json& pair : due) items.insert(items.end(), pair.begin(), pair.end());
  return fits_list(items, got.type == Type::map ? Type::map : Type::list, got);
}

bool fits(const json& due, const RespValue& got) {
  if (due.is_number()) return got.type == Type::integer && got.number == due.get<int64_t>();
  if (due.is_string()) return got.type == Type::bulk && got.text == due.get<std::string>();
  if (due.is_null()) return got.type == Type::null;
  if (due.is_array()) return fits_list(due, Type::list, got);
  const std::string kind = due.begin().key();
  const json& value = due.begin().value();
  if (kind == "any") return true;
  if (kind == "int") return got.type == Type::integer;
  if (kind == "text") return got.type == Type::bulk;
  if (kind == "near")
    return got.type == Type::integer &&
           std::abs(got.number - value[0].get<int64_t>()) <= value[1].get<int64_t>();
  if (kind == "simple") return got.type == Type::simple && got.text == value.get<std::string>();
  // A decision leaves the rest of the text open.
  if (kind == "error")
    return got.type == Type::error && got.text.starts_with(value.get<std::string>());
  if (kind == "like")
    return got.type == Type::bulk &&
           std::regex_search(got.text, std::regex(value.get<std::string>()));
  if (kind == "has") return has_all(value, got);
  if (kind == "map") return fits_map(value, got);
  throw std::runtime_error("an unknown matcher: " + due.dump());
}

// ---- The player ----

const std::vector<std::string> marker = {"ECHO", "nothing came before"};

bool is_marker(const RespValue& value) {
  return value.type == Type::bulk && value.text == marker[1];
}

class RespOverSocket : public testing::TestWithParam<RespCase> {
 protected:
  void answers_as_recorded(bool byte_by_byte) {
    if (const std::string why = needs_redis(); !why.empty()) GTEST_SKIP() << why;
    std::string wrong;
    for (const Deadline deadline = soon(); steady_clock::now() < deadline;) {
      RespServer server;
      wrong.clear();
      const bool in_time = replay(server, byte_by_byte, wrong);
      // Whatever was asked, it serves the next client.
      EXPECT_EQ(to_text(server.client()({"PING"})), "PONG");
      if (wrong.empty()) return;
      // A busy machine stretches the time between steps: then the case is played again.
      if (in_time) break;
    }
    ADD_FAILURE() << wrong;
  }

 private:
  // Why the case cannot be played without a Redis behind the server, or "".
  std::string needs_redis() const {
    if (!GetParam().has("redis")) return {};
    for (const json& step : GetParam().recorded["steps"]) {
      if (!step.contains("cmd")) continue;
      const std::string command = step["cmd"][0];
      if (command == "SET" || command == "GET" || command == "LPUSH")
        return "skipped: " + command + " reaches into a Redis behind the server";
    }
    return {};
  }

  // Plays the case. What differs goes to `wrong`. False: the machine was too slow for a difference
  // to mean anything.
  bool replay(RespServer& server, bool byte_by_byte, std::string& wrong) {
    std::map<int, RespClient> connections;
    const auto start = steady_clock::now();
    Milliseconds planned{0};
    const json& steps = GetParam().recorded["steps"];
    for (size_t i = 0; i < steps.size() && wrong.empty(); ++i) {
      const json& step = steps[i];
      if (step.contains("sleep_ms")) {
        const Milliseconds sleep(step["sleep_ms"].get<int>());
        planned += sleep;
        std::this_thread::sleep_for(sleep);
        continue;
      }
      std::optional<RespClient> own;
      RespClient* client;
      if (step.contains("raw")) {
        client = &own.emplace(server.port(), byte_by_byte);
      } else {
        const int number = step.value("conn", 0);
        client = &connections.try_emplace(number, server.port(), byte_by_byte).first->second;
      }
      const std::string problem = GetParam().has("any_answer") || GetParam().has("optional")
                                      ? take_anything(step, *client)
                                      : take(step, *client);
      if (!problem.empty()) wrong = "step " + std::to_string(i) + ": " + problem;
      if (!own && client->socket().ended()) connections.erase(step.value("conn", 0));
    }
    return steady_clock::now() - start <= planned + slip_max;
  }

  // Sends a step, and behind it the marker, and reads what is due and that nothing else comes. What
  // is wrong, or "".
  std::string take(const json& step, RespClient& client) {
    Due due = due_of(step);
    // The original died of an earlier step, which sluice decides otherwise: it goes on.
    if (GetParam().has("dies") && due.closed) due = {{json{{"any", 1}}}, false};
    const bool sent = client.send(bytes_of(step) + (due.closed ? "" : to_resp(marker)));
    if (!sent && !due.closed) return "the connection is closed already";
    for (const json& reply : due.replies) {
      const auto got = client.read();
      if (!got) return "the connection ended instead of " + reply.dump();
      if (!fits(reply, *got)) return "expected " + reply.dump() + "\n     got " + to_text(*got);
    }
    if (due.closed) {
      const std::string rest = client.socket().read_to_end();
      return rest.empty() ? "" : "in front of the end came " + rest;
    }
    const auto got = client.read();
    if (!got) return "the connection ended";
    return is_marker(*got) ? "" : "unexpected: " + to_text(*got);
  }

  // Sends a step that may be answered with anything: a reply, nothing, or the end.
  std::string take_anything(const json& step, RespClient& client) {
    if (!client.send(bytes_of(step) + to_resp(marker))) return {};
    while (const auto got = client.read())
      if (is_marker(*got)) return {};
    return {};
  }
};

TEST_P(RespOverSocket, AnswersAsRecorded) {
  answers_as_recorded(false);
}

class RespByteByByte : public RespOverSocket {};

TEST_P(RespByteByByte, AnswersAsRecorded) {
  answers_as_recorded(true);
}

std::string name_of(const testing::TestParamInfo<RespCase>& tested) {
  std::string name = tested.param.name();
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Recorded, RespOverSocket, testing::ValuesIn(resp_cases()), name_of);
INSTANTIATE_TEST_SUITE_P(Recorded, RespByteByByte, testing::ValuesIn(resp_cases()), name_of);

// A step or a flag that the player does not know would be passed over.
TEST(RespVectors, HaveNothingThatThePlayerDoesNotKnow) {
  EXPECT_EQ(resp_cases().size(), 100u);
  const std::set<std::string> steps = {"cmd",    "conn",     "decision", "pipeline", "raw",
                                       "closed", "sleep_ms", "reply",    "replies"};
  const std::set<std::string> flags = {"name",          "dialect", "steps",      "bug",
                                       "redis",         "dies",    "any_answer", "optional",
                                       "decision",  // text for readers
                                       "writes_nothing"};
  for (const RespCase& c : resp_cases()) {
    SCOPED_TRACE(c.name());
    for (const auto& flag : c.recorded.items()) EXPECT_TRUE(flags.contains(flag.key()));
    for (const json& step : c.recorded["steps"])
      for (const auto& entry : step.items()) EXPECT_TRUE(steps.contains(entry.key()));
  }
}

}  // namespace
}  // namespace sluice::tests::resp_socket_test
