#include "protocol/divvy/client.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "client/socket.h"

namespace sluice::divvy {
namespace {

// Of a reply line; the longest that a server sends is an ERR with a text for people.
constexpr size_t reply_bytes_max = 64 << 10;

DivvyResult failed(std::string error) {
  return {std::nullopt, std::move(error)};
}

// Reads up to the first line end, which is dropped.
DivvyResult receive(client::Socket& socket) {
  std::string line, problem;
  size_t end = std::string::npos;
  while (end == std::string::npos) {
    if (line.size() > reply_bytes_max)
      return failed("the reply has no line end; that is no server of Divvy's protocol");
    const size_t searched = line.size();
    if (!socket.receive(line, problem)) return failed(std::move(problem));
    end = line.find('\n', searched);
  }
  return divvy_reply(std::string_view(line).substr(0, end));
}

}  // namespace

std::optional<std::string> divvy_request(std::span<const DivvyClient::Entry> descriptor,
                                         std::string& problem) {
  std::vector<DivvyClient::Entry> sorted(descriptor.begin(), descriptor.end());
  // Of equal keys the last one counts, so they keep their order.
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string line = "HIT";
  for (const auto& [key, value] : sorted) {
    for (const std::string* part : {&key, &value}) {
      const bool is_key = part == &key;
      const size_t bad = part->find_first_of("\"\n");
      if (bad == std::string::npos) continue;
      problem = (is_key ? "the key `" + key : "the value of `" + key) + "` holds " +
                ((*part)[bad] == '"' ? "a double quote" : "a line end") +
                ", which Divvy's protocol cannot carry; leave it out or replace it";
      return std::nullopt;
    }
    line += " \"" + key + "\"=\"" + value + "\"";
  }
  return line += '\n';
}

DivvyResult divvy_reply(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line.starts_with("ERR")) return failed("the server refused: " + std::string(line));
  const auto wrong = [&] {
    return failed("that is no reply of Divvy's protocol: " + std::string(line.substr(0, 200)));
  };
  auto next = [rest = line]() mutable {
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view first = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    return first;
  };
  const auto number = [](std::string_view text, int64_t& n) {
    const char* const end = text.data() + text.size();
    const auto [at, bad] = std::from_chars(text.data(), end, n);
    return bad == std::errc{} && at == end;
  };
  DivvyAnswer answer;
  if (std::count(line.begin(), line.end(), ' ') != 3 || next() != "OK") return wrong();
  const std::string_view allowed = next();
  if (allowed != "true" && allowed != "false") return wrong();
  answer.allowed = allowed == "true";
  if (!number(next(), answer.remaining) || !number(next(), answer.reset_seconds)) return wrong();
  return {answer, ""};
}

DivvyClient::DivvyClient(std::string host, uint16_t port, std::chrono::milliseconds timeout)
    : host_(std::move(host)), port_(port), timeout_(timeout) {}

DivvyResult DivvyClient::hit(std::span<const Entry> descriptor) const {
  std::string problem;
  const auto request = divvy_request(descriptor, problem);
  if (!request) return failed(std::move(problem));

  auto socket = client::Socket::connect(host_, port_, timeout_, problem);
  if (!socket) return failed(std::move(problem));
  if (!socket->send(*request)) return failed(client::sent_too_late);
  return receive(*socket);
}

}  // namespace sluice::divvy
