// Any bytes of a client of HTTP/2 must give the same events and the same output in one piece and in
// pieces, within the bounds. Then again with answers between the pieces, within the bounds.
// Requests for a path with an `s` stream. The first byte says how the rest is cut, and whether the
// client's preface comes before it; the second how large answers are.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/buffer.h"
#include "wire/http2_session.h"

namespace {

using namespace sluice;
using wire::Http2Event;
using wire::Http2Session;

constexpr std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr Http2Session::Bounds bounds{
    .connection_bytes = 4096, .body_bytes = 2048, .dropped_body_bytes = 3000};
// The size of a frame: output may exceed what was asked for by the rest of one frame.
constexpr size_t frame_bytes = (16 << 10) + 9;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::string shown(const Http2Session& session, uint32_t number) {
  const wire::Http2Request request = session.request(number);
  std::string text = std::to_string(number) + " ";
  for (const std::string_view part :
       {request.method, request.path, request.authority, request.body})
    text += std::string(part) + "|";
  for (const wire::Http2Header& header : request.headers)
    text += std::string(header.name) + "=" + std::string(header.value) + "|";
  return text + std::to_string(request.is_whole) +
         std::to_string(request.body_bytes > request.body.size()) + "\n";
}

// A streaming request is shown without its body, of which more may have arrived since the event.
std::string shown(const Http2Session& session, const Http2Event& event) {
  const std::string kind = std::to_string(static_cast<int>(event.kind)) + " ";
  if (session.request(event.request).is_streaming)
    return kind + std::to_string(event.request) + "\n";
  return kind + shown(session, event.request);
}

bool is_streamed(std::string_view path) {
  return path.find('s') != path.npos;
}

// Keeps the requests that were reported and have no answer yet, and answers them.
class Owner {
 public:
  Owner(Http2Session& session, size_t answer_bytes) : session_(session), text_(answer_bytes, 'a') {}

  void take(const Http2Event& event) {
    require(session_.is_waiting(event.request), "what is reported is not waiting");
    const bool is_new =
        event.kind == Http2Event::Kind::request || event.kind == Http2Event::Kind::begun;
    require(waiting_.contains(event.request) != is_new, "a number is reported again");
    if (is_new) waiting_[event.request];
    waiting_[event.request].push_back(event.kind);
  }
  // Answers all requests that were reported. Streaming requests that have not ended get a part of
  // their answer, unless `to_the_end`.
  void answer(bool to_the_end) {
    for (auto one = waiting_.begin(); one != waiting_.end();) {
      const uint32_t number = one->first;
      const wire::Http2Request request = session_.request(number);
      bool is_over = !request.is_streaming || request.is_reset || request.is_whole || to_the_end;
      if (request.is_streaming && !one->second.empty()) is_over |= !answer_part(number);
      one->second.clear();
      if (!is_over) {
        ++one;
        continue;
      }
      one = waiting_.erase(one);
      if (!session_.is_waiting(number)) continue;
      if (number % 7 == 6)
        session_.drop(number);
      else
        session_.respond(number, {.body = session_.request(number).body,
                                  .more_body = text_,
                                  .trailers = number % 2 == 0 ? trailers_ : no_trailers_});
    }
  }
  size_t waiting() const { return waiting_.size(); }
  std::string shown_waiting() const {
    std::string text;
    for (const auto& [number, events] : waiting_) text += shown(session_, number);
    return text;
  }

 private:
  // Returns false if the request is over.
  bool answer_part(uint32_t number) {
    const std::string_view body = session_.request(number).body;
    const size_t part = body.size() - body.size() / 3;
    const bool sent = session_.send(number, trailers_, body.substr(0, part), text_);
    require(sent == session_.is_waiting(number), "a reset request is waiting");
    if (!sent) return false;
    const std::string rest(body.substr(part));
    session_.take_body(number, part);
    require(session_.request(number).body == rest, "another part of the body was taken");
    return true;
  }

  static constexpr std::array<wire::Http2Header, 1> trailer{{{"x-end", "1"}}};
  static constexpr std::span<const wire::Http2Header> trailers_{trailer}, no_trailers_{};

  Http2Session& session_;
  const std::string text_;
  std::map<uint32_t, std::vector<Http2Event::Kind>> waiting_;
};

struct Run {
  std::string events, written;
  wire::Http2Fault fault = wire::Http2Fault::none;
};

Run run(std::string_view text, size_t step, bool answer_at_once, size_t answer_bytes) {
  Run result;
  wire::Http2Pool pool(6000 + 8 * wire::http2_stream_bytes);
  {
    Http2Session session(pool, bounds, is_streamed);
    base::Buffer out;
    Owner owner(session, answer_bytes);
    const auto check = [&] {
      require(session.held_bytes() <= bounds.connection_bytes, "a connection holds too much");
      require((pool.held_bytes() - session.held_bytes()) % wire::http2_stream_bytes == 0 &&
                  session.unfinished_bytes() + session.kept_bytes() <= pool.held_bytes(),
              "the worker counts otherwise");
      require(session.unanswered() == owner.waiting(), "not all are waiting");
      require(session.unfinished() + session.unanswered() <= wire::http2_streams_max,
              "too many streams");
    };
    while (!text.empty()) {
      const size_t consumed = session.receive(text.substr(0, step), {});
      require(consumed > 0 || step == 0, "nothing was read");
      text.remove_prefix(consumed);
      for (const Http2Event& event : session.events()) {
        result.events += shown(session, event);
        owner.take(event);
      }
      check();
      if (!answer_at_once) continue;
      owner.answer(false);
      out.clear();
      session.write(out, 1000);
      require(out.size() <= 1000 + frame_bytes, "too much was written");
      check();
    }
    result.events += owner.shown_waiting();
    owner.answer(false);
    owner.answer(true);
    session.begin_shutdown();
    out.clear();
    session.write(out);
    check();
    require(!session.has_output(), "not all was written");
    result.written = out.view();
    result.fault = session.fault();
  }
  require(pool.held_bytes() == 0, "bytes are held by none");
  require(pool.blocks() == 0, "memory was lost");
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t step = size_t{data[0]} % 64 + 1, answer_bytes = size_t{data[1]} * 16;
  std::string text(reinterpret_cast<const char*>(data) + 2, size - 2);
  if (data[0] < 192) text = std::string(preface) + text;

  const Run whole = run(text, text.size(), false, answer_bytes);
  const Run pieces = run(text, step, false, answer_bytes);
  require(whole.events == pieces.events, "events differ by how the input is cut");
  require(whole.fault == pieces.fault, "faults differ by how the input is cut");
  require(whole.written == pieces.written, "answers differ by how the input is cut");
  run(text, step, true, answer_bytes);
  return 0;
}
