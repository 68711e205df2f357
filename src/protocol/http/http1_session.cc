#include "protocol/http/http1_session.h"

#include <cstdint>
#include <utility>

#include "base/bounds.h"
#include "protocol/http/http1_answer.h"

namespace sluice::http {
namespace {

using Found = wire::Http1Reader::Found;

constexpr std::string_view go_ahead = "HTTP/1.1 100 Continue\r\n\r\n";

// The reader accepts any Content-Length. The session checks it itself, because some requests are
// answered without their body.
constexpr wire::Http1Reader::Bounds http1_bounds{.body_bytes = SIZE_MAX >> 1,
                                                 .chunked_body_bytes = body_bytes_max};

bool lies_in(std::string_view part, std::string_view whole) {
  return part.data() >= whole.data() && part.data() <= whole.data() + whole.size();
}

}  // namespace

Http1Session::Http1Session(HttpWorker& worker, const HttpOptions& options,
                           const request::Peer& peer)
    : worker_(worker),
      options_(options),
      peer_(peer),
      reader_(http1_bounds, wire::Http1Reader::Use::requests, &worker.spare_fields),
      identity_(peer.access),
      auth_peer_(peer.address, options.auth.trusted) {}

Http1Session::~Http1Session() {
  for (; first_ < open_.size(); ++first_) {
    open_[first_].exchange->forget(around());
    worker_.give_back(std::move(open_[first_].exchange));
  }
}

request::Received Http1Session::receive(std::string_view in, bool, request::Requests& requests,
                                        base::Buffer& out) {
  if (closing_) return {in.size(), true};
  size_t consumed = 0;
  while (requests.size() < base::bounds::batch_requests_max) {
    const std::string_view rest = in.substr(consumed);
    const auto result = reader_.next(rest);
    if (result.found == Found::incomplete) return {consumed + result.consumed, false};
    if (result.found == Found::broken) {
      closing_ = true;
      fault_ = "http";
      return {in.size(), true};
    }
    if (result.found == Found::head) {
      consumed += result.consumed;
      if (is_answered_without_body(reader_.head().path)) {
        begin({}, requests, true);
        return {in.size(), true};
      }
      if (reader_.head().body_bytes > body_bytes_max) {
        refuse_body(requests);
        return {in.size(), true};
      }
      if (!reader_.head().awaits_go_ahead) continue;
      // The go-ahead must follow the answers to the earlier requests.
      if (first_ == open_.size()) {
        out.append(go_ahead);
        continue;
      }
      owes_go_ahead_ = true;
      return {consumed, false};
    }
    begin(rest, requests, false);
    consumed += result.consumed;
    // If the connection ends after this request, the close follows its answer, which may come at
    // once: it is work, so that the session is called again then.
    if (holds_back()) return {consumed, false, closing_ ? size_t{1} : 0};
    if (closing_) return {in.size(), true};
  }
  return {consumed, false};
}

// The refusal is sent after the answers to the earlier requests; then the connection ends.
void Http1Session::refuse_body(request::Requests& requests) {
  auto exchange = worker_.take_exchange();
  Question question;
  question.method = reader_.head().method;
  exchange->fail(question, problems::too_large, "the body of the request is longer than 1 MiB");
  closing_ = true;
  fault_ = "http";
  open(std::move(exchange), requests);
}

// Views into `in` are valid as long as the requests.
void Http1Session::begin(std::string_view in, request::Requests& requests, bool without_body) {
  const wire::Http1Head& head = reader_.head();
  std::string_view body = without_body ? std::string_view() : reader_.body();
  if (!body.empty() && !lies_in(body, in)) body = requests.hold(body);
  const Question question{.method = head.method,
                          .path = head.path,
                          .query = head.query,
                          .host = head.host,
                          .has_query = head.has_query,
                          .scheme = "http",
                          .fields = head.fields,
                          .body = body};
  auto exchange = worker_.take_exchange();
  exchange->begin(question, around(), 0, requests);
  closing_ = !head.keep_alive || (head.has_body && is_answered_without_body(head.path));
  open(std::move(exchange), requests);
}

// A request that is ready needs no decision; its noop keeps the answers in order.
void Http1Session::open(std::unique_ptr<Exchange> exchange, request::Requests& requests) {
  if (exchange->is_ready()) {
    requests.open();
    requests.commit({.verb = request::Verb::noop, .prefix = {}, .tag = {}});
  }
  if (first_ == open_.size()) {
    open_.clear();
    first_ = 0;
  }
  open_.push_back({std::move(exchange), reader_.head().is_http10, closing_});
}

bool Http1Session::reply(const request::Request& request, const request::Verdict& verdict,
                         base::Time now, base::Buffer& out) {
  Exchange& exchange = *open_[first_].exchange;
  now_ = now;
  if (!exchange.is_ready() && !exchange.take(request, verdict, now, around())) return true;
  answer(std::move(open_[first_++]), out);
  if (first_ == open_.size() && std::exchange(owes_go_ahead_, false)) out.append(go_ahead);
  return true;
}

void Http1Session::answer(Open open, base::Buffer& out) {
  Answer& answer = worker_.answer;
  answer.clear();
  open.exchange->write(around(), answer);
  append_http1_answer(answer, {open.exchange->is_head(), open.is_http10, open.is_last},
                      worker_.date_line(now_), out);
  worker_.give_back(std::move(open.exchange));
}

void Http1Session::write_problem(const ProblemKind& kind, std::string_view detail,
                                 base::Buffer& out) {
  auto exchange = worker_.take_exchange();
  exchange->fail({}, kind, detail);
  if (peer_.clock != nullptr) now_ = peer_.clock->now();
  answer({std::move(exchange), false, true}, out);
}

void Http1Session::farewell(base::Buffer& out) {
  if (reader_.status() == 0) return;
  if (reader_.status() == problems::too_large.status)
    return write_problem(problems::too_large, reader_.problem(), out);
  const ProblemKind kind{static_cast<uint16_t>(reader_.status()),
                         "urn:sluice:problem:malformed-request", "Malformed request"};
  write_problem(kind, reader_.problem(), out);
}

void Http1Session::refuse(std::string_view why, base::Buffer& out) {
  write_problem(problems::reduced_capacity, why, out);
}

// Refuses a request that waits: nothing was charged for it.
void Http1Session::goodbye(base::Buffer& out) {
  if (!holds_back()) return;
  write_problem(problems::reduced_capacity, "the server stops; nothing was charged", out);
}

}  // namespace sluice::http
