// The one list of what listeners can speak and of what the command line knows of it: the only file
// outside a protocol's own folder that names one to the rooms below.

#include "base/check.h"
#include "protocol/command.h"
#include "protocol/divvy/commands.h"
#include "protocol/divvy/session.h"
#include "protocol/droplet/commands.h"
#include "protocol/droplet/session.h"
#include "protocol/limitd/commands.h"
#include "protocol/limitd/session.h"
#include "protocol/protocol.h"

namespace sluice::protocol {

std::unique_ptr<request::Session> make_session(Protocol protocol) {
  switch (protocol) {
    case Protocol::divvy:
      return std::make_unique<divvy::DivvySession>();
    case Protocol::limitd:
      return std::make_unique<limitd::LimitdSession>();
    case Protocol::droplet:
      return std::make_unique<droplet::DropletSession>();
    case Protocol::admin:
    case Protocol::divvy_metrics:
      break;  // HTTP has a server of its own
  }
  SLUICE_CHECK(false);
  return nullptr;
}

policy::Dialect dialect_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::divvy:
      return policy::Dialect::divvy;
    case Protocol::limitd:
      return policy::Dialect::limitd;
    case Protocol::droplet:
      return policy::Dialect::droplet;
    case Protocol::admin:
    case Protocol::divvy_metrics:
      break;
  }
  SLUICE_CHECK(false);
  return {};
}

// Droplet's client answers a Close with its own, which takes a round trip and its event loop's
// turn.
std::chrono::milliseconds linger_of(Protocol protocol) {
  return std::chrono::milliseconds(protocol == Protocol::droplet ? 1000 : 500);
}

const char* name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::divvy:
      return "divvy";
    case Protocol::limitd:
      return "limitd";
    case Protocol::droplet:
      return "droplet";
    case Protocol::admin:
      return "admin";
    case Protocol::divvy_metrics:
      return "divvy-metrics";
  }
  SLUICE_CHECK(false);
  return "";
}

std::span<const Command> commands() {
  static constexpr Command all[] = {
      {"divvy", "serve a Divvy configuration, in place of `node index.js CONFIG`", divvy::serve,
       true},
      {"limitd", "serve a limitd configuration, in place of `limitd -c CONFIG`", limitd::serve,
       true},
      {"droplet", "serve droplet's protocol, in place of `droplet`", droplet::serve, true},
      {"limitdctl", "ask a running server in limitdctl's flags and words", limitd::limitdctl},
  };
  return all;
}

std::span<const Asking> askings() {
  static constexpr Asking all[] = {
      {"divvy", 8321, "key=value...",
       "method=GET path=/pantry/cookies ip=10.0.0.7\n  allowed: 2 left, all of them again in 1h",
       divvy::ask},
      {"limitd", 9231, "take|wait|put|reset|get|status TYPE KEY [COUNT], or ping", "", limitd::ask},
      {"droplet", 3000, "take|query BUCKET", "", droplet::ask},
  };
  return all;
}

}  // namespace sluice::protocol
