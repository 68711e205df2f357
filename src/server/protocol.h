// What the server knows of each protocol: its name, its rules' dialect and how to make a session of
// it.
#pragma once

#include <chrono>
#include <memory>

#include "policy/rule_set.h"
#include "server/options.h"
#include "request/session.h"

namespace sluice::server {

std::unique_ptr<wire::Session> make_session(Protocol protocol);
policy::Dialect dialect_of(Protocol protocol);
// How long the client's last bytes are waited for once everything is said.
std::chrono::milliseconds linger_of(Protocol protocol);

}  // namespace sluice::server
