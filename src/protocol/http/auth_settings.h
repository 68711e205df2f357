// The settings of forward-auth, `auth:` within `http:` of a sluice.yaml. Main thread.
//
//   trusted_proxies  [ADDRESS, RANGE, unix]: the peers whose fields are believed; default: loopback
//   profiles         {NAME: {...}}, of which only `proxy` is required
#pragma once

#include <cstddef>
#include <string>

#include "protocol/http/auth_profile.h"

namespace sluice::config {
class FileReader;
}
namespace sluice::policy {
class YamlNode;
}

namespace sluice::http {

// Bounds; beyond each the settings are refused.
inline constexpr size_t auth_profiles_max = 256, auth_trusted_max = 1024, auth_entries_max = 64,
                        auth_entry_bytes_max = 256, auth_secret_bytes_max = 256,
                        auth_name_bytes_max = 64;

// The default: loopback is trusted, and there are no profiles.
AuthOptions default_auth();

// Reads the section; its keys replace those of `to`. Profiles are prepared. A profile with an
// error, which is reported, is left out.
void read_auth(config::FileReader& reader, const policy::YamlNode& section, AuthOptions& to);

// The options as one line that `read_auth` can read; empty: the defaults. Secrets are shown as
// `(hidden)`, which `read_auth` refuses.
std::string auth_text(const AuthOptions& options);

}  // namespace sluice::http
