// The session of the rate limit service over HTTP/1.1: `/json`, with the messages as JSON, and
// `/healthcheck`; or on the debug port `/rlconfig`, the limits that are loaded. One request at a
// time. One for each connection, used by its thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "access/identity.h"
#include "protocol/envoy/call.h"
#include "protocol/envoy/json.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/worker_state.h"
#include "request/peer.h"
#include "request/session.h"
#include "wire/http_session.h"

namespace sluice::envoy {

class HttpSession final : public request::Session {
 public:
  // The paths that are served: the service's, or those of the original's debug port.
  enum class Paths : uint8_t { service, debug };

  // The arguments outlive the session. `listener` may be null, and so may `access`: then there are
  // no users.
  HttpSession(EnvoyWorker& worker, const EnvoyOptions& options, Paths paths,
              const request::ListenerView* listener, const access::Access* access)
      : worker_(worker),
        options_(options),
        paths_(paths),
        listener_(listener),
        identity_(access),
        http_(message_bytes_max) {}

  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  bool holds_back() const override { return asked_ != nullptr; }
  // The size that the head announces, after the head was read.
  size_t unfinished_bytes() const override {
    return http_.has_begun() && asked_ == nullptr ? http_.request().body_bytes : 0;
  }
  std::string_view fault() const override { return fault_; }
  void farewell(base::Buffer&) override {}
  void refuse(std::string_view why, base::Buffer& out) override;

 private:
  // A message and its texts.
  struct Asked {
    JsonRequest json;
    Call call;
  };

  bool answer_request(request::Requests& requests, base::Buffer& out);
  bool answer_debug(const std::string& path, request::Requests& requests, base::Buffer& out);
  bool ask(request::Requests& requests, base::Buffer& out);
  void probe(request::Requests& requests);
  bool send(const wire::HttpResponse& response, base::Buffer& out);
  bool send_text(unsigned status, std::string_view text, base::Buffer& out);
  bool send_error(unsigned status, std::string_view text, base::Buffer& out,
                  std::string_view code = request::malformed_code);
  void report(std::string_view example, std::string_view code = request::malformed_code) const;
  wire::HttpResponse response_of(const Call& call);

  EnvoyWorker& worker_;
  const EnvoyOptions& options_;
  const Paths paths_;
  const request::ListenerView* const listener_;
  access::Identity identity_;  // of the request under way
  wire::HttpSession http_;
  std::unique_ptr<Asked> asked_;  // null: no request is under way
  std::string_view fault_{};
};

}  // namespace sluice::envoy
