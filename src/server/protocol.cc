#include "server/protocol.h"

#include "base/check.h"
#include "server/server.h"
#include "wire/divvy_session.h"

namespace sluice::server {

std::unique_ptr<wire::Session> make_session(Protocol protocol) {
  switch (protocol) {
    case Protocol::divvy:
      return std::make_unique<wire::DivvySession>();
  }
  SLUICE_CHECK(false);
  return nullptr;
}

policy::Dialect dialect_of(Protocol protocol) {
  SLUICE_CHECK(protocol == Protocol::divvy);
  return policy::Dialect::divvy;
}

const char* name_of(Protocol protocol) {
  SLUICE_CHECK(protocol == Protocol::divvy);
  return "divvy";
}

}  // namespace sluice::server
