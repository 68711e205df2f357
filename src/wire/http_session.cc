#include "wire/http_session.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "base/bounds.h"

namespace sluice::wire {

namespace http = boost::beast::http;

namespace {

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string text_of(boost::beast::string_view text) {
  return {text.data(), text.size()};
}

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

struct HttpSession::Parser {
  explicit Parser(size_t body_bytes_max) {
    one.header_limit(static_cast<uint32_t>(base::bounds::http_head_bytes_max));
    one.body_limit(body_bytes_max);
    one.eager(true);
  }
  http::request_parser<http::string_body> one;
};

HttpSession::HttpSession(size_t body_bytes_max)
    : body_bytes_max_(body_bytes_max), parser_(std::make_unique<Parser>(body_bytes_max)) {}

HttpSession::~HttpSession() = default;
HttpSession::HttpSession(HttpSession&&) noexcept = default;

HttpSession::Received HttpSession::receive(std::string_view in) {
  if (refusal_status_ != 0) return {in.size(), Found::broken};
  auto& one = parser_->one;
  size_t consumed = 0;
  // Empty lines before a request are skipped (RFC 9112, 2.2).
  if (!begun_)
    while (in.substr(consumed).starts_with("\r\n")) consumed += 2;
  while (!one.is_done() && consumed < in.size()) {
    // The parser sees a head as a whole and alone, and of the rest no more at a time than a head
    // may have: so it says the same however the bytes arrive.
    std::string_view rest = in.substr(consumed, base::bounds::http_head_bytes_max);
    if (!one.is_header_done()) {
      const size_t end = rest.find("\r\n\r\n");
      if (end == rest.npos && rest.size() == base::bounds::http_head_bytes_max)
        return refuse_head(in.size());
      if (end == rest.npos) {
        begun_ |= rest != "\r";
        break;
      }
      rest = rest.substr(0, end + 4);
    }
    begun_ = true;
    boost::beast::error_code ec;
    const bool had_head = one.is_header_done();
    const size_t n = one.put(boost::asio::buffer(rest.data(), rest.size()), ec);
    consumed += n;
    if (ec == http::error::header_limit) return refuse_head(in.size());
    if (ec == http::error::body_limit)
      return refuse(
          413,
          "the body of the request is longer than " + std::to_string(body_bytes_max_) + " bytes",
          in.size());
    if (!had_head && one.is_header_done())
      if (const auto refusal = refuse_fields(in.size())) return *refusal;
    if (n == 0 && (!ec || ec == http::error::need_more)) break;
    if (ec && ec != http::error::need_more)
      return refuse(400, "this is no HTTP/1.1 request: " + ec.message(), in.size());
  }
  if (one.is_done()) {
    take_head();
    request_.body = std::move(one.get().body());
    return {consumed, Found::request};
  }
  if (!one.is_header_done() || std::exchange(head_shown_, true)) return {consumed, Found::nothing};
  take_head();
  return {consumed, Found::head};
}

bool HttpSession::awaits_go_ahead() const {
  const auto& message = parser_->one.get();
  return message.version() == 11 &&
         boost::beast::iequals(message[http::field::expect], "100-continue");
}

HttpSession::Received HttpSession::refuse_head(size_t consumed) {
  return refuse(431,
                "the head of the request is longer than " +
                    std::to_string(base::bounds::http_head_bytes_max) + " bytes",
                consumed);
}

// What Beast lets pass, and a proxy between a client and us may take otherwise.
std::optional<HttpSession::Received> HttpSession::refuse_fields(size_t consumed) {
  const auto& message = parser_->one.get();
  // Beast goes on as if it did not see codings other than chunked; and 1.81 aborts on some
  // ill-formed chunks (found by the fuzz target). Nobody needs any of them.
  if (message.count(http::field::transfer_encoding) > 0)
    return refuse(411, "bodies with a Transfer-Encoding are not taken; send a Content-Length",
                  consumed);
  const size_t hosts = message.count(http::field::host);
  if (hosts > 1 || (hosts == 0 && message.version() == 11))
    return refuse(400, "a request of HTTP/1.1 has one Host", consumed);
  return std::nullopt;
}

HttpSession::Received HttpSession::refuse(unsigned status, std::string why, size_t consumed) {
  refusal_status_ = status;
  refusal_ = std::move(why);
  return {consumed, Found::broken};
}

void HttpSession::take_head() {
  auto& message = parser_->one.get();
  request_ = {};
  request_.method = text_of(message.method_string());
  std::string target = text_of(message.target());
  request_.host = text_of(message[http::field::host]);
  // Absolute form (RFC 9112, 3.2.2): its host counts.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!target.starts_with(scheme)) continue;
    const size_t path = std::min(target.find_first_of("/?", scheme.size()), target.size());
    request_.host = target.substr(scheme.size(), path - scheme.size());
    target = (target.substr(path).starts_with('/') ? "" : "/") + target.substr(path);
    break;
  }
  const size_t cut = std::min(target.find('?'), target.size());
  request_.path = target.substr(0, cut);
  request_.query = target.substr(std::min(cut + 1, target.size()));
  request_.origin = text_of(message[http::field::origin]);
  request_.sec_fetch_site = text_of(message["Sec-Fetch-Site"]);
  request_.sec_fetch_mode = text_of(message["Sec-Fetch-Mode"]);
  request_.sec_fetch_dest = text_of(message["Sec-Fetch-Dest"]);
  request_.authorization = text_of(message[http::field::authorization]);
  request_.content_type = text_of(message[http::field::content_type]);
  request_.accept = text_of(message[http::field::accept]);
  request_.body_bytes = parser_->one.content_length().value_or(0);
  keep_alive_ = message.keep_alive();
  is_head_ = message.method() == http::verb::head;
}

void HttpSession::append_go_ahead(std::string& out) {
  out += "HTTP/1.1 100 Continue\r\n\r\n";
}

std::string http_reason(unsigned status) {
  return text_of(http::obsolete_reason(http::int_to_status(status)));
}

bool HttpSession::reply(const HttpResponse& response, bool last, std::string& out) {
  const bool goes_on = keep_alive_ && !last && refusal_status_ == 0;
  const std::string reason = http_reason(response.status);
  out.append("HTTP/1.1 ").append(std::to_string(response.status)).append(" ");
  out.append(reason.data(), reason.size()).append("\r\n");
  if (!response.content_type.empty())
    out.append("Content-Type: ").append(response.content_type).append("\r\n");
  out.append("Content-Length: ").append(std::to_string(response.body.size())).append("\r\n");
  for (const auto& [name, value] : response.headers)
    out.append(name).append(": ").append(value).append("\r\n");
  out.append(goes_on ? "Connection: keep-alive\r\n" : "Connection: close\r\n").append("\r\n");
  if (!is_head_) out += response.body;
  parser_ = std::make_unique<Parser>(body_bytes_max_);  // the body goes with the old one
  request_ = {};
  if (!goes_on) return false;
  begun_ = head_shown_ = is_head_ = false;
  return true;
}

}  // namespace sluice::wire
