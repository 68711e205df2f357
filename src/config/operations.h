// The settings for operators: the admin port and its token. They are read from the environment,
// flags and the file into a Config, and from there into the server's options. Main thread.
#pragma once

#include <string>
#include <string_view>

#include "config/command_io.h"
#include "config/config.h"
#include "config/settings.h"
#include "server/options.h"

namespace sluice::config {

// Sets where the admin port listens, in place of an earlier setting; `off`: nowhere.
bool read_admin(const Written& written, Config& config);
// The kind of the admin port's token (config/table.h).
struct AdminToken : Text {
  static bool read(const Written& written, std::string& to);
};

// The protocols that other machines reach without TLS and without a token: "divvy, envoy"; empty:
// there are none.
std::string open_listeners(const Config& config);

// Reports listeners that cannot both have their addresses.
void check_listeners(const Config& config, base::Diagnostics& diagnostics);

// Sets the admin port's options, with the token. False: a port that other machines can reach has no
// token, or the token's file cannot be used; that is reported on standard error.
bool set_up_admin(const Config& config, admin::AdminOptions& options, CommandIo& io);

}  // namespace sluice::config
