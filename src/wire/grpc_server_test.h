// For tests: a gRPC server and its client in memory. The server reads what the client sends in
// pieces, and the client reads what the server writes when the test flushes it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "wire/grpc_server.h"
#include "wire/http2_peer_test.h"

namespace sluice::wire::grpc_peer {

using http2_peer::Answer;
using http2_peer::Headers;
using http2_peer::Peer;

inline std::string framed(std::string_view message, uint8_t flags = 0) {
  std::string text(grpc_prefix_bytes, '\0');
  GrpcPrefix{flags, static_cast<uint32_t>(message.size())}.write(text.data());
  return text += message;
}

struct Server {
  explicit Server(const Http2Session::Bounds& bounds = {}, Http2PathTest is_streamed = nullptr,
                  const std::vector<std::pair<uint16_t, uint32_t>>& settings = {})
      : session(worker, bounds, is_streamed) {
    exchange(http2_peer::hello(settings));
    exchange(http2_peer::settings_ack());
  }

  void exchange(std::string_view in, size_t step = SIZE_MAX) {
    while (!in.empty()) {
      std::string_view piece = in.substr(0, step);
      in.remove_prefix(piece.size());
      while (!piece.empty() || session.has_more()) {
        piece.remove_prefix(session.receive(piece, {}));
        events.insert(events.end(), session.events().begin(), session.events().end());
      }
    }
    flush();
  }
  void flush() {
    base::Buffer out;
    session.http().write(out);
    peer.read(out.view());
  }
  // Sends a call on the next stream; returns its answer, as far as it has arrived.
  const Answer& call(const Headers& headers, std::string_view body) {
    stream += 2;
    std::string in = peer.headers(stream, headers, body.empty());
    while (!body.empty()) {
      const uint64_t window = 65'535 + peer.window_updates[0] - sent;
      const std::string_view part = body.substr(0, std::min<uint64_t>(window, 16'000));
      if (part.empty()) throw std::runtime_error("the window is shut");
      body.remove_prefix(part.size());
      sent += part.size();
      in += http2_peer::data(stream, part, body.empty());
      exchange(in);  // the server may open windows
      in.clear();
    }
    if (!in.empty()) exchange(in);
    return peer.answers[stream];
  }

  GrpcWorker worker;
  GrpcServerSession session;
  Peer peer;
  std::vector<Http2Event> events;
  uint32_t stream = UINT32_MAX;
  uint64_t sent = 0;  // bytes of bodies
};

// ---- Streaming calls ----

using Texts = std::vector<std::string>;

inline bool is_streamed(std::string_view path) {
  return path.starts_with("/stream");
}

inline Headers stream_headers(Headers more = {}) {
  return Peer::grpc("/stream/Echo", std::move(more));
}

// `bytes` in DATA frames that are not larger than allowed.
inline std::string frames(uint32_t id, std::string_view bytes, bool last = false) {
  std::string all;
  for (; bytes.size() > 16'000; bytes.remove_prefix(16'000))
    all += http2_peer::data(id, bytes.substr(0, 16'000), false);
  return all + http2_peer::data(id, bytes, last);
}

struct StreamServer : Server {
  explicit StreamServer(const Http2Session::Bounds& bounds = {},
                        const std::vector<std::pair<uint16_t, uint32_t>>& settings = {})
      : Server(bounds, is_streamed, settings) {}

  // Begins a call on stream `id`; returns the call's number.
  uint32_t begin(uint32_t id, const Headers& headers = stream_headers()) {
    exchange(peer.headers(id, headers, false));
    EXPECT_FALSE(events.empty());
    EXPECT_EQ(events.back().kind, Http2Event::Kind::begun);
    return events.back().request;
  }
  // All messages that can be taken, and the result of `next` after them.
  std::pair<Texts, GrpcNext> take(uint32_t number) {
    Texts all;
    std::string_view message;
    while (true) {
      const GrpcNext next = session.next(number, message);
      if (next != GrpcNext::message) return {all, next};
      all.emplace_back(message);
    }
  }
  // Sends each message back, and answers the end of a call with OK.
  void echo() {
    for (const Http2Event& event : std::exchange(events, {})) {
      if (event.kind == Http2Event::Kind::reset) {
        if (session.is_waiting(event.request)) session.drop(event.request);
        continue;
      }
      if (event.kind != Http2Event::Kind::body) continue;
      std::string_view message;
      GrpcNext next;
      while ((next = session.next(event.request, message)) == GrpcNext::message) {
        if (!session.send(event.request, message)) break;
      }
      if (next == GrpcNext::end) session.answer(event.request, GrpcStatus::ok, "", "");
    }
    flush();
  }
  size_t held() const { return session.http().held_bytes(); }
};

inline Texts messages_of(std::string_view body) {
  Texts all;
  while (body.size() >= grpc_prefix_bytes) {
    const GrpcPrefix prefix = GrpcPrefix::read(body);
    all.emplace_back(body.substr(grpc_prefix_bytes, prefix.bytes));
    body.remove_prefix(std::min(body.size(), grpc_prefix_bytes + prefix.bytes));
  }
  EXPECT_TRUE(body.empty()) << "a message is cut off";
  return all;
}

}  // namespace sluice::wire::grpc_peer
