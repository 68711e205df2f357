// The settings of forward-auth, `auth:` within `http:` of a sluice.yaml. Main thread.
//
//   trusted_proxies  [ADDRESS, RANGE, unix]: who may say for whom it asks; by default loopback
//   profiles         {NAME: {...}}, of which `proxy` alone must be there
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

// Past each: refused when it is read.
inline constexpr size_t auth_profiles_max = 256, auth_trusted_max = 1024, auth_entries_max = 64,
                        auth_entry_bytes_max = 256, auth_secret_bytes_max = 256,
                        auth_name_bytes_max = 64;

// Loopback is trusted; there is no profile.
AuthOptions default_auth();

// What is there replaces what `to` has. Profiles are prepared; one with a mistake, which is
// reported, is not among them.
void read_auth(config::FileReader& reader, const policy::YamlNode& section, AuthOptions& to);

// As `read_auth` takes it, on one line; empty: as by default. But for secrets, which are not shown:
// there it says `(hidden)`, which `read_auth` refuses.
std::string auth_text(const AuthOptions& options);

}  // namespace sluice::http
