// Routes of the admin port that need no more of it than `Admin::add`. What they are given outlives
// it; handlers that wait for the store are slow ones.
#pragma once

#include "admin/admin.h"
#include "base/clock.h"
#include "live/change_log.h"
#include "live/override_registry.h"
#include "store/hold_book.h"

namespace sluice::admin {

// What was changed while the server ran: GET /v1/changes.
void add_changes(Admin& admin, const live::ChangeLog& changes);

// Holds, of whichever users: GET /v1/holds lists those that are held, and of /v1/holds/ID a GET
// shows one, a PUT sets its end, a DELETE releases it.
void add_holds(Admin& admin, store::HoldBook& holds, base::Clock& clock, live::ChangeLog& changes);

// `/v1/overrides`: a limit for one actor or a pattern of actors of a rule, until a time
// (docs/openapi.json).
void add_overrides(Admin& admin, live::OverrideRegistry& registry, const live::Live& live);

}  // namespace sluice::admin
