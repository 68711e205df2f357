// Requests whose body is taken as it comes, and answers that are sent in pieces.
#include <nghttp2/nghttp2.h>

#include <array>
#include <cstring>

#include "wire/http2_callbacks.h"
#include "wire/http2_session.h"
#include "wire/http2_stream.h"

namespace sluice::wire {
namespace {

// nghttp2 copies both, because the memory of the answer's text moves as it grows.
nghttp2_nv copied_entry(std::string_view name, std::string_view value) {
  auto* const mutable_name = reinterpret_cast<uint8_t*>(const_cast<char*>(name.data()));
  auto* const mutable_value = reinterpret_cast<uint8_t*>(const_cast<char*>(value.data()));
  return {mutable_name, mutable_value, name.size(), value.size(), NGHTTP2_NV_FLAG_NONE};
}

}  // namespace

// ---- Requests ----

bool Http2Session::streams(const Stream& stream) const {
  return !stream.is_head &&
         is_streamed_(stream.request.view().substr(stream.path.at, stream.path.size));
}

void Http2Session::begin_streaming(Stream& stream, bool last) {
  enter(stream, Phase::streaming);
  ++unanswered_;
  events_.push_back({Http2Event::Kind::begun, stream.number});
  if (last) on_streamed_frame(stream, 0, true);
}

void Http2Session::on_streamed_frame(Stream& stream, uint32_t bytes, bool last) {
  stream.ended = last;
  // The window of a stream whose body is dropped is not opened again.
  if (!last && !stream.is_lost) nghttp2_session_consume_stream(session_, stream.id, bytes);
  if (last || bytes > 0) events_.push_back({Http2Event::Kind::body, stream.number});
}

void Http2Session::take_body(uint32_t number, size_t bytes) {
  Stream& stream = *streams_[number];
  stream.body_at += static_cast<uint32_t>(bytes);
  stream.body_bytes -= bytes;
  unconsumed_ += bytes;
  give_up(stream, bytes);
  const uint32_t left = stream.kept_body_bytes();
  // Moves the rest only if it is the smaller part, so that the cost per byte is constant.
  if (stream.body_at - stream.headers_end < left) return;
  std::memmove(stream.request.bytes + stream.headers_end, stream.request.bytes + stream.body_at,
               left);
  stream.body_at = stream.headers_end;
  stream.request.size = stream.headers_end + left;
  shrink(stream.request);
}

// ---- Answers ----

bool Http2Session::send(uint32_t number, std::span<const Http2Header> headers,
                        std::string_view body, std::string_view more_body) {
  Stream& stream = *streams_[number];
  if (stream.is_closed || fault_ != Http2Fault::none) return true;
  if (queue(stream, body, more_body) && (stream.is_begun || begin_answer(stream, headers))) {
    ++stream.pieces;
    set_withheld(stream, true);
    nghttp2_session_resume_data(session_, stream.id);  // an error: it waits for nothing
    return true;
  }
  --unanswered_;
  enter(stream, Phase::ending);
  reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
  return false;
}

bool Http2Session::begin_answer(Stream& stream, std::span<const Http2Header> headers) {
  if (headers.size() > http2_answer_headers_max) return false;
  std::array<nghttp2_nv, http2_answer_headers_max + 1> entries;
  entries[0] = copied_entry(":status", "200");
  size_t count = 1;
  for (const Http2Header& one : headers) entries[count++] = copied_entry(one.name, one.value);
  stream.is_begun = true;
  nghttp2_data_provider pieces{{.ptr = &stream}, Callbacks::read_pieces};
  return nghttp2_submit_response(session_, stream.id, entries.data(), count, &pieces) == 0;
}

// False: the piece does not fit.
bool Http2Session::queue(Stream& stream, std::string_view body, std::string_view more_body) {
  Text& text = stream.answer;
  if (stream.sent_end > 0 && stream.sent_end >= text.size - stream.sent_end) {
    text.size -= stream.sent_end;
    std::memmove(text.bytes, text.bytes + stream.sent_end, text.size);
    give_up(stream, stream.sent_end);
    stream.sent_end = 0;
    shrink(text);
  }
  const size_t size = body.size() + more_body.size();
  if (size > UINT32_MAX / 2 - text.size || !hold(stream, size)) return false;
  if (!append(text, body) || !append(text, more_body)) return false;
  stream.body_end = text.size;
  return true;
}

// Adds the end of an answer that was begun with pieces. False: it does not fit.
bool Http2Session::finish(Stream& stream, const Http2Response& response) {
  // The bytes of the request no longer count, so the answer may use their room. They stay in
  // memory, because the answer may be copied from them.
  give_up(stream, stream.held - stream.answer.size);
  size_t size = 0;
  for (const Http2Header& one : response.trailers)
    size += sizeof(Http2PackedSizes) + one.name.size() + one.value.size();
  if (response.trailers.size() > http2_answer_headers_max ||
      !queue(stream, response.body, response.more_body) || !hold(stream, size))
    return false;
  for (const Http2Header& one : response.trailers) {
    if (!append_packed(stream.answer, one.name, one.value)) return false;
  }
  release_request(stream);
  nghttp2_session_resume_data(session_, stream.id);  // an error: it waits for nothing
  return true;
}

// All pieces were sent: frees their memory.
void Http2Session::on_pieces_sent(Stream& stream) {
  allowances_.on_answers(stream.pieces);
  stream.pieces = 0;
  stream.is_slow = false;
  taken_ = true;
  set_withheld(stream, false);
  give_up(stream, stream.answer.size);
  pool_.release(stream.answer.bytes);
  stream.answer = Text{};
  stream.sent_end = stream.body_end = 0;
}

}  // namespace sluice::wire
