#include "client/http_client.h"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <utility>

#include "client/looks_like.h"
#include "client/socket.h"

namespace sluice::calls {
namespace {

namespace http = boost::beast::http;
using Parser = http::response_parser<http::string_body>;

constexpr size_t head_bytes_max = size_t{64} << 10;

std::string host_header(const HttpClient::Options& options) {
  if (is_unix_path(options.host)) return "localhost";
  const bool ipv6 = options.host.find(':') != std::string::npos;
  return (ipv6 ? "[" + options.host + "]" : options.host) + ":" + std::to_string(options.port);
}

std::string request_text(const HttpClient::Options& options, std::string_view method,
                         std::string_view target, std::string_view body) {
  std::string text(method);
  text.append(" ").append(target).append(" HTTP/1.1\r\nHost: ").append(host_header(options));
  text.append("\r\nAccept: application/json, */*\r\nConnection: close\r\n");
  if (!options.token.empty())
    text.append("Authorization: Bearer ").append(options.token).append("\r\n");
  if (!body.empty()) text.append("Content-Type: application/json\r\n");
  if (!body.empty() || method == "POST" || method == "PUT")
    text.append("Content-Length: ").append(std::to_string(body.size())).append("\r\n");
  return text.append("\r\n").append(body);
}

HttpResult failure(std::string error) {
  return {std::nullopt, std::move(error), false};
}

std::string no_http(const boost::beast::error_code& ec) {
  return "what came back is not an HTTP answer: " + ec.message();
}

// The body, up to its length or, where none is said, to the end of the connection. Empty: all is
// there; else what is wrong.
std::string read_body(Socket& socket, Parser& parser, std::string& in, size_t bytes_max) {
  for (;;) {
    boost::beast::error_code ec;
    if (!in.empty()) {
      const size_t n = parser.put(boost::asio::buffer(in.data(), in.size()), ec);
      in.erase(0, n);
    }
    if (ec == http::error::body_limit)
      return "the answer is longer than " + std::to_string(bytes_max) + " bytes";
    if (ec && ec != http::error::need_more) return no_http(ec);
    if (parser.is_done()) return {};
    std::string problem;
    if (socket.receive(in, problem)) continue;
    if (!socket.ended()) return problem;
    if (!parser.need_eof()) return "the connection ended in the middle of the answer";
    parser.put_eof(ec);
    return ec ? no_http(ec) : std::string();
  }
}

std::string read_answer(Socket& socket, Parser& parser, size_t bytes_max) {
  // The parser sees the head as a whole and alone: of chunks, which Beast 1.81 aborts on where they
  // are ill-formed, it is to see nothing.
  std::string in, problem;
  size_t end = std::string::npos;
  while ((end = in.find("\r\n\r\n")) == std::string::npos) {
    if (in.size() > head_bytes_max) return "what came back has a head without an end";
    if (!socket.receive(in, problem))
      return in.starts_with("HTTP/") ? problem : problem + looks_like(in);
  }
  end += 4;
  boost::beast::error_code ec;
  parser.put(boost::asio::buffer(in.data(), end), ec);
  if (ec == http::error::body_limit)
    return "the answer is longer than " + std::to_string(bytes_max) + " bytes";
  if (ec && ec != http::error::need_more) return no_http(ec) + looks_like(in);
  if (!parser.is_header_done()) return "what came back is not an HTTP answer";
  if (parser.chunked())
    return "the answer comes in chunks, which the server itself never sends; ask it without what "
           "stands between";
  in.erase(0, end);
  return parser.is_done() ? std::string() : read_body(socket, parser, in, bytes_max);
}

}  // namespace

HttpClient::HttpClient(Options options) : options_(std::move(options)) {}

HttpResult HttpClient::ask(std::string_view method, std::string_view target, std::string_view body,
                           std::span<const int> interrupts) {
  const auto interrupted = [&](std::string error) {
    HttpResult result = failure(std::move(error));
    result.interrupted = Socket::any_readable(interrupts);
    return result;
  };
  std::string problem;
  auto socket = Socket::connect(address_.empty() ? options_.host : address_, options_.port,
                                options_.timeout, problem, interrupts);
  if (!socket) return interrupted(problem);
  if (address_.empty() && !is_unix_path(options_.host)) address_ = socket->peer();
  if (!socket->send(request_text(options_, method, target, body)))
    return interrupted(sent_too_late);

  Parser parser;
  parser.header_limit(static_cast<uint32_t>(head_bytes_max));
  parser.body_limit(options_.answer_bytes_max);
  parser.eager(true);
  if (auto wrong = read_answer(*socket, parser, options_.answer_bytes_max); !wrong.empty())
    return interrupted(std::move(wrong));
  auto message = parser.release();
  HttpAnswer answer;
  answer.status = message.result_int();
  const auto type = message[http::field::content_type];
  answer.content_type.assign(type.data(), type.size());
  answer.body = std::move(message.body());
  return {std::move(answer), {}, false};
}

std::string percent_encoded(std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain)
      out += c;
    else
      ((out += '%') += hex[byte >> 4]) += hex[byte & 15];
  }
  return out;
}

}  // namespace sluice::calls
