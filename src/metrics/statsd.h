// Sends lines to statsd from a thread of its own, so that one that is slow, dead or unknown costs
// nothing but what is counted as lost. Lines are collected for a second, or until a datagram is
// full. By UDP over IPv4, or by TCP, where it connects as soon as there is something to send. Made
// and stopped by the server; `wake` from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "metrics/page.h"

namespace sluice::metrics {

// Lines that are sent together, separated by LF.
class StatsdBatch {
 public:
  static constexpr size_t bytes_max = 1200;

  // False: it does not fit any more; nothing was added. A line alone always fits.
  bool add(std::string_view line);
  bool empty() const { return lines_ == 0; }
  size_t lines() const { return lines_; }
  const std::string& text() const { return text_; }
  void clear();

 private:
  std::string text_;
  size_t lines_ = 0;
};

class StatsdSender final : public Source {
 public:
  static constexpr std::chrono::milliseconds look_period{100}, flush_period{1000}, idle_max{10'000},
      patience{1000};

  struct Options {
    std::string host;
    uint16_t port = 8125;
    bool tcp = false;
    // Lines are asked for that often, and sent at once; 0: every look_period, and collected for
    // flush_period at most.
    std::chrono::milliseconds period{0};
  };
  using Put = std::function<void(std::string_view line)>;
  // `feed` gives all lines since it was called last; on the sender's thread.
  using Feed = std::function<void(const Put& put)>;

  StatsdSender(Options options, Feed feed);
  // Sends what is there, for at most a second or two.
  ~StatsdSender() override;
  StatsdSender(const StatsdSender&) = delete;
  StatsdSender& operator=(const StatsdSender&) = delete;

  void start();
  // Looks for lines now, not at the next period. Does not block.
  void wake();
  void collect(Page& page) const override;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void take(std::string_view line);
  void flush();
  bool send_datagram();
  bool send_stream();
  bool resolve();
  bool connect();
  void disconnect();

  const Options options_;
  const Feed feed_;
  int wake_fd_ = -1, socket_ = -1;
  std::atomic<bool> stopping_{false}, woken_{false};
  StatsdBatch batch_;
  Clock::time_point first_line_{}, used_{}, try_again_{}, resolve_again_{};
  uint32_t address_ = 0;  // IPv4, in network order
  bool resolved_ = false;
  std::atomic<uint64_t> sent_{0}, lost_{0};
  std::thread thread_;
};

}  // namespace sluice::metrics
