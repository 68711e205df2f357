// A real server of the HTTP protocol, and clients that speak HTTP/1.1 and HTTP/2 to it. Failures
// are thrown.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/comes.h"
#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/process.h"
#include "tests/support/tcp_client.h"
#include "wire/http2_peer_test.h"

namespace sluice::tests::http_e2e {

using Json = nlohmann::json;
using HeaderLines = std::vector<std::pair<std::string, std::string>>;

struct Asked {
  std::string method, target, body{};
  HeaderLines headers{};
  std::string host = "localhost";
};

// A POST whose body has the type of JSON.
inline Asked post_text(const std::string& target, const std::string& body, HeaderLines more = {}) {
  more.emplace_back("Content-Type", "application/json");
  return {.method = "POST", .target = target, .body = body, .headers = std::move(more)};
}
inline Asked post(const std::string& target, const Json& body, HeaderLines more = {}) {
  return post_text(target, body.dump(), std::move(more));
}
// Bodies: entries for the rules, a key with its own limits, several takes.
inline Json about(const std::map<std::string, std::string>& entries, const Json& more = {}) {
  Json body{{"entries", entries}};
  if (!more.is_null()) body.update(more);
  return body;
}
inline Json about_key(const std::string& key, const Json& limits, const Json& more = {}) {
  Json body{{"key", key}, {"limits", limits}};
  if (!more.is_null()) body.update(more);
  return body;
}
inline Json takes(const std::vector<Json>& all, const Json& more = {}) {
  Json body{{"takes", all}};
  if (!more.is_null()) body.update(more);
  return body;
}
inline Asked get(const std::string& target, HeaderLines more = {}) {
  return {.method = "GET", .target = target, .body = {}, .headers = std::move(more)};
}

inline std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// The rules of tests that do not have their own.
constexpr const char* usual_rules =
    "rules:\n"
    "  - name: login\n"
    "    match: { method: POST, path: /login, ip: \"*\" }\n"
    "    actor: ip\n"
    "    limit: { quota: 5, window: 1h, algorithm: fixed_window }\n"
    "  - name: pair\n"
    "    match: { tenant: \"*\" }\n"
    "    actor: tenant\n"
    "    limits:\n"
    "      - { quota: 10, window: 1h, algorithm: fixed_window }\n"
    "      - { quota: 100, window: 1d, algorithm: fixed_window }\n"
    "  - { name: jar, match: { jar: \"*\" }, actor: jar,\n"
    "      limit: { quota: 2, algorithm: fixed_bucket } }\n"
    "  - { name: closed, match: { closed: \"*\" }, deny: true }\n"
    "  - { name: open, match: { open: \"*\" }, unlimited: true }\n";

// A server with a listener of the HTTP protocol and an admin port. It must end cleanly on SIGTERM,
// which the destructor sends at the latest.
class Door {
 public:
  // `settings`: the value of `http:`; `more`: further sections, with the rules.
  explicit Door(std::string settings = "{}", const std::string& more = usual_rules)
      : settings_(std::move(settings)) {
    write(more);
    process_ = std::make_unique<Process>(
        Process::Options{.arguments = {"serve", "--config", folder_.path() + "/sluice.yaml",
                                       "--log-level", "warn"}});
    port_ = await_listening(*process_, "http");
    admin_ = await_listening(*process_, "admin");
  }
  ~Door() { stop(); }
  Door(const Door&) = delete;
  Door& operator=(const Door&) = delete;

  void stop() {
    if (std::exchange(stopped_, true)) return;
    process_->signal(SIGTERM);
    EXPECT_EQ(process_->wait(), 0) << "the server's end on SIGTERM";
  }
  // Replaces the further sections; they are live when it returns.
  void reload(const std::string& more) {
    write(more);
    const HttpAnswer answer = http(admin_, "POST", "/v1/reload", "{}", "");
    EXPECT_EQ(answer.status, 200) << answer.body;
  }
  // Waits until that many requests wait, by the server's metrics. False: not in time.
  bool await_waiting(size_t count) const {
    return comes(
        [&] { return sample(admin_, "sluice_waiting_requests") == std::to_string(count); });
  }

  uint16_t port() const { return port_; }
  uint16_t admin() const { return admin_; }
  const Folder& folder() const { return folder_; }
  Process& process() const { return *process_; }

 private:
  void write(const std::string& more) const {
    folder_.write("sluice.yaml",
                  "listen:\n"
                  "  - { protocol: http, address: \"127.0.0.1:0\" }\n"
                  "  - { protocol: admin, address: \"127.0.0.1:0\" }\n"
                  "http: " +
                      settings_ + "\n" + more);
  }

  Folder folder_;
  const std::string settings_;
  std::unique_ptr<Process> process_;
  uint16_t port_ = 0, admin_ = 0;
  bool stopped_ = false;
};

// An HTTP/1.1 connection for several requests.
class Http1 {
 public:
  explicit Http1(uint16_t port, const std::string& host = "127.0.0.1")
      : socket_(TcpClient::connect(port, host).value()) {}

  static std::string text_of(const Asked& asked) {
    std::string text =
        asked.method + " " + asked.target + " HTTP/1.1\r\nHost: " + asked.host + "\r\n";
    for (const auto& [name, value] : asked.headers)
      text.append(name).append(": ").append(value).append("\r\n");
    if (!asked.body.empty() || asked.method == "POST")
      text += "Content-Length: " + std::to_string(asked.body.size()) + "\r\n";
    return text + "\r\n" + asked.body;
  }
  void send(std::string_view bytes) {
    if (!socket_.send(bytes)) throw std::runtime_error("the server has closed the connection");
  }
  void send(const Asked& asked) { send(text_of(asked)); }

  // Reads the next answer. `head`: it answers HEAD. An interim answer (100) is an answer of its
  // own.
  HttpAnswer read(bool head = false) {
    const auto status_line = socket_.read_line();
    if (!status_line || !status_line->starts_with("HTTP/1.1 "))
      throw std::runtime_error("no answer: " + status_line.value_or("(end)"));
    HttpAnswer answer;
    answer.status = std::stoi(status_line->substr(9));
    while (true) {
      auto line = socket_.read_line();
      if (!line || !line->ends_with('\r')) throw std::runtime_error("a head without an end");
      line->pop_back();
      if (line->empty()) break;
      const size_t cut = line->find(": ");
      if (!answer.headers.emplace(lower(line->substr(0, cut)), line->substr(cut + 2)).second)
        throw std::runtime_error("a field that comes twice: " + *line);
    }
    const bool has_length = answer.headers.contains("content-length");
    if (has_length && !head)
      answer.body = socket_.read_bytes(std::stoul(answer.headers["content-length"])).value();
    return answer;
  }
  HttpAnswer ask(const Asked& asked) {
    send(asked);
    return read(asked.method == "HEAD");
  }
  TcpClient& socket() { return socket_; }

 private:
  TcpClient socket_;
};

// An HTTP/2 connection with prior knowledge.
class Http2 {
 public:
  // `window`: of each stream; the default is enough for any answer.
  explicit Http2(uint16_t port, uint32_t window = all_answers)
      : socket_(TcpClient::connect(port).value()) {
    socket_.send(wire::http2_peer::hello({{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}}) +
                 wire::http2_peer::settings_ack() +
                 wire::http2_peer::window_update(0, all_answers));
  }

  // Sends a request, and returns the number of its stream.
  uint32_t send(const Asked& asked) {
    const uint32_t stream = next_;
    std::string frames = begin_frames(asked, asked.body.empty());
    for (size_t at = 0; at < asked.body.size(); at += frame_bytes) {
      const std::string_view part = std::string_view(asked.body).substr(at, frame_bytes);
      frames += wire::http2_peer::data(stream, part, at + part.size() == asked.body.size());
    }
    if (!socket_.send(frames)) throw std::runtime_error("the server has closed the connection");
    return stream;
  }
  // Sends the headers of a request, and not its body.
  uint32_t begin(const Asked& asked) {
    const uint32_t stream = next_;
    if (!socket_.send(begin_frames(asked, false)))
      throw std::runtime_error("the server has closed the connection");
    return stream;
  }
  // Sends a request as far as the server's windows allow, and reads what opens them.
  uint32_t upload(const Asked& asked) {
    const uint32_t stream = begin(asked);
    for (size_t at = 0; at < asked.body.size();) {
      const uint64_t of_stream = first_window + peer_.window_updates[stream] - at;
      const uint64_t of_connection = first_window + peer_.window_updates[0] - uploaded_;
      const size_t part =
          std::min<uint64_t>({asked.body.size() - at, frame_bytes, of_stream, of_connection});
      if (part == 0) {
        if (!read_frame()) throw std::runtime_error("the server has closed the connection");
        continue;
      }
      at += part;
      uploaded_ += part;
      socket_.send(wire::http2_peer::data(
          stream, std::string_view(asked.body).substr(at - part, part), at == asked.body.size()));
    }
    return stream;
  }
  void open_window(uint32_t stream, uint32_t bytes) {
    socket_.send(wire::http2_peer::window_update(stream, bytes));
  }
  void reset(uint32_t stream) { socket_.send(wire::http2_peer::rst_stream(stream)); }

  // Reads the answer on a stream. Its status is 0 if the stream was reset or the connection ended
  // first.
  HttpAnswer read(uint32_t stream) {
    while (!peer_.answers[stream].ended && peer_.answers[stream].reset < 0 && read_frame()) {
    }
    const wire::http2_peer::Answer& it = peer_.answers[stream];
    HttpAnswer answer;
    if (!it.ended) return answer;
    answer.status = std::stoi(it.status());
    for (const auto& [name, value] : it.headers) {
      if (name == ":status") continue;
      if (!answer.headers.emplace(name, value).second)
        throw std::runtime_error("a field that comes twice: " + name);
    }
    answer.body = it.body;
    return answer;
  }
  HttpAnswer ask(const Asked& asked) { return read(send(asked)); }
  // Whether the answer on a stream is complete, as far as was read.
  bool is_answered(uint32_t stream) { return peer_.answers[stream].ended; }
  // Whether the server has reset the stream, as far as was read.
  bool is_reset(uint32_t stream) { return peer_.answers[stream].reset >= 0; }
  // Reads until so much of an answer has arrived. False: the connection has ended.
  bool await_body(uint32_t stream, size_t bytes) {
    while (peer_.answers[stream].body.size() < bytes)
      if (!read_frame()) return false;
    return true;
  }
  TcpClient& socket() { return socket_; }

 private:
  static constexpr size_t frame_bytes = 16'384;
  static constexpr uint32_t first_window = 65'535, all_answers = 1 << 24;

  std::string begin_frames(const Asked& asked, bool last) {
    wire::http2_peer::Headers headers{{":method", asked.method},
                                      {":scheme", "http"},
                                      {":path", asked.target},
                                      {":authority", asked.host}};
    for (const auto& [name, value] : asked.headers) headers.emplace_back(lower(name), value);
    return peer_.headers(std::exchange(next_, next_ + 2), headers, last);
  }

  // False: the connection has ended.
  bool read_frame() {
    const auto head = socket_.read_bytes(9);
    if (!head) return false;
    const size_t size = wire::http2_peer::read_number(std::string_view(*head).substr(0, 3));
    const auto payload = socket_.read_bytes(size);
    if (!payload) return false;
    peer_.read(*head + *payload);
    return true;
  }

  TcpClient socket_;
  wire::http2_peer::Peer peer_;
  uint32_t next_ = 1;
  uint64_t uploaded_ = 0;  // bytes of bodies that `upload` has sent
};

// The versions of HTTP that tests run with.
enum class HttpVersion { http1, http2 };
inline constexpr HttpVersion http_versions[] = {HttpVersion::http1, HttpVersion::http2};
inline const char* name_of(HttpVersion version) {
  return version == HttpVersion::http1 ? "http1" : "http2";
}

inline Json json_body(const HttpAnswer& answer) {
  Json json = Json::parse(answer.body, nullptr, false);
  if (json.is_discarded()) ADD_FAILURE() << "no JSON: " << answer.body;
  return json;
}
inline std::string header_of(const HttpAnswer& answer, const std::string& name) {
  const auto at = answer.headers.find(name);
  return at == answer.headers.end() ? "(none)" : at->second;
}

// Replaces durations other than 0 and null by `true`, because they differ from run to run.
inline Json settled(Json json) {
  if (json.is_structured())
    for (Json& below : json) below = settled(std::move(below));
  if (!json.is_object()) return json;
  for (const char* name : {"retry_after", "reset_after", "waited"})
    if (json.contains(name) && json[name].is_number() && json[name] > 0) json[name] = true;
  return json;
}

// A decision by a rule with a window of an hour or more, after `settled`.
inline Json decision(bool allowed, int64_t limit, int64_t remaining, const char* rule,
                     Json retry_after = 0, Json reset_after = true) {
  return {{"allowed", allowed},
          {"limit", limit},
          {"remaining", remaining},
          {"retry_after", std::move(retry_after)},
          {"reset_after", std::move(reset_after)},
          {"rule", rule},
          {"mode", "enforce"}};
}
inline Json with(Json json, const Json& more) {
  json.update(more);
  return json;
}

}  // namespace sluice::tests::http_e2e
