#include "protocol/divvy/client.h"

#include "client/looks_like.h"
#include "client/socket.h"

namespace sluice::divvy {
namespace {

// Of a reply line; the longest that a server sends is an ERR with a text for people.
constexpr size_t reply_bytes_max = 64 << 10;

DivvyResult failed(std::string error) {
  return {std::nullopt, std::move(error)};
}

// Reads up to the first line end, which is dropped.
DivvyResult receive(calls::Socket& socket) {
  std::string line, problem;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    if (line.size() > reply_bytes_max)
      return failed("the reply has no line end; that is not a server of Divvy's protocol" +
                    calls::looks_like(line));
    const size_t searched = line.size();
    if (!socket.receive(line, problem)) return failed(std::move(problem));
    end = line.find('\n', searched);
  }
  return divvy_reply(std::string_view(line).substr(0, end));
}

}  // namespace

DivvyResult divvy_reply(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("ERR")) return failed("the server refused: " + std::string(line));
  DivvyReply reply;
  if (read_divvy_reply(line, reply)) return {reply, ""};
  return failed("that is not a reply of Divvy's protocol: " + std::string(line.substr(0, 200)) +
                calls::looks_like(line));
}

DivvyClient::DivvyClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

DivvyResult DivvyClient::hit(std::span<const Entry> descriptor) const {
  std::string problem;
  const auto request = divvy_request(descriptor, problem);
  if (!request) return failed(std::move(problem));

  auto socket = calls::Socket::connect(host_, port_, timeout_, problem);
  if (!socket) return failed(std::move(problem));
  if (!socket->send(*request)) return failed(calls::sent_too_late);
  return receive(*socket);
}

}  // namespace sluice::divvy
