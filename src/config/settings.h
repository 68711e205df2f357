// Sets single settings from texts that an operator wrote in a flag, a variable or a file. An error
// becomes a diagnostic: a copy of `place`, which names the place of the text, with the problem and
// the remedy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace sluice::config {

// Each sets one value of `config`, with its origin.
void set_workers(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                 Config& config, base::Diagnostics& diagnostics);
void set_connections(std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, Config& config, base::Diagnostics& diagnostics);
void set_memory(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                Config& config, base::Diagnostics& diagnostics);
void set_data(std::string_view text, const std::string& origin, const base::Diagnostic& place,
              Config& config, base::Diagnostics& diagnostics);
void set_durability(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                    Config& config, base::Diagnostics& diagnostics);
void set_interval_ms(std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, Config& config, base::Diagnostics& diagnostics);
void set_fsync(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics);
std::string_view name_of(Durability durability);
std::optional<redis::Node> redis_node_of(std::string_view text, const base::Diagnostic& place,
                                         base::Diagnostics& diagnostics);
// HOST:PORT of one node, or of several, separated by commas.
void set_redis(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics);
// The same for some nodes of a Redis Cluster.
void set_redis_cluster(std::string_view text, const std::string& origin,
                       const base::Diagnostic& place, Config& config,
                       base::Diagnostics& diagnostics);
void set_log_level(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics);
void set_log_format(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                    Config& config, base::Diagnostics& diagnostics);
void set_denials_every(std::string_view text, const std::string& origin,
                       const base::Diagnostic& place, Config& config,
                       base::Diagnostics& diagnostics);
std::optional<spdlog::level::level_enum> log_level_of(std::string_view text,
                                                      const base::Diagnostic& place,
                                                      base::Diagnostics& diagnostics);

// Sets the protocol of a listener by its name. False: there is no such protocol, which is reported.
bool set_protocol(std::string_view name, const base::Diagnostic& place, Listener& listener,
                  base::Diagnostics& diagnostics);
std::string_view name_of(const Listener& listener);
// Sets `unmatched` of every listener whose protocol has that option; it is an error if none has.
void set_unmatched(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics);
// Do the protocol's own settings have that option, in place of its listeners?
bool has_own_unmatched(protocol::Protocol protocol);
// Reads "allow", "deny" or "error".
std::optional<request::Unmatched> unmatched_of(std::string_view text, const base::Diagnostic& place,
                                               base::Diagnostics& diagnostics);
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

// Lines of a sluice.yaml, each with its origin, as in protocol::Settings.
using Lines = std::vector<std::pair<std::string, std::string>>;
// Are the lines equal, whatever their origins?
bool same_lines(const Lines& a, const Lines& b);
// The text as a YAML string in double quotes.
std::string in_quotes(std::string_view text);
// The length in one unit, as base::parse_duration reads it.
std::string in_one_unit(base::Duration length);

// Appends a copy of `place` with the message and the remedy.
void complain(const base::Diagnostic& place, std::string message, std::string remedy,
              base::Diagnostics& diagnostics);

}  // namespace sluice::config
