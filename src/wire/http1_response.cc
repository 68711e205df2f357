#include "wire/http1_response.h"

#include <algorithm>
#include <charconv>

namespace sluice::wire {
namespace {

constexpr size_t response_fields_max = 256;
constexpr std::string_view head_end = "\r\n\r\n";

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view trimmed_value(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

void Http1ResponseReader::begin() {
  has_head_ = false;
  searched_ = head_bytes_ = fed_ = 0;
  length_ = 0;
  coding_ = Coding::none;
  chunks_ = {};
}

Http1ResponseReader::Result Http1ResponseReader::fail(Fault fault) {
  fault_ = fault;
  return {0, Found::broken};
}

Http1ResponseReader::Result Http1ResponseReader::next(std::string_view in) {
  size_t passed_over = 0;
  while (fault_ == Fault::none) {
    if (!has_head_) {
      const size_t end = in.find(head_end, searched_);
      if (end == in.npos ? in.size() > bounds_.head_bytes : end > bounds_.head_bytes)
        return fail(Fault::head_size);
      if (end == in.npos) {
        searched_ = in.size() - std::min(in.size(), head_end.size() - 1);
        // Rejects at once what cannot become a response.
        constexpr std::string_view beginning = "HTTP/1.";
        const size_t known = std::min(in.size(), beginning.size());
        if (in.substr(0, known) != beginning.substr(0, known)) return fail();
        return {passed_over, Found::incomplete};
      }
      head_bytes_ = end + head_end.size();
      if (!read_head(in.substr(0, end + 2))) return fail();
      has_head_ = true;
      own_body_.clear();
    }
    if (status_ == 101) {
      const size_t bytes = head_bytes_;
      body_ = {};
      begin();
      return {passed_over + bytes, Found::switching};
    }
    if (status_ >= 200) {
      Result result = read_body(in);
      result.consumed += result.found == Found::broken ? 0 : passed_over;
      return result;
    }
    passed_over += head_bytes_;
    in.remove_prefix(head_bytes_);
    begin();
  }
  return {0, Found::broken};
}

Http1ResponseReader::Result Http1ResponseReader::read_body(std::string_view in) {
  size_t end = head_bytes_;
  if (status_ == 204 || status_ == 304) {
    body_ = {};
  } else if (coding_ == Coding::length) {
    if (length_ > bounds_.body_bytes) return fail(Fault::body_size);
    if (in.size() - head_bytes_ < length_) return {0, Found::incomplete};
    body_ = in.substr(head_bytes_, length_);
    end += length_;
  } else if (coding_ == Coding::chunked) {
    const auto result = chunks_.next(in.substr(head_bytes_ + fed_),
                                     {bounds_.body_bytes, bounds_.head_bytes}, own_body_);
    if (result.found == Http1Chunks::Found::broken) return fail();
    fed_ += result.consumed;
    if (result.found == Http1Chunks::Found::incomplete) return {0, Found::incomplete};
    end += fed_;
    body_ = own_body_;
  } else {
    return fail(Fault::no_length);
  }
  read_head(in.substr(0, head_bytes_ - 2));  // whose views may be of an input that has gone
  begin();
  return {end, Found::response};
}

bool Http1ResponseReader::read_head(std::string_view head) {
  fields_.clear();
  coding_ = Coding::none;
  length_ = 0;
  size_t begin_of_line = 0;
  while (begin_of_line < head.size()) {
    const size_t end = head.find("\r\n", begin_of_line);
    if (end == head.npos) return false;
    const std::string_view line = head.substr(begin_of_line, end - begin_of_line);
    if (line.find_first_of("\r\n") != line.npos || line.find('\0') != line.npos) return false;
    if (!(begin_of_line == 0 ? read_status_line(line) : read_field(line))) return false;
    begin_of_line = end + 2;
  }
  return true;
}

bool Http1ResponseReader::read_status_line(std::string_view line) {
  constexpr size_t status_at = 9;
  if (!line.starts_with("HTTP/1.") || line.size() < status_at + 3 || line[8] != ' ') return false;
  const std::string_view digits = line.substr(status_at, 3);
  if (!all_digits(digits) || (line.size() > status_at + 3 && line[status_at + 3] != ' '))
    return false;
  std::from_chars(digits.data(), digits.data() + digits.size(), status_);
  return status_ >= 100 && status_ <= 599;
}

bool Http1ResponseReader::read_field(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == line.npos || colon == 0 || fields_.size() == response_fields_max) return false;
  const HttpField field{line.substr(0, colon), trimmed_value(line.substr(colon + 1))};
  if (!std::all_of(field.name.begin(), field.name.end(), is_http_token_char)) return false;
  fields_.push_back(field);
  if (is_http_name(field.name, "content-length")) {
    uint64_t length = 0;
    const std::string_view value = field.value;
    const auto [at, bad] = std::from_chars(value.data(), value.data() + value.size(), length);
    if (coding_ != Coding::none || !all_digits(value) || bad != std::errc()) return false;
    coding_ = Coding::length;
    length_ = length;
  } else if (is_http_name(field.name, "transfer-encoding")) {
    if (coding_ != Coding::none || !is_http_name(field.value, "chunked")) return false;
    coding_ = Coding::chunked;
  }
  return true;
}

std::string_view Http1ResponseReader::field(std::string_view lower_name) const {
  for (const HttpField& field : fields_)
    if (is_http_name(field.name, lower_name)) return field.value;
  return {};
}

}  // namespace sluice::wire
