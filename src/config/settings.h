// Single settings from the text that somebody wrote, be it in a flag, a variable or a file. What is
// wrong becomes one diagnostic more: `place` says where the text stood, and is completed with what
// is wrong and what to do.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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
void set_cleanup_interval(std::string_view text, const std::string& origin,
                          const base::Diagnostic& place, Config& config,
                          base::Diagnostics& diagnostics);

// Where each protocol is served unless told otherwise.
uint16_t port_of(protocol::Protocol protocol);

std::optional<protocol::Protocol> protocol_named(std::string_view name,
                                                 const base::Diagnostic& place,
                                                 base::Diagnostics& diagnostics);
std::optional<Address> address_of(std::string_view text, protocol::Protocol protocol,
                                  const base::Diagnostic& place, base::Diagnostics& diagnostics);

// As `place`, with what is wrong and what to do.
void complain(const base::Diagnostic& place, std::string message, std::string remedy,
              base::Diagnostics& diagnostics);

}  // namespace sluice::config
