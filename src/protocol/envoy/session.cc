#include "protocol/envoy/session.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/bounds.h"
#include "base/buffer.h"
#include "base/check.h"
#include "base/clock.h"
#include "protocol/envoy/messages.h"
#include "protocol/envoy/reflection.h"
#include "wire/json.h"

namespace sluice::envoy {
namespace {

using wire::GrpcStatus;

constexpr std::string_view rate_limit_service = "envoy.service.ratelimit.v3.RateLimitService",
                           kuadrant_service = "kuadrant.service.ratelimit.v1.RateLimitService",
                           health_service = "grpc.health.v1.Health";
constexpr std::string_view reflection_services[] = {"grpc.reflection.v1.ServerReflection",
                                                    "grpc.reflection.v1alpha.ServerReflection"};
// Which the original and this server no longer have.
constexpr std::string_view old_service = "envoy.service.ratelimit.v2.RateLimitService";
// Kinds of refusals, for metrics: callers whose configuration is not for this service.
constexpr std::string_view old_version_code = "v2", old_http_code = "http1";
constexpr std::string_view stopping = "the server ends this connection; connect again";

// Searched in order, so the most frequent one is first.
constexpr ServedMethod served_method_table[] = {
    {"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", Service::rate_limit,
     Method::should_rate_limit, access::Right::take},
    {"/kuadrant.service.ratelimit.v1.RateLimitService/CheckRateLimit", Service::kuadrant,
     Method::check_rate_limit, access::Right::take},
    {"/kuadrant.service.ratelimit.v1.RateLimitService/Report", Service::kuadrant, Method::report,
     access::Right::take},
    {"/kuadrant.service.ratelimit.v1.RateLimitService/Reserve", Service::kuadrant, Method::reserve,
     access::Right::take},
    {"/kuadrant.service.ratelimit.v1.RateLimitService/Commit", Service::kuadrant, Method::commit,
     access::Right::take},
    {"/grpc.health.v1.Health/Check", Service::health, Method::check, {}},
    {"/grpc.health.v1.Health/Watch", Service::health, {}, {}},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Service::reflection, {}, {}},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
     Service::reflection,
     {},
     {}}};
constexpr ServedPage served_page_table[] = {{"/json", Page::json, false, access::Right::take},
                                            {"/healthcheck", Page::health, false, {}},
                                            {"/", Page::debug_index, true, {}},
                                            {"/rlconfig", Page::limits, true, {}}};

std::string by_client(const std::string& address) {
  return address.empty() ? std::string() : " from " + address;
}

bool keeps_header(std::string_view name) {
  return wire::GrpcServerSession::is_of_grpc(name) || otlp::is_caller_field(name);
}

void note_message(const RateLimitRequest& message, bool with_values, otlp::Span& span) {
  span.domain.append(message.domain);
  if (!with_values) return;
  for (const Descriptor& descriptor : message.descriptors)
    for (const auto& entry : message.entries_of(descriptor))
      span.note_entry(entry.key, entry.value);
}

// In sluice's words what the overall code says: limits in shadow decide nothing.
void note_code(Code code, otlp::Span& span) {
  const bool is_over = code == Code::over_limit;
  span.code = is_over ? "OVER_LIMIT" : "OK";
  if (is_over || span.outcome == otlp::Outcome::denied)
    span.outcome = is_over ? otlp::Outcome::denied : otlp::Outcome::allowed;
}

const ServedMethod* find_method(std::string_view path) {
  const auto* const found = std::ranges::find(served_method_table, path, &ServedMethod::path);
  return found == std::end(served_method_table) ? nullptr : found;
}

bool is_streamed(std::string_view path) {
  const ServedMethod* const method = find_method(path);
  return method != nullptr && method->is_streamed();
}

// The services that the health service knows. All have the same status.
constexpr std::string_view healthy_services[] = {"", "ratelimit", rate_limit_service,
                                                 kuadrant_service};

// How often the status is checked for watching streams.
constexpr base::Duration watch_period = base::seconds(1);

// The calls that are read at a time. Between them the batch's bound is checked, because a call may
// have many requests.
constexpr size_t calls_at_once = 16;

// To unpack so many bytes is as much work as a request: with grpc_unpacked_at_once the connection's
// turn is over.
constexpr size_t unpacked_bytes_of_request =
    wire::grpc_unpacked_at_once / base::bounds::turn_requests_max;

// The age plus or minus at most a tenth, at random, so that connections that were opened together
// do not end together.
base::Duration spread(base::Duration age, const void* seed, base::Time now) {
  const uint64_t mixed =
      (reinterpret_cast<uintptr_t>(seed) ^ static_cast<uint64_t>(now.us)) * 0x9E3779B97F4A7C15u;
  return {age.us - age.us / 10 +
          static_cast<int64_t>((mixed >> 32) % static_cast<uint64_t>(age.us / 5 + 1))};
}

bool is_healthy(const Call& call, const request::ServerView* server) {
  return call.is_healthy() && (server == nullptr || !server->is_stopping());
}

HealthStatus status_of(const Call& call, const request::ServerView* server) {
  return is_healthy(call, server) ? HealthStatus::serving : HealthStatus::not_serving;
}

base::Time after(base::Time now, base::Duration length) {
  return {length.us > INT64_MAX - now.us ? INT64_MAX : now.us + length.us};
}

}  // namespace

std::span<const ServedMethod> served_methods() {
  return served_method_table;
}

std::span<const ServedPage> served_pages() {
  return served_page_table;
}

GrpcSession::GrpcSession(EnvoyWorker& worker, const EnvoyOptions& options,
                         const request::Peer& peer)
    : worker_(worker),
      options_(options),
      clock_(peer.clock),
      listener_(peer.listener),
      server_(peer.server),
      spans_(peer.spans),
      address_(peer.address),
      identity_(peer.access, peer.certificate),
      grpc_(worker.grpc, {}, is_streamed,
            peer.spans == nullptr ? wire::GrpcServerSession::is_of_grpc : keeps_header) {
  if (options.connection_age == base::never || clock_ == nullptr) return;
  const base::Time now = clock_->monotonic();
  aged_at_ = after(now, spread(options.connection_age, this, now));
}

request::Received GrpcSession::receive(std::string_view in, bool, request::Requests& requests,
                                       base::Buffer& out) {
  // Rates and ages use the monotonic clock, which is never set back. (Deadlines, which are short,
  // use the clock of decisions.)
  const base::Time now = clock_ == nullptr ? base::Time{} : clock_->monotonic();
  decided_at_.reset();
  const size_t first = requests.size();
  size_t consumed = 0, unpacked = 0;
  while (requests.size() - first < base::bounds::batch_requests_max &&
         unpacked < wire::grpc_unpacked_at_once) {
    const bool reads = !grpc_.has_more();
    consumed += grpc_.receive(in.substr(consumed), now, calls_at_once);
    for (const wire::Http2Event& event : grpc_.events()) on_event(event, now, requests);
    unpacked += grpc_.take_unpacked();
    if (reads && grpc_.events().empty() && !grpc_.has_more()) break;
  }
  watch_again(now, requests);
  grow_old(now);
  grpc_.http().write(out);
  const bool closing = grpc_.http().fault() != wire::Http2Fault::none || now >= over_at_ ||
                       (ending_ && grpc_.http().is_drained());
  return {consumed, closing, unpacked / unpacked_bytes_of_request};
}

void GrpcSession::grow_old(base::Time now) {
  if (now < aged_at_) return;
  aged_at_ = {INT64_MAX};
  over_at_ = after(now, options_.connection_grace);
  end_streams();
  grpc_.http().begin_shutdown();
  ending_ = true;
}

// ---- Calls that stream ----

void GrpcSession::on_event(const wire::Http2Event& event, base::Time now,
                           request::Requests& requests) {
  using Kind = wire::Http2Event::Kind;
  if (event.kind == Kind::request) return begin(event.request, now, requests);
  if (event.kind == Kind::begun) return begin_stream(event.request);
  Stream* const stream = find_stream(event.request);
  if (stream == nullptr) return;  // a unary call, or a stream that has ended
  if (event.kind == Kind::body) return read_stream(*stream, requests);
  grpc_.drop(event.request);
  forget_stream(event.request);
}

void GrpcSession::begin_stream(uint32_t number) {
  const std::string_view path = grpc_.call(number).path;
  const bool reflects = find_method(path)->service == Service::reflection;
  if (reflects && !options_.reflection) return refuse_method(number, path);
  streams_.push_back({number, reflects ? Stream::Kind::reflection : Stream::Kind::watch});
}

void GrpcSession::read_stream(Stream& stream, request::Requests& requests) {
  const uint32_t number = stream.number;
  std::string_view message;
  while (find_stream(number) == &stream) {
    switch (grpc_.next(number, message)) {
      case wire::GrpcNext::message:
        take_message(stream, message, requests);
        break;
      case wire::GrpcNext::none:
        return;
      case wire::GrpcNext::end:
        // A watch goes on after its client's last message. A reflection call has all its answers.
        if (stream.kind == Stream::Kind::watch) return;
        grpc_.answer(number, GrpcStatus::ok, {}, {});
        return forget_stream(number);
      case wire::GrpcNext::refused:
        return forget_stream(number);
    }
  }
}

void GrpcSession::take_message(Stream& stream, std::string_view message,
                               request::Requests& requests) {
  const uint32_t number = stream.number;
  ReadProblem problem = ReadProblem::none;
  if (stream.kind == Stream::Kind::reflection) {
    base::Buffer& answer = worker_.message;
    answer.clear();
    problem = answer_reflection(message, answer);
    if (problem == ReadProblem::none && !grpc_.send(number, answer.view()))
      return forget_stream(number);
  } else {
    std::string_view service;
    problem = read_health_request(message, service);
    const bool known = std::ranges::find(healthy_services, service) != std::end(healthy_services);
    if (problem == ReadProblem::none && !known) {
      send_health(number, HealthStatus::service_unknown);
    } else if (problem == ReadProblem::none && !std::exchange(stream.watches, true)) {
      ask_health(requests);
    }
  }
  if (problem == ReadProblem::none) return;
  refuse_message(number, problem);
  forget_stream(number);
}

// One request to the engine serves all watching streams.
void GrpcSession::ask_health(request::Requests& requests) {
  if (std::exchange(health_asked_, true)) return;
  const uint32_t slot = open(0);
  slots_[slot].is_watch = true;
  slots_[slot].call->ask_health(slot, options_, requests);
}

bool GrpcSession::is_watched() const {
  return std::ranges::any_of(streams_, &Stream::watches);
}

void GrpcSession::watch_again(base::Time now, request::Requests& requests) {
  if (streams_.empty() || now.us - watched_at_.us < watch_period.us || !is_watched()) return;
  watched_at_ = now;
  ask_health(requests);
}

// Sends a new status to the watching streams. A stream that does not read its messages is dropped.
void GrpcSession::notify_watches(HealthStatus status) {
  for (size_t i = streams_.size(); i-- > 0;) {
    Stream& stream = streams_[i];
    if (stream.watches && std::exchange(stream.told, status) != status)
      send_health(stream.number, status);
  }
}

void GrpcSession::send_health(uint32_t number, HealthStatus status) {
  base::Buffer& message = worker_.message;
  message.clear();
  append_health_response(status, message);
  if (!grpc_.send(number, message.view())) forget_stream(number);
}

void GrpcSession::end_streams() {
  for (size_t i = streams_.size(); i-- > 0;) {
    const Stream stream = streams_[i];
    if (stream.kind == Stream::Kind::watch) send_health(stream.number, HealthStatus::not_serving);
    if (find_stream(stream.number) == nullptr) continue;
    grpc_.answer(stream.number, GrpcStatus::unavailable, stopping, {});
    forget_stream(stream.number);
  }
}

GrpcSession::Stream* GrpcSession::find_stream(uint32_t number) {
  const auto at = std::ranges::find(streams_, number, &Stream::number);
  return at == streams_.end() ? nullptr : &*at;
}

void GrpcSession::forget_stream(uint32_t number) {
  const Stream* const stream = find_stream(number);
  if (stream != nullptr) streams_.erase(streams_.begin() + (stream - streams_.data()));
}

// ---- Unary calls ----

// The number of slots is bounded: one for each stream of HTTP/2, and one for all watching streams.
uint32_t GrpcSession::open(uint32_t number, Method method) {
  if (free_slots_.empty()) {
    free_slots_.push_back(static_cast<uint32_t>(slots_.size()));
    slots_.emplace_back();
  }
  const uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  SLUICE_CHECK(slots_[slot].call == nullptr);
  slots_[slot] = {worker_.take_call(), number, method};
  return slot;
}

void GrpcSession::close(uint32_t slot) {
  worker_.give_back(std::move(slots_[slot].call));
  free_slots_.push_back(slot);
}

void GrpcSession::begin(uint32_t number, base::Time now, request::Requests& requests) {
  const wire::GrpcCall sent = grpc_.call(number);
  const ServedMethod* const method = find_method(sent.path);
  if (method == nullptr || method->is_streamed()) return refuse_method(number, sent.path);
  if (method->service == Service::health) return begin_health(number, sent.message, now, requests);
  const uint32_t slot = open(number, *method->counted);
  Call& call = *slots_[slot].call;
  if (method->service == Service::kuadrant)
    call.kuadrant = KuadrantCall{.method = *method->counted};
  if (call.kuadrant && call.kuadrant->is_about_hold() && !why_no_holds().empty()) {
    grpc_.answer(number, GrpcStatus::unimplemented, why_no_holds(), {});
    return close(slot);
  }
  const ReadProblem problem = call.kuadrant
                                  ? read_kuadrant(sent.message, call.message, *call.kuadrant)
                                  : read_request(sent.message, call.message);
  if (spans_ != nullptr) [[unlikely]]
    begin_span(number, method->path.substr(1), slots_[slot]);
  if (problem != ReadProblem::none) {
    end_span(slots_[slot], static_cast<GrpcStatus>(grpc_code(problem)));
    refuse_message(number, problem);
    return close(slot);
  }
  if (!may_ask(number, call.message)) {
    end_span(slots_[slot], refusal_status());
    return close(slot);
  }
  if (call.kuadrant && identity_.is_needed()) call.kuadrant->user = requests.hold(identity_.user());
  count_begin(*method->counted, now, call);
  const size_t first = requests.size();
  call.ask(slot, options_, deadline_of(sent.timeout), requests);
  Call::guard(first, identity_, requests);
  if (!call.is_answered()) return;
  answer(slots_[slot]);
  close(slot);
}

// Empty: reservations are served.
std::string_view GrpcSession::why_no_holds() const {
  if (!options_.holds.enabled)
    return "reservations are switched off: `envoy: { holds: { enabled: false } }`";
  return {};
}

// False: there are users, and the call is not of one who may make it, which was answered.
bool GrpcSession::may_ask(uint32_t number, const RateLimitRequest& message) {
  identity_.refresh();
  if (!identity_.is_needed()) [[likely]]
    return true;
  const std::string_view authorization = grpc_.authorization(number);
  const std::string_view why = why_refused(authorization, message, identity_);
  if (why.empty()) return true;
  report(why, identity_.is_known() ? "forbidden" : "login");
  grpc_.answer(number, refusal_status(), why, {});
  return false;
}

wire::GrpcStatus GrpcSession::refusal_status() const {
  return identity_.is_known() ? GrpcStatus::permission_denied : GrpcStatus::unauthenticated;
}

void GrpcSession::begin_span(uint32_t number, std::string_view name, Slot& slot) {
  otlp::CallerFields fields;
  for (const wire::Http2Header& header : grpc_.headers(number))
    fields.add(header.name, header.value);
  slot.span = spans_->begin(fields, clock_->now());
  if (!slot.span) return;
  slot.call->span = slot.span.get();
  slot.span->kind = otlp::Span::Kind::grpc;
  slot.span->name = name;
  slot.span->peer.append(address_);
  note_message(slot.call->message, spans_->wants_values(), *slot.span.get());
}

void GrpcSession::end_span(Slot& slot, GrpcStatus status) {
  if (!slot.span) [[likely]]
    return;
  slot.span->status = static_cast<uint16_t>(status);
  if (status != GrpcStatus::ok) slot.span->outcome = otlp::Outcome::error;
  slot.span.end(clock_->now());
}

// The deadline by the clock of decisions. Envoy sends a timeout with each call (20 ms by default),
// so the clock is read only once for all calls that have arrived together.
base::Time GrpcSession::deadline_of(base::Duration timeout) {
  if (timeout == base::never || clock_ == nullptr) return {INT64_MAX};
  if (!decided_at_) decided_at_ = clock_->now();
  return after(*decided_at_, timeout);
}

void GrpcSession::report(std::string_view example, std::string_view code) const {
  if (listener_ != nullptr) listener_->refused(code, example);
}

void GrpcSession::refuse_message(uint32_t number, ReadProblem problem) {
  report(message_for(problem));
  grpc_.answer(number, static_cast<GrpcStatus>(grpc_code(problem)), message_for(problem), {});
}

void GrpcSession::begin_health(uint32_t number, std::string_view message, base::Time now,
                               request::Requests& requests) {
  std::string_view service;
  const ReadProblem problem = read_health_request(message, service);
  if (problem != ReadProblem::none) return refuse_message(number, problem);
  if (std::ranges::find(healthy_services, service) == std::end(healthy_services))
    return grpc_.answer(number, GrpcStatus::not_found, "unknown service", {});
  const uint32_t slot = open(number, Method::check);
  Call& call = *slots_[slot].call;
  count_begin(Method::check, now, call);
  call.ask_health(slot, options_, requests);
}

void GrpcSession::refuse_method(uint32_t number, std::string_view path) {
  const size_t slash = path.rfind('/');
  const std::string_view service = slash == 0 || slash == std::string_view::npos
                                       ? std::string_view()
                                       : path.substr(1, slash - 1),
                         method = slash == std::string_view::npos ? path : path.substr(slash + 1);
  const bool reflects = options_.reflection && std::ranges::find(reflection_services, service) !=
                                                   std::end(reflection_services);
  const bool known = service == rate_limit_service || service == kuadrant_service ||
                     service == health_service || reflects;
  std::string text = known ? "unknown method " + std::string(method) + " for service "
                           : std::string("unknown service ");
  text += service;
  if (service == old_service)
    report("a call" + by_client(address_) +
               " of v2: set `transport_api_version: V3` in the rate_limit_service of that Envoy",
           old_version_code);
  else
    report(text);
  grpc_.answer(number, GrpcStatus::unimplemented, text, {});
}

bool GrpcSession::reply(const request::Request& request, const request::Verdict& verdict,
                        base::Time now, base::Buffer& out) {
  const uint32_t slot = Call::number_of(request);
  Call& call = *slots_[slot].call;
  if (!call.take(request, verdict, now, options_)) return true;
  if (slots_[slot].is_watch) {
    health_asked_ = false;
    notify_watches(status_of(call, server_));
  } else {
    answer(slots_[slot]);
  }
  close(slot);
  grpc_.http().write(out);
  return !(ending_ && grpc_.http().is_drained());
}

void GrpcSession::answer(Slot& slot) {
  const uint32_t number = slot.number;
  Call& call = *slot.call;
  if (grpc_.call(number).is_cancelled) {
    end_span(slot, GrpcStatus::cancelled);
    return grpc_.drop(number);
  }
  count_end(slot.method, call);
  base::Buffer& message = worker_.message;
  message.clear();
  if (slot.method == Method::check) {
    append_health_response(status_of(call, server_), message);
  } else if (call.error().kind != CallError::Kind::ok) {
    if (call.error().kind == CallError::Kind::request) report(call.error().text);
    end_span(slot, call.error().status);
    return grpc_.answer(number, call.error().status, call.error().text, {});
  } else if (call.kuadrant) {
    call.respond_kuadrant(options_, worker_.response);
    append_kuadrant_response(*call.kuadrant, message);
    if (slot.span) [[unlikely]]
      note_code(call.kuadrant->code, *slot.span.get());
  } else {
    call.respond(options_, worker_.response);
    append_response(worker_.response, message);
    if (slot.span) [[unlikely]]
      note_code(worker_.response.overall_code, *slot.span.get());
  }
  end_span(slot, GrpcStatus::ok);
  grpc_.answer(number, GrpcStatus::ok, {}, message.view());
}

void GrpcSession::count_begin(Method method, base::Time now, Call& call) {
  if (call.metrics == nullptr) return;
  call.metrics->count(method);
  call.began = now;
}

void GrpcSession::count_end(Method method, const Call& call) const {
  if (call.metrics == nullptr || clock_ == nullptr) return;
  call.metrics->took(method, {clock_->monotonic().us - call.began.us});
}

request::SessionState GrpcSession::state() const {
  base::Time wakes_at = std::min(aged_at_, over_at_);
  if (is_watched()) wakes_at = std::min(wakes_at, after(watched_at_, watch_period));
  const wire::Http2Session& http = grpc_.http();
  return {.has_more = grpc_.has_more(),
          .takes_several_batches = true,
          .withholds = http.withholds(),
          .unfinished_bytes = http.unfinished_bytes(),
          .kept_bytes = http.kept_bytes(),
          .oldest_unfinished = http.oldest_unfinished(),
          .wakes_at = wakes_at};
}

std::optional<size_t> GrpcSession::give_up(request::Overdue what, base::Buffer& out) {
  wire::Http2Session& http = grpc_.http();
  std::optional<size_t> ended;
  if (what == request::Overdue::withheld)
    ended = http.end_withheld();
  else if (http.end_oldest())
    ended = 1;
  if (ended) http.write(out);
  return ended;
}

request::Fault GrpcSession::fault() const {
  const wire::Http2Fault fault = grpc_.http().fault();
  return {fault == wire::Http2Fault::none ? std::string_view() : http2_fault_name(fault)};
}

void GrpcSession::end(request::Ending ending, std::string_view, base::Buffer& out) {
  if (ending != request::Ending::announced) {
    end_streams();
    grpc_.http().finish_shutdown();
  }
  grpc_.http().write(out);
}

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
    case CallError::Kind::refused:
      return 403;
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
  const bool is_debug = paths_ == Paths::debug;
  const auto* const found = std::ranges::find_if(served_page_table, [&](const ServedPage& one) {
    return one.path == path && one.is_debug == is_debug;
  });
  if (found == std::end(served_page_table)) {
    if (!is_debug && (find_method(path) != nullptr ||
                      http_.request().content_type.starts_with("application/grpc")))
      report("a call" + by_client(address_) +
                 " by HTTP/1.1: give the cluster of this service `http2_protocol_options: {}` in "
                 "that Envoy",
             old_http_code);
    else if (!is_debug)
      report("there is nothing at the path " + path);
    return send_text(404, not_found, out);
  }
  switch (found->page) {
    case Page::json:
      return ask(requests, out);
    case Page::debug_index:
      return send_text(200, debug_paths, out);
    case Page::health:
    case Page::limits:
      break;
  }
  probe(requests);
  return true;
}

void HttpSession::probe(request::Requests& requests) {
  asked_ = std::make_unique<Asked>();
  asked_->call.ask_health(0, options_, requests);
}

bool HttpSession::ask(request::Requests& requests, base::Buffer& out) {
  // Any web page can have a browser send a text to any port; the browser says that it was a page.
  const std::string& site = http_.request().sec_fetch_site;
  if (!http_.request().origin.empty() || !(site.empty() || site == "none"))
    return send_error(403, "/json takes no requests of web pages (Origin, Sec-Fetch-Site)", out,
                      "forbidden");
  auto asked = std::make_unique<Asked>();
  if (spans_ != nullptr) [[unlikely]]
    begin_span();
  if (const auto problem = read_json_request(http_.request().body, asked->json))
    return send_error(problem->too_large ? 413 : 400, problem->message, out);
  const std::string_view why =
      why_refused(http_.request().authorization, asked->json.request, identity_);
  if (!why.empty())
    return identity_.is_known() ? send_error(403, why, out, "forbidden")
                                : send_error(401, why, out, "login");
  asked->call.message = asked->json.request;
  asked->call.metrics = worker_.metrics;
  const size_t first = requests.size();
  if (span_) [[unlikely]] {
    asked->call.span = span_.get();
    note_message(asked->call.message, spans_->wants_values(), *span_.get());
  }
  asked->call.ask(0, options_, base::Time{INT64_MAX}, requests);
  Call::guard(first, identity_, requests);
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
    return is_healthy(call, server_) ? send_text(200, "OK", out) : send_text(500, "", out);
  }
  if (call.error().kind != CallError::Kind::ok)
    return send_error(status_of(call.error()), call.error().text, out,
                      call.error().kind == CallError::Kind::refused ? std::string_view()
                                                                    : request::malformed_code);
  return send(response_of(call), out);
}

wire::HttpResponse HttpSession::response_of(const Call& call) {
  RateLimitResponse& response = worker_.response;
  call.respond(options_, response);
  base::Buffer& body = worker_.message;
  body.clear();
  append_json_response(response, body);
  if (span_) [[unlikely]]
    note_code(response.overall_code, *span_.get());
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

void HttpSession::begin_span() {
  otlp::CallerFields fields;
  for (const wire::HttpField& field : http_.head().fields) fields.add(field.name, field.value);
  span_ = spans_->begin(fields, clock_->now());
  if (!span_) return;
  span_->kind = otlp::Span::Kind::http;
  span_->name = "/json";
  span_->method = "POST";
  span_->peer.append(address_);
}

bool HttpSession::send(const wire::HttpResponse& response, base::Buffer& out) {
  if (span_) [[unlikely]] {
    span_->status = static_cast<uint16_t>(response.status);
    span_.end(clock_->now());
  }
  std::string text;
  const bool goes_on = http_.reply(response, false, text);
  out.append(text);
  return goes_on;
}

// Sends the original's text; to a client that accepts JSON, a problem document with the reason.
bool HttpSession::send_error(unsigned status, std::string_view text, base::Buffer& out,
                             std::string_view code) {
  // What is not HTTP at all is a fault, which the connection reports.
  if (status < 500 && fault_.empty() && !code.empty()) report(text, code);
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

void HttpSession::end(request::Ending ending, std::string_view why, base::Buffer& out) {
  if (ending == request::Ending::refused) send_error(503, why, out);
}

namespace {

const EnvoyOptions default_options;

}  // namespace

EnvoySession::EnvoySession(const request::Peer& peer)
    : peer_(peer),
      worker_(static_cast<EnvoyWorker&>(*peer.worker)),
      options_(peer.options == nullptr ? default_options
                                       : static_cast<const EnvoyOptions&>(*peer.options)) {
  if (worker_.metrics == nullptr && options_.metrics != nullptr)
    worker_.metrics = &options_.metrics->add_worker();
}

std::unique_ptr<request::Session> EnvoySession::open(bool is_http2) {
  using Paths = HttpSession::Paths;
  const bool is_debug = options_.debug_port != 0 && peer_.port == options_.debug_port;
  if (is_http2 && !is_debug) return std::make_unique<GrpcSession>(worker_, options_, peer_);
  return std::make_unique<HttpSession>(worker_, options_, is_debug ? Paths::debug : Paths::service,
                                       peer_);
}

}  // namespace sluice::envoy
