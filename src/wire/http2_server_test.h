// For tests: a server of HTTP/2 and its client in memory. The server reads what the client sends in
// pieces; the test answers requests, and the client reads what the server writes.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "wire/http2_peer_test.h"
#include "wire/http2_session.h"

namespace sluice::wire::http2_peer {

struct Server {
  explicit Server(Http2Pool& shared, const Http2Session::Bounds& bounds = {})
      : session(shared, bounds) {}

  // The server receives `in` in pieces of `step` bytes; events are added to `events`.
  void take(std::string_view in, size_t step = SIZE_MAX) {
    while (!in.empty()) {
      std::string_view piece = in.substr(0, step);
      in.remove_prefix(piece.size());
      while (!piece.empty()) {
        piece.remove_prefix(session.receive(piece, now));
        for (const Http2Event& event : session.events()) events.push_back(event);
      }
    }
  }
  // The same, and the client reads what the server writes.
  void exchange(std::string_view in, size_t step = SIZE_MAX) {
    take(in, step);
    flush();
  }
  void flush() {
    base::Buffer out;
    session.write(out);
    written += out.view();
    peer.read(out.view());
  }
  // The client sends its preface and settings, and acknowledges those of the server.
  void begin(const std::vector<std::pair<uint16_t, uint32_t>>& settings = {}) {
    exchange(hello(settings));
    exchange(settings_ack());
  }
  // Removes all events; returns the numbers of the requests among them.
  std::vector<uint32_t> told() {
    std::vector<uint32_t> numbers;
    for (const Http2Event& event : events)
      if (event.kind == Http2Event::Kind::request) numbers.push_back(event.request);
    events.clear();
    return numbers;
  }
  void respond(uint32_t number, std::string_view body) { session.respond(number, {.body = body}); }
  // Answers each request with its path.
  void echo_paths() {
    for (const uint32_t number : told()) respond(number, session.request(number).path);
    flush();
  }
  const Answer& answer(uint32_t stream) { return peer.answers[stream]; }
  uint32_t goaway_code() const { return peer.goaways.empty() ? 0 : peer.goaways.back().second; }

  base::Time now{1'000'000'000};
  Http2Session session;
  Peer peer;
  std::vector<Http2Event> events;
  std::string written;
};

}  // namespace sluice::wire::http2_peer
