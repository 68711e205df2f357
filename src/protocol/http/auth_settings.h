// The settings of forward-auth, `auth:` within `http:` of a sluice.yaml. Main thread.
//
//   trusted_proxies  [ADDRESS, RANGE, unix]: the peers whose fields are believed; default: loopback
//   profiles         {NAME: {...}}, of which only `proxy` is required
#pragma once

#include <cstddef>

#include "config/table.h"
#include "protocol/http/auth_profile.h"

namespace sluice::http {

// Bounds; beyond each the settings are refused.
inline constexpr size_t auth_profiles_max = 256, auth_trusted_max = 1024, auth_entries_max = 64,
                        auth_entry_bytes_max = 256, auth_secret_bytes_max = 256,
                        auth_name_bytes_max = 64;

// The key `auth`. Profiles are prepared when they are read; one with an error, which is reported,
// is left out. Secrets are printed as `(hidden)`, which is refused when it is read.
config::Entry auth_entry(AuthOptions& options);

}  // namespace sluice::http
