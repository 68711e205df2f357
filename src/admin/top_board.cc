#include "admin/top_board.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "base/bounds.h"
#include "base/units.h"
#include "policy/actor_name.h"

namespace sluice::admin {

using metrics::Top;
using metrics::TopMerge;
using metrics::TopSketch;

namespace {

constexpr size_t items_default = 20;
// For a worker's loop to get round to it.
constexpr auto patience = std::chrono::seconds(2);

// A copy of one worker's minute, on its way; who gave up waiting leaves it to the worker.
struct Copy {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_done = false, is_there = false;
  TopSketch sketch;
};

struct Name {
  std::string_view dialect;
  std::string rule;
  std::vector<std::string> keys;  // of the rule's actor
};

std::chrono::system_clock::time_point wall(base::Time at) {
  return std::chrono::system_clock::time_point(std::chrono::microseconds(at.us));
}

}  // namespace

TopBoard::TopBoard(base::Clock& clock, const live::Live& live, const ServerStats& server_stats,
                   const request::Spaces* spaces)
    : clock_(clock),
      live_(live),
      server_stats_(server_stats),
      spaces_(spaces),
      started_(clock_.now()) {}

// False: a worker does not answer.
bool TopBoard::merge(int64_t period, bool shadow, TopMerge& all) const {
  for (const auto& worker : workers_) {
    const std::shared_ptr<Copy> copy(new Copy);  // not zeroed
    worker([copy, period, shadow](const engine::TopKeys& keys) {
      const TopSketch* const sketch = (shadow ? keys.shadow() : keys.top()).at(period);
      if (sketch != nullptr) sketch->copy_to(copy->sketch);
      const std::lock_guard lock(copy->mutex);
      copy->is_there = sketch != nullptr;
      copy->is_done = true;
      copy->changed.notify_all();
    });
    std::unique_lock lock(copy->mutex);
    if (!copy->changed.wait_for(lock, patience, [&] { return copy->is_done; })) return false;
    if (copy->is_there) all.add(copy->sketch);
  }
  return true;
}

wire::HttpResponse TopBoard::answer(const wire::HttpRequest& request,
                                    const HttpHandler& handler) const {
  const std::string by = wire::query_value(request.query, "by").value_or("denied");
  const bool shadow = by == "shadow_denied", denied = shadow || by == "denied";
  if (!denied && by != "active")
    return handler.problem(400, "`by` must be denied, active or shadow_denied");
  const auto text = wire::query_value(request.query, "limit");
  const auto limit = text ? base::parse_count(*text) : items_default;
  if (!limit || *limit < 1 || *limit > base::bounds::admin_page_max)
    return handler.problem(400,
                           "`limit` must be 1 to " + std::to_string(base::bounds::admin_page_max));

  const base::Time now = clock_.now();
  const int64_t last = Top::period_of(now), first = last - Top::periods_before;
  TopMerge all;
  for (int64_t period = first; period <= last; ++period)
    if (!merge(period, shadow, all))
      return handler.problem(503, "a worker does not answer; try again");

  auto items = denied ? all.denied() : all.active();
  std::unordered_map<const void*, std::pair<std::string, std::string>> ends;  // of their names
  std::erase_if(items, [&](const auto& item) {
    const auto [id, serial] = engine::TopKeys::id_and_serial(item.family);
    return spaces_ == nullptr || !spaces_->visit(id, serial, [&](const request::Space& space) {
      ends.try_emplace(item.family, space.prefix, space.suffix);
    });
  });
  if (items.size() > *limit) items.resize(*limit);
  // The rules that decided by them; of those that are gone, the rules that the counters belong to
  // now.
  std::unordered_map<uint64_t, Name> by_rule;
  std::unordered_map<const void*, Name> by_space;
  for (const auto& item : items) {
    by_rule.try_emplace(item.rule);
    by_space.try_emplace(item.family);
  }
  const auto rules = live_.shown();
  live::each_rule(*rules->rules, [&](const policy::Rule& rule, const policy::Dialect& dialect) {
    const auto set = [&](Name& name) {
      if (name.dialect.empty()) name = {dialect.name, dialect.rule_name(rule), rule.actor};
    };
    if (const auto at = by_rule.find(rule.id); at != by_rule.end()) set(at->second);
    const auto at = by_space.find(engine::TopKeys::family_of(*rule.space));
    // A canary may share the counters of an enforced rule, and rules that sessions plan one space.
    if (at != by_space.end() && (rule.mode == policy::Mode::shadow) == shadow &&
        rules->rules->own_rules(&dialect) == nullptr)
      set(at->second);
  });

  Items list;
  for (const auto& item : items) {
    const Name& its = by_rule.at(item.rule);
    const Name& name = its.dialect.empty() ? by_space.at(item.family) : its;
    const auto& [prefix, suffix] = ends.at(item.family);
    const std::string counter = prefix + item.key + (item.cut ? "" : suffix);
    Json json = Json::object();
    if (!name.dialect.empty()) json["dialect"] = name.dialect;
    json["rule"] = name.dialect.empty() ? server_stats_.name(item.name) : name.rule;
    json["counter"] = counter;
    json["path"] = wire::percent_encoded(counter);
    json["actor"] = item.cut ? item.actor : policy::actor_name(item.actor, name.keys);
    if (item.cut) json["cut"] = true;
    json["allowed"] = denied ? item.seen_allowed : item.count - item.seen_denied;
    json["denied"] = denied ? item.count : item.seen_denied;
    json["error_max"] = item.error;
    if (!list.add(std::move(json))) break;
  }
  const base::Time since{std::max(first * Top::period_us, started_.us)};
  return json_response(200, {{"window_seconds", (now.us - since.us) / 1'000'000},
                             {"since", to_text(wall(since))},
                             {"by", by},
                             {"items", list.take()},
                             {"tracked_max", TopSketch::tracked_max}});
}

}  // namespace sluice::admin
