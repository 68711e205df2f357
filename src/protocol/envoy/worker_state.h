// The state that Envoy's sessions of one worker share: memory of HTTP/2 and of calls. One thread;
// outlives the sessions.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "protocol/envoy/call.h"
#include "protocol/envoy/messages.h"
#include "request/peer.h"
#include "wire/grpc_server.h"

namespace sluice::envoy {

struct EnvoyWorker final : request::WorkerState {
  // Take a free call, and give it back. Unusually large calls are freed.
  std::unique_ptr<Call> take_call() {
    std::unique_ptr<Call> call;
    if (free_calls.empty()) {
      call = std::make_unique<Call>();
    } else {
      call = std::move(free_calls.back());
      free_calls.pop_back();
    }
    call->metrics = metrics;
    return call;
  }
  void give_back(std::unique_ptr<Call> call) {
    const bool is_large = call->message.entries.capacity() > entries_kept_max ||
                          call->message.descriptors.capacity() > entries_kept_max;
    call->forget();
    if (!is_large && free_calls.size() < calls_kept_max) free_calls.push_back(std::move(call));
  }

  Held held() const override { return {grpc.pool.held_bytes(), grpc.pool.bytes_max()}; }

  static constexpr size_t calls_kept_max = 1024, entries_kept_max = 256;

  wire::GrpcWorker grpc;
  std::vector<std::unique_ptr<Call>> free_calls;
  RateLimitResponse response;
  base::Buffer message;              // the message being written
  WorkerMetrics* metrics = nullptr;  // null: none are configured
};

}  // namespace sluice::envoy
