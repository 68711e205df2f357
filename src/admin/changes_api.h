// The admin port's answer about what was changed while the server ran: GET /v1/changes.
#pragma once

#include "admin/admin.h"
#include "live/change_log.h"

namespace sluice::admin {

// `changes` outlives the admin port.
void add_changes(Admin& admin, const live::ChangeLog& changes);

}  // namespace sluice::admin
