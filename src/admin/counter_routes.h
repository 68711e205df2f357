// The admin port's answers about counters: /v1/counters, and /v1/explain, which says what would be
// decided now. Owned by the server, outlives the HTTP server; the handlers are all slow ones, and
// so run on its second thread alone (admin/http_server.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "admin/admin.h"
#include "admin/admin_json.h"
#include "admin/counter_query.h"
#include "admin/live_counters.h"
#include "base/clock.h"
#include "engine/admin_query.h"
#include "live/live_policy.h"
#include "store/store.h"
#include "wire/shown_name.h"

namespace sluice::admin {

class CounterRoutes {
 public:
  // All of it outlives this.
  struct Deps {
    const live::Live& live;
    engine::AdminQueries& queries;
    base::Clock& clock;
    store::Store& store;
    const policy::Overrides* overrides = nullptr;  // null: there are none
    live::ChangeLog* changes = nullptr;            // receives what is set and reset; null: none
  };
  explicit CounterRoutes(const Deps& world) : deps_(world) {}

  void add_to(Admin& admin);

 private:
  wire::HttpResponse list(const wire::HttpRequest& request);
  wire::HttpResponse list_of_actor(const std::string& actor);
  wire::HttpResponse one(const Admin::Call& call, CounterQuery::Change change, int64_t used);
  // Adds the counters of these names that exist to a page; `told`: the last that was.
  std::optional<wire::HttpResponse> show(const std::shared_ptr<const live::LivePolicy>& policy,
                                         const LiveCounters& live,
                                         std::span<const std::string> names, Items& items,
                                         std::string& told);
  wire::HttpResponse put(const Admin::Call& call);
  wire::HttpResponse explain(const wire::HttpRequest& request);
  std::shared_ptr<const LiveCounters> counters(const live::LivePolicy& policy);
  // The name that a path means. Where it has a mark the store is searched for it, as often as names
  // that begin alike do not fit into one search, but not for long. Nothing: `problem` says why.
  std::optional<std::string> meant_by(const Admin::Call& call, wire::HttpResponse& problem);
  engine::AdminQueries::Outcome find(const std::string& beginning, const wire::NameMark& mark,
                                     std::optional<std::string>& found);
  // problem_of, with the store's reason where it could not be searched.
  wire::HttpResponse problem_of_search(engine::AdminQueries::Outcome outcome) const;
  // Those that there are, in their order.
  std::vector<CounterState> states(const LiveCounters& live, std::span<const std::string> stored);

  const Deps deps_;
  // That thread's. Of the policy that was live when last asked, and of which version of the spaces
  // of overrides; a stale one may name what is not known any more, and is not looked into.
  std::shared_ptr<const LiveCounters> counters_;
  uint64_t generation_ = 0;
  uint64_t others_ = 0;
};

// What is said where a query came to nothing.
wire::HttpResponse problem_of(engine::AdminQueries::Outcome outcome);

}  // namespace sluice::admin
