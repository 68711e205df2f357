// Sessions against the recording of limitd 7.0.1 (tests/conformance/limitd.json), message by
// message: each request is read as it was meant, and each reply has the recorded bytes. The test
// makes the verdict for a reply from the recorded reply.
#include <gtest/gtest.h>
#include <limitd.pb.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "protocol/limitd/message.h"
#include "protocol/limitd/session.h"
#include "protocol/limitd/session_model.h"
#include "tests/support/paths.h"

namespace sluice::limitd {
namespace {

using nlohmann::json;

const json& recording() {
  static const json read =
      json::parse(std::ifstream(tests::source_path("tests/conformance/limitd.json")));
  return read;
}

std::string bytes_of(const json& hex) {
  const auto text = hex.get<std::string>();
  std::string out;
  for (size_t i = 0; i + 1 < text.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return out;
}

// The message of a complete frame.
std::string body_of(std::string frame) {
  const uint64_t size = model::take_varint(frame);
  EXPECT_EQ(size, frame.size());
  return frame;
}

// Calls `visit(name of the case, step)` for every step that sends or awaits bytes.
template <class Visit>
void each_step(Visit&& visit) {
  for (const json& c : recording().at("cases")) {
    for (const json& step : c.at("steps")) {
      SCOPED_TRACE(c.at("name").get<std::string>());
      visit(c, step);
    }
  }
}

TEST(LimitdVectors, RequestsAreReadAsRecorded) {
  const char* const methods[] = {"TAKE", "WAIT", "PUT", "STATUS", "PING", "GET"};
  size_t read = 0;
  each_step([&](const json&, const json& step) {
    if (!step.contains("request")) return;
    const json& meant = step.at("request");
    const std::string body = body_of(bytes_of(step.at("request_hex")));
    LimitdRequest r;
    limitd::Request p;
    ASSERT_TRUE(read_limitd_request(body, r));
    ASSERT_TRUE(p.ParseFromString(body));
    if (meant.at("id").is_number()) {
      const auto id = meant.at("id").get<int64_t>();
      EXPECT_TRUE(r.id.numeric);
      EXPECT_EQ(r.id.bytes, model::varint(static_cast<uint64_t>(id)));
      EXPECT_EQ(p.id2(), id);
    } else {
      EXPECT_FALSE(r.id.numeric);
      EXPECT_EQ(r.id.bytes, meant.at("id").get<std::string>());
      EXPECT_EQ(p.id(), r.id.bytes);
    }
    EXPECT_EQ(r.type, meant.at("type").get<std::string>());
    EXPECT_EQ(p.type(), r.type);
    EXPECT_EQ(r.key, meant.at("key").get<std::string>());
    EXPECT_EQ(p.key(), r.key);
    EXPECT_EQ(methods[static_cast<size_t>(r.method)], meant.at("method").get<std::string>());
    EXPECT_EQ(static_cast<int>(p.method()), static_cast<int>(r.method));
    EXPECT_EQ(r.count, meant.value("count", 1));
    EXPECT_EQ(p.count(), r.count);
    EXPECT_EQ(r.all, meant.value("all", false));
    EXPECT_EQ(p.all(), r.all);
    EXPECT_EQ(r.silent, meant.value("skipResponse", false));
    EXPECT_EQ(p.skip_response(), r.silent);
    ++read;
  });
  EXPECT_GT(read, 190u);
}

// The decision behind a recorded reply, for a type with or without a rate. The time of the decision
// is half a second before the recorded reset.
struct Decided {
  limit::Decision decision;
  base::Time now{};
};
template <class Body>
Decided decided(const Body& body, bool has_rate) {
  Decided d{{true, body.limit(), body.remaining(), base::never, {}}, {1'425'920'267'000'000}};
  if (body.reset() != 0) {
    d.now = {static_cast<int64_t>(body.reset()) * 1'000'000 - 500'000};
    d.decision.reset_after = {200'000};
  } else if (has_rate) {
    d.decision.reset_after = {};  // the bucket is full, for which PUT answers the reset 0
  }
  return d;
}

// The bytes that were answered in `step` of `c`, also if earlier steps sent some of them.
std::string sent_for(const json& c, const json& step) {
  std::string in;
  if (step.contains("request_hex")) in = bytes_of(step.at("request_hex"));
  const bool answered = !step.at("response").is_null();
  for (const json& other : c.at("steps")) {
    if (!other.value("send_only", false)) continue;
    const bool mine = step.value("receive", false) && answered && other.contains("request") &&
                      other.at("request").at("id") == step.at("response").at("request_id");
    if (mine || !other.contains("request")) in = bytes_of(other.at("request_hex")) + in;
  }
  return in;
}

// What the test must know of the bucket of a request: whether the recorded configuration gives it a
// rate, or no limit.
struct RecordedBucket {
  RecordedBucket(const json& c, const request::Requests& requests) {
    const request::Request& request = requests.items()[0];
    if (request.entry_count == 0) return;
    static const std::set<std::string> without_rate = {"fixed", "zero", "with space", "user",
                                                       "order", "gone", "fresh",      "open",
                                                       "keep",  "free", "size-only"};
    const auto descriptor = requests.descriptor(request);
    type = descriptor[0].value;
    const std::string key(descriptor.back().value);
    has_rate = !without_rate.contains(type) && !without_rate.contains(key) &&
               !(c.at("config") == "dotd" && type == "ip") && c.at("config") != "global-regex";
    if (c.at("config") == "reload" && type == "ip") has_rate = true;
    unlimited = type == "free" || key == "0.0.0.0" || (type == "open" && key != "capped");
  }

  std::string type;
  bool has_rate = false, unlimited = false;
};

// The verdict that gives `response`.
struct RecordedVerdict {
  RecordedVerdict(const limitd::Response& response, const RecordedBucket& bucket) {
    if (response.has_take()) {
      d = decided(response.take(), bucket.has_rate);
      d.decision.allowed = verdict.allowed = response.take().conformant();
      if (response.take().delayed()) verdict.waited = base::seconds(1);
      kind = "take";
    } else if (response.has_put()) {
      d = decided(response.put(), bucket.has_rate);
      kind = "put";
    } else if (response.has_get()) {
      d = decided(response.get(), bucket.has_rate);
      kind = "get";
    } else if (response.has_status()) {
      for (const limitd::Item& item : response.status().items()) {
        d = decided(item, bucket.has_rate);
        listed.push_back({item.instance(), d.decision});
      }
      kind = "status";
    } else {
      kind = response.has_error() ? "error" : "pong";
    }
    if (!response.has_error() && !response.has_pong()) {
      verdict.tightest = &d.decision;
      verdict.matched = true;
    }
    verdict.listed = listed;
    static constexpr limit::Limit no_counter{};
    if (bucket.unlimited || bucket.type == "zero") verdict.limit = &no_counter;
    // As limit::Algorithm::deny decides, which the type `zero` has.
    if (bucket.type == "zero") d.decision.allowed = false;
    if (!bucket.unlimited) return;
    // The recorded reset of an unlimited bucket is the time of the reply, rounded up to seconds.
    // `now` stays within that second.
    d.decision.reset_after = bucket.has_rate ? base::Duration{} : base::never;
    if (d.now.us % 1'000'000 != 0) d.now.us += 300'000;
  }
  RecordedVerdict(const RecordedVerdict&) = delete;
  RecordedVerdict& operator=(const RecordedVerdict&) = delete;

  const char* kind = "";
  request::Verdict verdict;
  Decided d;
  std::vector<request::Listed> listed;
};

TEST(LimitdVectors, RepliesAreWrittenByteForByte) {
  std::map<std::string, size_t> written;
  std::set<std::string> closed;
  each_step([&](const json& c, const json& step) {
    if (!step.contains("response")) return;
    const std::string in = sent_for(c, step);
    LimitdSession session;
    request::Requests requests;
    base::Buffer out;
    const request::Received received = session.receive(in, false, requests, out);
    if (step.at("response").is_null()) {
      if (step.at("closes").get<bool>() && received.closing)
        closed.insert(c.at("name").get<std::string>());
      return;
    }
    EXPECT_FALSE(received.closing);
    EXPECT_EQ(received.consumed, in.size());
    ASSERT_EQ(requests.size(), 1u);

    const std::string expected = bytes_of(step.at("response_hex"));
    limitd::Response response;
    ASSERT_TRUE(response.ParseFromString(body_of(expected)));
    const RecordedVerdict recorded(response, RecordedBucket(c, requests));
    ++written[recorded.kind];
    EXPECT_TRUE(session.reply(requests.items()[0], recorded.verdict, recorded.d.now, out));
    EXPECT_EQ(testing::PrintToString(out.view()), testing::PrintToString(expected));
  });
  EXPECT_GT(written["take"], 100u);
  EXPECT_GT(written["put"], 12u);
  EXPECT_GT(written["get"], 20u);
  EXPECT_GT(written["status"], 9u);
  EXPECT_GT(written["error"], 7u);
  EXPECT_GT(written["pong"], 7u);
  // The cases in which both close. The original also closed at an absent method (TAKE here), at an
  // empty key, and at names of JavaScript's objects (both as any other here).
  EXPECT_EQ(closed, (std::set<std::string>{
                        "error: unknown method closes the connection",
                        "error: frame holding only an id closes the connection",
                        "error: malformed protobuf (wire type 7) kills the server",
                        "error: malformed protobuf (varint longer than 10 bytes) kills the server",
                        "error: length prefix longer than 100 bytes kills the server",
                        "error: an HTTP request kills the server",
                        "error: a frame announced as 2 GiB kills the server",
                    }));
}

}  // namespace
}  // namespace sluice::limitd
