// What the admin port and those who collect metrics are given at the start. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostic.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"

namespace sluice::admin {

// What a candidate for the policy comes to.
struct Candidate {
  std::shared_ptr<const policy::RuleSet> rules;  // null: it is refused
  base::Diagnostics diagnostics;
  // What it would replace.
  std::vector<const policy::Dialect*> dialects;
  // For each group of rules whose counters are in several slots of its Redis Cluster, their names.
  std::vector<std::string> across_slots;
};

// The admin port, where there is one among the listeners.
struct AdminOptions {
  std::string version;
  // Shown by who may ask; the token of a user with the right `admin` serves as well. Empty: there
  // is none, and everybody may ask, unless other machines reach the port.
  std::string token;
  bool is_reached_by_others = false;
  std::string settings;  // as `serve --print-config` prints them
  // Reads a candidate; `kind` as `sluice check --as` names it, "sluice" for a whole sluice.yaml.
  // Nothing: there is no such kind. Any thread.
  std::function<std::optional<Candidate>(std::string_view kind, const std::string& text)> check;
  std::vector<std::string> kinds{"sluice"};  // that it knows
};

// What is sent to statsd, in the lines of a protocol with metrics of its own.
struct StatsdOptions {
  std::string host;
  uint16_t port = 8125;
  std::string prefix;
  bool tcp = false;
  protocol::Protocol protocol{};
  std::chrono::milliseconds period{0};  // as in metrics::StatsdSender::Options
};

}  // namespace sluice::admin
