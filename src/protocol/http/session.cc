#include "protocol/http/session.h"

#include "protocol/http/http1_session.h"
#include "protocol/http/http2_session.h"

namespace sluice::http {
namespace {

const HttpOptions default_http_options;

// The start of an HTTP/2 connection (RFC 9113, 3.4). No request of HTTP/1.1 starts with it, because
// PRI is not a method of HTTP/1.1.
constexpr std::string_view http2_begin = "PRI ";

}  // namespace

HttpSession::HttpSession(const request::Peer& peer)
    : peer_(peer),
      worker_(static_cast<HttpWorker&>(*peer.worker)),
      options_(peer.options == nullptr ? default_http_options
                                       : static_cast<const HttpOptions&>(*peer.options)) {}

void HttpSession::open_http1() {
  door_ = std::make_unique<Http1Session>(worker_, options_, peer_);
}

request::Received HttpSession::receive(std::string_view in, bool end, request::Requests& requests,
                                       base::Buffer& out) {
  if (door_ == nullptr) {
    const std::string_view begin = in.substr(0, http2_begin.size());
    if (begin == http2_begin)
      door_ = std::make_unique<Http2Session>(worker_, options_, peer_);
    else if (!http2_begin.starts_with(begin))
      open_http1();
    else
      return {0, false};
  }
  return door_->receive(in, end, requests, out);
}

// A client that has sent nothing yet is most likely to understand HTTP/1.1.
void HttpSession::refuse(std::string_view why, base::Buffer& out) {
  if (door_ == nullptr) open_http1();
  door_->refuse(why, out);
}

}  // namespace sluice::http
