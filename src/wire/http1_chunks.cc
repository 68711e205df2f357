#include "wire/http1_chunks.h"

#include "wire/http1_scan.h"
#include "wire/http_field.h"

namespace sluice::wire {
namespace {

constexpr uint8_t chunk_digits_max = 16;

constexpr std::string_view bad_size = "the size of a chunk must be a hexadecimal number",
                           bad_line = "a line of the chunked body is ill-formed",
                           bad_trailer =
                               "a line behind the body is not a name, a colon and a value";

int chunk_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = http_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

}  // namespace

Http1Chunks::Result Http1Chunks::next(std::string_view in, const Bounds& bounds,
                                      std::string& body) {
  size_t at = 0;
  while (at < in.size()) {
    if (part_ == Part::data) {
      const std::string_view data = in.substr(at, static_cast<size_t>(left_));
      body.append(data);
      at += data.size();
      left_ -= data.size();
      if (left_ == 0) part_ = Part::data_cr;
      continue;
    }
    if (++line_bytes_ > bounds.line_bytes) {
      refuse(413, "the lines of the chunked body are too long together");
      return {at, Found::broken};
    }
    if (!read(in[at++], bounds, body.size())) return {at, Found::broken};
    if (part_ == Part::end) return {at, Found::whole};
  }
  return {at, Found::incomplete};
}

bool Http1Chunks::refuse(unsigned status, std::string_view problem) {
  status_ = status;
  problem_ = problem;
  return false;
}

// Reads a byte that is not data. False: refused, as for the functions below.
bool Http1Chunks::read(char c, const Bounds& bounds, size_t body_bytes) {
  switch (part_) {
    case Part::size_first:
    case Part::size:
      return read_size(c);
    case Part::size_lf:
      return c == '\n' ? end_size(bounds.body_bytes - body_bytes) : refuse(400, bad_line);
    case Part::data_cr:
      part_ = Part::data_lf;
      return c == '\r' || refuse(400, "a chunk of the body is longer than it says");
    case Part::data_lf:
      part_ = Part::size_first;
      return c == '\n' || refuse(400, bad_line);
    case Part::trailer_first:
    case Part::trailer_name:
    case Part::trailer_value:
    case Part::trailer_lf:
    case Part::last_lf:
      return read_trailer(c);
    default:
      return read_extension(c);
  }
}

bool Http1Chunks::read_size(char c) {
  const int digit = chunk_digit(c);
  if (digit >= 0) {
    if (part_ == Part::size_first) digits_ = 0;
    if (digits_++ == chunk_digits_max)
      return refuse(400, "the size of a chunk must have 1 to 16 digits");
    left_ = left_ << 4 | static_cast<uint64_t>(digit);
    part_ = Part::size;
    return true;
  }
  if (part_ == Part::size_first || (c != ';' && c != '\r')) return refuse(400, bad_size);
  part_ = c == ';' ? Part::extension_name_first : Part::size_lf;
  return true;
}

// `;` name [ `=` ( token / quoted text ) ], any number of times (7.1.1), of ASCII.
bool Http1Chunks::read_extension(char c) {
  const bool is_text = c >= ' ' && c < 0x7F;
  switch (part_) {
    case Part::extension_name_first:
      part_ = Part::extension_name;
      return is_in(http_token_chars, c) || refuse(400, bad_line);
    case Part::extension_name:
      if (c == '=') part_ = Part::extension_value_first;
      return c == '=' || is_in(http_token_chars, c) || end_extension(c);
    case Part::extension_value_first:
      part_ = c == '"' ? Part::extension_quoted : Part::extension_token;
      return c == '"' || is_in(http_token_chars, c) || refuse(400, bad_line);
    case Part::extension_token:
      return is_in(http_token_chars, c) || end_extension(c);
    case Part::extension_quoted:
      if (c == '"') part_ = Part::extension_end;
      if (c == '\\') part_ = Part::extension_escaped;
      return is_text || refuse(400, bad_line);
    case Part::extension_escaped:
      part_ = Part::extension_quoted;
      return is_text || refuse(400, bad_line);
    default:
      return end_extension(c);
  }
}

bool Http1Chunks::end_extension(char c) {
  if (c != ';' && c != '\r') return refuse(400, bad_line);
  part_ = c == ';' ? Part::extension_name_first : Part::size_lf;
  return true;
}

// `room`: the most bytes that the chunk's data may have.
bool Http1Chunks::end_size(size_t room) {
  if (left_ > room) return refuse(413, "the body of the request is too long");
  part_ = left_ > 0 ? Part::data : Part::trailer_first;
  return true;
}

bool Http1Chunks::read_trailer(char c) {
  switch (part_) {
    case Part::trailer_first:
      part_ = c == '\r' ? Part::last_lf : Part::trailer_name;
      return c == '\r' || is_in(http_token_chars, c) || refuse(400, bad_trailer);
    case Part::trailer_name:
      if (c == ':') part_ = Part::trailer_value;
      return c == ':' || is_in(http_token_chars, c) || refuse(400, bad_trailer);
    case Part::trailer_value:
      if (c == '\r') part_ = Part::trailer_lf;
      return c == '\r' || is_in(http_value_bytes, c) || refuse(400, bad_trailer);
    case Part::trailer_lf:
      part_ = Part::trailer_first;
      return c == '\n' || refuse(400, bad_line);
    default:
      part_ = Part::end;
      return c == '\n' || refuse(400, bad_line);
  }
}

}  // namespace sluice::wire
