#include "wire/http2_callbacks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>

#include "wire/http2_stream.h"

namespace sluice::wire {
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

void Http2Session::keep_header(Stream& stream, std::string_view name, std::string_view value) {
  if (name[0] != ':') {
    stream.is_lost = !hold(stream, sizeof(Http2PackedSizes) + name.size() + value.size()) ||
                     !append_packed(stream.request, name, value);
    return;
  }
  const Stream::Part part{stream.request.size, static_cast<uint32_t>(value.size())};
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
