#include "protocol/http/session.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/decimal.h"
#include "base/text_writer.h"
#include "wire/http_session.h"

namespace sluice::http {
namespace {

// The most bytes of a head without its fields, date and type.
constexpr size_t head_bytes_max = 256;

size_t room_of(const Answer& answer, std::string_view date_line) {
  return head_bytes_max + date_line.size() + answer.content_type.size() +
         answer.fields.lines().size() + answer.body.size();
}

void put_status(uint16_t status, base::TextWriter& writer) {
  if (status == 200) return writer.put("HTTP/1.1 200 OK\r\n");
  if (status == 429) return writer.put("HTTP/1.1 429 Too Many Requests\r\n");
  writer.put("HTTP/1.1 ");
  writer.put_number(status);
  writer.put(' ');
  const std::string reason = wire::http_reason(status);
  writer.put(std::string_view(reason));
  writer.put("\r\n");
}

}  // namespace

void append_http1_answer(const Answer& answer, const Http1Form& form, std::string_view date_line,
                         base::Buffer& out) {
  base::TextWriter writer(out, room_of(answer, date_line));
  put_status(answer.status, writer);
  if (!answer.content_type.empty()) {
    writer.put("Content-Type: ");
    writer.put(answer.content_type);
    writer.put("\r\n");
  }
  if (answer.status != 204) {
    writer.put("Content-Length: ");
    writer.put_number(answer.body.size());
    writer.put("\r\n");
  }
  writer.put(date_line);
  writer.put(answer.fields.lines());
  if (form.is_last)
    writer.put("Connection: close\r\n");
  else if (form.is_http10)
    writer.put("Connection: keep-alive\r\n");
  writer.put("\r\n");
  if (!form.is_head && answer.status != 204) writer.put(answer.body.view());
  writer.finish();
}

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
      identity_(peer.access, peer.certificate),
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
    if (waiting_ > 0) return {consumed, false, closing_ ? size_t{1} : 0};
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
    requests.commit({.verb = request::Verb::noop, .tag = {}});
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
  if (verdict.error == request::server_stops) open_[first_].is_last = closing_ = true;
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

void Http1Session::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending == request::Ending::refused)
    return write_problem(problems::reduced_capacity, why, out);
  if (ending == request::Ending::stopping || reader_.status() == 0) return;
  if (reader_.status() == problems::too_large.status)
    return write_problem(problems::too_large, reader_.problem(), out);
  const ProblemKind kind{static_cast<uint16_t>(reader_.status()),
                         "urn:sluice:problem:malformed-request", "Malformed request"};
  write_problem(kind, reader_.problem(), out);
}

namespace {

// Room for the names of an answer's fields in lower case.
constexpr size_t field_names_bytes = 1024;

// A connection may hold the largest body and the largest head.
constexpr wire::Http2Session::Bounds http2_bounds{
    .connection_bytes = wire::http2_connection_bytes_max + wire::http2_header_list_bytes_max,
    .body_bytes = body_bytes_max};

}  // namespace

Http2Session::Http2Session(HttpWorker& worker, const HttpOptions& options,
                           const request::Peer& peer)
    : worker_(worker),
      options_(options),
      peer_(peer),
      http2_(worker.http2, http2_bounds),
      identity_(peer.access, peer.certificate),
      auth_peer_(peer.address, options.auth.trusted) {}

Http2Session::~Http2Session() {
  for (Open& open : open_) {
    if (open.exchange == nullptr) continue;
    open.exchange->forget(around());
    worker_.give_back(std::move(open.exchange));
  }
}

request::Received Http2Session::receive(std::string_view in, bool, request::Requests& requests,
                                        base::Buffer& out) {
  size_t consumed = 0;
  const base::Time now = peer_.clock == nullptr ? base::Time{} : peer_.clock->monotonic();
  // Reads one request at a time, because it may fill the batch by itself.
  while (requests.size() < base::bounds::batch_requests_max) {
    const size_t read = http2_.receive(in.substr(consumed), now, 1);
    consumed += read;
    for (const wire::Http2Event& event : http2_.events()) {
      if (event.kind == wire::Http2Event::Kind::request) begin(event.request, requests);
      if (event.kind == wire::Http2Event::Kind::reset) interrupt(event.request);
    }
    if (http2_.events().empty()) break;
  }
  http2_.write(out);
  const bool closing = http2_.fault() != wire::Http2Fault::none;
  return {closing ? in.size() : consumed, closing};
}

void Http2Session::begin(uint32_t number, request::Requests& requests) {
  const wire::Http2Request sent = http2_.request(number);
  if (sent.is_reset) {
    http2_.drop(number);
    return;
  }
  std::vector<wire::HttpField>& fields = worker_.fields;
  fields.clear();
  std::string_view host = sent.authority;
  for (const wire::Http2Header header : sent.headers) {
    fields.push_back({header.name, header.value});
    if (host.empty() && header.name == "host") host = header.value;
  }
  const size_t mark = std::min(sent.path.find('?'), sent.path.size());
  const Question question{.method = sent.method,
                          .path = sent.path.substr(0, mark),
                          .query = sent.path.substr(std::min(mark + 1, sent.path.size())),
                          .host = host,
                          .has_query = mark < sent.path.size(),
                          .scheme = "http",
                          .fields = fields,
                          .body = sent.body};
  auto exchange = worker_.take_exchange();
  Exchange::Begun begun = Exchange::Begun::ready;
  if (sent.is_whole || is_answered_without_body(question.path))
    begun = exchange->begin(question, around(), number, requests);
  else
    refuse_body(question, *exchange);
  if (begun == Exchange::Begun::ready) {
    answer(number, *exchange, peer_.clock == nullptr ? base::Time{} : peer_.clock->now());
    worker_.give_back(std::move(exchange));
    return;
  }
  if (open_.size() <= number) open_.resize(number + 1);
  SLUICE_CHECK(open_[number].exchange == nullptr);
  open_[number].exchange = std::move(exchange);
}

void Http2Session::refuse_body(const Question& question, Exchange& exchange) {
  constexpr std::string_view why =
      "the body is longer than 1 MiB, or too much is sent on this connection at once";
  exchange.fail(question, problems::too_large, why);
  around().report(request::malformed_code, why);
}

void Http2Session::interrupt(uint32_t number) {
  if (number >= open_.size() || open_[number].exchange == nullptr) return;
  Open& open = open_[number];
  if (!open.exchange->waits() || std::exchange(open.is_interrupted, true)) return;
  ++interrupted_;
}

bool Http2Session::reply(const request::Request& request, const request::Verdict& verdict,
                         base::Time now, base::Buffer& out) {
  const uint32_t number = request.note;
  Exchange& exchange = *open_[number].exchange;
  if (!exchange.take(request, verdict, now, around())) return true;
  answer(number, exchange, now);
  close(number);
  http2_.write(out);
  return true;
}

void Http2Session::close(uint32_t number) {
  Open& open = open_[number];
  if (std::exchange(open.is_interrupted, false)) --interrupted_;
  worker_.give_back(std::move(open.exchange));
}

void Http2Session::answer(uint32_t number, Exchange& exchange, base::Time now) {
  Answer& answer = worker_.answer;
  answer.clear();
  exchange.write(around(), answer);
  if (http2_.request(number).is_reset) return http2_.drop(number);
  std::array<wire::Http2Header, wire::http2_answer_headers_max> headers;
  size_t count = 0;
  std::array<char, base::decimal_digits_max> length;
  const auto digits =
      static_cast<size_t>(base::write_decimal(answer.body.size(), length.data()) - length.data());
  if (!answer.content_type.empty()) headers[count++] = {"content-type", answer.content_type};
  if (answer.status != 204) headers[count++] = {"content-length", {length.data(), digits}};
  headers[count++] = {"date", worker_.date(now)};
  std::array<char, field_names_bytes> names;
  size_t named = 0;
  for (size_t i = 0; i < answer.fields.size(); ++i) {
    const wire::HttpField field = answer.fields[i];
    SLUICE_CHECK(count < headers.size() && named + field.name.size() <= names.size());
    char* const lower = names.data() + named;
    std::transform(field.name.begin(), field.name.end(), lower, wire::http_lower);
    headers[count++] = {{lower, field.name.size()}, field.value};
    named += field.name.size();
  }
  http2_.respond(number, {.status = answer.status,
                          .headers = std::span(headers).first(count),
                          .body = answer.body.view()});
}

request::SessionState Http2Session::state() const {
  return {.waits_for_units = waiting_ > 0,
          .has_ended_waits = interrupted_ > 0,
          .takes_several_batches = true,
          .withholds = http2_.withholds(),
          .unfinished_bytes = http2_.unfinished_bytes(),
          .kept_bytes = http2_.kept_bytes(),
          .oldest_unfinished = http2_.oldest_unfinished()};
}

std::optional<size_t> Http2Session::give_up(request::Overdue what, base::Buffer& out) {
  std::optional<size_t> ended;
  if (what == request::Overdue::withheld)
    ended = http2_.end_withheld();
  else if (http2_.end_oldest())
    ended = 1;
  if (ended) http2_.write(out);
  return ended;
}

request::Fault Http2Session::fault() const {
  const wire::Http2Fault fault = http2_.fault();
  return {fault == wire::Http2Fault::none ? std::string_view() : wire::http2_fault_name(fault)};
}

void Http2Session::end(request::Ending ending, std::string_view, base::Buffer& out) {
  if (ending != request::Ending::announced) http2_.finish_shutdown();
  http2_.write(out);
}

namespace {

const HttpOptions default_http_options;

}  // namespace

HttpSession::HttpSession(const request::Peer& peer)
    : peer_(peer),
      worker_(static_cast<HttpWorker&>(*peer.worker)),
      options_(peer.options == nullptr ? default_http_options
                                       : static_cast<const HttpOptions&>(*peer.options)) {}

std::unique_ptr<request::Session> HttpSession::open(bool is_http2) {
  if (is_http2) return std::make_unique<Http2Session>(worker_, options_, peer_);
  return std::make_unique<Http1Session>(worker_, options_, peer_);
}

void HttpSession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (door_ == nullptr && ending == request::Ending::refused) door_ = open(false);
  HttpVersions::end(ending, why, out);
}

}  // namespace sluice::http
