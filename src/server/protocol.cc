#include "server/protocol.h"

#include "base/check.h"
#include "server/server.h"
#include "protocol/divvy/session.h"
#include "protocol/droplet/session.h"
#include "protocol/limitd/session.h"

namespace sluice::server {

std::unique_ptr<wire::Session> make_session(Protocol protocol) {
  switch (protocol) {
    case Protocol::divvy:
      return std::make_unique<wire::DivvySession>();
    case Protocol::limitd:
      return std::make_unique<wire::LimitdSession>();
    case Protocol::droplet:
      return std::make_unique<wire::DropletSession>();
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

}  // namespace sluice::server
