// Connects an Http2Session with nghttp2: the callbacks, the options, and the data that nghttp2
// sends. Only for the files of the session.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstddef>
#include <cstdint>

#include "wire/http2_session.h"

namespace sluice::wire {

struct Http2Session::Callbacks {
  // Null: the system has no memory.
  static nghttp2_session* make_session(Http2Session& owner, Http2Pool& pool);
  static Http2Fault fault_of(int error);

  static int on_begin_headers(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static int on_header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                       size_t name_bytes, const uint8_t* value, size_t value_bytes, uint8_t flags,
                       void* self);
  static int on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static int on_data(nghttp2_session* session, uint8_t flags, int32_t id, const uint8_t* data,
                     size_t bytes, void* self);
  static int on_close(nghttp2_session* session, int32_t id, uint32_t code, void* self);
  static int on_packed(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static int on_sent(nghttp2_session* session, const nghttp2_frame* frame, void* self);
  static ssize_t read_body(nghttp2_session* session, int32_t id, uint8_t* to, size_t bytes,
                           uint32_t* flags, nghttp2_data_source* source, void* self);
  static ssize_t read_pieces(nghttp2_session* session, int32_t id, uint8_t* to, size_t bytes,
                             uint32_t* flags, nghttp2_data_source* source, void* self);
  static int send_data(nghttp2_session* session, nghttp2_frame* frame, const uint8_t* header,
                       size_t bytes, nghttp2_data_source* source, void* self);

  static Stream* stream_of(Http2Session& self, int32_t id);
  static void append_trailers(base::Buffer& out, const Stream& stream);
  static bool submit_trailers(nghttp2_session* session, const Stream& stream);
};

}  // namespace sluice::wire
