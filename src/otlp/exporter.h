// Sends spans and metrics to collectors by OTLP over HTTP (protobuf), from a thread of its own, so
// that a collector that is slow or gone delays no decision. Made and stopped by the server.
//
//   spans    are collected from the workers every Traces::delay, or when half of a worker's wait,
//            and sent in messages of at most Traces::batch.
//   failure  A message that a collector cannot take now is tried three times, then dropped and
//            counted; while the collector is down, once. Meanwhile further spans wait with the
//            workers, until these have none left. One warning, then one a minute, and a line when
//            it works again.
//   stop     What waits is sent, for a second at most.
#pragma once

#include <spdlog/logger.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "metrics/page.h"
#include "otlp/messages.h"
#include "otlp/options.h"
#include "otlp/spans.h"

namespace sluice::otlp {

class Exporter final : public metrics::Source {
 public:
  static constexpr std::chrono::milliseconds stop_max{1000};

  // A problem: an endpoint is no URL. `sources`: what /metrics shows; it and the log outlive this.
  static base::Result<std::unique_ptr<Exporter>> make(const Options& options, std::string version,
                                                      const metrics::Sources& sources,
                                                      std::shared_ptr<spdlog::logger> log);
  ~Exporter() override;
  Exporter(const Exporter&) = delete;
  Exporter& operator=(const Exporter&) = delete;

  // Before `start`: the spans of a further worker, which live as long as this. Null: no traces.
  Spans* add_worker();
  void start();
  // After the workers have ended.
  void stop();

  // What was sent to one endpoint. Any thread.
  struct State {
    std::string_view signal;  // "traces" or "metrics"
    std::string endpoint;     // the URL
    uint64_t sent = 0;        // spans, or messages of metrics
    uint64_t failed = 0;      // given up, as the collector did not take them
    uint64_t dropped = 0;     // spans for which there was no room
    std::string problem;      // why the last message failed; empty: it was taken
  };
  std::vector<State> states() const;

  void collect(metrics::Page& page) const override;

 private:
  using Clock = std::chrono::steady_clock;
  struct Signal;  // what goes to one endpoint

  Exporter(const Options& options, std::string version, const metrics::Sources& sources,
           std::shared_ptr<spdlog::logger> log);
  void run();
  void rest(Clock::time_point until);
  void send_spans();
  void send_metrics();
  bool send(Signal& signal, const std::string& message, uint64_t count);
  void tell(Signal& signal, const std::string& problem);
  void tell_rejected(Signal& signal, const std::string& reason);
  uint64_t dropped() const;

  const Options options_;
  const std::string version_;
  const Resource resource_;
  const metrics::Sources& sources_;
  const std::shared_ptr<spdlog::logger> log_;
  const uint64_t began_ns_;
  int wake_ = -1, cut_ = -1;
  Sampling sampling_;
  std::atomic<bool> awake_{false}, stopping_{false};
  std::deque<Spans> workers_;
  std::unique_ptr<Signal> traces_, metrics_;  // null: none are sent
  std::mutex mutex_;
  std::condition_variable changed_;  // stopping_, ended_
  bool ended_ = false;               // guarded by mutex_
  std::thread thread_;
};

}  // namespace sluice::otlp
