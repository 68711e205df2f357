// The admin port's view of holds, of whichever users: GET /v1/holds lists those that are held, and
// of /v1/holds/ID a GET shows one, a PUT sets its end, a DELETE releases it.
#pragma once

#include "admin/admin.h"
#include "base/clock.h"
#include "live/change_log.h"
#include "store/hold_book.h"

namespace sluice::admin {

// All outlive the admin port. `holds`: null: the store keeps none, and the answers say so.
void add_holds(Admin& admin, store::HoldBook* holds, base::Clock& clock, live::ChangeLog& changes);

}  // namespace sluice::admin
