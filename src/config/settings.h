// What the settings of the program and of protocols have in common: listeners' protocols, and texts
// for messages. An error becomes a diagnostic: a copy of `place`, which names the place of the
// text, with the problem and the remedy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace sluice::config {

// Sets the protocol of a listener by its name. False: there is no such protocol, which is reported.
bool set_protocol(std::string_view name, const base::Diagnostic& place, Listener& listener,
                  base::Diagnostics& diagnostics);
std::string_view name_of(const Listener& listener);
// Do the protocol's own settings have that option, in place of its listeners?
bool has_own_unmatched(protocol::Protocol protocol);
// The default port of the listener's protocol.
uint16_t port_of(const Listener& listener);
std::optional<Address> address_of(std::string_view text, uint16_t port_default,
                                  const base::Diagnostic& place, base::Diagnostics& diagnostics);

// "a, b or c"
std::string one_of(const std::vector<std::string_view>& words);
// Examples for messages: a listener for --listen, and one for a sluice.yaml; a policy of the
// protocol, or of the first protocol that has policies.
std::string listener_example();
std::string listener_example_yaml();
std::string policy_example(const protocol::Description& protocol);
std::string policy_example();

// The text as a YAML string in double quotes.
std::string in_quotes(std::string_view text);
// The length in one unit, as base::parse_duration reads it.
std::string in_one_unit(base::Duration length);

Choice<request::Unmatched> unmatched_kind();
// The settings of a listener. `address`: its text, for reading alone.
Table listener_table(Listener& listener, std::string& address);
// The readers of the parts of a sluice.yaml that are lists (config_file.cc).
bool read_listen(const Written& written, Config& config);
bool read_policy(const Written& written, Config& config);

// Appends a copy of `place` with the message and the remedy.
void complain(const base::Diagnostic& place, std::string message, std::string remedy,
              base::Diagnostics& diagnostics);

}  // namespace sluice::config
