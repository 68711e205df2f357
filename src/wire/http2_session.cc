#include "wire/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "wire/http2_callbacks.h"
#include "wire/http2_stream.h"

namespace sluice::wire {
namespace {

constexpr std::string_view preface = NGHTTP2_CLIENT_MAGIC;
// The payload of our PING; its acknowledgement shows that the client has seen the first GOAWAY.
constexpr unsigned char shutdown_ping[8] = {'s', 'h', 'u', 't', 'd', 'o', 'w', 'n'};
constexpr std::string_view not_http1 =
    "HTTP/1.1 505 HTTP Version Not Supported\r\ncontent-type: text/plain\r\ncontent-length: 60\r\n"
    "connection: close\r\n\r\n"
    "this port speaks HTTP/2 with prior knowledge, not HTTP/1.x\r\n";

uint32_t read_number(const unsigned char* at, size_t bytes) {
  uint32_t value = 0;
  for (size_t i = 0; i < bytes; ++i) value = value << 8 | at[i];
  return value;
}

void append_number(base::Buffer& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8)
    out.append(static_cast<char>(static_cast<unsigned char>(value >> shift)));
}

void append_frame_header(base::Buffer& out, size_t payload, uint8_t type) {
  const auto length = static_cast<uint32_t>(payload);
  append_number(out, length << 8 | type);
  out.append('\0');  // flags
  append_number(out, 0);
}

}  // namespace

// ---- Bytes in ----

Http2Session::Http2Session(Http2Pool& pool, const Bounds& bounds, Http2PathTest is_streamed,
                           Http2NameTest keeps_header)
    : pool_(pool), bounds_(bounds), is_streamed_(is_streamed), keeps_header_(keeps_header) {
  session_ = Callbacks::make_session(*this, pool);
  if (session_ == nullptr) fault_ = Http2Fault::memory;
}

Http2Session::~Http2Session() {
  nghttp2_session_del(session_);
  for (Stream* stream : streams_) {
    if (stream != nullptr) release(*stream);
  }
}

size_t Http2Session::receive(std::string_view in, base::Time now, size_t events_max) {
  events_.clear();
  if (fault_ != Http2Fault::none) return in.size();
  allowances_.on_time(now);
  size_t size = read(in, events_max);
  while (reads_by_frame_ && fault_ == Http2Fault::none && size < in.size() &&
         events_.size() < events_max)
    size += read(in.substr(size), events_max);
  return fault_ == Http2Fault::none ? size : in.size();
}

size_t Http2Session::read(std::string_view in, size_t events_max) {
  const size_t size = scan(in, events_max);
  const Http2Fault breach = std::exchange(fault_, Http2Fault::none);
  if (size > 0) {
    const ssize_t read =
        nghttp2_session_mem_recv(session_, reinterpret_cast<const uint8_t*>(in.data()), size);
    if (read < 0 && fault_ == Http2Fault::none) fail(Callbacks::fault_of(static_cast<int>(read)));
  }
  if (fault_ == Http2Fault::none) fault_ = breach;
  return size;
}

// How much of `in` nghttp2 may read: up to a frame that exceeds the rate of its kind, or up to the
// frame after `events_max` frames that may each cause an event.
size_t Http2Session::scan(std::string_view in, size_t events_max) {
  size_t at = 0, events = 0;
  if (preface_read_ < preface.size() && !read_preface(in, at)) return 0;
  while (at < in.size()) {
    if (payload_left_ > 0) {
      const size_t bytes = std::min<size_t>(payload_left_, in.size() - at);
      payload_left_ -= static_cast<uint32_t>(bytes);
      at += bytes;
      continue;
    }
    if (header_read_ == 0 && (events >= events_max || (reads_by_frame_ && at > 0))) break;
    const size_t begin = at;
    const size_t bytes = std::min(http2_frame_header_bytes - header_read_, in.size() - at);
    std::memcpy(header_.data() + header_read_, in.data() + at, bytes);
    at += bytes;
    header_read_ = static_cast<uint8_t>(header_read_ + bytes);
    if (header_read_ < http2_frame_header_bytes) break;
    header_read_ = 0;
    if (!admit_frame(header_.data(), events)) return begin;
    payload_left_ = read_number(header_.data(), 3);
  }
  return at;
}

bool Http2Session::read_preface(std::string_view in, size_t& at) {
  at = std::min(preface.size() - preface_read_, in.size());
  if (in.substr(0, at) != preface.substr(preface_read_, at)) {
    const char first = preface_read_ > 0 ? preface[0] : in[0];
    speaks_http1_ = first >= 'A' && first <= 'Z';
    fail(Http2Fault::not_http2);
    return false;
  }
  preface_read_ = static_cast<uint8_t>(preface_read_ + at);
  return true;
}

bool Http2Session::admit_frame(const unsigned char* header, size_t& events) {
  const uint8_t type = header[3], flags = header[4];
  const uint32_t stream = read_number(header + 5, 4) & 0x7FFFFFFF;
  Http2Fault kind = Http2Fault::other_frames;
  switch (type) {
    case NGHTTP2_DATA:
      if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) ++events;
      if (read_number(header, 3) >= http2_small_data_bytes) return true;
      kind = Http2Fault::small_data;
      break;
    case NGHTTP2_HEADERS:
      if ((flags & NGHTTP2_FLAG_END_STREAM) != 0) ++events;
      continuations_ = 0;
      if (stream > newest_stream_) {
        newest_stream_ = stream;
        return true;
      }
      kind = Http2Fault::repeated_headers;
      break;
    case NGHTTP2_PRIORITY:
      kind = Http2Fault::priorities;
      break;
    case NGHTTP2_RST_STREAM:
      ++events;
      kind = Http2Fault::reset_frames;
      break;
    case NGHTTP2_SETTINGS:
      kind = Http2Fault::settings;
      break;
    case NGHTTP2_PING:
      kind = Http2Fault::pings;
      break;
    case NGHTTP2_WINDOW_UPDATE:
      kind = Http2Fault::window_updates;
      break;
    case NGHTTP2_GOAWAY:
      reads_by_frame_ = true;
      break;
    case NGHTTP2_CONTINUATION:
      if (++continuations_ <= http2_continuations_max) return true;
      fail(Http2Fault::continuations);
      return false;
    default:
      break;
  }
  if (allowances_.spend(kind)) return true;
  fail(kind);
  return false;
}

void Http2Session::fail(Http2Fault fault) {
  if (fault_ == Http2Fault::none) fault_ = fault;
}

// ---- What nghttp2 reads ----

Http2Session::Stream* Http2Session::open(int32_t id) {
  const size_t in_use = streams_.size() - unused_.size();
  void* memory = nullptr;
  const bool fits =
      in_use < (acknowledged_ ? http2_streams_max : http2_unacknowledged_streams_max) &&
      pool_.hold(http2_stream_bytes);
  if (fits) {
    memory = pool_.allocate(sizeof(Stream));
    if (memory == nullptr) pool_.give_back(http2_stream_bytes);
  }
  if (memory == nullptr) {
    ++refused_streams_;
    if (!allowances_.spend(Http2Fault::refused_streams)) fail(Http2Fault::refused_streams);
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_REFUSED_STREAM);
    return nullptr;
  }
  auto* const stream = new (memory) Stream(id);
  if (unused_.empty()) {
    stream->number = static_cast<uint32_t>(streams_.size());
    streams_.push_back(stream);
  } else {
    stream->number = unused_.back();
    unused_.pop_back();
    streams_[stream->number] = stream;
  }
  ++unfinished_;
  held_in_[static_cast<size_t>(Phase::reading)] += http2_stream_bytes;
  stream->older = youngest_;
  (youngest_ == nullptr ? oldest_ : youngest_->younger) = stream;
  if (youngest_ == nullptr) completes_ = false;
  youngest_ = stream;
  return stream;
}

// Every change of a stream's phase, so that the bytes of each phase are known.
void Http2Session::enter(Stream& stream, Phase phase) {
  if (stream.phase == Phase::reading) leave_unfinished(stream);
  const size_t bytes = stream.held + http2_stream_bytes;
  held_in_[static_cast<size_t>(stream.phase)] -= bytes;
  held_in_[static_cast<size_t>(phase)] += bytes;
  stream.phase = phase;
}

void Http2Session::leave_unfinished(Stream& stream) {
  --unfinished_;
  completes_ = oldest_ != &stream;
  (stream.older == nullptr ? oldest_ : stream.older->younger) = stream.younger;
  (stream.younger == nullptr ? youngest_ : stream.younger->older) = stream.older;
  stream.older = stream.younger = nullptr;
}

void Http2Session::set_withheld(Stream& stream, bool withheld) {
  if (stream.is_withheld == withheld) return;
  stream.is_withheld = withheld;
  withheld ? ++withheld_ : --withheld_;
}

void Http2Session::on_headers(Stream& stream, bool last) {
  if (stream.phase != Stream::Phase::reading) return;
  stream.headers_end = stream.body_at = stream.request.size;
  if (stream.list_bytes > http2_header_list_bytes_max) {
    stream.ended = last;
    refuse(stream, 431);
  } else if (stream.is_lost) {
    ++refused_streams_;
    enter(stream, Phase::ending);
    reset(stream, NGHTTP2_REFUSED_STREAM);
  } else if (is_streamed_ != nullptr && streams(stream)) {
    begin_streaming(stream, last);
  } else if (last) {
    stream.ended = true;
    tell(stream);
  }
}

void Http2Session::on_body(Stream& stream, std::string_view bytes) {
  stream.frame_bytes += static_cast<uint32_t>(bytes.size());
  stream.body_bytes += bytes.size();
  if (stream.keeps_body() && !stream.is_lost) {
    if (stream.body_bytes <= bounds_.body_bytes && hold(stream, bytes.size())) {
      if (append(stream.request, bytes)) return;
      give_up(stream, bytes.size());
    }
    drop_body(stream);
  }
  unconsumed_ += bytes.size();
}

// Called at the end of a frame, so that windows are opened at the same places however the input is
// cut.
void Http2Session::on_data_frame(Stream& stream, bool last) {
  const uint32_t bytes = std::exchange(stream.frame_bytes, 0);
  if (stream.phase == Stream::Phase::streaming) {
    on_streamed_frame(stream, bytes, last);
    return;
  }
  if (last) {
    stream.ended = true;
    if (stream.phase == Stream::Phase::reading) tell(stream);
    return;
  }
  if (stream.phase != Stream::Phase::reading) return;
  nghttp2_session_consume_stream(session_, stream.id, bytes);
  if (stream.is_lost && stream.body_bytes > bounds_.dropped_body_bytes) tell(stream);
}

void Http2Session::drop_body(Stream& stream) {
  stream.is_lost = true;
  ++dropped_bodies_;
  const uint32_t bytes = stream.kept_body_bytes();
  unconsumed_ += bytes;
  give_up(stream, bytes);
  stream.request.size = stream.body_at = stream.headers_end;
  if (bytes == 0) return;
  shrink(stream.request);  // the memory of what is gone goes too
}

void Http2Session::tell(Stream& stream) {
  enter(stream, Phase::told);
  ++unanswered_;
  events_.push_back({Http2Event::Kind::request, stream.number});
}

void Http2Session::on_close(Stream& stream) {
  if (stream.phase == Stream::Phase::answering && stream.is_sent)
    allowances_.on_answers(1);
  else if (stream.phase != Stream::Phase::ending && !allowances_.spend(Http2Fault::resets))
    fail(Http2Fault::resets);
  stream.is_closed = true;
  set_withheld(stream, false);
  if (stream.waits()) {
    events_.push_back({Http2Event::Kind::reset, stream.number});
    return;
  }
  release(stream);
}

void Http2Session::on_acknowledged_ping(const unsigned char* opaque) {
  if (shutdown_ == Shutdown::noticed && std::memcmp(opaque, shutdown_ping, 8) == 0)
    finish_shutdown();
}

// ---- Memory ----

// Null: no memory.
char* Http2Session::grow(Text& text, size_t size) {
  void* const larger =
      pool_.reallocate(text.bytes, std::max<size_t>({size, 2 * size_t{text.capacity}, 496}));
  if (larger == nullptr) return nullptr;
  text.bytes = static_cast<char*>(larger);
  text.capacity = static_cast<uint32_t>(Http2Pool::capacity(larger));
  return text.bytes;
}

// Moves a text to less memory if it has much more than it needs. Without memory for the copy it
// stays.
void Http2Session::shrink(Text& text) {
  if (text.capacity <= 4 * size_t{text.size} + 2048) return;
  Text shorter;
  if (append(shorter, text.view())) std::swap(shorter, text);
  pool_.release(shorter.bytes);
}

void Http2Session::release_request(Stream& stream) {
  if (!stream.is_consumed) unconsumed_ += stream.kept_body_bytes();
  pool_.release(stream.request.bytes);
  stream.request = Text{};
  stream.headers_end = stream.body_at = 0;
}

void Http2Session::release(Stream& stream) {
  if (stream.phase == Phase::reading) leave_unfinished(stream);
  set_withheld(stream, false);
  release_request(stream);
  pool_.release(stream.answer.bytes);
  give_up(stream, stream.held);
  pool_.give_back(http2_stream_bytes);
  held_in_[static_cast<size_t>(stream.phase)] -= http2_stream_bytes;
  if (current_ == &stream) current_ = nullptr;
  streams_[stream.number] = nullptr;
  unused_.push_back(stream.number);
  pool_.release(&stream);
}

// ---- Requests and answers ----

bool Http2Session::is_waiting(uint32_t number) const {
  return streams_[number] != nullptr && streams_[number]->waits();
}

Http2Request Http2Session::request(uint32_t number) const {
  const Stream& stream = *streams_[number];
  const std::string_view text = stream.request.view();
  const auto part = [text](Stream::Part p) { return text.substr(p.at, p.size); };
  const Http2Headers headers(
      text.substr(stream.headers_at, stream.headers_end - stream.headers_at));
  std::string_view authority = part(stream.authority);
  if (authority.empty()) authority = headers.find("host").value_or("");
  return {part(stream.method),
          part(stream.scheme),
          part(stream.path),
          authority,
          headers,
          text.substr(stream.body_at),
          stream.body_bytes,
          !stream.is_lost && stream.ended,
          stream.is_closed,
          stream.phase == Stream::Phase::streaming};
}

uint32_t& Http2Session::note(uint32_t number) {
  return streams_[number]->note;
}

bool Http2Session::replace_body(uint32_t number, std::string_view body) {
  Stream& stream = *streams_[number];
  const size_t before = stream.kept_body_bytes();
  Text text;
  if (!hold(stream, body.size())) return false;
  if (!append(text, stream.request.view().substr(0, stream.headers_end)) || !append(text, body)) {
    pool_.release(text.bytes);
    give_up(stream, body.size());
    return false;
  }
  give_up(stream, before);
  unconsumed_ += before;
  stream.is_consumed = true;
  std::swap(stream.request, text);
  pool_.release(text.bytes);
  return true;
}

void Http2Session::respond(uint32_t number, const Http2Response& response) {
  Stream& stream = *streams_[number];
  --unanswered_;
  enter(stream, Phase::answering);
  if (stream.is_closed || fault_ != Http2Fault::none) {
    if (stream.is_closed) release(stream);
    return;
  }
  if (stream.is_begun ? finish(stream, response) : answer(stream, response))
    return set_withheld(stream, true);
  enter(stream, Phase::ending);
  reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
}

void Http2Session::drop(uint32_t number) {
  Stream& stream = *streams_[number];
  --unanswered_;
  enter(stream, Phase::ending);
  if (stream.is_closed)
    release(stream);
  else
    reset(stream, NGHTTP2_INTERNAL_ERROR);
}

void Http2Session::let_go(uint32_t number) {
  Stream& stream = *streams_[number];
  release_request(stream);
  stream.method = stream.scheme = stream.path = stream.authority = {};
  stream.headers_at = 0;
  give_up(stream, stream.held);
}

// ---- What is slow ----

void Http2Session::reset_unfinished() {
  while (oldest_ != nullptr) cancel(*oldest_);
}

uint32_t Http2Session::oldest_unfinished() const {
  return oldest_ == nullptr ? 0 : static_cast<uint32_t>(oldest_->id);
}

bool Http2Session::end_oldest() {
  if (oldest_ == nullptr || !completes_) return false;
  cancel(*oldest_);
  return true;
}

std::optional<uint32_t> Http2Session::end_withheld() {
  if (!std::exchange(taken_, false)) return std::nullopt;
  uint32_t ended = 0;
  for (Stream* stream : streams_) {
    if (stream == nullptr || !stream->is_withheld || !std::exchange(stream->is_slow, true))
      continue;
    if (stream->phase == Phase::streaming) return std::nullopt;
    cancel(*stream);
    ++ended;
  }
  return ended;
}

void Http2Session::cancel(Stream& stream) {
  stream.is_lost = true;
  enter(stream, Phase::ending);
  reset(stream, NGHTTP2_CANCEL);
}

size_t Http2Session::unfinished_bytes() const {
  return held_in(Phase::reading);
}

size_t Http2Session::kept_bytes() const {
  return held_in(Phase::streaming) + held_in(Phase::answering) + held_in(Phase::ending);
}

void Http2Session::reset(Stream& stream, uint32_t code) {
  set_withheld(stream, false);
  release_request(stream);
  give_up(stream, stream.held);
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, code);
}

void Http2Session::refuse(Stream& stream, uint16_t status) {
  enter(stream, Phase::answering);
  if (answer(stream, {.status = status})) return set_withheld(stream, true);
  enter(stream, Phase::ending);
  reset(stream, NGHTTP2_ENHANCE_YOUR_CALM);
}

// ---- Bytes out ----

bool Http2Session::has_output() const {
  if (fault_ != Http2Fault::none) return !end_written_;
  return preface_read_ == preface.size() && nghttp2_session_want_write(session_) != 0;
}

void Http2Session::write(base::Buffer& out, size_t bytes_max) {
  if (fault_ == Http2Fault::none && preface_read_ == preface.size()) {
    if (unconsumed_ > 0) {
      const size_t bytes = std::exchange(unconsumed_, 0);
      nghttp2_session_consume_connection(session_, bytes);
    }
    out_ = &out;
    out_max_ = bytes_max;
    ssize_t size = 1;
    while (size > 0 && out.size() < bytes_max) {
      const uint8_t* bytes = nullptr;
      size = nghttp2_session_mem_send(session_, &bytes);
      if (size > 0) {
        is_begun_ = true;
        out.append({reinterpret_cast<const char*>(bytes), static_cast<size_t>(size)});
      }
    }
    out_ = nullptr;
    if (size < 0) fail(Callbacks::fault_of(static_cast<int>(size)));
    if (!std::exchange(was_withheld_, withheld_ > 0)) taken_ = false;
  }
  if (fault_ != Http2Fault::none && !end_written_) write_end(out);
}

// Writes the GOAWAY itself, because nghttp2's session must not be used after an error.
void Http2Session::write_end(base::Buffer& out) {
  end_written_ = true;
  if (fault_ == Http2Fault::not_http2 && speaks_http1_) {
    out.append(not_http1);
    return;
  }
  if (!is_begun_) append_frame_header(out, 0, NGHTTP2_SETTINGS);  // which comes first of all
  const std::string_view text = http2_fault_text(fault_);
  append_frame_header(out, 8 + text.size(), NGHTTP2_GOAWAY);
  const int32_t last = session_ == nullptr ? 0 : nghttp2_session_get_last_proc_stream_id(session_);
  append_number(out, static_cast<uint32_t>(last));
  append_number(out, http2_fault_code(fault_));
  out.append(text);
}

// ---- The end ----

void Http2Session::begin_shutdown() {
  if (shutdown_ != Shutdown::none || fault_ != Http2Fault::none) return;
  if (preface_read_ < preface.size()) {
    shutdown_ = Shutdown::last;
    return;
  }
  shutdown_ = Shutdown::noticed;
  nghttp2_submit_shutdown_notice(session_);
  nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, shutdown_ping);
}

void Http2Session::finish_shutdown() {
  if (shutdown_ == Shutdown::last || fault_ != Http2Fault::none) return;
  shutdown_ = Shutdown::last;
  if (preface_read_ < preface.size()) return;
  reads_by_frame_ = true;
  nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE,
                        nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR,
                        nullptr, 0);
}

bool Http2Session::is_drained() const {
  if (fault_ != Http2Fault::none) return end_written_;
  return shutdown_ == Shutdown::last && streams_.size() == unused_.size() && !has_output();
}

}  // namespace sluice::wire
