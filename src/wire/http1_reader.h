// Reads requests of HTTP/1.1 and 1.0 (RFC 9112) from the bytes of a connection, without input and
// output of its own. One reader for each connection, used by one thread.
//
// It refuses every request that two parsers might read differently (http1_reader.cc lists them with
// the sections of the RFC).
//
//   head      At most Bounds::head_bytes with the request line and the empty line (414 if the
//             request line alone is longer, else 431), and Bounds::fields fields (431). Lines end
//             with CR LF. A few empty lines before it are skipped and do not count.
//   target    Origin form; absolute form with http or https, whose authority replaces Host and must
//             be equal to it; or `*` for OPTIONS. Printable ASCII without `#` and `\`.
//   body      With Content-Length, or `chunked` as the only coding; at most Bounds::body_bytes
//             (413), and a chunked one at most Bounds::chunked_body_bytes as well. The lines and
//             trailers of a chunked body have at most Bounds::chunk_bytes together (413); trailers
//             are dropped.
//   splits    The results do not depend on how the input is cut, except for `head`, which is
//             reported only if the rest of the request has not arrived. A byte that breaks a head
//             is found when it arrives.
//   work      Each byte is examined once, and those of a target twice.
//   memory    A request with few fields that arrives in one piece and is not chunked allocates
//             nothing; one with many fields allocates their list, unless there is a spare one. If
//             the body does not arrive with the head, both are copied. The first call after the
//             request that brings no byte frees everything but a list of `fields_kept` fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http_field.h"

// Find the ends of the parts of an HTTP/1.1 head. Each function returns the place of the first byte
// from `at` on that does not belong to the part, or the size of `in`. Pure functions; any thread.
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/http_field.h"

namespace sluice::wire {

using HttpByteSet = std::array<bool, 256>;

constexpr bool is_in(const HttpByteSet& set, char c) {
  return set[static_cast<unsigned char>(c)];
}

constexpr HttpByteSet make_http_value_bytes() {
  HttpByteSet set{};
  for (size_t i = 0; i < set.size(); ++i) set[i] = i == '\t' || (i >= ' ' && i != 0x7F);
  return set;
}
// The bytes of a value (RFC 9110, 5.5): all except control characters; tabs are allowed.
inline constexpr HttpByteSet http_value_bytes = make_http_value_bytes();

inline size_t skip_set(const HttpByteSet& set, std::string_view in, size_t at) {
  const char* const bytes = in.data();
  const size_t unrolled = in.size() < 4 ? 0 : in.size() - 3;
  for (; at < unrolled; at += 4) {
    if (!is_in(set, bytes[at])) return at;
    if (!is_in(set, bytes[at + 1])) return at + 1;
    if (!is_in(set, bytes[at + 2])) return at + 2;
    if (!is_in(set, bytes[at + 3])) return at + 3;
  }
  while (at < in.size() && is_in(set, bytes[at])) ++at;
  return at;
}

#if defined(__SSE2__)

namespace sse {

inline constexpr size_t bytes_at_once = 16;

inline __m128i load(const char* at) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
}
// Sets all bits of each byte that is one of the `count` values from `first` on; clears the others.
inline __m128i is_within(__m128i bytes, char first, char count) {
  const __m128i distance = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(distance, _mm_set1_epi8(static_cast<char>(count - 1))),
                        distance);
}
inline __m128i is_equal(__m128i bytes, char c) {
  return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c));
}
// A bit for each byte.
inline uint32_t mask_of(__m128i found) {
  return static_cast<uint32_t>(_mm_movemask_epi8(found));
}

}  // namespace sse

// Skips http_token_chars: letters, digits and `-` sixteen at a time, others, which are rare,
// singly.
inline size_t skip_token(std::string_view in, size_t at) {
  while (in.size() - at >= sse::bytes_at_once) {
    const __m128i bytes = sse::load(in.data() + at);
    const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
    const __m128i usual =
        _mm_or_si128(_mm_or_si128(sse::is_within(lower, 'a', 26), sse::is_within(bytes, '0', 10)),
                     sse::is_equal(bytes, '-'));
    const uint32_t others = sse::mask_of(usual) ^ 0xFFFF;
    if (others == 0) {
      at += sse::bytes_at_once;
      continue;
    }
    at += static_cast<size_t>(std::countr_zero(others));
    if (!is_in(http_token_chars, in[at])) return at;
    ++at;
  }
  return skip_set(http_token_chars, in, at);
}

// Skips http_value_bytes, sixteen at a time.
inline size_t skip_value(std::string_view in, size_t at) {
  for (; in.size() - at >= sse::bytes_at_once; at += sse::bytes_at_once) {
    const __m128i bytes = sse::load(in.data() + at);
    const __m128i control =
        _mm_andnot_si128(sse::is_equal(bytes, '\t'), sse::is_within(bytes, '\0', ' '));
    const uint32_t others = sse::mask_of(_mm_or_si128(control, sse::is_equal(bytes, '\x7F')));
    if (others != 0) return at + static_cast<size_t>(std::countr_zero(others));
  }
  return skip_set(http_value_bytes, in, at);
}

#else

inline size_t skip_token(std::string_view in, size_t at) {
  return skip_set(http_token_chars, in, at);
}

inline size_t skip_value(std::string_view in, size_t at) {
  return skip_set(http_value_bytes, in, at);
}

#endif

// Decodes the body of an HTTP/1.1 message with `Transfer-Encoding: chunked` (RFC 9112, 7.1), byte
// by byte, so the result does not depend on how the input is cut. A plain value, owned by a reader.

class Http1Chunks {
 public:
  struct Bounds {
    size_t body_bytes;  // of the decoded body. Beyond it: 413
    size_t line_bytes;  // of everything else: sizes, line ends and trailers. Beyond it: 413
  };
  enum class Found : uint8_t { incomplete, whole, broken };
  struct Result {
    size_t consumed;  // if `incomplete`: all bytes
    Found found;
  };

  // Appends the data to `body`, which must have no other bytes; drops trailers. Must not be called
  // after `whole` or `broken`.
  Result next(std::string_view in, const Bounds& bounds, std::string& body);

  // After `broken`: the status of the answer (400 or 413), and a sentence for the client (a
  // literal).
  unsigned status() const { return status_; }
  std::string_view problem() const { return problem_; }

 private:
  // The part of the body to which the next byte belongs.
  enum class ChunkPart : uint8_t {
    size_first,  // the first digit
    size,
    extension_name_first,
    extension_name,
    extension_value_first,
    extension_token,
    extension_quoted,
    extension_escaped,  // after a `\`
    extension_end,      // after a quoted value
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_first,
    trailer_name,
    trailer_value,
    trailer_lf,
    last_lf,  // of the empty line at the end
    end,
  };

  bool read(char c, const Bounds& bounds, size_t body_bytes);
  bool read_size(char c);
  bool read_extension(char c);
  bool end_extension(char c);
  bool end_size(size_t room);
  bool read_trailer(char c);
  bool refuse(unsigned status, std::string_view problem);

  ChunkPart part_ = ChunkPart::size_first;
  uint8_t digits_ = 0;
  uint64_t left_ = 0;  // the missing bytes of the chunk
  size_t line_bytes_ = 0;
  unsigned status_ = 0;
  std::string_view problem_{};
};

// The head of a request. The views are valid until the next call of Http1Reader::next.
struct Http1Head {
  std::string_view method;           // as sent: "GET"
  std::string_view path{}, query{};  // as sent, the query without its `?`; path "*" for OPTIONS
  std::string_view host{};           // the target's, else that of Host; empty: there is none
  bool has_query = false;            // the target has a `?`
  bool is_http10 = false;
  bool keep_alive = true;        // the client keeps the connection (RFC 9112, 9.3)
  bool awaits_go_ahead = false;  // HTTP/1.1 with `Expect: 100-continue`
  bool has_body = false;         // a chunked body, or a length above 0, was announced
  bool is_chunked = false;
  uint64_t body_bytes = 0;              // as announced; 0 if it is chunked
  std::span<const HttpField> fields{};  // all of them, in order
};

using Http1FieldList = std::vector<HttpField>;

class Http1Reader {
 public:
  struct Bounds {
    size_t head_bytes = size_t{64} << 10;  // at most 1 GiB
    size_t fields = 256;
    size_t body_bytes = size_t{1} << 20;
    size_t chunk_bytes = size_t{64} << 10;
    size_t chunked_body_bytes = SIZE_MAX;
  };
  enum class Use : uint8_t {
    requests,
    // For a request that opens another protocol (WebSocket). It is complete with its head, whatever
    // body that announces. Host may be missing or ill-formed, because older clients write an IPv6
    // address without brackets (`Host: ::1:3000`).
    handshake,
  };
  enum class Found : uint8_t {
    incomplete,  // more bytes are needed
    head,        // `head()` is available, but not the body; reported once for such a request
    request,     // the request is complete
    broken,      // not HTTP, or beyond a bound: see `status()` and `problem()`. Final
  };
  struct Result {
    size_t consumed = 0;  // bytes of `in` that must not be passed again
    Found found = Found::incomplete;
  };

  // The number of fields for which an idle reader keeps room.
  static constexpr size_t fields_kept = 8;

  Http1Reader() : Http1Reader(Bounds{}) {}
  // `spare`: an empty list that the idle readers of one thread share, so that a request with many
  // fields does not allocate either. It outlives them. Null: there is none.
  explicit Http1Reader(const Bounds& bounds, Use use = Use::requests,
                       Http1FieldList* spare = nullptr);
  // Views point into it.
  Http1Reader(const Http1Reader&) = delete;
  Http1Reader& operator=(const Http1Reader&) = delete;

  // Reads from the front of `in`, which must begin with the bytes that were not consumed before.
  // After `request` it reads the next one. The bytes of a request that arrives in one piece are
  // consumed together with it, so views into `in` are valid as long as `in`.
  Result next(std::string_view in);

  // After `head` or `request`.
  const Http1Head& head() const { return head_; }
  // After `request`. Lives as long as the views of the head.
  std::string_view body() const { return body_; }
  // Gives the body to the caller; without a copy if the reader has gathered it. Called once.
  std::string take_body();

  // After `broken`: the status of the answer (400, 413, 414, 417, 431, 501 or 505), and a sentence
  // for the client (a literal).
  unsigned status() const { return status_; }
  std::string_view problem() const { return problem_; }

  // Whether an incomplete request has begun.
  bool has_begun() const;
  // Of memory that an incomplete request holds. It is what has arrived, up to twice as much; what
  // its head announces holds none.
  size_t unfinished_bytes() const;

 private:
  //   from    to      when
  //   head    done    the head is complete, and there is no body, or all of it has arrived
  //   head    body    the head is complete, and a part of a body with Content-Length is missing
  //   head    chunks  the head is complete, and the body is chunked
  //   body,   done    the body is complete: the request is reported
  //   chunks
  //   done    head    the next call of `next`
  //
  // After a problem `status_` is not 0, whatever the phase, and `next` consumes everything.
  enum class Phase : uint8_t {
    head,    // reads the lines of the head
    body,    // gathers a body with Content-Length
    chunks,  // decodes a chunked body
    done,    // the request was reported
  };
  enum class HeadPart : uint8_t { method, target, version, fields };  // of the head, in this order
  enum class Step : uint8_t { whole, incomplete, refused };
  // The request being read, as offsets from the beginning of its head.
  struct Progress {
    uint32_t at;        // the bytes before it were examined
    uint32_t line_at;   // the line of the field being read
    uint32_t colon_at;  // the colon of that line; 0: not read yet
    uint32_t method_bytes, target_end;
    uint32_t host_at, host_bytes;
    uint32_t fields;       // so far
    uint32_t empty_lines;  // before the request
    HeadPart part;
    bool is_http10, is_absolute, has_host, has_length, has_coding, wants_close, wants_keep_alive,
        expects;
    uint64_t left;  // missing bytes of a body with Content-Length
  };
  // A field of an incomplete head.
  struct FieldPlace {
    uint32_t name_at, name_bytes, value_at, value_bytes;
  };

  void begin_request(bool is_idle);
  Result read_head(std::string_view in);
  Step skip_empty_lines(std::string_view& in);
  Step read_request_line(std::string_view in);
  Step read_version(std::string_view in);
  bool check_target(std::string_view in);
  Step read_fields(std::string_view in);
  bool end_fields(std::string_view line, size_t at);
  bool add_field(const HttpField& field, const char* head);
  void make_room();
  void put_fields_by();
  bool read_special_field(const HttpField& field, const char* head);
  bool read_host(std::string_view value, const char* head);
  bool read_coding(std::string_view value);
  bool read_content_length(std::string_view value);
  bool read_connection(std::string_view value);
  bool check_head(std::string_view in);
  void show_head(std::string_view in);
  void set_fields_aside(const char* head);
  void bring_fields_back(const char* head);
  Result begin_body(std::string_view in);
  void keep_head(std::string_view in);
  Result read_body(std::string_view in);
  Result read_chunks(std::string_view in);
  bool refuse(unsigned status, std::string_view problem);
  Step fail(unsigned status, std::string_view problem);
  static Result broken(std::string_view in) { return {in.size(), Found::broken}; }

  const Bounds bounds_;
  const Use use_;
  Http1FieldList* const spare_;
  Phase phase_ = Phase::head;
  bool has_copies_ = false;  // own_head_, own_body_ or places_ are in use
  Progress progress_{};
  Http1Head head_;
  std::string_view body_;
  Http1FieldList fields_;
  uint32_t fields_hint_ = 0;        // the number of fields of the last request
  std::vector<FieldPlace> places_;  // the fields that earlier calls read
  Http1Chunks chunks_;
  std::string own_head_, own_body_;  // of a request whose body did not arrive with its head
  unsigned status_ = 0;
  std::string_view problem_;
};

}  // namespace sluice::wire
