// For tests: requests of HTTP/1.1 as texts, a reader of answers, and a client of HTTP/2.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/http/session_world_test.h"
#include "wire/http2_peer_test.h"
#include "wire/http_field.h"

namespace sluice::http::session_world {

// `more`: lines of the head, each with its line end.
inline std::string get(std::string_view path, std::string_view more = {},
                       std::string_view method = "GET") {
  return std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" +
         std::string(more) + "\r\n";
}
inline std::string post(std::string_view path, std::string_view body, std::string_view more = {}) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n" + std::string(more) + "\r\n" + std::string(body);
}
// A body with an entry for the rule that the world has by default.
inline std::string by_ip(std::string_view ip, std::string_view more = {}) {
  return R"({"entries": {"ip": ")" + std::string(ip) + "\"}" + std::string(more) + "}";
}
// A body with a key and one limit, a fixed window of a minute.
inline std::string by_key(std::string_view key, int64_t quota, std::string_view more = {}) {
  return R"({"key": ")" + std::string(key) + R"(", "limits": [{"quota": )" + std::to_string(quota) +
         R"(, "window": "1m", "algorithm": "fixed_window"}])" + std::string(more) + "}";
}

struct HttpAnswer {
  int status = 0;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
  std::string body;

  // The values of the field `name` (in lower case), joined; empty if the answer does not have it.
  std::string field(std::string_view name) const {
    std::string all;
    for (const auto& [its, value] : fields)
      if (its == name) all += (all.empty() ? "" : " & ") + value;
    return all;
  }
  bool has(std::string_view name) const {
    return std::any_of(fields.begin(), fields.end(),
                       [&](const auto& field) { return field.first == name; });
  }
  // Whether the body contains `text`.
  bool tells(std::string_view text) const { return body.find(text) != std::string::npos; }
};

// Removes one answer from the front of `text`. Its status is 0 if no answer is complete.
inline HttpAnswer take_answer(std::string& text, bool of_head = false) {
  const size_t end = text.find("\r\n\r\n");
  if (end == text.npos || !text.starts_with("HTTP/1.1 ")) return {};
  HttpAnswer answer;
  answer.status = std::stoi(text.substr(9, 3));
  size_t length = 0;
  for (size_t at = text.find("\r\n") + 2; at < end;) {
    const size_t line_end = text.find("\r\n", at), colon = text.find(": ", at);
    EXPECT_LT(colon, line_end);
    std::string name = text.substr(at, colon - at);
    std::transform(name.begin(), name.end(), name.begin(), wire::http_lower);
    answer.fields.emplace_back(name, text.substr(colon + 2, line_end - colon - 2));
    if (name == "content-length") length = std::stoul(answer.fields.back().second);
    at = line_end + 2;
  }
  if (of_head) length = 0;
  if (text.size() < end + 4 + length) return {};
  answer.body = text.substr(end + 4, length);
  text.erase(0, end + 4 + length);
  return answer;
}
// All answers in `text`, which may contain nothing else.
inline std::vector<HttpAnswer> answers_of(std::string text) {
  std::vector<HttpAnswer> answers;
  while (!text.empty()) {
    answers.push_back(take_answer(text));
    if (answers.back().status == 0) {
      ADD_FAILURE() << "no answer: " << text;
      break;
    }
  }
  return answers;
}
inline std::vector<int> statuses_of(const std::string& text) {
  std::vector<int> statuses;
  for (const HttpAnswer& answer : answers_of(text)) statuses.push_back(answer.status);
  return statuses;
}

// Sends a request; returns its answer, after which nothing may follow.
inline HttpAnswer ask(Connection& connection, const std::string& request) {
  const bool of_head = request.starts_with("HEAD ");
  std::string text = connection.ask(request);
  HttpAnswer answer = take_answer(text, of_head);
  EXPECT_TRUE(text.empty()) << "more than an answer: " << text;
  return answer;
}
inline HttpAnswer ask(World& world, const std::string& request) {
  Connection connection(world);
  return ask(connection, request);
}

// The units left of the counter that a take with `body` would charge; -1 if there is none.
inline int64_t left(World& world, const std::string& body) {
  const std::string look = body.substr(0, body.size() - 1) + R"(, "n": 0})";
  const HttpAnswer answer = ask(world, post("/v1/peek", look));
  const size_t at = answer.body.find("\"remaining\": ");
  return at == std::string::npos ? -1 : std::stoll(answer.body.substr(at + 13));
}

// A client of HTTP/2 on one connection.
class Http2Client {
 public:
  // `piece`: how many bytes the client sends at a time.
  explicit Http2Client(World& world, size_t piece = SIZE_MAX)
      : connection(world, "127.0.0.1:42000"), piece_(piece) {
    send(wire::http2_peer::join({wire::http2_peer::hello(), wire::http2_peer::settings_ack()}));
  }

  // The bytes of a request on the next stream; sets `stream` to its number.
  std::string request(std::string_view path, std::string_view body, uint32_t& stream,
                      const wire::http2_peer::Headers& more = {}) {
    stream = stream_ += 2;
    wire::http2_peer::Headers all{{":method", "POST"},
                                  {":scheme", "http"},
                                  {":path", std::string(path)},
                                  {":authority", authority},
                                  {"content-type", "application/json"}};
    all.insert(all.end(), more.begin(), more.end());
    return peer.request(stream, all, body);
  }
  uint32_t begin(std::string_view path, std::string_view body,
                 const wire::http2_peer::Headers& more = {}) {
    uint32_t stream = 0;
    send(request(path, body, stream, more));
    return stream;
  }
  HttpAnswer ask(std::string_view path, std::string_view body,
                 const wire::http2_peer::Headers& more = {}) {
    return answer_of(begin(path, body, more));
  }
  // The answer on `stream`; its status is 0 if it is not complete yet.
  HttpAnswer answer_of(uint32_t stream) {
    read();
    const wire::http2_peer::Answer& answer = peer.answers[stream];
    if (!answer.ended) return {};
    return {std::stoi(answer.status()), answer.headers, answer.body};
  }
  void reset(uint32_t stream) { send(wire::http2_peer::rst_stream(stream)); }
  void send(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size(); at += std::min(piece_, bytes.size() - at))
      connection.send(bytes.substr(at, piece_));
    read();
  }
  void read() { peer.read(connection.take()); }

  Connection connection;
  wire::http2_peer::Peer peer;
  std::string authority = "localhost";

 private:
  const size_t piece_;
  uint32_t stream_ = UINT32_MAX;  // the first is 1
};

}  // namespace sluice::http::session_world
