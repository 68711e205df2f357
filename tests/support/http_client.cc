#include "tests/support/http_client.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "tests/support/tcp_client.h"

namespace sluice::tests {
namespace {

// The chunks of a body, joined.
std::string unchunked(std::string_view text) {
  std::string body;
  while (true) {
    const size_t end = text.find("\r\n");
    if (end == text.npos) throw std::runtime_error("chunks without an end");
    const size_t size = std::stoul(std::string(text.substr(0, end)), nullptr, 16);
    if (size == 0) return body;
    body += text.substr(end + 2, size);
    text.remove_prefix(std::min(end + 2 + size + 2, text.size()));
  }
}

}  // namespace

HttpAnswer http(uint16_t port, const std::string& method, const std::string& target,
                std::string_view body, const std::string& headers, Deadline deadline) {
  auto client = TcpClient::connect(port, "127.0.0.1", deadline);
  if (!client) throw std::runtime_error("no HTTP server on port " + std::to_string(port));
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                     "Connection: close\r\n";
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  client->send(text.append("\r\n").append(body), deadline);
  const auto status_line = client->read_line(deadline);
  if (!status_line || !status_line->starts_with("HTTP/1.1 "))
    throw std::runtime_error("no HTTP response to " + method + " " + target);
  HttpAnswer answer;
  answer.status = std::stoi(status_line->substr(9));
  while (true) {
    auto line = client->read_line(deadline);
    if (!line) throw std::runtime_error("an HTTP head without an end");
    if (line->ends_with('\r')) line->pop_back();
    if (line->empty()) break;
    const size_t cut = line->find(": ");
    std::string name = line->substr(0, cut);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return static_cast<char>(std::tolower(c)); });
    answer.headers[name] = line->substr(cut + 2);
  }
  answer.body = client->read_to_end(deadline);
  if (answer.headers["transfer-encoding"] == "chunked") answer.body = unchunked(answer.body);
  return answer;
}

std::string sample(uint16_t port, const std::string& name) {
  const std::string text = "\n" + http_get(port, "/metrics").body;
  const size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) return "";
  const size_t from = at + name.size() + 2;
  return text.substr(from, text.find('\n', from) - from);
}

}  // namespace sluice::tests
