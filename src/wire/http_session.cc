#include "wire/http_session.h"

#include <algorithm>
#include <iterator>

#include "base/bounds.h"

namespace sluice::wire {

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

struct HttpReason {
  unsigned status;
  const char* text;
};

// The registry of statuses (RFC 9110, 16.2.1), and a few that proxies use; ascending.
constexpr HttpReason http_reasons[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {102, "Processing"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {203, "Non-Authoritative Information"},
    {204, "No Content"},
    {205, "Reset Content"},
    {206, "Partial Content"},
    {207, "Multi-Status"},
    {208, "Already Reported"},
    {226, "IM Used"},
    {300, "Multiple Choices"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {305, "Use Proxy"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Payload Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Entity"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {444, "Connection Closed Without Response"},
    {451, "Unavailable For Legal Reasons"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {510, "Not Extended"},
    {511, "Network Authentication Required"},
    {599, "Network Connect Timeout Error"},
};

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text, bool plus) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus) {
      out += ' ';
    } else if (text[i] == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const int high = hex_digit(text[i + 1]), low = hex_digit(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high << 4 | low);
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string percent_encoded(std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      out += c;
    } else {
      out += '%';
      out += hex[byte >> 4];
      out += hex[byte & 15];
    }
  }
  return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view key) {
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const size_t cut = std::min(pair.find('='), pair.size());
    if (percent_decoded(pair.substr(0, cut), true) != key) continue;
    return percent_decoded(pair.substr(std::min(cut + 1, pair.size())), true);
  }
  return std::nullopt;
}

HttpSession::HttpSession(size_t body_bytes_max)
    : body_bytes_max_(body_bytes_max),
      chunked_bytes_max_(std::min(body_bytes_max, http_chunked_body_bytes_max)),
      reader_({.head_bytes = base::bounds::http_head_bytes_max,
               .body_bytes = body_bytes_max,
               .chunked_body_bytes = http_chunked_body_bytes_max}) {}

HttpSession::Received HttpSession::receive(std::string_view in) {
  const Http1Reader::Result result = reader_.next(in);
  switch (result.found) {
    case Http1Reader::Found::incomplete:
      break;
    case Http1Reader::Found::head:
      return {result.consumed, take_head() ? Found::head : Found::broken};
    case Http1Reader::Found::request:
      if (!take_head()) return {result.consumed, Found::broken};
      request_.body = reader_.take_body();
      is_whole_ = true;
      return {result.consumed, Found::request};
    case Http1Reader::Found::broken:
      return refuse(result.consumed);
  }
  return {result.consumed, Found::nothing};
}

HttpSession::Received HttpSession::refuse(size_t consumed) {
  // A head that is too long always gets the same status.
  refusal_status_ = reader_.status() == 414 ? 431 : reader_.status();
  refusal_ = reader_.problem();
  if (refusal_status_ == 431)
    refusal_ += ": " + std::to_string(base::bounds::http_head_bytes_max) + " bytes are taken";
  if (refusal_status_ == 413)
    refusal_ += ": " + std::to_string(body_bytes_max_) + " bytes are taken, " +
                std::to_string(chunked_bytes_max_) + " of one that is chunked";
  return {consumed, Found::broken};
}

// False: a field is there twice that must not be, as others may have taken the other one.
bool HttpSession::take_head() {
  const Http1Head& head = reader_.head();
  request_ = {};
  request_.peer = peer_;
  request_.method = head.method;
  request_.path = head.path;
  request_.query = head.query;
  request_.host = head.host;
  request_.body_bytes = head.is_chunked ? chunked_bytes_max_ : head.body_bytes;
  // The first field with a name counts.
  const auto value_of = [&](std::string_view name) -> std::string_view {
    for (const HttpField& field : head.fields)
      if (is_http_name(field.name, name)) return field.value;
    return {};
  };
  const std::pair<std::string_view, std::string*> of_the_asker[] = {
      {"origin", &request_.origin},
      {"sec-fetch-site", &request_.sec_fetch_site},
      {"sec-fetch-mode", &request_.sec_fetch_mode},
      {"sec-fetch-dest", &request_.sec_fetch_dest},
      {"authorization", &request_.authorization}};
  for (const auto& [name, to] : of_the_asker) {
    bool is_there = false;
    for (const HttpField& field : head.fields) {
      if (!is_http_name(field.name, name)) continue;
      if (std::exchange(is_there, true)) {
        refusal_status_ = 400;
        refusal_ = "the field " + std::string(name) + " is there twice; send it once";
        return false;
      }
      *to = field.value;
    }
  }
  request_.content_type = value_of("content-type");
  request_.accept = value_of("accept");
  keep_alive_ = head.keep_alive;
  is_head_ = head.method == "HEAD";
  awaits_go_ahead_ = head.awaits_go_ahead;
  return true;
}

void HttpSession::append_go_ahead(std::string& out) {
  out += "HTTP/1.1 100 Continue\r\n\r\n";
}

std::string http_reason(unsigned status) {
  const auto* const end = std::end(http_reasons);
  const auto* const found = std::lower_bound(
      std::begin(http_reasons), end, status,
      [](const HttpReason& reason, unsigned wanted) { return reason.status < wanted; });
  return found != end && found->status == status ? found->text : "<unknown-status>";
}

bool HttpSession::reply(const HttpResponse& response, bool last, std::string& out) {
  const bool goes_on = keep_alive_ && !last && is_whole_;
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  out.append(http_reason(response.status)).append("\r\n");
  if (!response.content_type.empty())
    out.append("Content-Type: ").append(response.content_type).append("\r\n");
  out.append("Content-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  for (const auto& [name, value] : response.headers)
    out.append(name).append(": ").append(value).append("\r\n");
  out.append(goes_on ? "Connection: keep-alive\r\n" : "Connection: close\r\n").append("\r\n");
  if (!is_head_) out += response.body;
  if (is_whole_) reader_.next({});  // gives its memory back
  request_ = {};
  if (!goes_on) return false;
  is_whole_ = is_head_ = awaits_go_ahead_ = false;
  return true;
}

}  // namespace sluice::wire
