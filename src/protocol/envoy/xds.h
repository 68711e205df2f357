// Limits that a control plane sends by xDS, as Envoy Gateway and Agent Router do, in place of a
// folder of files: the policy, its settings, and the thread that keeps a stream to the control
// plane. Main thread, the thread that reloads, and the feed's own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/setting.h"
#include "net/tls.h"
#include "protocol/envoy/ads.h"
#include "protocol/envoy/policy_files.h"
#include "protocol/policy_files.h"
#include "wire/grpc.h"

namespace sluice::envoy {

struct XdsTls {
  net::TlsClient files{.only_http2 = true};
  std::string name{};  // that the server's certificate must be for; empty: the server's host
  friend bool operator==(const XdsTls&, const XdsTls&) = default;
};

struct XdsSettings {
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  std::string server = "localhost:18000";  // HOST:PORT, `dns:///HOST:PORT` or `unix:/PATH`
  std::string node = "default";
  Pairs metadata{}, headers{};  // of the node; of the stream's request
  std::optional<XdsTls> tls{};  // empty: plain
  AdsBackoff::Settings wait{};
  uint64_t message_bytes_max = wire::grpc_message_bytes_max;

  friend bool operator==(const XdsSettings&, const XdsSettings&) = default;
};

// The parts of XdsSettings::server. A problem: it is none of the forms.
struct XdsTarget {
  std::string host;   // of a UNIX socket its path
  uint16_t port = 0;  // of a UNIX socket 0
};
base::Result<XdsTarget> read_xds_target(std::string_view text);

// "a=b", "a: b": the two sides of the first `sign`; of `:` the name in lower case, and the value
// without blanks around it. Empty: there is no sign, or no name.
std::optional<std::pair<std::string, std::string>> read_pair(std::string_view text, char sign);

class XdsFeed;

class XdsPolicy final : public protocol::SentPolicy {
 public:
  explicit XdsPolicy(XdsSettings its = {});

  std::unique_ptr<PolicyFiles> clone() const override;
  const protocol::PolicyFormat* format() const override { return &policy_format; }
  void set(std::string_view option, std::string_view text, const std::string& origin,
           const base::Diagnostic& place, base::Diagnostics& diagnostics) override {
    limits.set(option, text, origin, place, diagnostics);
  }
  std::vector<std::pair<std::string, std::string>> options() const override {
    return limits.options();
  }
  std::unique_ptr<protocol::PolicyTexts> read(protocol::Unusable unusable,
                                              base::Diagnostics& diagnostics) const override;
  std::vector<config::Entry> sender() override;
  std::shared_ptr<protocol::PolicyFeed> feed() const override;
  void go_on_from(SentPolicy* running, const std::string& file,
                  base::Diagnostics& diagnostics) override;

  XdsSettings settings;
  LimitsFiles limits;  // for its options: there are no files

 private:
  // What a feed has brought; shared by all copies of the policy.
  struct Arrived;
  friend class XdsFeed;

  std::shared_ptr<Arrived> arrived_;
};

}  // namespace sluice::envoy
