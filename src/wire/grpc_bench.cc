// The cost of a unary call over HTTP/2 in memory: reading the frames that a client like Envoy sends
// once its HPACK table has the usual headers, and writing the answer. `batch`: calls that arrive
// together.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/buffer.h"
#include "wire/grpc_server.h"
#include "wire/http2_peer_test.h"

namespace {

using namespace sluice;
using wire::http2_peer::Peer;

void put_number(char* at, uint32_t value) {
  for (int i = 3; i >= 0; --i, value >>= 8) at[i] = static_cast<char>(value & 0xFF);
}

void unary_calls(benchmark::State& state) {
  const auto batch = static_cast<size_t>(state.range(0));
  Peer peer;
  wire::GrpcWorker worker;
  wire::GrpcServerSession session(worker);
  base::Buffer out;
  const auto headers = Peer::grpc("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit",
                                  {{"grpc-timeout", "20m"},
                                   {"x-envoy-internal", "true"},
                                   {"x-forwarded-for", "10.11.12.13"},
                                   {"user-agent", "envoy/1.31"}});
  const std::string message(100, 'm'), answer(60, 'a');
  std::string body(wire::grpc_prefix_bytes, '\0');
  wire::GrpcPrefix{0, static_cast<uint32_t>(message.size())}.write(body.data());
  body += message;

  session.receive(wire::http2_peer::hello() + wire::http2_peer::settings_ack() +
                      wire::http2_peer::window_update(0, 1 << 30),
                  {});
  session.receive(peer.request(1, headers, body), {});
  for (const auto& event : session.events())
    session.answer(event.request, wire::GrpcStatus::ok, {}, answer);
  const std::string header_frame = peer.headers(3, headers, false);
  const std::string one = header_frame + wire::http2_peer::data(3, body);
  std::string in;
  for (size_t i = 0; i < batch; ++i) in += one;
  const std::string window = wire::http2_peer::window_update(0, 1 << 29);

  uint32_t id = 3;
  uint64_t sent = 0, calls = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < batch; ++i, id += 2) {
      put_number(in.data() + i * one.size() + 5, id);
      put_number(in.data() + i * one.size() + header_frame.size() + 5, id);
    }
    out.clear();
    session.receive(in, {});
    for (const auto& event : session.events()) {
      const wire::GrpcCall call = session.call(event.request);
      benchmark::DoNotOptimize(call.message.data());
      session.answer(event.request, wire::GrpcStatus::ok, {}, answer);
      ++calls;
    }
    session.http().write(out);
    sent += out.size();
    if (sent > (1 << 29)) {
      session.receive(window, {});
      sent = 0;
    }
  }
  if (calls != static_cast<uint64_t>(state.iterations()) * batch)
    state.SkipWithError("calls are missing");
  state.SetItemsProcessed(static_cast<int64_t>(calls));
  state.counters["bytes/call"] = static_cast<double>(in.size()) / static_cast<double>(batch);
}
BENCHMARK(unary_calls)->ArgName("batch")->Arg(1)->Arg(16)->Arg(100);

}  // namespace
