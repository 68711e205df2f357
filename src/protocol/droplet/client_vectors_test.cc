// What sluice's client sends and understands, against what droplet's own client sent and its server
// answered (tests/conformance/droplet.json).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "protocol/droplet/message.h"
#include "testing/client_world.h"
#include "tests/support/paths.h"
#include "wire/websocket.h"

namespace sluice::droplet {
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

// Whether the interface of sluice's client can express the request.
bool is_plain(const json& request) {
  if (!request.is_object() || !request.contains("bucket")) return false;
  for (const auto& [name, value] : request.items())
    if (name != "bucket" && name != "id" && name != "reset" && !value.is_number_integer())
      return false;
  return request.value("type", 0) == 0 || request.value("type", 0) == 1;
}

client_request request_of(const json& asked, const std::string& bucket) {
  client_request request;
  request.subject.key = bucket;
  if (asked.value("type", 0) == 1) {
    request.verb = client_verb::peek;
    return request;
  }
  request.n = asked.value("count", int64_t{1});
  request.reset_first = asked.value("reset", false);
  for (size_t i = 0; i < droplet_periods.size(); ++i) {
    const int64_t quota = asked.value(std::string(droplet_periods[i]), int64_t{0});
    if (quota > 0)
      request.subject.limits.push_back({quota, std::chrono::microseconds(droplet_windows[i].us)});
  }
  return request;
}

void open(calls::ClientWorld& world) {
  world.accept(0);
  base::Buffer out;
  const std::string head = world.take_sent(0);
  const auto accept = wire::read_websocket_handshake(head).accept;
  wire::append_switching_protocols({accept.data(), accept.size()}, out);
  world.receive(0, out.view());
}

void expect_same_request(std::string_view frame, const std::string& recorded) {
  wire::WebsocketReader reader;
  reader.renew();
  const wire::WebsocketEvent event = reader.next(frame);
  ASSERT_EQ(event.kind, wire::WebsocketEvent::Kind::binary);
  DropletRequest ours, theirs;
  ASSERT_TRUE(read_droplet_request(event.payload, ours));
  ASSERT_TRUE(read_droplet_request(recorded, theirs));
  EXPECT_EQ(ours.bucket, theirs.bucket);
  EXPECT_EQ(ours.type, theirs.type);
  if (ours.type != 0) return;  // the server ignores the other fields of a query
  EXPECT_EQ(ours.count, theirs.count);
  EXPECT_EQ(ours.reset, theirs.reset);
  EXPECT_EQ(ours.limits, theirs.limits);
}

// Returns false if the step is skipped: it is not one request with one answer, or the client cannot
// send it.
bool play(const json& step) {
  if (!step.contains("request") || !is_plain(step.at("request")) ||
      !step.contains("response_hex") || !step.at("response_hex").is_string() ||
      !step.contains("request_hex"))
    return false;
  calls::ClientWorld world(client_dialect);
  open(world);
  const std::string bucket = step.at("request").at("bucket").get<std::string>();
  const client_request request = request_of(step.at("request"), bucket);
  world.submit(request, "call");
  if (world.ended.count("call") > 0) return false;  // limits that the client refuses to send
  expect_same_request(world.take_sent(0), from_hex(step.at("request_hex").get<std::string>()));
  base::Buffer frame;
  wire::append_websocket_frame(wire::websocket_binary,
                               from_hex(step.at("response_hex").get<std::string>()), frame);
  world.receive(0, frame.view());
  const client_result& result = world.results["call"];
  EXPECT_EQ(result.error, client_errc::none);
  if (request.verb == client_verb::take) {
    EXPECT_EQ(result.allowed, step.at("response").at("accept").get<bool>());
  }
  size_t periods = 0;
  for (const client_level& level : result.levels) {
    EXPECT_EQ(step.at("response").at(level.name).get<int64_t>(), level.remaining);
    ++periods;
  }
  EXPECT_EQ(step.at("response").size() - step.at("response").count("accept"), periods);
  return true;
}

TEST(DropletClientVectors, WritesRequestsAndReadsAnswersAsRecorded) {
  std::ifstream file(tests::source_path("tests/conformance/droplet.json"));
  const auto recorded = json::parse(file);
  size_t played = 0;
  for (const auto& one : recorded.at("cases")) {
    SCOPED_TRACE(one.at("name").get<std::string>());
    for (const auto& step : one.at("steps")) played += play(step) ? 1u : 0u;
  }
  EXPECT_GT(played, 100u);
}

}  // namespace
}  // namespace client_vectors_test
}  // namespace sluice::droplet
