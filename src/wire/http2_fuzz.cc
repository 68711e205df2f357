// Any bytes as what a client of HTTP/2 sends, in one piece and in pieces: the same events and the
// same bytes must come of it, and no bound may be passed. Then again with answers between the
// pieces. The first byte says how the rest is cut, and whether the client's preface goes before it;
// the second how large answers are.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
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
// Past what may be written at a time by the rest of a frame.
constexpr size_t frame_bytes = (16 << 10) + 9;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

std::string shown(const Http2Session& session, const Http2Event& event) {
  const wire::Http2Request request = session.request(event.request);
  std::string text =
      std::to_string(static_cast<int>(event.kind)) + " " + std::to_string(event.request) + " ";
  for (const std::string_view part :
       {request.method, request.path, request.authority, request.body})
    text += std::string(part) + "|";
  for (const wire::Http2Header& header : request.headers)
    text += std::string(header.name) + "=" + std::string(header.value) + "|";
  return text + std::to_string(request.is_whole) + "\n";
}

struct Run {
  std::string events, written;
  wire::Http2Fault fault = wire::Http2Fault::none;
};

Run run(std::string_view text, size_t step, bool answer_at_once, size_t answer_bytes) {
  Run result;
  wire::Http2Pool pool(6000);
  {
    Http2Session session(pool, bounds);
    base::Buffer out;
    std::vector<uint32_t> waiting;
    const std::string body(answer_bytes, 'a');
    const auto answer = [&] {
      for (const uint32_t number : waiting) {
        if (number % 7 == 6)
          session.drop(number);
        else
          session.respond(number, {.body = session.request(number).body, .more_body = body});
      }
      waiting.clear();
    };
    const auto check = [&] {
      require(session.held_bytes() <= bounds.connection_bytes, "a connection holds too much");
      require(session.held_bytes() == pool.held_bytes(), "the worker counts otherwise");
      require(session.unanswered() == waiting.size(), "not all are waiting");
      require(session.unfinished() + session.unanswered() <= wire::http2_streams_max,
              "too many streams");
    };
    while (!text.empty()) {
      const size_t consumed = session.receive(text.substr(0, step), {});
      require(consumed > 0 || step == 0, "nothing was read");
      text.remove_prefix(consumed);
      for (const Http2Event& event : session.events()) {
        result.events += shown(session, event);
        if (event.kind == Http2Event::Kind::request) waiting.push_back(event.request);
      }
      check();
      if (!answer_at_once) continue;
      answer();
      out.clear();
      session.write(out, 1000);
      require(out.size() <= 1000 + frame_bytes, "too much was written");
      check();
    }
    answer();
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
