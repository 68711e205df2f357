#include "client/http_client.h"

#include <memory>
#include <utility>

#include "client/looks_like.h"
#include "client/socket.h"
#include "wire/http1_response.h"

namespace sluice::calls {
namespace {

using wire::Http1ResponseReader;

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
  return {std::nullopt, std::move(error)};
}

std::string message_for(Http1ResponseReader::Fault fault, size_t bytes_max) {
  using Fault = Http1ResponseReader::Fault;
  if (fault == Fault::head_size) return "the head of the answer is too long";
  if (fault == Fault::body_size)
    return "the answer is longer than " + std::to_string(bytes_max) + " bytes";
  if (fault == Fault::no_length)
    return "the answer does not say how long it is, which the server always does; ask it without a "
           "proxy in between";
  return "what came back is not an HTTP answer";
}

// Empty: the reader has the answer, whose views are into `in`; else what is wrong.
std::string read_answer(Socket& socket, Http1ResponseReader& reader, std::string& in,
                        size_t bytes_max) {
  using Found = Http1ResponseReader::Found;
  for (;;) {
    const auto result = reader.next(in);
    if (result.found == Found::response) return {};
    if (result.found == Found::switching)
      return message_for(Http1ResponseReader::Fault::malformed, bytes_max);
    if (result.found == Found::broken)
      return message_for(reader.fault(), bytes_max) +
             (in.starts_with("HTTP/") ? std::string() : looks_like(in));
    in.erase(0, result.consumed);
    const base::Done received = socket.receive(in);
    if (received) continue;
    if (socket.ended() && in.find("\r\n\r\n") != in.npos)
      return "the connection ended in the middle of the answer";
    const std::string& problem = received.problem().text;
    return in.starts_with("HTTP/") ? problem : problem + looks_like(in);
  }
}

}  // namespace

HttpClient::HttpClient(Options options) : options_(std::move(options)) {}

HttpResult HttpClient::ask(std::string_view method, std::string_view target,
                           std::string_view body) {
  std::unique_ptr<net::TlsContext> tls;
  if (options_.tls) {
    auto opened = net::TlsContext::open(*options_.tls);
    if (!opened) return failure(std::move(opened).problem().text);
    tls = *std::move(opened);
  }
  auto socket = Socket::connect(address_.empty() ? options_.host : address_, options_.port,
                                options_.timeout, {.tls = tls.get(), .name = options_.host});
  if (!socket) return failure(std::move(socket).problem().text);
  if (address_.empty() && !is_unix_path(options_.host)) address_ = socket->peer();
  if (!socket->send(request_text(options_, method, target, body))) return failure(sent_too_late);

  Http1ResponseReader reader({.body_bytes = options_.answer_bytes_max});
  std::string in;
  if (auto wrong = read_answer(*socket, reader, in, options_.answer_bytes_max); !wrong.empty()) {
    // A port with TLS ends the connection.
    if (in.empty() && !options_.tls && !is_unix_path(options_.host) && !wrong.ends_with("in time"))
      wrong += "; if that port has TLS, write https:// in front of the address";
    return failure(std::move(wrong));
  }
  HttpAnswer answer;
  answer.status = reader.status();
  answer.content_type = reader.field("content-type");
  answer.body = reader.body();
  return {std::move(answer), {}};
}

}  // namespace sluice::calls
