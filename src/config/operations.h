// The settings that those need who run a server: the admin port and its token. From the
// environment, flags and the file into a Config; from there into the server's options. Main thread.
#pragma once

#include <string>
#include <string_view>

#include "config/command_io.h"
#include "config/config.h"
#include "config/settings.h"
#include "server/options.h"

namespace sluice::config {

// As config/settings.h: where the admin port listens, in place of what was said before; `off`:
// nowhere.
void set_admin(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics);
void set_admin_token(std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, Config& config, base::Diagnostics& diagnostics);

void set_admin_token_file(std::string_view text, const std::string& origin,
                          const base::Diagnostic& place, Config& config,
                          base::Diagnostics& diagnostics);

// Paths of UNIX sockets at which servers of this machine may have their admin ports: those that
// stand where `admin_socket_of` puts them.
std::vector<std::string> admin_sockets(const CommandIo& io);
// The path of this process's own: the one that was asked for, else, where there is no other admin
// port, one in $RUNTIME_DIRECTORY or $XDG_RUNTIME_DIR; empty: none.
std::string admin_socket_of(const Config& config, const CommandIo& io);

// Lines of a sluice.yaml with where each comes from; no secret is in them.
Lines lines_of(const Operations& operations);

// Two listeners that cannot both have their address.
void check_listeners(const Config& config, base::Diagnostics& diagnostics);
// Listeners that other machines reach though nothing asks their clients who they are.
void warn_of_open(const Config& config, base::Diagnostics& diagnostics);

// The token and the rest. False: a port that others reach has none, or its file cannot be used; it
// is reported on standard error.
bool set_up_admin(const Config& config, admin::AdminOptions& options, CommandIo& io);

}  // namespace sluice::config
