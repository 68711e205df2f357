// Answers of a server's admin port, for tests of the commands that use it.
#pragma once

#include <string>

#include "cli/terminal.h"
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
inline constexpr const char* metrics = "sluice_counters 7\n";

// The answer of a server whose counters are in memory.
inline Json status_answer() {
  return Json::parse(R"({
    "version": "0.1.0", "at": "2026-11-20T10:02:00Z", "up_seconds": 120,
    "ready": true, "degraded": false, "reasons": [],
    "listeners": [{"service": "divvy", "kind": "requests", "address": "[::]:8321"}],
    "policy": {"generation": 4, "hash": "0123456789abcdef", "rules": 2, "built_in_rules": 0,
               "files": ["/etc/rules.ini"], "live_since": "2026-11-20T10:00:00Z",
               "reloadable": true, "stale": false, "refused_total": 0,
               "last_reading": {"outcome": "live", "at": "2026-11-20T10:00:00Z"}},
    "store": {"kind": "memory", "ready": true, "degraded": false, "reasons": [],
              "loading": false, "failing": false, "durability": null, "commits": null,
              "commit_failures": null, "connections": null, "failures": null,
              "local_decisions": null},
    "counters": {"count": 7, "memory_bytes": 1610612736, "memory_bytes_max": 2147483648,
                 "refused": 0},
    "waiting": 2,
    "overrides": {"count": 0, "changes": 0, "persisted": false},
    "connections": {"divvy": 3, "limitd": 0},
    "requests": {"total": {"allowed": 12345, "denied": 6, "unmatched": 0, "error": 0,
                           "answered": 0},
                 "per_second": {"allowed": 41.5, "denied": 0.25, "unmatched": 0, "error": 0,
                                "answered": 0},
                 "over_seconds": 10.4},
    "protocols": {"divvy": {"total": {"allowed": 12345, "denied": 6, "unmatched": 0, "error": 0,
                                      "answered": 0},
                            "per_second": {"allowed": 41.5, "denied": 0.25, "unmatched": 0,
                                           "error": 0, "answered": 0}}}
  })");
}

}  // namespace sluice::cli
