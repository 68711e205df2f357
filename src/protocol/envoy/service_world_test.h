// For tests: Envoy's rate limit service without sockets, made of sessions, engine, rules and the
// table in memory, with a clock that the test sets. A test has one world at a time.
#pragma once

#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/clock.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "policy/read/native.h"
#include "policy/read/yaml_tree.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/options.h"
#include "protocol/envoy/rules.h"
#include "protocol/envoy/session.h"
#include "protocol/envoy/worker_state.h"
#include "protocol/protocol.h"
#include "request/space.h"
#include "store/embedded_store.h"
#include "store/fallback.h"
#include "store/forwarding_test.h"
#include "store/holds.h"
#include "wire/grpc.h"
#include "wire/http2_peer_test.h"

namespace sluice::envoy::service_world {

inline int64_t now_us;  // the clock of the world

inline protocol::Protocol self() {
  return protocol::find("envoy").value();
}

using Files = std::map<std::string, std::string>;

// A table that can answer late, as a store in another process does: of a batch's groups it decides
// as many at once as `settles` returns, and the others after name() has resumed the batch.
class LateTable final : public store::tests::Forwarding {
 public:
  explicit LateTable(store::Store& inner) : Forwarding(inner) {}

  std::function<size_t(size_t)> settles = [](size_t groups) { return groups; };
  // The store fails: it reaches no counter.
  bool fails = false;
  bool keeps_account = true;
  size_t decided = 0;  // groups, including those that failed
  // The units charged to each counter, by its stored name, whether or not the request was answered.
  // All takes are counted as allowed.
  std::map<std::string, int64_t> charged;

  store::Applied apply(const request::Batch& batch, base::Time now,
                       store::CompletionQueue* completions, const store::Pin& pin,
                       request::Ticket ticket) override {
    const size_t count = std::min(settles(batch.groups.size()), batch.groups.size());
    auto first = batch;
    first.groups = batch.groups.first(count);
    decided += first.groups.size();
    if (fails) return fail(first, now);
    const store::Applied applied = inner_.apply(first, now, completions, pin, ticket);
    for (const request::Group& group : first.groups.first(applied.settled))
      if (keeps_account && group.error == request::Error::none)
        for (const request::Charge& charge :
             batch.charges.subspan(group.charge_first, group.charge_count))
          account(charge);
    if (applied.settled < count || count == batch.groups.size()) return applied;
    asks_.emplace_back(completions, ticket);
    return {.settled = count, .later = true};
  }
  void abandon(store::CompletionQueue&, request::Ticket ticket) override {
    std::erase_if(asks_, [&](const auto& ask) { return ask.second == ticket; });
  }
  size_t asked() const { return asks_.size(); }

  // Answers the groups of a store that fails, as their rules say.
  store::Applied fail(const request::Batch& batch, base::Time now) {
    for (size_t i = 0; i < batch.groups.size(); ++i) {
      request::Group& group = batch.groups[i];
      const request::Charge& charge = batch.charges[group.charge_first];
      if (!limit::is_counted(charge.limits)) {
        auto one = batch;
        one.groups = batch.groups.subspan(i, 1);
        inner_.apply(one, {}, nullptr);
        continue;
      }
      store::fall_back(group, batch, request::Error::store, now);
      if (group.error != request::Error::none && !group.may_fail)
        return {.settled = i + 1, .later = false};
    }
    return {.settled = batch.groups.size(), .later = false};
  }
  // Resumes the n-th batch that was put off.
  void name(size_t n) {
    const auto [completions, ticket] = asks_.at(n);
    asks_.erase(asks_.begin() + static_cast<std::ptrdiff_t>(n));
    completions->resume_batch(ticket);
  }

 private:
  void account(const request::Charge& charge) {
    if (charge.verb != request::Verb::count && charge.verb != request::Verb::take) return;
    int64_t& sum = charged[charge.space->prefix + std::string(charge.key)];
    sum = charge.cost > INT64_MAX - sum ? INT64_MAX : sum + charge.cost;
  }

  std::vector<std::pair<store::CompletionQueue*, request::Ticket>> asks_;
};

class World {
 public:
  World() {
    now_us = 1'795'334'123'000'000;
    auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
    live_ = std::make_unique<live::Live>(live::LivePolicy{std::move(rules)});
    engine_ = std::make_unique<engine::Engine>(
        engine::Engine::Deps{
            .store = table, .clock = clock_, .live = *live_, .spaces = &spaces_, .holds = &holds},
        std::make_shared<spdlog::logger>("memory",
                                         std::make_shared<spdlog::sinks::null_sink_mt>()));
  }

  // Loads a policy as a reload does. Returns false if the files are refused; nothing changes then.
  // `native`: the text of a sluice.yaml with rules, or empty.
  bool load(const Files& files, const LimitsReading& reading = {},
            const RulesOptions& rules_options = {}, const std::string& native = {}) {
    std::vector<LimitsText> texts;
    for (const auto& [name, text] : files) texts.push_back({name, text});
    base::Diagnostics diagnostics;
    auto set = read_limits(texts, reading, diagnostics);
    if (!set) return false;
    auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
    policy::YamlDocument document;
    if (!native.empty() && policy::parse_yaml(native, document)) return false;
    if (!native.empty()) policy::read_native(document, "sluice.yaml", spaces_, *rules, diagnostics);
    if (base::has_errors(diagnostics)) return false;
    LimitRules::add(*std::move(set), rules_options, spaces_, *rules);
    live_->exchange(std::make_shared<live::LivePolicy>(live::LivePolicy{std::move(rules)}));
    return true;
  }

  static int64_t now_s() { return now_us / 1'000'000; }
  void sleep_us(int64_t us) {
    now_us += us;
    store_.housekeep(clock_.now());
  }
  // `port`: of the listener.
  request::Peer peer(uint16_t port = 0, const std::string& certificate = {}) {
    return {.listener = listener,
            .options = &options,
            .access = &access,
            .worker = &worker,
            .clock = &clock_,
            .address = "10.0.0.9:4711",
            .certificate = certificate,
            .port = port};
  }
  engine::Engine& engine() { return *engine_; }
  request::Spaces& spaces() { return spaces_; }

  EnvoyOptions options;
  EnvoyWorker worker;
  access::Access access;  // without users
  const request::ListenerView* listener = nullptr;

 private:
  request::Spaces spaces_;
  base::Clock clock_{{[] { return now_us; }, [] { return now_us; }}};
  store::EmbeddedStore store_{0, base::Hash(1), spaces_};

 public:
  LateTable table{store_};
  store::Holds holds{table, spaces_, {}};

 private:
  std::unique_ptr<live::Live> live_;
  std::unique_ptr<engine::Engine> engine_;
};

// Stands in for server::Connection: hands the bytes of a client to a session and its requests to
// the engine.
class Connection final : public engine::ReplySink {
 public:
  // `certificate`: the name in that of the client; empty: it shows none.
  explicit Connection(World& world, const std::string& certificate = {}, uint16_t port = 0)
      : world_(world), session_(world.peer(port, certificate)) {}
  ~Connection() override { world_.engine().forget(*this); }

  void send(std::string_view bytes) {
    in_ += bytes;
    serve_input();
  }
  void resume(engine::Batch& batch) override {
    base::Buffer out;
    if (world_.engine().resume(batch, out) == engine::Served::ended) closed_ = true;
    out_ += out.view();
    serve_input();
  }
  void reply_late(const request::Request&, const request::Verdict&, base::Time) override {
    throw std::logic_error("nothing waits for units here");
  }
  void flush_late(bool) override {}

  // What was sent to the client since the last call.
  std::string take() { return std::exchange(out_, {}); }
  bool closed() const { return closed_; }
  EnvoySession& session() { return session_; }

 private:
  void serve_input() {
    base::Buffer out;
    while (!closed_ && !session_.state().holds_back) {
      engine::Batch& batch = world_.engine().next_batch();
      // The bytes are in memory of their own, so that a sanitizer finds views that are kept too
      // long.
      const std::string in = in_;
      const auto received = session_.receive(in, false, batch.requests, out);
      const bool asks = batch.requests.size() > 0;
      engine::Served served = engine::Served::all;
      if (asks) served = world_.engine().serve(batch, self(), session_, out, this);
      const bool ended = served == engine::Served::ended;
      if (received.closing && !ended) session_.end(request::Ending::announced, {}, out);
      closed_ = received.closing || ended;
      in_.erase(0, received.consumed);
      if (received.consumed == 0 && !asks && !session_.state().has_more) break;
    }
    out_ += out.view();
  }

  World& world_;
  EnvoySession session_;
  std::string in_, out_;
  bool closed_ = false;
};

struct GrpcAnswer {
  uint32_t code = 99;
  std::string text, message;
  friend bool operator==(const GrpcAnswer&, const GrpcAnswer&) = default;
};

inline std::string framed(std::string_view message, bool packed = false) {
  std::string bytes(wire::grpc_prefix_bytes, '\0');
  wire::GrpcPrefix{.flags = packed, .bytes = static_cast<uint32_t>(message.size())}.write(
      bytes.data());
  return bytes.append(message);
}

// A gRPC client of one connection.
class GrpcClient {
 public:
  static constexpr std::string_view should_rate_limit =
      "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

  // `piece`: how many bytes the client sends at a time.
  explicit GrpcClient(World& world, size_t piece = SIZE_MAX, const std::string& certificate = {})
      : piece_(piece), connection(world, certificate) {
    send(wire::http2_peer::join({wire::http2_peer::hello(), wire::http2_peer::settings_ack()}));
  }

  GrpcAnswer call(std::string_view message, std::string_view path = should_rate_limit,
                  const wire::http2_peer::Headers& more = {}, bool packed = false) {
    const uint32_t stream = begin(message, path, more, packed);
    return answer_of(stream);
  }
  // Begins a call; returns its stream, for answer_of().
  uint32_t begin(std::string_view message, std::string_view path = should_rate_limit,
                 const wire::http2_peer::Headers& more = {}, bool packed = false) {
    stream_ += 2;
    send(peer.request(stream_, wire::http2_peer::Peer::grpc(path, more), framed(message, packed)));
    return stream_;
  }
  // The answer if it has arrived, else an answer with the code 99.
  GrpcAnswer answer_of(uint32_t stream) {
    peer.read(connection.take());
    const wire::http2_peer::Answer& answer = peer.answers[stream];
    if (!answer.ended) return {};
    const std::string code =
        answer.trailers.empty() ? answer.header("grpc-status") : answer.trailer("grpc-status");
    GrpcAnswer told{code.empty() ? 99 : static_cast<uint32_t>(std::stoul(code)),
                    answer.header("grpc-message"),
                    {}};
    if (answer.body.size() >= wire::grpc_prefix_bytes)
      told.message = answer.body.substr(wire::grpc_prefix_bytes);
    return told;
  }
  void send(std::string_view bytes) {
    for (size_t at = 0; at < bytes.size(); at += std::min(piece_, bytes.size() - at))
      connection.send(bytes.substr(at, piece_));
    peer.read(connection.take());
  }

 private:
  const size_t piece_;
  uint32_t stream_ = UINT32_MAX;  // the first is 1

 public:
  Connection connection;
  wire::http2_peer::Peer peer;
};

}  // namespace sluice::envoy::service_world
