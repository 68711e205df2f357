// Counters' names, and what their limits say, as JSON. Pure functions; any thread.
#pragma once

#include <string_view>

#include "admin/admin_json.h"
#include "admin/counter_query.h"
#include "live/override_text.h"
#include "wire/shown_name.h"

namespace sluice::admin {

// `counter` and `path`; of one that is not shown whole its length and digest as well.
inline void put_name(Json& json, std::string_view name) {
  json["counter"] = wire::shown_beginning(name);
  json["path"] = wire::path_of_name(name);
  if (wire::is_shown_whole(name)) return;
  json["bytes"] = name.size();
  json["digest"] = wire::name_digest(name);
}

// A text that a client sent; one that is not shown whole by its beginning, and its length.
inline void put_text(Json& json, const char* key, const char* bytes_key, std::string_view text) {
  json[key] = wire::shown_beginning(text);
  if (!wire::is_shown_whole(text)) json[bytes_key] = text.size();
}

// Null: there is no such time.
inline Json seconds_of(base::Duration time) {
  if (time == base::never) return nullptr;
  return static_cast<double>(time.us) / 1e6;
}

inline Json to_json(const CounterLimit& one) {
  Json json = live::to_json(one.limit);
  if (one.of_rule) json["of_rule"] = true;
  json["allowed"] = one.allowed;
  json["remaining"] = one.remaining;
  json["retry_after"] = seconds_of(one.retry_after);
  json["reset_after"] = seconds_of(one.reset_after);
  return json;
}

}  // namespace sluice::admin
