// Single settings from the text that an operator wrote, be it in a flag, a variable or a file. What
// is wrong becomes one diagnostic more: `place` says where the text stood, and is completed with
// what is wrong and what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"

namespace sluice::config {

// One value into `config`, with its origin.
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
// HOST:PORT of one node, or several apart by commas.
void set_redis(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics);
// The same of some nodes of a Redis Cluster.
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

// What a listener speaks, by its name. False: there is no such protocol, which is reported.
bool set_protocol(std::string_view name, const base::Diagnostic& place, Listener& listener,
                  base::Diagnostics& diagnostics);
std::string_view name_of(const Listener& listener);
// Of every listener that can have it; where none can, that is an error.
void set_unmatched(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics);
// Do the protocol's own settings say that, in place of its listeners?
bool has_own_unmatched(protocol::Protocol protocol);
// "allow", "deny" or "error".
std::optional<request::Unmatched> unmatched_of(std::string_view text, const base::Diagnostic& place,
                                               base::Diagnostics& diagnostics);
// Where it is served by default.
uint16_t port_of(const Listener& listener);
std::optional<Address> address_of(std::string_view text, uint16_t port_default,
                                  const base::Diagnostic& place, base::Diagnostics& diagnostics);

// "a, b or c"
std::string one_of(const std::vector<std::string_view>& words);
// For messages: a listener as --listen takes it, and as a sluice.yaml does; a policy of the
// protocol, or of the first one that has policies.
std::string listener_example();
std::string listener_example_yaml();
std::string policy_example(const protocol::Description& protocol);
std::string policy_example();

// Lines of a sluice.yaml with where each comes from, as protocol::Settings has them.
using Lines = std::vector<std::pair<std::string, std::string>>;
// Do they say the same, wherever they come from?
bool same_lines(const Lines& a, const Lines& b);
// A YAML string in double quotes.
std::string in_quotes(std::string_view text);
// As base::parse_duration reads it: in one unit.
std::string in_one_unit(base::Duration length);

// As `place`, with what is wrong and what to do.
void complain(const base::Diagnostic& place, std::string message, std::string remedy,
              base::Diagnostics& diagnostics);

}  // namespace sluice::config
