#include "protocol/envoy/http_session.h"

#include <utility>

#include "base/buffer.h"
#include "wire/json.h"

namespace sluice::envoy {
namespace {

constexpr std::string_view text_type = "text/plain; charset=utf-8", json_type = "application/json",
                           problem_type = "application/problem+json";

constexpr std::string_view not_found = "404 page not found\n",
                           debug_paths = "/rlconfig: the limits that are loaded, one a line\n";

unsigned status_of(const CallError& error) {
  switch (error.kind) {
    case CallError::Kind::request:
    case CallError::Kind::rules:
      return 400;
    default:
      return 503;
  }
}

}  // namespace

request::Received HttpSession::receive(std::string_view in, bool, request::Requests& requests,
                                       base::Buffer& out) {
  size_t consumed = 0;
  for (;;) {
    const wire::HttpSession::Received received = http_.receive(in.substr(consumed));
    consumed += received.consumed;
    switch (received.found) {
      case wire::HttpSession::Found::nothing:
        return {consumed, false};
      case wire::HttpSession::Found::head:
        if (http_.awaits_go_ahead()) {
          std::string go_ahead;
          wire::HttpSession::append_go_ahead(go_ahead);
          out.append(go_ahead);
        }
        break;
      case wire::HttpSession::Found::broken:
        fault_ = "http";
        send_error(http_.refusal_status(), http_.refusal(), out);
        return {in.size(), true};
      case wire::HttpSession::Found::request:
        if (!answer_request(requests, out)) return {consumed, true};
        if (asked_ != nullptr) return {consumed, false};
        break;
    }
  }
}

// False: the connection ends after the answer.
bool HttpSession::answer_request(request::Requests& requests, base::Buffer& out) {
  const std::string& path = http_.request().path;
  if (paths_ == Paths::debug) return answer_debug(path, requests, out);
  if (path == "/json") return ask(requests, out);
  if (path != "/healthcheck") {
    report("there is nothing at the path " + path);
    return send_text(404, not_found, out);
  }
  probe(requests);
  return true;
}

bool HttpSession::answer_debug(const std::string& path, request::Requests& requests,
                               base::Buffer& out) {
  if (path == "/") return send_text(200, debug_paths, out);
  if (path != "/rlconfig") return send_text(404, not_found, out);
  probe(requests);
  return true;
}

void HttpSession::probe(request::Requests& requests) {
  asked_ = std::make_unique<Asked>();
  asked_->call.ask_health(0, options_, requests);
}

bool HttpSession::ask(request::Requests& requests, base::Buffer& out) {
  auto asked = std::make_unique<Asked>();
  if (const auto problem = read_json_request(http_.request().body, asked->json))
    return send_error(problem->too_large ? 413 : 400, problem->message, out);
  const std::string_view why =
      why_refused(http_.request().authorization, asked->json.request, identity_);
  if (!why.empty())
    return identity_.is_known() ? send_error(403, why, out, "forbidden")
                                : send_error(401, why, out, "login");
  asked->call.message = asked->json.request;
  asked->call.metrics = worker_.metrics;
  asked->call.ask(0, options_, base::Time{INT64_MAX}, requests);
  const CallError& error = asked->call.error();
  if (error.kind != CallError::Kind::ok) return send_error(status_of(error), error.text, out);
  asked_ = std::move(asked);
  return true;
}

bool HttpSession::reply(const request::Request& request, const request::Verdict& verdict,
                        base::Time now, base::Buffer& out) {
  Call& call = asked_->call;
  if (!call.take(request, verdict, now, options_)) return true;
  const std::unique_ptr<Asked> asked = std::move(asked_);
  if (Call::is_health(request)) {
    if (paths_ == Paths::debug)
      return send_text(200, call.limits() == nullptr ? "" : call.limits()->set().rlconfig(), out);
    return call.is_healthy() ? send_text(200, "OK", out) : send_text(500, "", out);
  }
  if (call.error().kind != CallError::Kind::ok)
    return send_error(status_of(call.error()), call.error().text, out);
  return send(response_of(call), out);
}

wire::HttpResponse HttpSession::response_of(const Call& call) {
  RateLimitResponse& response = worker_.response;
  call.respond(options_, response);
  base::Buffer& body = worker_.message;
  body.clear();
  append_json_response(response, body);
  wire::HttpResponse http{.status = response.overall_code == Code::over_limit ? 429u : 200u,
                          .content_type = std::string(json_type),
                          .body = std::string(body.view())};
  for (const HeaderValue& header : response.response_headers_to_add)
    if (wire::is_http_field_name(header.key)) http.headers.emplace_back(header.key, header.value);
  return http;
}

bool HttpSession::send_text(unsigned status, std::string_view text, base::Buffer& out) {
  return send({.status = status, .content_type = std::string(text_type), .body = std::string(text)},
              out);
}

bool HttpSession::send(const wire::HttpResponse& response, base::Buffer& out) {
  std::string text;
  const bool goes_on = http_.reply(response, false, text);
  out.append(text);
  return goes_on;
}

// Sends the original's text; to a client that accepts JSON, a problem document with the reason.
bool HttpSession::send_error(unsigned status, std::string_view text, base::Buffer& out,
                             std::string_view code) {
  // What is not HTTP at all is a fault, which the connection reports.
  if (status < 500 && fault_.empty()) report(text, code);
  const std::string reason = wire::http_reason(status);
  wire::HttpResponse response{
      .status = status, .content_type = std::string(text_type), .body = reason + "\n"};
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (http_.request().accept.find("json") != std::string::npos) {
    response.content_type = problem_type;
    const wire::Json problem = {{"status", status}, {"title", reason}, {"detail", text}};
    response.body = problem.dump(-1, ' ', false, wire::Json::error_handler_t::replace);
  }
  return send(response, out);
}

void HttpSession::report(std::string_view example, std::string_view code) const {
  if (listener_ != nullptr) listener_->refused(code, example);
}

void HttpSession::refuse(std::string_view why, base::Buffer& out) {
  send_error(503, why, out);
}

}  // namespace sluice::envoy
