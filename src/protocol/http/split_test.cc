// Sessions answer the same however their input is cut (split_trial_test.h): requests written by
// hand, and random changes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/http/split_trial_test.h"
#include "testing/random_cuts.h"
#include "tests/support/dice.h"

namespace sluice::http::split_test {
namespace {

using split_trial::difference;
using split_trial::Kind;
using split_trial::run;

const std::string host = "Host: localhost\r\n", json = "Content-Type: application/json\r\n";

std::string with_body(const std::string& path, const std::string& body,
                      const std::string& more = {}) {
  return "POST " + path + " HTTP/1.1\r\n" + host + json +
         "Content-Length: " + std::to_string(body.size()) + "\r\n" + more + "\r\n" + body;
}

const std::vector<std::string> subjects = {
    R"({"entries": {"ip": "10.0.0.1", "method": "POST"}, "n": 2})",
    R"({"entries": {"ip": "\u0061\n"}, "detail": true})",
    R"({"key": "user:17", "limits": [{"name": "burst", "quota": 100, "window": "1m"}, {"quota": 3, "window": 2.5, "algorithm": "fixed_window"}]})",
    R"({"takes": [{"entries": {"a": 1}}, {"key": "k", "limits": [{"quota": 1, "window": 1}]}], "mode": "each"})",
    R"({"takes": [{"entries": {"a": true}}, {"entries": {"b": "2"}}]})",
    R"({"takes": [{"entries": {"x": "y"}}]})",
    R"({"entries": {"ip": "a"}, "timeout": 5})",
    R"({"entries": {"ip": "a"}, "all": true})",
    R"({"key": "k", "max_burst": 3, "count_per_period": 2, "period": 60})",
    "{}",
    "no json",
    ""};
const std::vector<std::string> paths = {"/v1/take",  "/v1/peek",    "/v1/put",
                                        "/v1/reset", "/v1/wait",    "/v1/batch",
                                        "/throttle", "/v1/explain", "/v1/take?status=200"};
const std::vector<std::string> fields = {"",
                                         "Accept: application/json\r\n",
                                         "Authorization: Basic dTpw\r\n",
                                         "Authorization: Bearer q\r\n",
                                         "authorization: bearer wrong\r\n",
                                         "Expect: 100-continue\r\n",
                                         "Connection: close\r\n",
                                         "Idempotency-Key: \"k1\"\r\n",
                                         "Origin: http://evil.com\r\n"};

// Single requests of HTTP/1.1.
std::vector<std::string> requests_by_hand() {
  std::vector<std::string> all = {
      "GET /v1/health HTTP/1.1\r\n" + host + "\r\n",
      "HEAD /v1/health HTTP/1.0\r\n\r\n",
      "GET /v1/openapi.json HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
      "GET /v1/take?key=a&limit=5&window=1m HTTP/1.1\r\n" + host + "\r\n",
      "GET /v1/take?entry=ip=a&n=0 HTTP/1.1\r\n" + host + "Authorization: Bearer p\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\n" + host + "\r\n",
      "OPTIONS /v1/take HTTP/1.1\r\n" + host + "\r\n",
      "PUT /v1/take HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc",
      "POST /nothing HTTP/1.1\r\n" + host + "Content-Length: 3\r\n\r\nabc",
      "POST /v1/take HTTP/1.1\r\n" + host + json + "Transfer-Encoding: chunked\r\n\r\n" +
          "10\r\n{\"entries\": {\"ip\r\n8;x=y\r\n\": \"a\"}}\r\n0\r\nTrailer: x\r\n\r\n",
      "GET /auth/web HTTP/1.1\r\n" + host +
          "X-Original-URI: /a?b\r\nX-Original-Method: GET\r\nX-Real-IP: 10.0.0.1\r\nX-K: "
          "v\r\nCookie: c=1\r\nAccept: text/html\r\n\r\n",
      "GET /auth/edge HTTP/1.1\r\n" + host +
          "X-Forwarded-Uri: /a/../b//c\r\nX-Forwarded-Method: PUT\r\nX-Forwarded-Proto: "
          "https\r\nX-Forwarded-Host: X.example\r\nX-Forwarded-For: 1.2.3.4, ::1\r\n\r\n",
      "POST /auth/fwd HTTP/1.1\r\n" + host +
          "Forwarded: for=\"[::2]:80\"\r\nX-Uri: /z\r\nContent-Length: 5\r\n\r\n12345",
      "GET /auth/none HTTP/1.1\r\n" + host + "\r\n",
      "GET /v1/health HTTP/1.1\r\nHost: evil.com\r\n\r\n",
      "POST /v1/take HTTP/1.1\r\n" + host + "Content-Length: 9999999\r\n\r\n",
      "nonsense\r\n\r\n",
      "\r\n\r\nGET /v1/health HTTP/1.1\r\n" + host + "\r\n"};
  for (size_t i = 0; i < subjects.size(); ++i)
    for (size_t j = 0; j < 3; ++j)
      all.push_back(with_body(paths[(i + 4 * j) % paths.size()], subjects[i],
                              fields[(2 * i + j) % fields.size()]));
  return all;
}

std::vector<Kind> kinds(bool is_http2) {
  return {{is_http2, false, Unmatched::error, Kind::End::answered},
          {is_http2, true, Unmatched::allow, Kind::End::answered},
          {is_http2, false, Unmatched::deny, Kind::End::dropped},
          {is_http2, true, Unmatched::deny, Kind::End::stopped}};
}

// The bytes of an HTTP/2 client: its preface, then its requests one after another.
class Http2Text {
 public:
  Http2Text()
      : text_(
            wire::http2_peer::join({wire::http2_peer::hello(), wire::http2_peer::settings_ack()})) {
  }
  void add(const std::string& method, const std::string& path, const std::string& body,
           const std::string& authorization) {
    wire::http2_peer::Headers head = {{":method", method},
                                      {":scheme", "http"},
                                      {":path", path},
                                      {":authority", "localhost"},
                                      {"content-type", "application/json"}};
    if (!authorization.empty()) head.emplace_back("authorization", authorization);
    text_ += peer_.headers(stream_, head, body.empty());
    for (size_t at = 0; at < body.size(); at += 20)
      text_ += wire::http2_peer::data(stream_, std::string_view(body).substr(at, 20),
                                      at + 20 >= body.size());
    stream_ += 2;
  }
  void reset_last() { text_ += wire::http2_peer::rst_stream(stream_ - 2); }
  const std::string& text() const { return text_; }

 private:
  wire::http2_peer::Peer peer_;
  std::string text_;
  uint32_t stream_ = 1;
};

std::string http2_text(tests::Dice& dice, bool resets) {
  Http2Text text;
  for (int left = 1 + dice(6); left > 0; --left) {
    static const std::vector<std::string> users = {"", "Basic dTpw", "Bearer v:p", "Bearer u:no"};
    text.add(dice(8) == 0 ? "GET" : "POST", paths[dice(paths.size())],
             subjects[dice(subjects.size())], users[dice(users.size())]);
    if (resets && dice(3) == 0) text.reset_last();
  }
  return text.text();
}

// Changes, removes or doubles random bytes, and inserts pieces of other texts.
std::string mutated(std::string text, const std::vector<std::string>& others, tests::Dice& dice) {
  for (int left = dice(4); left > 0 && !text.empty(); --left) {
    const size_t at = dice(text.size()), count = dice(std::min<size_t>(text.size() - at, 20)) + 1;
    switch (dice(4)) {
      case 0:
        text[at] = static_cast<char>(dice(256));
        break;
      case 1:
        text.erase(at, count);
        break;
      case 2:
        text.insert(at, text.substr(at, count));
        break;
      default:
        const std::string& other = others[dice(others.size())];
        if (!other.empty()) text.insert(at, other.substr(dice(other.size()), count));
    }
  }
  return text;
}

TEST(HttpSplit, MakesNoDifferenceToAnyRequestWhereverItIsCut) {
  for (const Kind& kind : kinds(false)) {
    for (const std::string& request : requests_by_hand()) {
      // The request is sent between two others.
      const std::string text = with_body("/v1/take", subjects[0]) + request +
                               with_body("/v1/put", subjects[0], fields[2]);
      const auto whole = run(text, {}, kind);
      for (size_t cut = 1; cut < text.size(); ++cut)
        ASSERT_EQ(difference(whole, run(text, {cut}, kind)), "") << cut << " " << text;
      ASSERT_EQ(difference(whole, run(text, std::vector<size_t>(text.size(), 1), kind)), "")
          << text;
    }
  }
}

TEST(HttpSplit, MakesNoDifferenceToPipelinedAndBrokenRequests) {
  const std::vector<std::string> all = requests_by_hand();
  for (uint32_t seed = 1; seed <= 6'000; ++seed) {
    tests::Dice dice(seed);
    std::string text;
    for (int left = 1 + dice(5); left > 0; --left) text += all[dice(all.size())];
    if (dice(2) == 0) text = mutated(text, all, dice);
    const Kind kind = Kind::of(static_cast<uint8_t>(dice(128)), static_cast<uint8_t>(dice(9)));
    const auto whole = run(text, {}, kind);
    const auto cut = run(text, tests::random_cuts(seed, text.size()), kind);
    ASSERT_EQ(difference(whole, cut), "") << "seed " << seed << ": " << text;
  }
}

TEST(HttpSplit, MakesNoDifferenceToStreams) {
  for (uint32_t seed = 1; seed <= 1'500; ++seed) {
    tests::Dice dice(seed);
    std::string text = http2_text(dice, seed % 3 == 0);
    if (seed % 4 == 0) {
      const size_t begin = 24;
      const std::string rest = mutated(text.substr(begin), {text}, dice);
      text.replace(begin, text.npos, rest);
    }
    const Kind kind =
        Kind::of(static_cast<uint8_t>(0x80 + dice(128)), static_cast<uint8_t>(dice(9)));
    const auto whole = run(text, {}, kind);
    const auto cut = run(text, tests::random_cuts(seed, text.size()), kind);
    ASSERT_EQ(difference(whole, cut), "") << "seed " << seed;
    const auto bytes = run(text, std::vector<size_t>(text.size(), 1), kind);
    ASSERT_EQ(difference(whole, bytes), "") << "seed " << seed;
    // If no stream was reset and no byte changed, both answer the same streams.
    if (seed % 3 != 0 && seed % 4 != 0) {
      ASSERT_EQ(whole.streams, cut.streams) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace sluice::http::split_test
