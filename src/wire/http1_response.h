// Reads responses of HTTP/1.1 (RFC 9112) for a client, from the bytes of a connection, without
// input and output of its own. One reader for each connection, used by one thread.
//
//   head      at most Bounds::head_bytes, lines that end with CR LF, of at most 256 fields.
//             Responses 100, 102 and 103 are skipped; 101 ends the reading.
//   body      With Content-Length, or `chunked` as the only coding; at most Bounds::body_bytes. 204
//             and 304 have none. A response without either is broken, because only the end of the
//             connection would mark its end, and a truncated response could not be recognized.
//   splits    The results do not depend on how the input is cut.
//   work      Each byte is examined a bounded number of times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "wire/http1_reader.h"
#include "wire/http_field.h"

namespace sluice::wire {

class Http1ResponseReader {
 public:
  struct Bounds {
    size_t head_bytes = size_t{64} << 10;
    size_t body_bytes = size_t{16} << 20;
  };
  enum class Found : uint8_t {
    incomplete,
    response,   // a response is complete
    switching,  // a 101: the bytes after it are of another protocol
    broken,     // not a response, or not one that is allowed here. Final
  };
  // Why the response is broken.
  enum class Fault : uint8_t { none, malformed, head_size, body_size, no_length };
  struct Result {
    size_t consumed = 0;
    Found found = Found::incomplete;
  };

  Http1ResponseReader() : Http1ResponseReader(Bounds{}) {}
  explicit Http1ResponseReader(const Bounds& bounds) : bounds_(bounds) {}

  // Reads from the front of `in`, which must begin with the bytes that were not consumed before.
  // Consumes complete responses only.
  Result next(std::string_view in);

  Fault fault() const { return fault_; }

  // After `response` or `switching`. Views are valid until the next call, and as long as `in`.
  unsigned status() const { return status_; }
  std::string_view body() const { return body_; }
  // The value of the first field with that name, in lower case; empty: there is none.
  std::string_view field(std::string_view lower_name) const;

 private:
  enum class Coding : uint8_t { none, length, chunked };

  Result read_body(std::string_view in);
  bool read_head(std::string_view head);
  bool read_status_line(std::string_view line);
  bool read_field(std::string_view line);
  Result fail(Fault fault = Fault::malformed);
  void begin();

  const Bounds bounds_;
  Fault fault_ = Fault::none;
  bool has_head_ = false;
  size_t searched_ = 0;    // bytes that do not contain the end of the head
  size_t head_bytes_ = 0;  // with the empty line
  size_t fed_ = 0;         // bytes of a chunked body that were decoded
  uint64_t length_ = 0;
  Coding coding_ = Coding::none;
  unsigned status_ = 0;
  std::vector<HttpField> fields_;
  Http1Chunks chunks_;
  std::string own_body_;
  std::string_view body_;
};

}  // namespace sluice::wire
