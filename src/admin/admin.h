// The admin port's answers (docs/openapi.json): health, metrics, what is configured, rules with
// their counts, reload. JSON, errors as problem+json. Where no token is needed it answers only
// what no web page can have asked, and visits; else only who shows one. Further handlers are added
// by `add`. Owned by the server; called on the HTTP server's threads.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "admin/http_server.h"
#include "admin/options.h"
#include "admin/server_stats.h"
#include "base/bounds.h"
#include "live/live_policy.h"
#include "live/reloader.h"
#include "metrics/page.h"
#include "wire/json.h"

namespace sluice::admin {

class Admin final : public HttpHandler {
 public:
  struct Deps {
    const live::Live& live;
    const ServerStats& server_stats;
    const metrics::Sources& sources;
    live::Reloader* reloader = nullptr;   // null: the policy cannot be read again
    std::vector<std::string> files = {};  // that the first policy was read from
  };
  Admin(AdminOptions options, Deps deps);

  // What a handler is given: the request, and what stood in the path for each `{...}`, decoded.
  struct Call {
    const wire::HttpRequest& request;
    std::vector<std::string> parameters;
    std::string by = {};  // the client, as live::Change::by
  };
  using Handler = std::function<wire::HttpResponse(const Call&)>;
  struct Route {
    std::string method;  // GET answers HEAD as well
    std::string path;    // "/v1/counters/{key}"; the last `{...}` takes what is left
    bool slow = false;   // may take longer than a few milliseconds
    bool open = false;   // needs no token
    bool text = false;   // its body is not JSON
    // Of a POST or PUT. Past it: 413.
    size_t body_bytes_max = base::bounds::admin_body_bytes_max;
    Handler handler;
  };
  // Before the server starts.
  void add(Route route) { routes_.push_back(std::move(route)); }
  const std::vector<Route>& routes() const { return routes_; }

  // Why the server is not ready, if it is not; asked at each /health/ready and /v1/status. Any
  // thread.
  void add_check(std::function<std::optional<std::string>()> check) {
    checks_.push_back(std::move(check));
  }

  // Why it answers and yet does not do all that it is there for; asked likewise.
  void add_degraded_check(std::function<std::optional<std::string>()> check) {
    degraded_checks_.push_back(std::move(check));
  }

  // What the checks find.
  struct Health {
    bool ready = true;                 // no check says why not
    std::vector<std::string> reasons;  // why it is not, or is degraded; empty: neither
    bool is_degraded() const { return ready && !reasons.empty(); }
  };
  Health health() const;
  const std::string& version() const { return options_.version; }
  std::chrono::seconds uptime() const;
  // The live policy, and what came of the last reading of its files.
  wire::Json policy_json() const;

  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const override;
  bool is_health(const wire::HttpRequest& request) const override;
  bool is_slow(const wire::HttpRequest& request) const override;
  wire::HttpResponse answer(const wire::HttpRequest& request) override;
  wire::HttpResponse problem(unsigned status, const std::string& why) const override;

 private:
  struct Found {
    const Route* route = nullptr;
    std::vector<std::string> parameters;
    std::string allowed;  // methods that the path has, if it has others
  };
  Found find(const wire::HttpRequest& request) const;
  struct Asker {
    std::string name;      // `admin token`, or the user's; empty: no known token was shown
    bool may_ask = false;  // although a token is needed
  };
  Asker asker_of(const wire::HttpRequest& request) const;
  std::optional<wire::HttpResponse> refuse_stranger(const wire::HttpRequest& request,
                                                    const Route* route) const;

  wire::HttpResponse live() const;
  wire::HttpResponse ready() const;
  wire::HttpResponse config() const;
  wire::HttpResponse check(const wire::HttpRequest& request) const;
  wire::HttpResponse reload(const std::string& by) const;
  wire::HttpResponse rules(const wire::HttpRequest& request) const;

  const AdminOptions options_;
  const Deps deps_;
  const std::chrono::system_clock::time_point started_ = std::chrono::system_clock::now();
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::vector<Route> routes_;
  std::vector<std::function<std::optional<std::string>()>> checks_, degraded_checks_;
};

// docs/openapi.json as it was when the program was built.
extern const std::string_view openapi_document;
// The same with what this program has: every enumeration that is marked by `x-sluice-list` as one
// of `protocols` or of `dialects` lists these. As text, made once.
const std::string& openapi_of_program();

}  // namespace sluice::admin
