#include "protocol/envoy/client.h"

#include <utility>

#include "client/socket.h"
#include "wire/grpc_client.h"

namespace sluice::envoy {
namespace {

constexpr std::string_view should_rate_limit =
    "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
constexpr const char* no_response = "that is not an answer of Envoy's rate limit service";

std::string authority_of(const std::string& host, uint16_t port) {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return (is_ipv6 ? '[' + host + ']' : host) + ':' + std::to_string(port);
}

// Sends and reads until the call is over.
base::Done run_call(wire::GrpcClientCall& call, calls::Socket& socket) {
  base::Buffer out;
  std::string in;
  for (;;) {
    out.clear();
    call.write(out);
    if (!out.empty() && !socket.send(out.view())) return base::Problem{calls::sent_too_late};
    if (call.is_over()) {
      if (call.problem().empty()) return {};
      return base::Problem{call.problem()};
    }
    in.clear();
    if (base::Done received = socket.receive(in); !received) return received;
    call.receive(in);
  }
}

}  // namespace

ServiceClient::ServiceClient(std::string host, uint16_t port, std::chrono::milliseconds timeout,
                             std::string authorization, std::optional<net::TlsClient> tls)
    : host_(std::move(host)),
      port_(port),
      timeout_(timeout),
      authorization_(std::move(authorization)),
      tls_(std::move(tls)) {}

base::Result<std::unique_ptr<const ServiceAnswer>> ServiceClient::ask(
    const RateLimitRequest& request) const {
  base::Buffer message;
  append_request(request, message);
  if (message.size() > message_bytes_max) return base::Problem{"the request is larger than 4 MiB"};
  std::unique_ptr<net::TlsContext> tls;
  if (tls_) {
    net::TlsClient with_http2 = *tls_;
    with_http2.only_http2 = true;
    auto opened = net::TlsContext::open(with_http2);
    if (!opened) return std::move(opened).problem();
    tls = *std::move(opened);
  }
  auto socket = calls::Socket::connect(host_, port_, timeout_, {.tls = tls.get(), .name = host_});
  if (!socket) return std::move(socket).problem();
  if (tls_ && socket->alpn() != "h2")
    return base::Problem{"the server does not offer HTTP/2 over TLS (ALPN), as gRPC needs"};
  wire::GrpcClientCall call(authority_of(host_, port_), should_rate_limit, message.view(), timeout_,
                            authorization_, tls_.has_value());
  if (base::Done done = run_call(call, *socket); !done) return std::move(done).problem();
  const wire::GrpcAnswer& answer = call.answer();
  if (answer.status != 0)
    return base::Problem{"the server refused: " + wire::grpc_status_name(answer.status) +
                         (answer.text.empty() ? "" : ", " + answer.text)};
  auto result = std::make_unique<ServiceAnswer>();
  result->message = answer.message;
  if (!read_response(result->message, result->response)) return base::Problem{no_response};
  return std::unique_ptr<const ServiceAnswer>(std::move(result));
}

}  // namespace sluice::envoy
