// The client's half of xDS, against what was recorded with the original
// (tests/conformance/xds.json): what is acknowledged, what is refused and with which words, and
// which limits are in force then.
#include "protocol/envoy/ads.h"

#include <discovery.pb.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "protocol/envoy/limits_message.h"
#include "tests/support/paths.h"

namespace sluice::envoy::ads_test {
namespace {

using ::envoy::service::discovery::v3::DiscoveryRequest;
using ::envoy::service::discovery::v3::DiscoveryResponse;
using nlohmann::json;
using Outcome = AdsSession::Outcome;
using std::chrono::milliseconds;

const json& vectors() {
  static const json all = [] {
    std::ifstream file(tests::source_path("tests/conformance/xds.json"));
    return json::parse(file);
  }();
  return all;
}

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string response(const std::string& version, const std::string& nonce,
                     const std::vector<std::string>& resources,
                     const std::string& type = std::string(limits_type)) {
  DiscoveryResponse message;
  message.set_version_info(version);
  message.set_nonce(nonce);
  for (const std::string& bytes : resources) {
    auto& any = *message.add_resources();
    any.set_type_url(type);
    any.set_value(bytes);
  }
  return message.SerializeAsString();
}

DiscoveryRequest parsed(const std::string& bytes) {
  DiscoveryRequest request;
  EXPECT_TRUE(request.ParseFromString(bytes));
  EXPECT_EQ(request.type_url(), limits_type);
  EXPECT_EQ(request.node().id(), "some-node");
  EXPECT_EQ(request.resource_names_size(), 0);
  return request;
}

// A session whose limits are read as a server reads them.
struct World {
  AdsSession session{"some-node", {{"zone", "a"}, {"zone", "b"}, {"x", ""}}};
  AdsSession::Time now{};
  LimitSet live;
  std::string answer;
  int applied = 0;
  bool busy = false;  // what is sound is refused as well

  Outcome receive(const std::string& message) {
    return session.receive(
        message, now,
        [this](const AdsResponse& response) -> std::optional<AdsSession::Refusal> {
          ++applied;
          if (busy) return AdsSession::Refusal{"the server is busy", false};
          std::vector<std::string> messages;
          for (const auto& one : response.resources) {
            if (one.type != limits_type) return AdsSession::Refusal{"mismatched message type"};
            messages.push_back(one.value);
          }
          base::Diagnostics told;
          auto set = read_limit_messages(messages, {}, told);
          if (!set) return AdsSession::Refusal{told.front().file + ": " + told.front().message};
          live = *std::move(set);
          return std::nullopt;
        },
        answer);
  }
  std::vector<std::string> rlconfig() const {
    std::vector<std::string> lines;
    std::istringstream text(live.rlconfig());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    std::sort(lines.begin(), lines.end());
    return lines;
  }
};

TEST(Ads, EveryRecordedResponseIsTakenOrRefusedAsTheOriginalDoes) {
  const std::string base = bytes_of(vectors().at("base")[0]);
  size_t count = 0;
  for (const json& one : vectors().at("cases")) {
    SCOPED_TRACE(one.at("name"));
    World world;
    ASSERT_EQ(world.receive(response("base", "nb", {base})), Outcome::taken);
    std::vector<std::string> resources;
    for (const json& hex : one.at("resources")) resources.push_back(bytes_of(hex));
    const std::string nonce = one.at("nonce"), version = one.at("version");
    const Outcome outcome = world.receive(
        response(version, nonce, resources, one.value("inner", std::string(limits_type))));
    const DiscoveryRequest answer = parsed(world.answer);
    EXPECT_EQ(answer.response_nonce(), nonce);
    EXPECT_EQ(world.rlconfig(), one.at("rlconfig").get<std::vector<std::string>>());
    if (one.at("expect") == "ack") {
      EXPECT_EQ(answer.version_info(), version);
      EXPECT_FALSE(answer.has_error_detail());
    } else {
      EXPECT_EQ(outcome, Outcome::refused);
      EXPECT_EQ(answer.version_info(), "base");
      EXPECT_EQ(answer.error_detail().code(), 3);
      // The words of one that is of another type are those of the thread that feeds (xds.cc).
      if (!one.contains("inner")) {
        const std::string words = one.at("expect").at("nack");
        const std::string text = answer.error_detail().message();
        EXPECT_NE(text.find(words), std::string::npos) << text << "\nnot: " << words;
      }
    }
    ++count;
  }
  EXPECT_EQ(count, 28u);
}

TEST(Ads, ANewStreamBeginsWithNeitherVersionNorNonce) {
  World world;
  const DiscoveryRequest first = parsed(world.session.open());
  EXPECT_EQ(first.version_info() + first.response_nonce(), "");
  EXPECT_FALSE(first.has_error_detail());
  EXPECT_EQ(first.node().metadata().fields().at("zone").string_value(), "b");
  EXPECT_EQ(first.node().metadata().fields().at("x").string_value(), "");
  EXPECT_EQ(world.receive(response("7", "n", {})), Outcome::taken);
  EXPECT_EQ(parsed(world.answer).version_info(), "7");
  EXPECT_EQ(parsed(world.session.open()).version_info(), "");
  // What is refused then tells the version of what is in force.
  EXPECT_EQ(world.receive(response("8", "m", {"\xFF"})), Outcome::refused);
  EXPECT_EQ(parsed(world.answer).version_info(), "7");
}

TEST(Ads, TheSameResourcesAreAcknowledgedAndNotAppliedAgain) {
  World world;
  const std::string a = bytes_of("0a01611201611a0c0a016b1201761a0408041028"),
                    b = bytes_of("12017a");
  EXPECT_EQ(world.receive(response("1", "n1", {a, b})), Outcome::taken);
  // Their order, and the version, do not count.
  EXPECT_EQ(world.receive(response("2", "n2", {b, a})), Outcome::again);
  EXPECT_EQ(parsed(world.answer).version_info(), "2");
  EXPECT_EQ(parsed(world.answer).response_nonce(), "n2");
  EXPECT_EQ(world.applied, 1);
  EXPECT_EQ(world.receive(response("3", "n3", {b})), Outcome::taken);
  EXPECT_EQ(world.receive(response("4", "n4", {a, b})), Outcome::taken);
  EXPECT_EQ(world.applied, 3);
}

// go-control-plane answers a refusal at once with the same again.
TEST(Ads, ARefusalBecomesNoStorm) {
  World world;
  const auto bad = [](int i) { return response("bad", "n" + std::to_string(i), {"\xFF"}); };
  std::vector<int64_t> sent_at;
  EXPECT_EQ(world.receive(bad(0)), Outcome::refused);
  EXPECT_FALSE(world.answer.empty());
  const AdsSession::Time begin = world.now;
  for (int i = 1; i < 10; ++i) {
    EXPECT_EQ(world.receive(bad(i)), Outcome::refused_again);
    EXPECT_TRUE(world.answer.empty());
    ASSERT_TRUE(world.session.due());
    world.now = *world.session.due();
    EXPECT_EQ(parsed(world.session.take_due()).response_nonce(), "n" + std::to_string(i));
    EXPECT_FALSE(world.session.due());
    sent_at.push_back(std::chrono::duration_cast<milliseconds>(world.now - begin).count());
  }
  EXPECT_EQ(sent_at,
            (std::vector<int64_t>{250, 750, 1750, 3750, 7750, 12750, 17750, 22750, 27750}));
  EXPECT_EQ(world.applied, 1);
  // Limits that are sound are taken at once, and the next refusal goes out at once.
  EXPECT_EQ(world.receive(response("good", "g", {})), Outcome::taken);
  EXPECT_EQ(world.receive(bad(20)), Outcome::refused);
  EXPECT_FALSE(world.answer.empty());
}

TEST(Ads, OtherResourcesThatAreRefusedAreAnsweredAtOnce) {
  World world;
  for (int i = 0; i < 10; ++i) {
    const std::string resource = std::string("\xFF") + static_cast<char>('a' + i);
    EXPECT_EQ(world.receive(response("bad", "n", {resource})), Outcome::refused);
    EXPECT_FALSE(world.answer.empty());
  }
}

// What is refused for another reason than its own is tried again, and makes no storm either.
TEST(Ads, WhatTheServerCannotTakeNowIsTriedAgain) {
  World world;
  world.busy = true;
  const auto good = [](int i) { return response("good", "n" + std::to_string(i), {"\x12\x01z"}); };
  EXPECT_EQ(world.receive(good(0)), Outcome::refused);
  EXPECT_EQ(parsed(world.answer).error_detail().message(), "the server is busy");
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(world.receive(good(i)), Outcome::refused);
    EXPECT_TRUE(world.answer.empty());
    ASSERT_TRUE(world.session.due());
    world.now = *world.session.due();
    world.session.take_due();
  }
  EXPECT_EQ(world.now.time_since_epoch(), milliseconds(250 + 500 + 1000));
  world.busy = false;
  EXPECT_EQ(world.receive(good(4)), Outcome::taken);
  EXPECT_EQ(world.applied, 5);
}

TEST(Ads, ATextThatIsNoUtf8IsMendedForTheMessage) {
  AdsSession session("some-node", {});
  std::string answer;
  session.receive(
      response("1", "n", {}), {},
      [](const AdsResponse&) { return std::optional(AdsSession::Refusal{"a\xFF"}); }, answer);
  EXPECT_EQ(parsed(answer).error_detail().message(), "a\xEF\xBF\xBD");
}

TEST(Ads, AWithheldRefusalIsDroppedWhenSomethingElseArrivesOrTheStreamIsNew) {
  World world;
  world.receive(response("bad", "n1", {"\xFF"}));
  world.receive(response("bad", "n2", {"\xFF"}));
  ASSERT_TRUE(world.session.due());
  EXPECT_EQ(world.receive(response("good", "n3", {})), Outcome::taken);
  EXPECT_FALSE(world.session.due());
  world.receive(response("bad", "n4", {"\xFF"}));
  world.receive(response("bad", "n5", {"\xFF"}));
  ASSERT_TRUE(world.session.due());
  world.session.open();
  EXPECT_FALSE(world.session.due());
}

TEST(Ads, ARefusalIsCutBetweenCharacters) {
  AdsSession session("some-node", {});
  std::string answer, text;
  while (text.size() < 2 * AdsSession::refusal_bytes_max) text += "\xE6\x97\xA5";
  session.receive(
      response("1", "n", {}), {},
      [&](const AdsResponse&) { return std::optional(AdsSession::Refusal{text}); }, answer);
  const std::string told = parsed(answer).error_detail().message();
  EXPECT_LE(told.size(), AdsSession::refusal_bytes_max);
  EXPECT_GT(told.size(), AdsSession::refusal_bytes_max - 3);
  EXPECT_EQ(told.size() % 3, 0u);
}

TEST(Ads, WhatIsNoResponseEndsTheStream) {
  World world;
  EXPECT_EQ(world.receive("\xFF\xFF"), Outcome::nonsense);
  EXPECT_EQ(world.receive(response("\xFF", "n", {})), Outcome::nonsense);
  EXPECT_EQ(world.applied, 0);
}

int64_t next_ms(AdsBackoff& backoff, double chance = 0.5) {
  return backoff.next(chance).us / 1000;
}

TEST(AdsBackoff, GrowsToTheLongestAndBeginsAnew) {
  AdsBackoff backoff({.jitter = false});
  std::vector<int64_t> waits;
  for (int i = 0; i < 11; ++i) waits.push_back(next_ms(backoff));
  EXPECT_EQ(waits, (std::vector<int64_t>{1000, 1600, 2560, 4096, 6553, 10485, 16777, 26843, 42949,
                                         60000, 60000}));
  backoff.begin_anew();
  EXPECT_EQ(next_ms(backoff), 1000);
  // A longest one below the first wins; a factor of at most 1 keeps the first.
  AdsBackoff low({.longest = base::milliseconds(300), .jitter = false});
  EXPECT_EQ(next_ms(low), 300);
  AdsBackoff even({.factor = 0.5, .jitter = false});
  EXPECT_EQ(next_ms(even), 1000);
  EXPECT_EQ(next_ms(even), 1000);
  AdsBackoff some({});
  EXPECT_EQ(next_ms(some, 0), 800);
  some.begin_anew();
  EXPECT_EQ(next_ms(some, 1), 1200);
}

}  // namespace
}  // namespace sluice::envoy::ads_test
