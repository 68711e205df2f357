// Requests of HTTP/1.1 and 1.0 (RFC 9112) from the bytes of a connection, without I/O. One reader
// for each connection, used by one thread; it allocates only for a request that does not arrive in
// one piece or whose body is chunked.
//
// It takes one reading of a request or none: whatever two parsers might read differently is refused
// (http1_reader.cc has the list with its sections of the RFC).
//
//   head      At most Bounds::head_bytes with its request line and its empty line (431), of
//             Bounds::fields fields (431). Lines end with CR LF.
//   target    Origin form, absolute form (http or https, whose authority then counts in place of
//             Host), or `*` of OPTIONS. Printable ASCII.
//   body      Content-Length or `chunked` alone, at most Bounds::body_bytes (413). A chunked body's
//             lines and trailers are at most Bounds::chunk_bytes over all of it (413 past it);
//             trailers are read and dropped.
//   splits    What is found does not depend on how the input is cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http_field.h"

namespace sluice::wire {

// The head of a request. Views live until the next call of Http1Reader::next.
struct Http1Head {
  std::string_view method;           // as sent: "GET"
  std::string_view path{}, query{};  // as sent, the query without its `?`; "*" of OPTIONS
  std::string_view host{};           // of the target if it has one, else Host; empty: neither
  bool has_query = false;            // there is a `?`
  bool is_http10 = false;
  bool keep_alive = true;        // what the client wants (RFC 9112, 9.3)
  bool awaits_go_ahead = false;  // Expect: 100-continue, and it is HTTP/1.1
  bool has_body = false;         // a body of a byte or more was announced, or it is chunked
  bool is_chunked = false;
  uint64_t body_bytes = 0;              // as announced; 0 of one that is chunked
  std::span<const HttpField> fields{};  // all of them, in order
};

// More than twenty members: what of a request was read, of its head, its body and its chunk.
class Http1Reader {
 public:
  struct Bounds {
    size_t head_bytes = size_t{64} << 10;
    size_t fields = 256;
    size_t body_bytes = size_t{1} << 20;
    size_t chunk_bytes = size_t{64} << 10;
  };
  enum class Found : uint8_t {
    incomplete,  // more bytes are needed
    head,        // `head()` is there, its body is not; told once for each such request
    request,     // all of it is there
    broken,      // no HTTP, or too much of it: `status()` and `problem()`. It stays so
  };
  struct Result {
    size_t consumed = 0;  // bytes of `in` that must not come again
    Found found = Found::incomplete;
  };

  Http1Reader() : Http1Reader(Bounds{}) {}
  explicit Http1Reader(const Bounds& bounds);

  // Reads from the front of `in`: what was not consumed before and what came since. After
  // `request`: reads the next one. Bytes of a request that is found whole are consumed with it, so
  // views into `in` stay valid as long as `in` does.
  Result next(std::string_view in);

  // After `head` or `request`.
  const Http1Head& head() const { return head_; }
  // After `request`. Lives as long as the views of the head.
  std::string_view body() const { return body_; }

  // After `broken`: the status of the answer, and a sentence for the client (a literal).
  unsigned status() const { return status_; }
  std::string_view problem() const { return problem_; }

  // Is there a part of a request that is not whole?
  bool has_begun() const;
  // Bytes of such a part that were consumed, or that its head says will come.
  size_t unfinished_bytes() const;

 private:
  enum class Phase : uint8_t {
    head,        // its lines are read
    body,        // of a Content-Length, gathered
    chunk_size,  // the line in front of a chunk
    chunk,       // its bytes
    chunk_end,   // the line end behind them
    trailers,
    done,  // the request was told
  };

  Result read_head(std::string_view in);
  bool read_lines(std::string_view in, size_t& end);
  bool read_request_line(std::string_view line);
  bool read_target(std::string_view target);
  bool read_field(std::string_view line);
  bool read_special_field(const HttpField& field);
  bool read_content_length(std::string_view value);
  bool read_connection(std::string_view value);
  bool begin_body();
  void keep_head(std::string_view head);
  void rebase(const char* from, const char* to, size_t bytes);
  Result read_body(std::string_view in);
  Result read_chunks(std::string_view in);
  bool read_chunk_size(std::string_view line);
  bool take_line(std::string_view in, size_t& at, std::string_view& line, bool& whole);
  void begin_request();
  bool refuse(unsigned status, std::string_view problem);
  static Result broken(std::string_view in) { return {in.size(), Found::broken}; }

  const Bounds bounds_;
  Phase phase_ = Phase::head;
  Http1Head head_;
  std::string_view body_;
  std::vector<HttpField> fields_;
  std::string own_head_, own_body_;  // of a request that did not come in one piece
  const char* base_ = nullptr;       // where the views of an unfinished head point to
  size_t line_at_ = 0;               // in the head: the line that is read next
  size_t scanned_ = 0;               // in the head: no line end lies before it
  size_t empty_lines_ = 0;           // in front of the request
  uint64_t left_ = 0;                // of the body or of the chunk
  size_t chunk_bytes_ = 0;           // of lines of a chunked body
  bool has_request_line_ = false, has_host_ = false, has_length_ = false, has_coding_ = false,
       is_chunked_ = false, wants_close_ = false, wants_keep_alive_ = false, expects_ = false,
       has_authority_ = false;
  unsigned status_ = 0;
  std::string_view problem_;
};

}  // namespace sluice::wire
