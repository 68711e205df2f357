// What the log says of the stream by which a control plane sends limits, and when, so that a
// control plane that is down or sends nonsense does not fill it. Knows no socket and no clock;
// one thread.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::envoy {

class XdsLog {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::seconds silence{15};      // of a stream, until it is told
  static constexpr std::chrono::seconds again_after{60};  // what was told is told again
  // Texts of refusals that are remembered; of more, one that comes again is told again.
  static constexpr size_t refusals_max = 16;

  XdsLog(std::string server, std::string node, std::shared_ptr<spdlog::logger> log)
      : server_(std::move(server)), node_(std::move(node)), log_(std::move(log)) {}

  // `has_limits`: some were taken before, and stay.

  // A stream has begun. Once it has brought nothing until `silent_at`, call `silent`; none: that
  // was told, or it has brought something.
  void begun(Time now);
  std::optional<Time> silent_at() const { return silent_at_; }
  void silent(bool has_limits);

  // It has brought limits. `anew`: they are not those that were in force.
  void taken(const std::string& version, bool anew);
  // They were refused: told once a minute for each text, even if others come between.
  void refused(const std::string& text, bool has_limits, Time now);
  // There is no stream, or no more: told with the first reason, and until limits are taken again
  // once a minute with that of the latest try.
  void down(const std::string& problem, bool has_limits, Time now);

 private:
  void heard() {
    silent_at_.reset();
    silence_told_ = false;
  }

  const std::string server_, node_;
  const std::shared_ptr<spdlog::logger> log_;
  std::optional<Time> silent_at_, down_told_at_;
  bool silence_told_ = false, is_down_ = false;
  std::vector<std::pair<std::string, Time>> refusals_;  // that were told, oldest first
};

}  // namespace sluice::envoy
