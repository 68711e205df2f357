// `/v1/overrides`: a limit for one actor or a pattern of actors of a rule, until a time
// (docs/openapi.json). The handlers wait for the store, so they are slow ones; called on the HTTP
// server's threads.
#pragma once

#include "admin/admin.h"
#include "live/change_log.h"
#include "live/override_registry.h"

namespace sluice::admin {

// Both outlive the admin port.
void add_overrides(Admin& admin, live::OverrideRegistry& registry, const live::Live& live);

// The admin port's answer about what was changed while the server ran: GET /v1/changes.

// `changes` outlives the admin port.
void add_changes(Admin& admin, const live::ChangeLog& changes);

}  // namespace sluice::admin
