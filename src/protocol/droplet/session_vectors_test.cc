// Messages and sessions against the bytes recorded from droplet 1.4.0 ("the original"). No counters
// are involved: the test fills verdicts with the recorded numbers.
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "protocol/droplet/message.h"
#include "protocol/droplet/session.h"
#include "protocol/droplet/session_model.h"
#include "tests/support/paths.h"

namespace sluice::droplet {
namespace {

using model::frame;
using model::handshake;
using model::sent;
using model::sent_close;
using model::switching;
using model::unhex;

constexpr const char* periods[] = {"ls", "lm", "lh", "ld", "lw", "lo"};

TEST(DropletVectors, MessagesReadAndWriteByteForByte) {
  std::ifstream file(tests::source_path("tests/conformance/droplet.json"));
  const nlohmann::json all = nlohmann::json::parse(file);
  size_t requests = 0, responses = 0;
  std::vector<std::string> saturated;
  for (const auto& vector : all["cases"]) {
    for (const auto& step : vector["steps"]) {
      const auto& wanted = step["request"];
      const auto& hex = step["request_hex"];
      if (hex.is_string()) {
        const std::string bytes = unhex(hex);
        DropletRequest r;
        const bool read = read_droplet_request(bytes, r);
        if (step["closes"]) {
          EXPECT_FALSE(read) << vector["name"];
        } else if (wanted.is_object()) {
          ASSERT_TRUE(read) << vector["name"];
          EXPECT_EQ(r.bucket, wanted["bucket"].get<std::string>());
          EXPECT_EQ(r.id, wanted["id"].get<std::string>());
          EXPECT_EQ(r.count, wanted.value("count", 1)) << vector["name"];
          EXPECT_EQ(r.reset, wanted.value("reset", false));
          EXPECT_EQ(r.type, wanted.value("type", 0u));
          for (size_t i = 0; i < 6; ++i)
            EXPECT_EQ(r.limits[i], wanted.value(periods[i], int64_t{0})) << vector["name"];
        }
        ++requests;
      }
      const auto& answer = step["response"];
      if (!answer.is_object() || !step["response_hex"].is_string()) continue;
      uint32_t mask = 0;
      std::vector<limit::Decision> left;
      for (uint32_t i = 0; i < 6; ++i) {
        if (!answer.contains(periods[i])) continue;
        mask |= 1u << i;
        left.push_back({true, 0, answer[periods[i]].get<int64_t>(), {}, {}});
      }
      ++responses;
      char bytes[droplet_response_bytes_max];
      const size_t size = write_droplet_response(answer["accept"], mask, left, bytes);
      if (std::string_view(bytes, size) != unhex(step["response_hex"]))
        saturated.push_back(vector["name"]);
    }
  }
  EXPECT_GT(requests, 150u);
  EXPECT_GT(responses, 130u);
  // These cases have balances beyond an int32. The recorded number is what a decoder made of the
  // original's bytes, so that writing it does not give the same bytes.
  for (const std::string& name : saturated)
    EXPECT_TRUE(name == "limit-above-int32" || name == "balance-below-int32" ||
                name == "varint-truncated-to-32-bits")
        << name;
  EXPECT_FALSE(saturated.empty());
}

// The frames that a client sent in `step`.
std::string frames_of(const nlohmann::json& step) {
  if (!step.contains("frames")) return frame(2, unhex(step["request_hex"]));
  std::string bytes;
  for (const auto& f : step["frames"]) {
    if (f.contains("raw_hex")) {
      bytes += unhex(f["raw_hex"]);
      continue;
    }
    model::Shape shape;
    shape.final = f.value("fin", 1) != 0;
    shape.reserved = static_cast<uint8_t>(f.value("rsv", 0));
    if (!f.value("mask", true)) shape.mask = std::nullopt;
    bytes += frame(static_cast<uint8_t>(f["opcode"].get<int>()), unhex(f["payload_hex"]), shape);
  }
  return bytes;
}

// What the original sent in `step`: its bytes, and the answers in them.
struct Recorded {
  explicit Recorded(const nlohmann::json& step) {
    if (step.contains("responses")) {
      for (const auto& r : step["responses"]) {
        bytes += sent(static_cast<uint8_t>(r["opcode"].get<int>()), unhex(r["response_hex"]));
        if (r["opcode"] == 2) answers.push_back(r["response"]);
      }
    } else if (step["response_hex"].is_string()) {
      bytes += sent(2, unhex(step["response_hex"]));
      answers.push_back(step["response"]);
    }
  }

  std::string bytes;
  std::vector<nlohmann::json> answers;
};

// Replies to `requests` with the numbers in `answers`; returns how many answers it used.
size_t reply_as_recorded(DropletSession& session, const request::Requests& requests,
                         const std::vector<nlohmann::json>& answers, base::Buffer& out) {
  size_t answered = 0;
  for (const request::Request& request : requests.items()) {
    request::Verdict verdict;
    std::vector<limit::Decision> slots;
    std::optional<model::BucketCharge> bucket;
    if (request.verb != request::Verb::noop) {
      if (answered == answers.size()) {
        ADD_FAILURE() << "more requests than answers";
        return answered;
      }
      const nlohmann::json& answer = answers[answered++];
      verdict.allowed = answer["accept"];
      uint32_t mask = 0;
      for (uint32_t i = 0; i < 6; ++i) {
        if (!answer.contains(periods[i])) continue;
        mask |= 1u << i;
        slots.push_back({verdict.allowed, 0, answer[periods[i]].get<int64_t>(), {}, {}});
      }
      bucket.emplace(mask, slots, verdict);
    }
    session.reply(request, verdict, {}, out);
  }
  return answered;
}

// The session receives the frames of each step and verdicts with the recorded numbers; it must send
// the same bytes as the original.
TEST(DropletVectors, SessionsAnswerByteForByte) {
  std::ifstream file(tests::source_path("tests/conformance/droplet.json"));
  const nlohmann::json all = nlohmann::json::parse(file);
  size_t steps = 0, closes = 0;
  for (const auto& vector : all["cases"]) {
    const std::string name = vector["name"];
    SCOPED_TRACE(name);
    // Malformed by the protobuf specification: the original accepts them, sluice closes.
    const bool refused =
        name == "truncated-varint-accepted" || name == "truncated-unknown-accepted";
    // sluice sends these balances saturated to an int32.
    const bool saturated = name == "limit-above-int32" || name == "balance-below-int32" ||
                           name == "varint-truncated-to-32-bits";
    auto session = std::make_unique<DropletSession>();
    std::string bytes(handshake);
    for (const auto& step : vector["steps"]) {
      bytes += frames_of(step);
      const Recorded recorded(step);
      request::Requests requests;
      base::Buffer out;
      const request::Received received = session->receive(bytes, false, requests, out);
      bytes.clear();
      const size_t answered = reply_as_recorded(*session, requests, recorded.answers, out);
      std::string_view got = out.view();
      if (got.starts_with(switching)) got.remove_prefix(switching.size());
      ++steps;
      if (refused) {
        EXPECT_TRUE(received.closing);
        session = std::make_unique<DropletSession>();
        bytes = handshake;
        continue;
      }
      EXPECT_EQ(answered, recorded.answers.size());
      if (!saturated) {
        EXPECT_EQ(got, recorded.bytes);
      }
      EXPECT_EQ(received.closing, step["closes"].get<bool>());
      if (!received.closing) continue;
      ++closes;
      out.clear();
      session->end(request::Ending::announced, {}, out);
      EXPECT_EQ(out.view(), sent_close(step["close_code"], step.value("close_reason", "")));
      session = std::make_unique<DropletSession>();
      bytes = handshake;
    }
  }
  EXPECT_GT(steps, 170u);
  EXPECT_GT(closes, 20u);
}

}  // namespace
}  // namespace sluice::droplet
