#include "wire/http2_session.h"

#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "wire/http_field.h"

namespace sluice::wire {
namespace {

struct Fault {
  std::string_view name, text;
  uint32_t code;
};

constexpr std::array<Fault, http2_fault_count> faults{{
    {"none", "", NGHTTP2_NO_ERROR},
    {"not_http2", "the client's preface of HTTP/2 was expected", NGHTTP2_PROTOCOL_ERROR},
    {"protocol", "", NGHTTP2_PROTOCOL_ERROR},
    {"flow_control", "", NGHTTP2_FLOW_CONTROL_ERROR},
    {"frame_size", "", NGHTTP2_FRAME_SIZE_ERROR},
    {"compression", "", NGHTTP2_COMPRESSION_ERROR},
    {"stream_closed", "", NGHTTP2_STREAM_CLOSED},
    {"settings_size", "", NGHTTP2_ENHANCE_YOUR_CALM},
    {"header_list", "header list far too large", NGHTTP2_ENHANCE_YOUR_CALM},
    {"continuations", "too many CONTINUATION frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"resets", "too many requests reset", NGHTTP2_ENHANCE_YOUR_CALM},
    {"reset_frames", "too many RST_STREAM frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"settings", "too many SETTINGS frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"pings", "too many PING frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"priorities", "too many PRIORITY frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"window_updates", "too many WINDOW_UPDATE frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"small_data", "too many small DATA frames", NGHTTP2_ENHANCE_YOUR_CALM},
    {"repeated_headers", "too many HEADERS frames of streams begun before",
     NGHTTP2_ENHANCE_YOUR_CALM},
    {"refused_streams", "too many streams refused", NGHTTP2_ENHANCE_YOUR_CALM},
    {"other_frames", "too many frames without a use here", NGHTTP2_ENHANCE_YOUR_CALM},
    {"unsent_control", "acknowledgements are not read", NGHTTP2_ENHANCE_YOUR_CALM},
    {"memory", "out of memory", NGHTTP2_INTERNAL_ERROR},
    {"internal", "", NGHTTP2_INTERNAL_ERROR},
}};

}  // namespace

std::string_view http2_fault_name(Http2Fault fault) {
  return faults[static_cast<size_t>(fault)].name;
}

std::string_view http2_fault_text(Http2Fault fault) {
  return faults[static_cast<size_t>(fault)].text;
}

uint32_t http2_fault_code(Http2Fault fault) {
  return faults[static_cast<size_t>(fault)].code;
}

Http2Fault http2_fault_of(uint32_t code) {
  switch (code) {
    case NGHTTP2_NO_ERROR:
      return Http2Fault::none;
    case NGHTTP2_FLOW_CONTROL_ERROR:
      return Http2Fault::flow_control;
    case NGHTTP2_FRAME_SIZE_ERROR:
      return Http2Fault::frame_size;
    case NGHTTP2_COMPRESSION_ERROR:
      return Http2Fault::compression;
    case NGHTTP2_STREAM_CLOSED:
      return Http2Fault::stream_closed;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return Http2Fault::settings_size;  // the only flood that nghttp2 itself ends with this code
    case NGHTTP2_INTERNAL_ERROR:
      return Http2Fault::internal;
    default:
      return Http2Fault::protocol;
  }
}

void Http2Allowances::on_time(base::Time now) {
  if (refilled_at_.us == INT64_MIN || now < refilled_at_) {
    refilled_at_ = now;
    return;
  }
  const int64_t seconds = (now.us - refilled_at_.us) / 1'000'000;
  if (seconds == 0) return;
  refilled_at_.us += seconds * 1'000'000;
  const int64_t counted = std::min<int64_t>(seconds, http2_frames_max);
  add(counted * http2_resets_per_second, counted * http2_frames_per_second);
}

void Http2Allowances::add_answers() {
  const int64_t counted = std::min(answers_, http2_frames_max);
  answers_ = 0;
  add(counted * http2_resets_per_answer, counted * http2_frames_per_answer);
}

void Http2Allowances::add(int64_t resets, int64_t frames) {
  constexpr std::array<int64_t, kinds> most = full();
  for (size_t i = 0; i < kinds; ++i)
    left_[i] = std::min(left_[i] + (i == 0 ? resets : frames), most[i]);
}

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_blocks = false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool keeps_blocks = false;
#else
constexpr bool keeps_blocks = true;
#endif
#else
constexpr bool keeps_blocks = true;
#endif

// The usable bytes of a block of each class. nghttp2's streams and queued frames need 64 to 320.
constexpr std::array<size_t, 11> class_bytes{48,   112,  176,  240,  368,   496,
                                             1008, 2032, 4080, 8176, 20'464};

// The class for each size up to small_bytes, in steps of 16 bytes, because most blocks are small.
constexpr size_t small_bytes = 1008;
using SmallClasses = std::array<uint8_t, small_bytes / 16 + 1>;

constexpr SmallClasses make_small_classes() {
  SmallClasses made{};
  size_t index = 0;
  for (size_t i = 0; i < made.size(); ++i) {
    while (class_bytes[index] < 16 * i) ++index;
    made[i] = static_cast<uint8_t>(index);
  }
  return made;
}
constexpr SmallClasses small_classes = make_small_classes();

}  // namespace

// Precedes each block.
struct alignas(16) Http2Pool::Header {
  size_t capacity;
  Header* next;  // the next free block of the class
};

size_t Http2Pool::class_of(size_t bytes) {
  if (bytes <= small_bytes) return small_classes[(bytes + 15) / 16];
  size_t index = small_classes.back();
  while (index < class_count && class_bytes[index] < bytes) ++index;
  return index;
}

Http2Pool::~Http2Pool() {
  for (Header* first : free_) {
    while (first != nullptr) {
      Header* const next = first->next;
      std::free(first);
      first = next;
    }
  }
}

void* Http2Pool::allocate(size_t bytes) {
  const size_t index = class_of(bytes);
  if (keeps_blocks && index < class_count && free_[index] != nullptr) {
    Header* const block = free_[index];
    free_[index] = block->next;
    kept_ -= block->capacity;
    ++blocks_;
    used_ += sizeof(Header) + block->capacity;
    return block + 1;
  }
  if (bytes > SIZE_MAX - sizeof(Header)) return nullptr;
  const size_t capacity = keeps_blocks && index < class_count ? class_bytes[index] : bytes;
  auto* const block = static_cast<Header*>(std::malloc(sizeof(Header) + capacity));
  if (block == nullptr) return nullptr;
  block->capacity = capacity;
  ++blocks_;
  ++system_blocks_;
  used_ += sizeof(Header) + capacity;
  return block + 1;
}

void Http2Pool::release(void* block) {
  if (block == nullptr) return;
  Header* const header = static_cast<Header*>(block) - 1;
  --blocks_;
  used_ -= sizeof(Header) + header->capacity;
  const size_t index = class_of(header->capacity);
  if (!keeps_blocks || index == class_count || kept_ + header->capacity > kept_bytes_max) {
    std::free(header);
    return;
  }
  header->next = free_[index];
  free_[index] = header;
  kept_ += header->capacity;
}

size_t Http2Pool::capacity(const void* block) {
  return (static_cast<const Header*>(block) - 1)->capacity;
}

void* Http2Pool::reallocate(void* block, size_t bytes) {
  if (block == nullptr) return allocate(bytes);
  const size_t before = capacity(block);
  if (bytes <= before && (keeps_blocks || bytes == before)) return block;
  void* const larger = allocate(bytes);
  if (larger == nullptr) return nullptr;
  std::memcpy(larger, block, std::min(before, bytes));
  release(block);
  return larger;
}

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
  } else if (stream.has_other_host) {
    stream.ended = last;
    refuse(stream, 400);
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
  const auto part = [text](Stream::TextPart p) { return text.substr(p.at, p.size); };
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

// Requests whose body is taken as it comes, and answers that are sent in pieces.

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

namespace {

std::string_view text_of(const uint8_t* bytes, size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// Names and values lie in the stream's answer, which lives until they are sent.
nghttp2_nv entry(const char* name, size_t name_bytes, const char* value, size_t value_bytes) {
  // nghttp2 only reads them.
  auto* const mutable_name = reinterpret_cast<uint8_t*>(const_cast<char*>(name));
  auto* const mutable_value = reinterpret_cast<uint8_t*>(const_cast<char*>(value));
  return {mutable_name, mutable_value, name_bytes, value_bytes,
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

char* write_number(char* to, size_t value, size_t bytes) {
  for (size_t i = bytes; i-- > 0; value >>= 8) to[i] = static_cast<char>(value & 0xFF);
  return to + bytes;
}

// Writes a text of a header block without Huffman coding (RFC 7541, 5.1 and 5.2).
char* write_hpack_text(char* to, std::string_view text) {
  constexpr size_t prefix_max = 0x7F;
  size_t size = text.size();
  *to++ = static_cast<char>(std::min(size, prefix_max));
  if (size >= prefix_max) {
    for (size -= prefix_max; size >= 0x80; size >>= 7)
      *to++ = static_cast<char>(static_cast<unsigned char>(0x80 | (size & 0x7F)));
    *to++ = static_cast<char>(size);
  }
  return std::copy(text.begin(), text.end(), to);
}

void* pool_allocate(size_t bytes, void* pool) {
  return static_cast<Http2Pool*>(pool)->allocate(bytes);
}
void pool_release(void* block, void* pool) {
  static_cast<Http2Pool*>(pool)->release(block);
}
void* pool_allocate_zeroed(size_t count, size_t bytes, void* pool) {
  void* const block = static_cast<Http2Pool*>(pool)->allocate(count * bytes);
  if (block != nullptr) std::memset(block, 0, count * bytes);
  return block;
}
void* pool_reallocate(void* block, size_t bytes, void* pool) {
  return static_cast<Http2Pool*>(pool)->reallocate(block, bytes);
}

nghttp2_option* make_options() {
  nghttp2_option* options = nullptr;
  if (nghttp2_option_new(&options) != 0) return nullptr;
  nghttp2_option_set_no_auto_window_update(options, 1);
  nghttp2_option_set_no_closed_streams(options, 1);
  // Both are counted here: http2_continuations_max, http2_resets_max.
  nghttp2_option_set_max_continuations(options, SIZE_MAX);
  nghttp2_option_set_stream_reset_rate_limit(options, UINT64_MAX, 0);
  return options;
}

}  // namespace

nghttp2_session* Http2Session::Callbacks::make_session(Http2Session& owner, Http2Pool& pool) {
  static nghttp2_option* const options = make_options();
  static nghttp2_session_callbacks* const callbacks = [] {
    nghttp2_session_callbacks* all = nullptr;
    if (nghttp2_session_callbacks_new(&all) != 0) return all;
    nghttp2_session_callbacks_set_on_begin_headers_callback(all, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(all, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(all, on_frame);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(all, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(all, on_close);
    nghttp2_session_callbacks_set_before_frame_send_callback(all, on_packed);
    nghttp2_session_callbacks_set_on_frame_send_callback(all, on_sent);
    nghttp2_session_callbacks_set_send_data_callback(all, send_data);
    return all;
  }();
  if (options == nullptr || callbacks == nullptr) return nullptr;
  nghttp2_mem memory{&pool, pool_allocate, pool_release, pool_allocate_zeroed, pool_reallocate};
  nghttp2_session* session = nullptr;
  if (nghttp2_session_server_new3(&session, callbacks, &owner, options, &memory) != 0)
    return nullptr;
  // Priorities of RFC 7540 are a tree that the client shapes; without them its frames are ignored.
  const std::array<nghttp2_settings_entry, 3> settings{{
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, http2_streams_max},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, http2_header_list_bytes_max},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  }};
  constexpr size_t window_min = 65'535, window_max = size_t{1} << 30;
  const size_t window =
      std::clamp(std::min(owner.bounds_.connection_bytes, window_max) * http2_window_per_byte_held,
                 window_min, window_max);
  if (nghttp2_submit_settings(session, NGHTTP2_FLAG_NONE, settings.data(), settings.size()) == 0 &&
      nghttp2_session_set_local_window_size(session, NGHTTP2_FLAG_NONE, 0,
                                            static_cast<int32_t>(window)) == 0)
    return session;
  nghttp2_session_del(session);
  return nullptr;
}

Http2Fault Http2Session::Callbacks::fault_of(int error) {
  switch (error) {
    case NGHTTP2_ERR_NOMEM:
      return Http2Fault::memory;
    case NGHTTP2_ERR_FLOODED:
      return Http2Fault::unsent_control;
    default:
      return Http2Fault::internal;
  }
}

Http2Session::Stream* Http2Session::Callbacks::stream_of(Http2Session& self, int32_t id) {
  if (self.current_ != nullptr && self.current_->id == id) return self.current_;
  return static_cast<Stream*>(nghttp2_session_get_stream_user_data(self.session_, id));
}

int Http2Session::Callbacks::on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame,
                                              void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  owner.current_ = owner.open(frame->hd.stream_id);
  nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, owner.current_);
  return owner.fault_ == Http2Fault::none ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Http2Session::Callbacks::on_header(nghttp2_session*, const nghttp2_frame* frame,
                                       const uint8_t* name, size_t name_bytes, const uint8_t* value,
                                       size_t value_bytes, uint8_t, void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  Stream* const stream = stream_of(owner, frame->hd.stream_id);
  if (stream == nullptr) return 0;
  // Trailers count as well, although they are not stored.
  stream->list_bytes += static_cast<uint32_t>(name_bytes + value_bytes + 32);
  if (stream->list_bytes > http2_header_list_bytes_max) {
    if (stream->list_bytes <= 4 * http2_header_list_bytes_max) return 0;
    owner.fail(Http2Fault::header_list);
    return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  if (frame->headers.cat != NGHTTP2_HCAT_REQUEST || stream->is_lost) return 0;
  const std::string_view its_name = text_of(name, name_bytes);
  if (its_name == "host") owner.compare_host(*stream, text_of(value, value_bytes));
  if (its_name[0] == ':' || owner.keeps_header_ == nullptr || owner.keeps_header_(its_name))
    owner.keep_header(*stream, its_name, text_of(value, value_bytes));
  return 0;
}

int Http2Session::Callbacks::on_frame(nghttp2_session*, const nghttp2_frame* frame, void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
  switch (frame->hd.type) {
    case NGHTTP2_HEADERS: {
      Stream* const stream = stream_of(owner, frame->hd.stream_id);
      if (stream == nullptr) break;
      if (frame->headers.cat == NGHTTP2_HCAT_REQUEST)
        owner.on_headers(*stream, last);
      else
        owner.on_data_frame(*stream, last);  // trailers; only the last may have them
      break;
    }
    case NGHTTP2_DATA: {
      Stream* const stream = stream_of(owner, frame->hd.stream_id);
      if (stream != nullptr) owner.on_data_frame(*stream, last);
      break;
    }
    case NGHTTP2_SETTINGS:
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
        owner.acknowledged_ = true;
      else
        owner.has_new_settings_ = true;
      break;
    case NGHTTP2_PING:
      if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0)
        owner.on_acknowledged_ping(frame->ping.opaque_data);
      break;
    default:
      break;
  }
  return owner.fault_ == Http2Fault::none ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

int Http2Session::Callbacks::on_data(nghttp2_session*, uint8_t, int32_t id, const uint8_t* data,
                                     size_t bytes, void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  Stream* const stream = stream_of(owner, id);
  if (stream != nullptr)
    owner.on_body(*stream, text_of(data, bytes));
  else
    owner.unconsumed_ += bytes;
  return 0;
}

int Http2Session::Callbacks::on_close(nghttp2_session*, int32_t id, uint32_t, void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  Stream* const stream = stream_of(owner, id);
  if (stream != nullptr) owner.on_close(*stream);
  return owner.fault_ == Http2Fault::none ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

// A header block was encoded. It contains any change of the table's size.
int Http2Session::Callbacks::on_packed(nghttp2_session*, const nghttp2_frame* frame, void* self) {
  if (frame->hd.type == NGHTTP2_HEADERS)
    static_cast<Http2Session*>(self)->has_new_settings_ = false;
  return 0;
}

int Http2Session::Callbacks::on_sent(nghttp2_session* session, const nghttp2_frame* frame,
                                     void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR) {
    owner.fail(http2_fault_of(frame->goaway.error_code));
    owner.end_written_ = true;
    return 0;
  }
  if (frame->hd.type > NGHTTP2_HEADERS || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0)
    return 0;
  Stream* const stream = stream_of(owner, frame->hd.stream_id);
  if (stream == nullptr) return 0;
  stream->is_sent = owner.taken_ = true;
  owner.set_withheld(*stream, false);
  // Stops the client from sending the rest of its request.
  if (!stream->ended)
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_NO_ERROR);
  return 0;
}

ssize_t Http2Session::Callbacks::read_body(nghttp2_session* session, int32_t, uint8_t*,
                                           size_t bytes, uint32_t* flags,
                                           nghttp2_data_source* source, void* self) {
  const auto& owner = *static_cast<const Http2Session*>(self);
  const Stream& stream = *static_cast<const Stream*>(source->ptr);
  const size_t left = stream.body_end - stream.sent_end;
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (left > bytes) return static_cast<ssize_t>(bytes);
  *flags |= NGHTTP2_DATA_FLAG_EOF;
  if (!stream.trailers().empty() && !owner.writes_trailers(stream)) {
    *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (!submit_trailers(session, stream)) return NGHTTP2_ERR_CALLBACK_FAILURE;
  }
  return static_cast<ssize_t>(left);
}

ssize_t Http2Session::Callbacks::read_pieces(nghttp2_session* session, int32_t id, uint8_t* to,
                                             size_t bytes, uint32_t* flags,
                                             nghttp2_data_source* source, void* self) {
  Stream& stream = *static_cast<Stream*>(source->ptr);
  if (stream.phase == Stream::Phase::answering)
    return read_body(session, id, to, bytes, flags, source, self);
  // Reached only if there was no memory for the reset, which is otherwise sent first.
  if (stream.phase == Stream::Phase::ending) return NGHTTP2_ERR_DEFERRED;
  const size_t left = stream.body_end - stream.sent_end;
  if (left == 0) {
    static_cast<Http2Session*>(self)->on_pieces_sent(stream);
    return NGHTTP2_ERR_DEFERRED;
  }
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  return static_cast<ssize_t>(std::min(left, bytes));
}

int Http2Session::Callbacks::send_data(nghttp2_session*, nghttp2_frame*, const uint8_t* header,
                                       size_t bytes, nghttp2_data_source* source, void* self) {
  auto& owner = *static_cast<Http2Session*>(self);
  if (owner.out_->size() >= owner.out_max_) return NGHTTP2_ERR_WOULDBLOCK;
  Stream& stream = *static_cast<Stream*>(source->ptr);
  owner.is_begun_ = true;
  // nghttp2 marks the last frame as such only if it was not given the trailers.
  const bool last = (header[4] & NGHTTP2_FLAG_END_STREAM) != 0;
  const bool with_trailers = last && !stream.trailers().empty();
  if (bytes > 0 || !with_trailers) {
    std::array<char, http2_frame_header_bytes> its_header;
    std::memcpy(its_header.data(), header, its_header.size());
    if (with_trailers) its_header[4] = 0;
    owner.out_->append({its_header.data(), its_header.size()});
    owner.out_->append({stream.answer.bytes + stream.sent_end, bytes});
    stream.sent_end += static_cast<uint32_t>(bytes);
    stream.taken += static_cast<uint32_t>(bytes);
    if (stream.taken >= http2_slow_bytes) {
      stream.taken = 0;
      stream.is_slow = false;
      owner.taken_ = true;
    }
  }
  if (with_trailers) append_trailers(*owner.out_, stream);
  return 0;
}

// Writes trailers directly: through nghttp2 they would cost another item of its queue, though there
// is usually one field of one byte. The encoder's table is not affected, because the fields are
// literals without indexing and Huffman coding (RFC 7541, 6.2.2).
void Http2Session::Callbacks::append_trailers(base::Buffer& out, const Stream& stream) {
  const std::string_view packed = stream.trailers();
  char* const frame = out.prepare(http2_frame_header_bytes + packed.size());
  char* const block = frame + http2_frame_header_bytes;
  char* at = block;
  for (const Http2Header& one : Http2Headers(packed)) {
    *at++ = '\0';
    at = write_hpack_text(write_hpack_text(at, one.name), one.value);
  }
  write_number(frame, static_cast<size_t>(at - block), 3);
  frame[3] = NGHTTP2_HEADERS;
  frame[4] = NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM;
  write_number(frame + 5, static_cast<uint32_t>(stream.id), 4);
  out.commit(static_cast<size_t>(at - frame));
}

bool Http2Session::Callbacks::submit_trailers(nghttp2_session* session, const Stream& stream) {
  std::array<nghttp2_nv, http2_answer_headers_max> entries;
  size_t count = 0;
  for (const Http2Header& one : Http2Headers(stream.trailers())) {
    if (count == entries.size()) break;
    entries[count++] = entry(one.name.data(), one.name.size(), one.value.data(), one.value.size());
  }
  return nghttp2_submit_trailer(session, stream.id, entries.data(), count) == 0;
}

// ---- Headers and answers, which are packed ----

Http2Header Http2Headers::Iterator::operator*() const {
  const Http2PackedSizes sizes = read_packed_sizes(at_);
  const char* const name = at_ + sizeof sizes;
  return {{name, sizes.name}, {name + sizes.name, sizes.value}};
}

Http2Headers::Iterator& Http2Headers::Iterator::operator++() {
  const Http2PackedSizes sizes = read_packed_sizes(at_);
  at_ += sizeof sizes + sizes.name + sizes.value;
  return *this;
}

std::optional<std::string_view> Http2Headers::find(std::string_view name) const {
  for (const Http2Header& one : *this) {
    if (one.name == name) return one.value;
  }
  return std::nullopt;
}

// A change of the table's size is sent at the head of the block that follows its acknowledgement,
// so that block must be nghttp2's. (A frame that waits for room in the output leaves before that.)
bool Http2Session::writes_trailers(const Stream& stream) const {
  return !has_new_settings_ && stream.trailers().size() <= http2_frame_bytes_max;
}

bool Http2Session::append_packed(Text& text, std::string_view name, std::string_view value) {
  const Http2PackedSizes sizes{static_cast<uint32_t>(name.size()),
                               static_cast<uint32_t>(value.size())};
  char* to = extend(text, sizeof sizes + name.size() + value.size());
  if (to == nullptr) return false;
  std::memcpy(to, &sizes, sizeof sizes);
  to = std::copy(name.begin(), name.end(), to + sizeof sizes);
  std::copy(value.begin(), value.end(), to);
  return true;
}

// A request for two hosts at once is malformed (RFC 9113, 8.3.1).
void Http2Session::compare_host(Stream& stream, std::string_view host) {
  const auto [at, size] = stream.authority;
  const std::string_view authority = stream.request.view().substr(at, size);
  stream.has_other_host =
      !authority.empty() && !std::ranges::equal(authority, host, {}, http_lower, http_lower);
}

void Http2Session::keep_header(Stream& stream, std::string_view name, std::string_view value) {
  if (name[0] != ':') {
    stream.is_lost = !hold(stream, sizeof(Http2PackedSizes) + name.size() + value.size()) ||
                     !append_packed(stream.request, name, value);
    return;
  }
  const Stream::TextPart part{stream.request.size, static_cast<uint32_t>(value.size())};
  stream.is_lost = !hold(stream, value.size()) || !append(stream.request, value);
  stream.headers_at = stream.request.size;
  switch (name[1]) {  // the rules of HTTP messages leave these
    case 'm':
      stream.method = part;
      stream.is_head = value == "HEAD";
      break;
    case 's':
      stream.scheme = part;
      break;
    case 'p':
      stream.path = part;
      break;
    default:
      stream.authority = part;
      break;
  }
}

// False: the answer does not fit.
bool Http2Session::answer(Stream& stream, const Http2Response& response) {
  // The bytes of the request no longer count, so the answer may use their room. They stay in
  // memory, because the answer may be copied from them.
  give_up(stream, stream.held);
  std::array<nghttp2_nv, http2_answer_headers_max + 1> entries;
  const bool has_body = !stream.is_head && (!response.body.empty() || !response.more_body.empty() ||
                                            !response.trailers.empty());
  size_t size = 3;
  for (const Http2Header& one : response.headers) size += one.name.size() + one.value.size();
  const size_t body_at = size;
  if (has_body) {
    size += response.body.size() + response.more_body.size();
    for (const Http2Header& one : response.trailers)
      size += sizeof(Http2PackedSizes) + one.name.size() + one.value.size();
  }
  if (response.headers.size() > http2_answer_headers_max ||
      response.trailers.size() > http2_answer_headers_max || size > UINT32_MAX / 2)
    return false;
  Text& text = stream.answer;
  if (!hold(stream, size)) return false;
  text.bytes = static_cast<char*>(pool_.allocate(size));
  if (text.bytes == nullptr) return false;
  text.capacity = static_cast<uint32_t>(Http2Pool::capacity(text.bytes));

  const std::array<char, 3> status{static_cast<char>('0' + response.status / 100 % 10),
                                   static_cast<char>('0' + response.status / 10 % 10),
                                   static_cast<char>('0' + response.status % 10)};
  append(text, {status.data(), status.size()});
  entries[0] = entry(":status", 7, text.bytes, 3);
  size_t count = 1;
  for (const Http2Header& one : response.headers) {
    const char* const at = text.bytes + text.size;
    append(text, one.name);
    append(text, one.value);
    entries[count++] = entry(at, one.name.size(), at + one.name.size(), one.value.size());
  }
  stream.sent_end = stream.body_end = static_cast<uint32_t>(body_at);
  if (has_body) {
    append(text, response.body);
    append(text, response.more_body);
    stream.body_end = text.size;
    for (const Http2Header& one : response.trailers) append_packed(text, one.name, one.value);
  }
  release_request(stream);
  nghttp2_data_provider body{{.ptr = &stream}, Callbacks::read_body};
  return nghttp2_submit_response(session_, stream.id, entries.data(), count,
                                 has_body ? &body : nullptr) == 0;
}

}  // namespace sluice::wire
