// What is refused, since two parsers might read it differently (RFC 9112; RFC 9110 where named).
// With 400 unless another status is given:
//
//   2.2   a LF without a CR in front of it, or a CR without a LF behind it, but in a body's data;
//         white space at the beginning of a line (5.2, obsolete line folding); more than
//         empty_lines_max empty lines in front of a request
//   2.3   a version that is not `HTTP/`, a digit, `.` and a digit; 505: another than 1.0 and 1.1
//   3     anything but one blank between method, target and version; a method that is not a token
//   3.2   no Host in HTTP/1.1, two of them, one that is ill-formed, or that is not the host of the
//         target where that has one; a target with control characters, bytes above 0x7E, a
//         fragment, or `\`, which some take for `/`; an absolute one that is not http or https, has
//         user information or no host; authority form; `*` but of OPTIONS
//   5     a line that has no colon, an empty name, or a name that is not a token (5.1: white space
//         in front of the colon)
//   5.5   (RFC 9110) control characters in a value, but for tabs
//   6.1   Transfer-Encoding beside a Content-Length, in HTTP/1.0, twice, or other than `chunked`.
//         501: another coding by itself
//   6.2   a Content-Length that is not digits alone, of more than 19 digits, above 2^63 - 1, or
//         twice, though they be the same. Of it and of Transfer-Encoding: tabs around the value
//   7.1   a chunk's size that is not 1 to 16 hexadecimal digits; extensions that are not as 7.1.1
//         has them, or with white space or control characters; bytes between a chunk and its line
//         end; trailers that are not as 5 has fields
//   9.1   a Connection that is not a list of tokens (of `close` and `keep-alive` the first holds)
//  10.1.1 (RFC 9110) 417: an expectation other than 100-continue
#include "wire/http1_reader.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "wire/http_authority.h"
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
    if (part_ == ChunkPart::data) {
      const std::string_view data = in.substr(at, static_cast<size_t>(left_));
      body.append(data);
      at += data.size();
      left_ -= data.size();
      if (left_ == 0) part_ = ChunkPart::data_cr;
      continue;
    }
    if (++line_bytes_ > bounds.line_bytes) {
      refuse(413, "the lines of the chunked body are too long together");
      return {at, Found::broken};
    }
    if (!read(in[at++], bounds, body.size())) return {at, Found::broken};
    if (part_ == ChunkPart::end) return {at, Found::whole};
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
    case ChunkPart::size_first:
    case ChunkPart::size:
      return read_size(c);
    case ChunkPart::size_lf:
      return c == '\n' ? end_size(bounds.body_bytes - body_bytes) : refuse(400, bad_line);
    case ChunkPart::data_cr:
      part_ = ChunkPart::data_lf;
      return c == '\r' || refuse(400, "a chunk of the body is longer than it says");
    case ChunkPart::data_lf:
      part_ = ChunkPart::size_first;
      return c == '\n' || refuse(400, bad_line);
    case ChunkPart::trailer_first:
    case ChunkPart::trailer_name:
    case ChunkPart::trailer_value:
    case ChunkPart::trailer_lf:
    case ChunkPart::last_lf:
      return read_trailer(c);
    default:
      return read_extension(c);
  }
}

bool Http1Chunks::read_size(char c) {
  const int digit = chunk_digit(c);
  if (digit >= 0) {
    if (part_ == ChunkPart::size_first) digits_ = 0;
    if (digits_++ == chunk_digits_max)
      return refuse(400, "the size of a chunk must have 1 to 16 digits");
    left_ = left_ << 4 | static_cast<uint64_t>(digit);
    part_ = ChunkPart::size;
    return true;
  }
  if (part_ == ChunkPart::size_first || (c != ';' && c != '\r')) return refuse(400, bad_size);
  part_ = c == ';' ? ChunkPart::extension_name_first : ChunkPart::size_lf;
  return true;
}

// `;` name [ `=` ( token / quoted text ) ], any number of times (7.1.1), of ASCII.
bool Http1Chunks::read_extension(char c) {
  const bool is_text = c >= ' ' && c < 0x7F;
  switch (part_) {
    case ChunkPart::extension_name_first:
      part_ = ChunkPart::extension_name;
      return is_in(http_token_chars, c) || refuse(400, bad_line);
    case ChunkPart::extension_name:
      if (c == '=') part_ = ChunkPart::extension_value_first;
      return c == '=' || is_in(http_token_chars, c) || end_extension(c);
    case ChunkPart::extension_value_first:
      part_ = c == '"' ? ChunkPart::extension_quoted : ChunkPart::extension_token;
      return c == '"' || is_in(http_token_chars, c) || refuse(400, bad_line);
    case ChunkPart::extension_token:
      return is_in(http_token_chars, c) || end_extension(c);
    case ChunkPart::extension_quoted:
      if (c == '"') part_ = ChunkPart::extension_end;
      if (c == '\\') part_ = ChunkPart::extension_escaped;
      return is_text || refuse(400, bad_line);
    case ChunkPart::extension_escaped:
      part_ = ChunkPart::extension_quoted;
      return is_text || refuse(400, bad_line);
    default:
      return end_extension(c);
  }
}

bool Http1Chunks::end_extension(char c) {
  if (c != ';' && c != '\r') return refuse(400, bad_line);
  part_ = c == ';' ? ChunkPart::extension_name_first : ChunkPart::size_lf;
  return true;
}

// `room`: the most bytes that the chunk's data may have.
bool Http1Chunks::end_size(size_t room) {
  if (left_ > room) return refuse(413, "the body of the request is too long");
  part_ = left_ > 0 ? ChunkPart::data : ChunkPart::trailer_first;
  return true;
}

bool Http1Chunks::read_trailer(char c) {
  switch (part_) {
    case ChunkPart::trailer_first:
      part_ = c == '\r' ? ChunkPart::last_lf : ChunkPart::trailer_name;
      return c == '\r' || is_in(http_token_chars, c) || refuse(400, bad_trailer);
    case ChunkPart::trailer_name:
      if (c == ':') part_ = ChunkPart::trailer_value;
      return c == ':' || is_in(http_token_chars, c) || refuse(400, bad_trailer);
    case ChunkPart::trailer_value:
      if (c == '\r') part_ = ChunkPart::trailer_lf;
      return c == '\r' || is_in(http_value_bytes, c) || refuse(400, bad_trailer);
    case ChunkPart::trailer_lf:
      part_ = ChunkPart::trailer_first;
      return c == '\n' || refuse(400, bad_line);
    default:
      part_ = ChunkPart::end;
      return c == '\n' || refuse(400, bad_line);
  }
}

namespace {

constexpr size_t empty_lines_max = 8;
constexpr size_t head_bytes_most = size_t{1} << 30;  // what Progress can count
constexpr size_t length_digits_max = 19;

constexpr std::string_view not_http = "this is not a request of HTTP/1.1 or HTTP/1.0",
                           bare_cr = "a line has a CR without a LF behind it",
                           control = "a field has a control character, or a line ends without a CR",
                           not_a_field = "a line is not a name, a colon and a value",
                           folded = "a line begins with white space, or has it before the colon";

constexpr HttpByteSet make_target_bytes() {
  HttpByteSet set{};
  for (size_t i = '!'; i <= '~'; ++i) set[i] = i != '#' && i != '\\';
  return set;
}
// Printable ASCII but for a fragment, and for `\`, which some take for `/`.
constexpr HttpByteSet target_bytes = make_target_bytes();

// Is `name`, of characters of a token and of the same length, `lower` in another case? `lower`:
// lower letters and `-` alone, the only characters of a token that have the bits of these below the
// one that tells the case.
template <size_t terminated>
bool is_same_name(std::string_view name, const char (&lower)[terminated]) {
  constexpr size_t bytes = terminated - 1;
  using Word = std::conditional_t<(bytes >= 8), uint64_t, uint32_t>;
  static_assert(bytes >= sizeof(Word));
  const auto differ = [&](size_t at) {
    Word given, wanted;
    std::memcpy(&given, name.data() + at, sizeof given);
    std::memcpy(&wanted, lower + at, sizeof wanted);
    constexpr auto cases = static_cast<Word>(0x2020202020202020);
    return (given | cases) != wanted;
  };
  for (size_t at = 0; at + sizeof(Word) <= bytes; at += sizeof(Word))
    if (differ(at)) return false;
  return bytes % sizeof(Word) == 0 || !differ(bytes - sizeof(Word));
}

bool is_decimal(char c) {
  return static_cast<unsigned char>(c - '0') <= 9;
}

bool is_white(char c) {
  return c == ' ' || c == '\t';
}

std::string_view without_white(std::string_view text) {
  while (!text.empty() && is_white(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_white(text.back())) text.remove_suffix(1);
  return text;
}

// Is there a tab in the white space around a value? The loops end at the colon before it and at the
// line end after it.
bool has_tabs_around(std::string_view value) {
  const char* front = value.data() - 1;
  while (*front == ' ') --front;
  const char* back = value.data() + value.size();
  while (*back == ' ') ++back;
  return *front == '\t' || *back == '\t';
}

// Of a line up to its `end`, where its CR is.
inline HttpField field_of(const char* in, size_t line, size_t colon, size_t end) {
  size_t value = colon + 1, behind = end;
  if (in[value] == ' ') ++value;
  while (is_white(in[value])) ++value;
  while (behind > value && is_white(in[behind - 1])) --behind;
  return {{in + line, colon - line}, {in + value, behind - value}};
}

bool is_same_text(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return http_lower(x) == http_lower(y); });
}

Http1Reader::Bounds countable(Http1Reader::Bounds bounds) {
  bounds.head_bytes = std::min(bounds.head_bytes, head_bytes_most);
  return bounds;
}

uint32_t distance(const char* from, const char* to) {
  return static_cast<uint32_t>(to - from);
}

}  // namespace

Http1Reader::Http1Reader(const Bounds& bounds, Use use, Http1FieldList* spare)
    : bounds_(countable(bounds)), use_(use), spare_(spare) {}

bool Http1Reader::has_begun() const {
  if (status_ != 0 || phase_ == Phase::done) return false;
  return phase_ != Phase::head || progress_.at > 0;
}

size_t Http1Reader::unfinished_bytes() const {
  if (status_ != 0 || phase_ == Phase::head || phase_ == Phase::done) return 0;
  return own_head_.capacity() + own_body_.capacity();
}

std::string Http1Reader::take_body() {
  std::string body;
  if (body_.data() == own_body_.data())
    body.swap(own_body_);
  else
    body = body_;
  body_ = {};
  return body;
}

Http1Reader::Step Http1Reader::fail(unsigned status, std::string_view problem) {
  refuse(status, problem);
  return Step::refused;
}

bool Http1Reader::refuse(unsigned status, std::string_view problem) {
  status_ = status;
  problem_ = problem;
  return false;
}

void Http1Reader::begin_request(bool is_idle) {
  phase_ = Phase::head;
  progress_ = {};
  body_ = {};
  fields_hint_ = static_cast<uint32_t>(fields_.size());
  fields_.clear();
  if (is_idle && fields_.capacity() > fields_kept) put_fields_by();
  if (std::exchange(has_copies_, false)) {
    std::string().swap(own_head_);
    std::string().swap(own_body_);
    std::vector<FieldPlace>().swap(places_);
    chunks_ = {};
  }
}

Http1Reader::Result Http1Reader::next(std::string_view in) {
  if (status_ != 0) return broken(in);
  if (phase_ == Phase::done) begin_request(in.empty());
  switch (phase_) {
    case Phase::body:
      return read_body(in);
    case Phase::chunks:
      return read_chunks(in);
    default:
      return read_head(in);
  }
}

// ---- The head ----

Http1Reader::Result Http1Reader::read_head(std::string_view in) {
  const size_t given = in.size();
  if (given <= progress_.at) return {};
  Step step = Step::whole;
  if (progress_.at == 0 && in.front() == '\r') step = skip_empty_lines(in);
  const size_t skipped = given - in.size();
  const std::string_view window = in.substr(0, bounds_.head_bytes);
  if (step == Step::whole && progress_.part != HeadPart::fields) step = read_request_line(window);
  if (step == Step::whole) step = read_fields(window);
  if (step == Step::incomplete) {
    if (progress_.at == 0 || in.size() < bounds_.head_bytes) {
      if (!fields_.empty()) set_fields_aside(in.data());
      return {skipped, Found::incomplete};
    }
    if (progress_.part == HeadPart::fields)
      refuse(431, "the head of the request is too long");
    else
      refuse(414, "the request line is too long");
  }
  if (status_ != 0 || !check_head(in)) return {given, Found::broken};
  if (!places_.empty()) bring_fields_back(in.data());
  show_head(in);
  const Result result = begin_body(in);
  return {skipped + result.consumed, result.found};
}

// Whole: the next bytes begin a request.
Http1Reader::Step Http1Reader::skip_empty_lines(std::string_view& in) {
  while (in.starts_with('\r')) {
    if (in.size() == 1) return Step::incomplete;
    if (in[1] != '\n' || ++progress_.empty_lines > empty_lines_max) return fail(400, not_http);
    in.remove_prefix(2);
  }
  return in.empty() ? Step::incomplete : Step::whole;
}

Http1Reader::Step Http1Reader::read_request_line(std::string_view in) {
  if (progress_.part == HeadPart::method) {
    const size_t at = skip_token(in, progress_.at);
    progress_.at = static_cast<uint32_t>(at);
    if (at == in.size()) return Step::incomplete;
    if (in[at] != ' ' || at == 0) return fail(400, not_http);
    progress_.method_bytes = progress_.at++;
    progress_.part = HeadPart::target;
  }
  if (progress_.part == HeadPart::target) {
    const size_t at = skip_set(target_bytes, in, progress_.at);
    progress_.at = static_cast<uint32_t>(at);
    if (at == in.size()) return Step::incomplete;
    if (in[at] == '\r' || at == progress_.method_bytes + size_t{1}) return fail(400, not_http);
    if (in[at] != ' ')
      return fail(400, "the target of the request has characters that none may have");
    progress_.target_end = progress_.at++;
    progress_.part = HeadPart::version;
  }
  return read_version(in);
}

Http1Reader::Step Http1Reader::read_version(std::string_view in) {
  constexpr std::string_view usual = "HTTP/1.1\r\n", form = "HTTP/0.0\r\n";
  const std::string_view given = in.substr(progress_.target_end + size_t{1}, usual.size());
  if (given != usual) {
    for (size_t i = 0; i < given.size(); ++i) {
      const bool fits = form[i] == '0' ? is_decimal(given[i]) : given[i] == form[i];
      if (!fits) return fail(400, not_http);
    }
    progress_.at = progress_.target_end + 1 + static_cast<uint32_t>(given.size());
    if (given.size() < usual.size()) return Step::incomplete;
    progress_.is_http10 = given.substr(5, 3) == "1.0";
    if (!progress_.is_http10) return fail(505, "the version must be HTTP/1.1 or HTTP/1.0");
  }
  if (!check_target(in)) return Step::refused;
  progress_.at = progress_.line_at = progress_.target_end + 1 + uint32_t{usual.size()};
  progress_.part = HeadPart::fields;
  return Step::whole;
}

bool Http1Reader::check_target(std::string_view in) {
  const std::string_view method = in.substr(0, progress_.method_bytes);
  const std::string_view target =
      in.substr(method.size() + 1, progress_.target_end - method.size() - 1);
  if (method == "CONNECT") return refuse(400, "this server is not a proxy");
  if (target.front() == '/') return true;
  if (target == "*")
    return method == "OPTIONS" || refuse(400, "the target `*` is one of OPTIONS alone");
  if (http_scheme_bytes(target) == 0)
    return refuse(400, "the target of the request must be a path, or a URI of http or https");
  progress_.is_absolute = true;
  return is_http_authority(http_authority_of(target)) ||
         refuse(400, "the host in the target of the request is ill-formed");
}

inline bool Http1Reader::add_field(const HttpField& field, const char* head) {
  if (progress_.fields++ == bounds_.fields) [[unlikely]]
    return refuse(431, "the head of the request has too many fields");
  if (fields_.size() == fields_.capacity()) [[unlikely]]
    make_room();
  fields_.push_back(field);
  // The lengths of the names that read_special_field knows.
  constexpr uint32_t special = 1u << 4 | 1u << 6 | 1u << 10 | 1u << 14 | 1u << 17;
  const size_t bytes = field.name.size();
  return bytes > 17 || (special >> bytes & 1) == 0 || read_special_field(field, head);
}

// Reads the fields up to the empty line after them; `at` is then after that line. Continues where
// the last call stopped, perhaps in the middle of a line.
Http1Reader::Step Http1Reader::read_fields(std::string_view in) {
  size_t at = progress_.at, line = progress_.line_at, colon = progress_.colon_at;
  for (;;) {
    if (colon == 0) {
      at = skip_token(in, at);
      if (at == in.size()) break;
      if (in[at] != ':' || at == line) {
        if (in[at] == '\r' && at == line && at + 1 == in.size()) break;
        if (!end_fields(in.substr(line), at - line)) return Step::refused;
        progress_.at = static_cast<uint32_t>(at + 2);
        return Step::whole;
      }
      colon = at++;
    }
    at = skip_value(in, at);
    if (at == in.size()) break;
    if (in[at] != '\r') return fail(400, control);
    if (at + 1 == in.size()) break;
    if (in[at + 1] != '\n') return fail(400, bare_cr);
    if (!add_field(field_of(in.data(), line, colon, at), in.data())) return Step::refused;
    line = at += 2;
    colon = 0;
  }
  progress_.at = static_cast<uint32_t>(at);
  progress_.line_at = static_cast<uint32_t>(line);
  progress_.colon_at = static_cast<uint32_t>(colon);
  return Step::incomplete;
}

// Is a line without name and colon the empty line? `at`: the end of its name.
bool Http1Reader::end_fields(std::string_view line, size_t at) {
  if (at == 0 && line[0] == '\r') return line[1] == '\n' || refuse(400, bare_cr);
  return refuse(400, is_white(line[at]) ? folded : not_a_field);
}

// Takes the shared spare list if it is larger, else allocates.
void Http1Reader::make_room() {
  if (spare_ != nullptr && spare_->capacity() > fields_.capacity()) {
    spare_->assign(fields_.begin(), fields_.end());
    fields_.swap(*spare_);
    spare_->clear();
    return;
  }
  fields_.reserve(std::max({fields_kept, size_t{fields_hint_}, 2 * fields_.capacity()}));
}

// Leaves the field list, which is empty, as the shared spare list if it is larger than that.
void Http1Reader::put_fields_by() {
  if (spare_ != nullptr && spare_->capacity() < fields_.capacity()) fields_.swap(*spare_);
  if (fields_.capacity() > fields_kept) Http1FieldList().swap(fields_);
}

// Reads the fields that determine the end of the request, its host and the life of the connection.
bool Http1Reader::read_special_field(const HttpField& field, const char* head) {
  switch (field.name.size()) {
    case 4:
      return !is_same_name(field.name, "host") || read_host(field.value, head);
    case 6:
      if (!is_same_name(field.name, "expect")) return true;
      progress_.expects = true;
      return is_http_name(field.value, "100-continue") ||
             refuse(417, "Expect may be 100-continue, and nothing else");
    case 10:
      return !is_same_name(field.name, "connection") || read_connection(field.value);
    case 14:
      return !is_same_name(field.name, "content-length") || read_content_length(field.value);
    case 17:
      return !is_same_name(field.name, "transfer-encoding") || read_coding(field.value);
    default:
      return true;
  }
}

bool Http1Reader::read_host(std::string_view value, const char* head) {
  if (std::exchange(progress_.has_host, true))
    return refuse(400, "the head has more than one field Host");
  if (use_ != Use::handshake && !value.empty() && !is_http_authority(value))
    return refuse(400, "the field Host is ill-formed");
  progress_.host_at = distance(head, value.data());
  progress_.host_bytes = static_cast<uint32_t>(value.size());
  return true;
}

bool Http1Reader::read_coding(std::string_view value) {
  if (std::exchange(progress_.has_coding, true))
    return refuse(400, "the head has more than one field Transfer-Encoding");
  if (is_http_name(value, "chunked") && !has_tabs_around(value)) return true;
  const bool is_other = is_http_field_name(value) && !is_http_name(value, "chunked");
  return refuse(is_other ? 501 : 400, "the Transfer-Encoding must be chunked");
}

bool Http1Reader::read_content_length(std::string_view value) {
  if (std::exchange(progress_.has_length, true))
    return refuse(400, "the head has more than one field Content-Length");
  uint64_t length = 0;
  for (const char c : value) {
    if (!is_decimal(c)) return refuse(400, "the Content-Length must be a number");
    length = length * 10 + static_cast<uint64_t>(c - '0');
  }
  if (value.empty() || value.size() > length_digits_max || has_tabs_around(value) ||
      length > INT64_MAX)
    return refuse(400, "the Content-Length must be a number of up to 19 digits");
  progress_.left = length;
  return true;
}

bool Http1Reader::read_connection(std::string_view value) {
  for (;;) {
    const size_t comma = value.find(',');
    const std::string_view option = without_white(value.substr(0, comma));
    if (!option.empty() && !is_http_field_name(option))
      return refuse(400, "the field Connection must be a list of tokens");
    progress_.wants_close |= is_http_name(option, "close");
    progress_.wants_keep_alive |= is_http_name(option, "keep-alive");
    if (comma == value.npos) return true;
    value.remove_prefix(comma + 1);
  }
}

// Checks that the parts of the complete head agree.
bool Http1Reader::check_head(std::string_view in) {
  if (!progress_.has_host && !progress_.is_http10 && use_ != Use::handshake)
    return refuse(400, "a request of HTTP/1.1 must have a field Host");
  if (progress_.is_absolute && progress_.has_host) {
    const size_t target = progress_.method_bytes + size_t{1};
    const std::string_view host = in.substr(progress_.host_at, progress_.host_bytes);
    if (!is_same_text(http_authority_of(in.substr(target, progress_.target_end - target)), host))
      return refuse(400, "the field Host is not the host of the request's target");
  }
  if (progress_.has_coding && progress_.has_length)
    return refuse(400, "the head has both Transfer-Encoding and Content-Length");
  if (progress_.has_coding && progress_.is_http10)
    return refuse(400, "a request of HTTP/1.0 must not have a Transfer-Encoding");
  if (progress_.left > bounds_.body_bytes && use_ != Use::handshake)
    return refuse(413, "the body of the request is too long");
  return true;
}

// Sets head_ to views into the complete head.
void Http1Reader::show_head(std::string_view in) {
  head_.method = in.substr(0, progress_.method_bytes);
  const size_t at = progress_.method_bytes + size_t{1};
  std::string_view target = in.substr(at, progress_.target_end - at);
  head_.host = in.substr(progress_.host_at, progress_.host_bytes);
  if (progress_.is_absolute) {
    head_.host = http_authority_of(target);
    target.remove_prefix(distance(target.data(), head_.host.data()) + head_.host.size());
  }
  const size_t mark = std::min(target.find('?'), target.size());
  head_.path = mark == 0 ? "/" : target.substr(0, mark);
  head_.has_query = mark < target.size();
  head_.query = target.substr(std::min(mark + 1, target.size()));
  head_.is_http10 = progress_.is_http10;
  head_.keep_alive = !progress_.wants_close && (!progress_.is_http10 || progress_.wants_keep_alive);
  head_.awaits_go_ahead = progress_.expects && !progress_.is_http10;
  head_.is_chunked = progress_.has_coding;
  head_.body_bytes = progress_.left;
  head_.has_body = progress_.has_coding || progress_.left > 0;
  head_.fields = fields_;
}

// Stores the fields as offsets, because the input may be at another address in the next call.
void Http1Reader::set_fields_aside(const char* head) {
  has_copies_ = true;
  for (const HttpField& field : fields_)
    places_.push_back({distance(head, field.name.data()), static_cast<uint32_t>(field.name.size()),
                       distance(head, field.value.data()),
                       static_cast<uint32_t>(field.value.size())});
  fields_.clear();
}

void Http1Reader::bring_fields_back(const char* head) {
  fields_.insert(fields_.begin(), places_.size(), HttpField{});
  for (size_t i = 0; i < places_.size(); ++i) {
    const FieldPlace& place = places_[i];
    fields_[i] = {{head + place.name_at, place.name_bytes},
                  {head + place.value_at, place.value_bytes}};
  }
  places_.clear();
}

// ---- The body ----

// `in` begins with the head, which is whole and shown.
Http1Reader::Result Http1Reader::begin_body(std::string_view in) {
  size_t end = progress_.at;
  if (!head_.has_body || use_ == Use::handshake) {
    phase_ = Phase::done;
    return {end, Found::request};
  }
  if (!head_.is_chunked && in.size() - end >= progress_.left) {
    body_ = in.substr(end, static_cast<size_t>(progress_.left));
    phase_ = Phase::done;
    return {end + body_.size(), Found::request};
  }
  has_copies_ = true;
  phase_ = head_.is_chunked ? Phase::chunks : Phase::body;
  if (head_.is_chunked) {
    const Result result = read_chunks(in.substr(end));
    end += result.consumed;
    if (result.found != Found::incomplete) return {end, result.found};
  }
  keep_head(in);
  return {end, Found::head};
}

// Copies the head, because its bytes are consumed before the body has arrived.
void Http1Reader::keep_head(std::string_view in) {
  const char* const from = in.data();
  own_head_ = in.substr(0, progress_.at);
  const char* const to = own_head_.data();
  for (HttpField& field : fields_) {
    field.name = {to + (field.name.data() - from), field.name.size()};
    field.value = {to + (field.value.data() - from), field.value.size()};
  }
  show_head(own_head_);
}

Http1Reader::Result Http1Reader::read_body(std::string_view in) {
  if (in.empty()) return {};
  // No more than has arrived: an announcement costs its sender nothing.
  if (own_body_.empty())
    own_body_.reserve(std::min(static_cast<size_t>(progress_.left), 2 * in.size()));
  const std::string_view part = in.substr(0, static_cast<size_t>(progress_.left));
  own_body_.append(part);
  progress_.left -= part.size();
  if (progress_.left > 0) return {part.size(), Found::incomplete};
  body_ = own_body_;
  phase_ = Phase::done;
  return {part.size(), Found::request};
}

Http1Reader::Result Http1Reader::read_chunks(std::string_view in) {
  const Http1Chunks::Bounds most{std::min(bounds_.body_bytes, bounds_.chunked_body_bytes),
                                 bounds_.chunk_bytes};
  const Http1Chunks::Result result = chunks_.next(in, most, own_body_);
  if (result.found == Http1Chunks::Found::incomplete) return {result.consumed, Found::incomplete};
  if (result.found == Http1Chunks::Found::broken) {
    refuse(chunks_.status(), chunks_.problem());
    return broken(in);
  }
  body_ = own_body_;
  phase_ = Phase::done;
  return {result.consumed, Found::request};
}

}  // namespace sluice::wire
