// The body of a request of HTTP/1.1 with `Transfer-Encoding: chunked` (RFC 9112, 7.1), decoded byte
// by byte, so that it does not matter how the input is cut. A plain value of Http1Reader's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::wire {

class Http1Chunks {
 public:
  struct Bounds {
    size_t body_bytes;  // of the decoded body. Past it: 413
    size_t line_bytes;  // of all else, sizes, line ends and trailers. Past it: 413
  };
  enum class Found : uint8_t { incomplete, whole, broken };
  struct Result {
    size_t consumed;  // incomplete: all of it
    Found found;
  };

  // Appends the data to `body`, to which nothing else is; drops trailers. Not after `whole` or
  // `broken`.
  Result next(std::string_view in, const Bounds& bounds, std::string& body);

  // Bytes of the chunk that is read which have not come.
  size_t missing_bytes() const { return part_ == Part::data ? static_cast<size_t>(left_) : 0; }

  // After `broken`: the status of the answer (400 or 413), and a sentence for the client (a
  // literal).
  unsigned status() const { return status_; }
  std::string_view problem() const { return problem_; }

 private:
  // What the next byte belongs to.
  enum class Part : uint8_t {
    size_first,  // the first digit
    size,
    extension_name_first,
    extension_name,
    extension_value_first,
    extension_token,
    extension_quoted,
    extension_escaped,  // behind a `\`
    extension_end,      // behind a quoted value
    size_lf,
    data,
    data_cr,
    data_lf,
    trailer_first,
    trailer_name,
    trailer_value,
    trailer_lf,
    last_lf,  // of the empty line behind everything
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
  uint64_t left_ = 0;  // of the chunk
  size_t line_bytes_ = 0;
  unsigned status_ = 0;
  std::string_view problem_{};
};

}  // namespace sluice::wire
