// Decodes the body of an HTTP/1.1 message with `Transfer-Encoding: chunked` (RFC 9112, 7.1), byte
// by byte, so the result does not depend on how the input is cut. A plain value, owned by a reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::wire {

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

  // The missing bytes of the chunk that is being read.
  size_t missing_bytes() const { return part_ == Part::data ? static_cast<size_t>(left_) : 0; }

  // After `broken`: the status of the answer (400 or 413), and a sentence for the client (a
  // literal).
  unsigned status() const { return status_; }
  std::string_view problem() const { return problem_; }

 private:
  // The part of the body to which the next byte belongs.
  enum class Part : uint8_t {
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

  Part part_ = Part::size_first;
  uint8_t digits_ = 0;
  uint64_t left_ = 0;  // the missing bytes of the chunk
  size_t line_bytes_ = 0;
  unsigned status_ = 0;
  std::string_view problem_{};
};

}  // namespace sluice::wire
