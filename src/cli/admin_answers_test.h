// What a server's admin port answers, for tests of the commands that ask it.
#pragma once

#include <string>

#include "cli/json_fields.h"
#include "testing/fake_http.h"

namespace sluice::cli {

inline std::string problem(unsigned status, const std::string& detail, Json more = Json::object()) {
  Json json{{"type", "about:blank"}, {"title", "T"}, {"status", status}, {"detail", detail}};
  json.update(more);
  return calls::FakeHttp::response(status, json.dump(), "application/problem+json");
}

inline std::string page(const Json& json, unsigned status = 200) {
  return calls::FakeHttp::response(status, json.dump());
}

inline constexpr const char* metrics_type = "text/plain; version=0.0.4; charset=utf-8";
inline constexpr const char* metrics =
    "sluice_build_info{version=\"0.1.0\",compiler=\"x\"} 1\n"
    "process_start_time_seconds 1\n"
    "sluice_requests_total{protocol=\"divvy\",verb=\"take\",outcome=\"allowed\"} 12345\n"
    "sluice_requests_total{protocol=\"divvy\",verb=\"take\",outcome=\"denied\"} 6\n"
    "sluice_connections{protocol=\"divvy\"} 3\n"
    "sluice_connections{protocol=\"limitd\"} 0\n"
    "sluice_counters 7\n"
    "sluice_store_memory_bytes 1610612736\n"
    "sluice_store_memory_max_bytes 2147483648\n"
    "sluice_waiting_requests 2\n"
    "sluice_policy_generation 4\n";

inline Json config() {
  return {{"version", "0.1.0"},
          {"generation", 4},
          {"hash", "0123456789abcdef"},
          {"rules", 2},
          {"files", {"/etc/rules.ini"}},
          {"live_since", "2026-11-20T10:00:00Z"},
          {"reloadable", true},
          {"last_reading", {{"outcome", "live"}, {"at", "2026-11-20T10:00:00Z"}}},
          {"settings", "listen:\nstore: { memory: 2GiB }    # default\nlog: { level: info }\n"}};
}

}  // namespace sluice::cli
