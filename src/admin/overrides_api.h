// `/v1/overrides`: a limit for one actor or a pattern of actors of a rule, until a time
// (docs/openapi.json). The handlers wait for the store, so they are slow ones; called on the HTTP
// server's threads.
#pragma once

#include "admin/admin.h"
#include "live/override_registry.h"

namespace sluice::admin {

// Both outlive the admin port.
void add_overrides(Admin& admin, live::OverrideRegistry& registry, const live::Live& live);

}  // namespace sluice::admin
