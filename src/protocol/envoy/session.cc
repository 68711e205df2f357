#include "protocol/envoy/session.h"

#include <algorithm>

#include "protocol/envoy/grpc_session.h"
#include "protocol/envoy/http_session.h"

namespace sluice::envoy {
namespace {

const EnvoyOptions default_options;

// The start of an HTTP/2 connection. No request of HTTP/1.1 starts with it, because PRI is not a
// method of HTTP/1.1.
constexpr std::string_view http2_begin = "PRI ";

}  // namespace

EnvoySession::EnvoySession(const request::Peer& peer)
    : worker_(static_cast<EnvoyWorker&>(*peer.worker)),
      options_(peer.options == nullptr ? default_options
                                       : static_cast<const EnvoyOptions&>(*peer.options)),
      clock_(peer.clock),
      listener_(peer.listener),
      access_(peer.access),
      is_debug_(options_.debug_port != 0 && peer.port == options_.debug_port) {
  if (worker_.metrics == nullptr && options_.metrics != nullptr)
    worker_.metrics = &options_.metrics->add_worker();
}

request::Received EnvoySession::receive(std::string_view in, bool end, request::Requests& requests,
                                        base::Buffer& out) {
  if (door_ == nullptr) {
    const std::string_view begin = in.substr(0, http2_begin.size());
    if (is_debug_)
      door_ = std::make_unique<HttpSession>(worker_, options_, HttpSession::Paths::debug, listener_,
                                            access_);
    else if (begin == http2_begin)
      door_ = std::make_unique<GrpcSession>(worker_, options_, clock_, listener_, access_);
    else if (!http2_begin.starts_with(begin))
      door_ = std::make_unique<HttpSession>(worker_, options_, HttpSession::Paths::service,
                                            listener_, access_);
    else
      return {0, false};
  }
  return door_->receive(in, end, requests, out);
}

}  // namespace sluice::envoy
