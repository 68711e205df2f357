// The client's half of xDS, state of the world, for limits: what is sent on a stream of
// StreamAggregatedResources when a response has arrived, and when a new stream is tried. Knows no
// socket, no thread and no limits; times are the caller's. See
// https://www.envoyproxy.io/docs/envoy/latest/api-docs/xds_protocol.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/time.h"

namespace sluice::envoy {

inline constexpr std::string_view ads_path =
    "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";
inline constexpr std::string_view limits_type =
    "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

// A DiscoveryResponse.
struct AdsResponse {
  std::string version, nonce;
  struct Resource {
    std::string type, value;
  };
  std::vector<Resource> resources;
  uint64_t digest = 0;  // of the resources
};
// Empty: it is no such message.
std::optional<AdsResponse> read_ads_response(std::string_view message);

class AdsSession {
 public:
  using Time = std::chrono::steady_clock::time_point;
  // Of a refusal: at most so many bytes.
  static constexpr size_t refusal_bytes_max = 4096;
  // A control plane may answer a refusal with the same again at once, so the first refusal goes out
  // at once, and the next ones this late, each time twice as late.
  static constexpr std::chrono::milliseconds refuse_again_after{250}, refuse_again_after_max{5000};

  // `metadata`: pairs for the node.
  AdsSession(const std::string& node,
             const std::vector<std::pair<std::string, std::string>>& metadata);

  // A new stream: its first request, without version and nonce.
  std::string open();

  // Why what arrived cannot be in force. `by_itself`: whatever else the server has; otherwise the
  // same may be taken another time.
  struct Refusal {
    std::string text;
    bool by_itself = true;
  };
  // Brings what arrived into force; nothing: it is.
  using Apply = std::function<std::optional<Refusal>(const AdsResponse&)>;
  enum class Outcome : uint8_t { taken, again, refused, refused_again, nonsense };
  // Takes a message of the server. The answer to it, if there is one at once, is in `answer`.
  // again: the same resources as those in force. nonsense: the stream must end.
  Outcome receive(std::string_view message, Time now, const Apply& apply, std::string& answer);
  // When a withheld answer is due; and that answer, once it is.
  std::optional<Time> due() const { return due_; }
  std::string take_due();

  const std::string& version() const { return version_; }  // of the last response taken
  const std::string& refusal() const { return refusal_; }  // the last one's text

 private:
  std::string request(std::string_view version, std::string_view nonce,
                      std::string_view refusal) const;

  const std::string node_;  // the message
  std::string version_, refusal_, withheld_;
  // The digests of what was taken last; of what was refused last, and would be again; of what was
  // refused last at all.
  std::optional<uint64_t> taken_, refused_, tried_;
  std::optional<Time> due_;
  std::chrono::milliseconds wait_{0};  // before the next refusal of the same
};

// The waits between streams: the first, each later one longer by a factor, up to the longest; with
// jitter up to a fifth shorter or longer. They begin anew after a stream that worked.
class AdsBackoff {
 public:
  struct Settings {
    base::Duration first = base::seconds(1), longest = base::seconds(60);
    double factor = 1.6;  // at most 1: the first wait is the only one
    bool jitter = true;
    friend bool operator==(const Settings&, const Settings&) = default;
  };
  explicit AdsBackoff(const Settings& settings) : settings_(settings) {}

  // `chance`: from 0 to 1, at random.
  base::Duration next(double chance);
  void begin_anew() { last_ = {}; }

 private:
  const Settings settings_;
  base::Duration last_{};
};

}  // namespace sluice::envoy
