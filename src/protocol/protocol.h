// What listeners can speak: each protocol's name, its rules' dialect, and how a session of it is
// made. protocol/all.cc lists them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "policy/rule_set.h"
#include "request/session.h"

namespace sluice::protocol {

// Behind the first three are decisions; the others are HTTP for those who watch.
enum class Protocol : uint8_t { divvy, limitd, droplet, admin, divvy_metrics };

const char* name_of(Protocol protocol);
std::unique_ptr<request::Session> make_session(Protocol protocol);
policy::Dialect dialect_of(Protocol protocol);
// How long the client's last bytes are waited for once everything is said.
std::chrono::milliseconds linger_of(Protocol protocol);

}  // namespace sluice::protocol
