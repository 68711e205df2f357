#include "otlp/post.h"

#include <poll.h>

#include <charconv>
#include <cstdint>

#include "base/printable.h"
#include "wire/http1_response.h"
#include "wire/http_authority.h"

namespace sluice::otlp {
namespace {

using std::chrono::steady_clock;

constexpr size_t answer_bytes_max = size_t{64} << 10;
constexpr std::chrono::milliseconds look_up_step{50};

std::string authority_of(const Endpoint& to) {
  return net::name_of({to.host, to.port});
}

// RFC 9110 and OTLP name these as passing.
bool is_passing(unsigned status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

base::Result<Endpoint> read_endpoint(std::string_view url, std::string_view usual_path) {
  const auto wrong = [&](const std::string& why) {
    return base::Problem{"`" + base::printable(url) + "` " + why};
  };
  const size_t scheme = wire::http_scheme_bytes(url);
  if (scheme == 0) return wrong("begins with neither http:// nor https://");
  const std::string_view authority = wire::http_authority_of(url);
  if (!wire::is_http_authority(authority)) return wrong("names no HOST:PORT");
  Endpoint to;
  to.is_tls = scheme == std::string_view("https://").size();
  to.port = to.is_tls ? 443 : 80;
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.find(':', bracket == authority.npos ? 0 : bracket);
  if (colon != authority.npos && colon + 1 < authority.size())
    std::from_chars(authority.data() + colon + 1, authority.data() + authority.size(), to.port);
  std::string_view host = authority.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  to.host = host;
  to.path = url.substr(scheme + authority.size());
  if (to.path.empty() || to.path == "/") to.path = usual_path;
  if (!to.path.starts_with('/')) return wrong("has no path");
  for (const char c : to.path)
    if (c <= ' ' || c >= 0x7f) return wrong("has a path with a character that a URL cannot have");
  return to;
}

Post::Post(Endpoint to, Headers headers, net::TlsClient tls, std::chrono::milliseconds timeout,
           int cut)
    : to_(std::move(to)),
      headers_(std::move(headers)),
      tls_settings_(std::move(tls)),
      timeout_(timeout),
      cut_(cut) {}

bool Post::is_cut() const {
  pollfd cut{cut_, POLLIN, 0};
  return ::poll(&cut, 1, 0) > 0;
}

// The addresses of the host by now: a name server may not answer, so a thread of the resolver asks.
base::Result<std::vector<net::Address>> Post::look_up() const {
  net::Resolver resolver({{to_.host, to_.port}});
  resolver.look();
  for (const auto until = steady_clock::now() + timeout_;
       steady_clock::now() < until && !is_cut();) {
    resolver.await(look_up_step);
    auto addresses = resolver.addresses();
    if (!addresses.empty()) return addresses;
    if (auto problem = resolver.take_problem(); !problem.empty()) return base::Problem{problem};
  }
  if (is_cut()) return base::Problem{"the server stops"};
  return base::Problem{"cannot find the host `" + to_.host + "`: no answer in time"};
}

base::Result<std::unique_ptr<calls::Socket>> Post::connect() const {
  const auto addresses = look_up();
  if (!addresses) return addresses.problem();
  auto socket = calls::Socket::connect(*addresses, authority_of(to_), timeout_,
                                       {.tls = tls_.get(), .name = to_.host, .wake = cut_});
  if (!socket) return std::move(socket).problem();
  return std::make_unique<calls::Socket>(*std::move(socket));
}

Post::Sent Post::send(std::string_view message) {
  std::string request = "POST " + to_.path + " HTTP/1.1\r\nHost: " + authority_of(to_) +
                        "\r\nContent-Type: application/x-protobuf\r\nUser-Agent: sluice\r\n";
  for (const auto& [name, value] : headers_) request += name + ": " + value + "\r\n";
  request += "Content-Length: " + std::to_string(message.size()) + "\r\n\r\n";
  request += message;
  if (socket_ != nullptr) {
    // A collector may have closed a connection that it kept.
    Sent sent = exchange(request);
    if (!sent.is_gone) return sent;
  }
  tls_.reset();
  if (to_.is_tls) {
    auto opened = net::TlsContext::open(tls_settings_);
    if (!opened) return {std::move(opened).problem().text};
    tls_ = *std::move(opened);
  }
  auto socket = connect();
  if (!socket) return {std::move(socket).problem().text};
  socket_ = *std::move(socket);
  return exchange(request);
}

// Without an answer the connection is gone afterwards.
Post::Sent Post::exchange(std::string_view request) {
  using Found = wire::Http1ResponseReader::Found;
  using Got = calls::Socket::Got;
  const auto fail = [this](std::string problem, bool is_gone = false) {
    socket_.reset();
    return Sent{.problem = std::move(problem), .is_gone = is_gone};
  };
  const auto until = steady_clock::now() + timeout_;
  socket_->renew(timeout_);
  if (!socket_->send(request)) return fail(calls::sent_too_late);
  wire::Http1ResponseReader reader({.body_bytes = answer_bytes_max});
  std::string in, problem;
  for (;;) {
    const auto result = reader.next(in);
    if (result.found == Found::response) break;
    if (result.found != Found::incomplete) return fail("what came back is not an HTTP answer");
    in.erase(0, result.consumed);
    switch (socket_->receive(in, until, problem)) {
      case Got::bytes:
        break;
      case Got::late:
        return fail("it did not answer in time");
      case Got::woken:
        return fail("the server stops");
      case Got::ended:
        return fail("it closed the connection without an answer", true);
      case Got::failed:
        return fail(problem, true);
    }
  }
  Sent sent;
  const unsigned status = reader.status();
  if (status < 200 || status > 299) {
    sent.problem = "it answered with status " + std::to_string(status);
    sent.may_retry = is_passing(status);
  }
  sent.body = reader.body();
  if (reader.field("connection") == "close" || socket_->ended()) socket_.reset();
  return sent;
}

}  // namespace sluice::otlp
