// What is refused, since two parsers might read it differently (RFC 9112; RFC 9110 where named):
//
//   2.2   a LF without a CR in front of it, or a CR without a LF behind it; white space at the
//         beginning of a line (5.2, obsolete line folding)
//   3     more than one blank in a request line; a version that is not HTTP/1.0 or HTTP/1.1
//   3.2   no Host in HTTP/1.1, two of them, or one that is ill-formed; a target with bytes that no
//         URI has, with a fragment, with user information, or in authority form
//   5.1   a field name that is no token, or white space between it and its colon
//   5.5   (RFC 9110) control characters in a value
//   6.1   Transfer-Encoding beside a Content-Length, in HTTP/1.0, twice, or other than `chunked`
//   6.3   a Content-Length that is not digits alone, or comes twice
//   7.1   a chunk's size with anything but hexadecimal digits, or of more than 16 of them; control
//         characters in a chunk's extensions; no line end behind a chunk
#include "wire/http1_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace sluice::wire {
namespace {

constexpr size_t empty_lines_max = 8;
constexpr size_t method_bytes_max = 32;
// Fields that are kept allocated between requests.
constexpr size_t fields_kept_max = 32;

constexpr std::string_view not_http = "this is not a request of HTTP/1.1";

using Table = std::array<bool, 256>;

template <class Test>
constexpr Table table_of(Test test) {
  Table table{};
  for (size_t i = 0; i < table.size(); ++i) table[i] = test(static_cast<unsigned char>(i));
  return table;
}

// Bytes of a value (RFC 9110, 5.5), and of a target: what a URI may have (RFC 3986) and a few that
// clients send as they are.
constexpr Table value_bytes =
    table_of([](unsigned char c) { return c == '\t' || (c >= ' ' && c != 0x7F); });
constexpr Table target_bytes = table_of([](unsigned char c) {
  return c > ' ' && c < 0x7F && c != '#' && c != '\\' && c != '"' && c != '<' && c != '>' &&
         c != '^' && c != '`' && c != '{' && c != '}';
});

bool all_in(const Table& table, std::string_view text) {
  for (const char c : text)
    if (!table[static_cast<unsigned char>(c)]) return false;
  return true;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = http_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// uri-host [ ":" port ] (RFC 9110, 7.2): a name or an address of the characters that either has.
bool is_host(std::string_view host) {
  size_t end = 0;
  if (host.starts_with('[')) {
    end = host.find(']');
    if (end == host.npos || end == 1) return false;
    for (const char c : host.substr(1, end - 1))
      if (hex_value(c) < 0 && c != ':' && c != '.') return false;
    ++end;
  } else {
    end = std::min(host.find(':'), host.size());
    for (const char c : host.substr(0, end)) {
      const bool fits = is_digit(c) || (http_lower(c) >= 'a' && http_lower(c) <= 'z') ||
                        std::string_view("-._~!$&'()*+,;=%").find(c) != std::string_view::npos;
      if (!fits) return false;
    }
  }
  if (end == host.size()) return true;
  const std::string_view port = host.substr(end + 1);
  return host[end] == ':' && port.size() <= 5 && std::all_of(port.begin(), port.end(), is_digit);
}

}  // namespace

Http1Reader::Http1Reader(const Bounds& bounds) : bounds_(bounds) {}

bool Http1Reader::has_begun() const {
  return phase_ != Phase::done && (phase_ != Phase::head || scanned_ > 0);
}

size_t Http1Reader::unfinished_bytes() const {
  if (phase_ == Phase::head || phase_ == Phase::done) return 0;
  return own_head_.size() + own_body_.size() + static_cast<size_t>(left_);
}

bool Http1Reader::refuse(unsigned status, std::string_view problem) {
  status_ = status;
  problem_ = problem;
  return false;
}

void Http1Reader::begin_request() {
  phase_ = Phase::head;
  head_ = {};
  body_ = {};
  if (fields_.capacity() > fields_kept_max)
    std::vector<HttpField>().swap(fields_);
  else
    fields_.clear();
  if (own_head_.capacity() > 0) std::string().swap(own_head_);
  if (own_body_.capacity() > 0) std::string().swap(own_body_);
  line_at_ = scanned_ = empty_lines_ = chunk_bytes_ = 0;
  left_ = 0;
  has_request_line_ = has_host_ = has_length_ = has_coding_ = is_chunked_ = wants_close_ =
      wants_keep_alive_ = expects_ = has_authority_ = false;
}

Http1Reader::Result Http1Reader::next(std::string_view in) {
  if (status_ != 0) return broken(in);
  if (phase_ == Phase::done) begin_request();
  switch (phase_) {
    case Phase::head:
      return read_head(in);
    case Phase::body:
      return read_body(in);
    default:
      return read_chunks(in);
  }
}

// ---- The head ----

Http1Reader::Result Http1Reader::read_head(std::string_view in) {
  if (base_ != in.data()) rebase(std::exchange(base_, in.data()), in.data(), line_at_);
  size_t end = 0;
  if (!read_lines(in, end)) {
    if (status_ != 0) return broken(in);
    return {};
  }
  if (!begin_body()) return broken(in);
  head_.fields = fields_;
  if (!head_.has_body) {
    phase_ = Phase::done;
    return {end, Found::request};
  }
  if (!is_chunked_ && in.size() - end >= left_) {
    body_ = in.substr(end, static_cast<size_t>(left_));
    phase_ = Phase::done;
    return {end + body_.size(), Found::request};
  }
  keep_head(in.substr(0, end));
  phase_ = is_chunked_ ? Phase::chunk_size : Phase::body;
  return {end, Found::head};
}

// Reads whole lines, up to the empty one behind the head. False: that has not come, or the head is
// refused.
bool Http1Reader::read_lines(std::string_view in, size_t& end) {
  for (;;) {
    const size_t from = std::max(line_at_, scanned_);
    const auto* const found =
        from < in.size()
            ? static_cast<const char*>(std::memchr(in.data() + from, '\n', in.size() - from))
            : nullptr;
    if (found == nullptr) {
      scanned_ = in.size();
      if (in.size() > bounds_.head_bytes)
        return has_request_line_ ? refuse(431, "the head of the request is too long")
                                 : refuse(414, "the request line is too long");
      if (!has_request_line_ && in.size() > line_at_) {
        // Who speaks something else hears so at once.
        const std::string_view part = in.substr(line_at_, method_bytes_max + 1);
        const size_t method = std::min(part.find(' '), part.size());
        const bool is_method = all_in(http_token_chars, part.substr(0, method)) && method > 0 &&
                               method <= method_bytes_max;
        if (!is_method && part != "\r") return refuse(400, not_http);
      }
      return false;
    }
    const size_t at = static_cast<size_t>(found - in.data());
    scanned_ = at + 1;
    if (at >= bounds_.head_bytes)
      return has_request_line_ ? refuse(431, "the head of the request is too long")
                               : refuse(414, "the request line is too long");
    if (at == line_at_ || in[at - 1] != '\r')
      return refuse(400, "a line of the head ends with a LF that has no CR in front of it");
    const std::string_view line = in.substr(line_at_, at - 1 - line_at_);
    line_at_ = at + 1;
    if (!has_request_line_) {
      if (line.empty()) {
        if (++empty_lines_ > empty_lines_max) return refuse(400, not_http);
        continue;
      }
      if (!read_request_line(line)) return false;
      has_request_line_ = true;
    } else if (line.empty()) {
      end = line_at_;
      return true;
    } else if (!read_field(line)) {
      return false;
    }
  }
}

bool Http1Reader::read_request_line(std::string_view line) {
  const size_t first = line.find(' ');
  if (first == line.npos || first == 0 || first > method_bytes_max) return refuse(400, not_http);
  head_.method = line.substr(0, first);
  if (!all_in(http_token_chars, head_.method)) return refuse(400, not_http);
  const size_t last = line.rfind(' ');
  if (last == first) return refuse(400, not_http);
  const std::string_view version = line.substr(last + 1);
  if (version != "HTTP/1.1") {
    const bool is_version = version.size() == 8 && version.starts_with("HTTP/") &&
                            is_digit(version[5]) && version[6] == '.' && is_digit(version[7]);
    if (!is_version) return refuse(400, not_http);
    if (version != "HTTP/1.0") return refuse(505, "the version must be HTTP/1.1 or HTTP/1.0");
    head_.is_http10 = true;
  }
  return read_target(line.substr(first + 1, last - first - 1));
}

bool Http1Reader::read_target(std::string_view target) {
  if (target.empty() || !all_in(target_bytes, target))
    return refuse(400, "the target of the request has characters that no target has");
  if (target.front() != '/') {
    if (target == "*" && head_.method == "OPTIONS") {
      head_.path = target;
      return true;
    }
    size_t scheme = 0;
    for (const std::string_view one : {"http://", "https://"})
      if (target.size() > one.size() && is_http_name(target.substr(0, one.size()), one))
        scheme = one.size();
    if (scheme == 0) return refuse(400, "the target of the request must be a path");
    const size_t path = std::min(target.find_first_of("/?", scheme), target.size());
    head_.host = target.substr(scheme, path - scheme);
    if (head_.host.empty() || !is_host(head_.host))
      return refuse(400, "the host in the target of the request is ill-formed");
    has_authority_ = true;
    target = target.substr(path);
  }
  const size_t mark = std::min(target.find('?'), target.size());
  head_.path = mark == 0 ? std::string_view("/") : target.substr(0, mark);
  head_.has_query = mark < target.size();
  head_.query = target.substr(std::min(mark + 1, target.size()));
  return true;
}

bool Http1Reader::read_field(std::string_view line) {
  size_t colon = 0;
  while (colon < line.size() && http_token_chars[static_cast<unsigned char>(line[colon])]) ++colon;
  if (colon == 0 || colon == line.size() || line[colon] != ':')
    return refuse(400, is_blank(line.front())
                           ? "a line of the head begins with white space"
                           : "a line of the head is not a name, a colon and a value");
  std::string_view value = line.substr(colon + 1);
  while (!value.empty() && is_blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
  if (!all_in(value_bytes, value))
    return refuse(400, "a field of the head has a control character in it");
  if (fields_.size() == bounds_.fields) return refuse(431, "the head has too many fields");
  fields_.push_back({line.substr(0, colon), value});
  return read_special_field(fields_.back());
}

// Those that say where the request ends, whom it is for, and what becomes of the connection.
bool Http1Reader::read_special_field(const HttpField& field) {
  switch (field.name.size()) {
    case 4:
      if (!is_http_name(field.name, "host")) return true;
      if (std::exchange(has_host_, true)) return refuse(400, "the head has two fields Host");
      if (!is_host(field.value)) return refuse(400, "the field Host is ill-formed");
      if (!has_authority_) head_.host = field.value;
      return true;
    case 6:
      if (!is_http_name(field.name, "expect")) return true;
      expects_ = is_http_name(field.value, "100-continue");
      return expects_ || refuse(417, "Expect may be 100-continue, and nothing else");
    case 10:
      return !is_http_name(field.name, "connection") || read_connection(field.value);
    case 14:
      return !is_http_name(field.name, "content-length") || read_content_length(field.value);
    case 17:
      if (!is_http_name(field.name, "transfer-encoding")) return true;
      if (std::exchange(has_coding_, true))
        return refuse(400, "the head has two fields Transfer-Encoding");
      is_chunked_ = is_http_name(field.value, "chunked");
      if (is_chunked_) return true;
      return all_in(http_token_chars, field.value) && !field.value.empty()
                 ? refuse(501, "the Transfer-Encoding must be chunked")
                 : refuse(400, "the Transfer-Encoding must be chunked");
    default:
      return true;
  }
}

bool Http1Reader::read_connection(std::string_view value) {
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    std::string_view option = value.substr(0, comma);
    value.remove_prefix(std::min(comma + 1, value.size()));
    while (!option.empty() && is_blank(option.front())) option.remove_prefix(1);
    while (!option.empty() && is_blank(option.back())) option.remove_suffix(1);
    wants_close_ |= is_http_name(option, "close");
    wants_keep_alive_ |= is_http_name(option, "keep-alive");
  }
  return true;
}

bool Http1Reader::read_content_length(std::string_view value) {
  if (std::exchange(has_length_, true))
    return refuse(400, "the head has two fields Content-Length");
  if (value.empty() || value.size() > 18 || !std::all_of(value.begin(), value.end(), is_digit))
    return refuse(400, "the Content-Length must be a number of up to 18 digits");
  for (const char c : value) left_ = left_ * 10 + static_cast<uint64_t>(c - '0');
  return true;
}

// The head is whole: does it make sense, and what body follows?
bool Http1Reader::begin_body() {
  if (!has_host_ && !head_.is_http10) return refuse(400, "a request of HTTP/1.1 has a field Host");
  if (has_coding_ && has_length_)
    return refuse(400, "the head has both Transfer-Encoding and Content-Length");
  if (has_coding_ && head_.is_http10)
    return refuse(400, "a request of HTTP/1.0 has no Transfer-Encoding");
  if (left_ > bounds_.body_bytes) return refuse(413, "the body of the request is too long");
  head_.keep_alive = !wants_close_ && (!head_.is_http10 || wants_keep_alive_);
  head_.awaits_go_ahead = expects_ && !head_.is_http10;
  head_.is_chunked = is_chunked_;
  head_.body_bytes = left_;
  head_.has_body = is_chunked_ || left_ > 0;
  return true;
}

void Http1Reader::keep_head(std::string_view head) {
  own_head_ = head;
  rebase(head.data(), own_head_.data(), head.size());
}

// Has the views of the head into `bytes` at `from` point to the same bytes elsewhere.
void Http1Reader::rebase(const char* from, const char* to, size_t bytes) {
  if (!has_request_line_) return;
  const auto begin = reinterpret_cast<uintptr_t>(from);
  const auto move = [&](std::string_view& view) {
    const auto at = reinterpret_cast<uintptr_t>(view.data());
    if (at >= begin && at - begin <= bytes) view = {to + (at - begin), view.size()};
  };
  move(head_.method);
  move(head_.path);
  move(head_.query);
  move(head_.host);
  for (HttpField& field : fields_) {
    move(field.name);
    move(field.value);
  }
  head_.fields = fields_;
}

// ---- The body, where it does not come in one piece with the head ----

Http1Reader::Result Http1Reader::read_body(std::string_view in) {
  const std::string_view part = in.substr(0, static_cast<size_t>(left_));
  own_body_.append(part);
  left_ -= part.size();
  if (left_ > 0) return {part.size(), Found::incomplete};
  body_ = own_body_;
  phase_ = Phase::done;
  return {part.size(), Found::request};
}

Http1Reader::Result Http1Reader::read_chunks(std::string_view in) {
  size_t at = 0;
  for (;;) {
    if (phase_ == Phase::chunk) {
      const std::string_view part = in.substr(at, static_cast<size_t>(left_));
      own_body_.append(part);
      at += part.size();
      left_ -= part.size();
      if (left_ > 0) return {at, Found::incomplete};
      phase_ = Phase::chunk_end;
      continue;
    }
    std::string_view line;
    bool whole = false;
    if (!take_line(in, at, line, whole)) return broken(in);
    if (!whole) return {at, Found::incomplete};
    if (phase_ == Phase::chunk_end) {
      if (!line.empty()) {
        refuse(400, "a chunk of the body is longer than it says");
        return broken(in);
      }
      phase_ = Phase::chunk_size;
    } else if (phase_ == Phase::chunk_size) {
      if (!read_chunk_size(line)) return broken(in);
      phase_ = left_ > 0 ? Phase::chunk : Phase::trailers;
    } else if (line.empty()) {
      body_ = own_body_;
      phase_ = Phase::done;
      return {at, Found::request};
    } else {
      const size_t colon = line.find(':');
      if (colon == line.npos || !is_http_field_name(line.substr(0, colon)) ||
          !all_in(value_bytes, line.substr(colon + 1))) {
        refuse(400, "a line behind the body is not a name, a colon and a value");
        return broken(in);
      }
    }
  }
}

// A line of a chunked body, without its end. False: refused.
bool Http1Reader::take_line(std::string_view in, size_t& at, std::string_view& line, bool& whole) {
  const std::string_view rest = in.substr(at);
  const size_t end = rest.find('\n');
  const size_t bytes = end == rest.npos ? rest.size() : end + 1;
  if (chunk_bytes_ + bytes > bounds_.chunk_bytes)
    return refuse(413, "the lines of the chunked body are too long together");
  const size_t cr = rest.substr(0, bytes).find('\r');
  const bool ends_well = end != rest.npos && end > 0 && cr == end - 1;
  const bool may_end_well = end == rest.npos && (cr == rest.npos || cr + 1 == rest.size());
  if (phase_ == Phase::chunk_end && !rest.empty() && rest.front() != '\r')
    return refuse(400, "a chunk of the body is longer than it says");
  if (!ends_well && !may_end_well)
    return refuse(400, "a line of the chunked body does not end with CR LF");
  whole = ends_well;
  if (!whole) return true;
  line = rest.substr(0, end - 1);
  at += bytes;
  chunk_bytes_ += bytes;
  return true;
}

bool Http1Reader::read_chunk_size(std::string_view line) {
  size_t digits = 0;
  uint64_t size = 0;
  for (; digits < line.size() && hex_value(line[digits]) >= 0; ++digits) {
    if (digits == 16) return refuse(400, "the size of a chunk has too many digits");
    size = size << 4 | static_cast<uint64_t>(hex_value(line[digits]));
  }
  const std::string_view extension = line.substr(digits);
  if (digits == 0 || (!extension.empty() && extension.front() != ';') ||
      !all_in(value_bytes, extension))
    return refuse(400, "the size of a chunk is not a hexadecimal number");
  if (size > bounds_.body_bytes - own_body_.size())
    return refuse(413, "the body of the request is too long");
  left_ = size;
  return true;
}

}  // namespace sluice::wire
