// What limits of counters say, as JSON. Pure functions; any thread.
#pragma once

#include "server/admin_json.h"
#include "server/counter_inquiry.h"

namespace sluice::server {

// Null: there is no such time.
inline Json seconds_of(base::Duration time) {
  if (time == base::never) return nullptr;
  return static_cast<double>(time.us) / 1e6;
}

inline Json to_json(const CounterLimit& one) {
  Json json = to_json(one.limit);
  json["allowed"] = one.allowed;
  json["remaining"] = one.remaining;
  json["retry_after"] = seconds_of(one.retry_after);
  json["reset_after"] = seconds_of(one.reset_after);
  return json;
}

}  // namespace sluice::server
