#include "protocol/http/http2_session.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/bounds.h"
#include "base/check.h"
#include "base/decimal.h"

namespace sluice::http {
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
      identity_(peer.access),
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

bool Http2Session::end_oldest_unfinished(base::Buffer& out) {
  if (!http2_.end_oldest()) return false;
  http2_.write(out);
  return true;
}

std::optional<size_t> Http2Session::end_withheld(base::Buffer& out) {
  const std::optional<uint32_t> ended = http2_.end_withheld();
  if (ended) http2_.write(out);
  return ended;
}

std::string_view Http2Session::fault() const {
  const wire::Http2Fault fault = http2_.fault();
  return fault == wire::Http2Fault::none ? std::string_view() : wire::http2_fault_name(fault);
}

void Http2Session::farewell(base::Buffer& out) {
  http2_.write(out);
}

void Http2Session::refuse(std::string_view, base::Buffer& out) {
  goodbye(out);
}

// Refuses requests that wait: nothing was charged for them.
void Http2Session::goodbye(base::Buffer& out) {
  constexpr std::string_view why = "the server stops; nothing was charged";
  for (uint32_t number = 0; number < open_.size(); ++number) {
    if (open_[number].exchange == nullptr || !open_[number].exchange->waits()) continue;
    open_[number].exchange->forget(around());
    open_[number].exchange->fail({}, problems::reduced_capacity, why);
    answer(number, *open_[number].exchange,
           peer_.clock == nullptr ? base::Time{} : peer_.clock->now());
    close(number);
  }
  http2_.finish_shutdown();
  http2_.write(out);
}

}  // namespace sluice::http
