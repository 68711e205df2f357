#include "admin/status_api.h"

#include <array>
#include <chrono>
#include <utility>

#include "admin/admin_json.h"
#include "limit/calendar.h"
#include "protocol/protocol.h"

namespace sluice::admin {
namespace {

template <class Number>
using OfOutcomes = std::array<Number, engine::request_outcome_count>;

template <class Number>
Json outcomes_json(const OfOutcomes<Number>& numbers) {
  Json json = Json::object();
  for (size_t i = 0; i < numbers.size(); ++i) json[request_outcome_names[i]] = numbers[i];
  return json;
}

template <class Number>
OfOutcomes<Number> sum_of(
    const std::array<OfOutcomes<Number>, protocol::protocols_max>& by_protocol) {
  OfOutcomes<Number> all{};
  for (const auto& one : by_protocol)
    for (size_t i = 0; i < all.size(); ++i) all[i] += one[i];
  return all;
}

Json counts_json(const store::NamedCounts& counts) {
  if (counts.empty()) return {};
  Json json = Json::object();
  for (const auto& [name, count] : counts) json[std::string(name)] = count;
  return json;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json() : Json(text);
}

Json listeners_json(const std::vector<ListenerJson>& all) {
  Json list = Json::array();
  for (const ListenerJson& one : all) {
    Json json{{"service", one.service}, {"kind", one.kind}, {"address", one.address}};
    Json tls;
    if (one.tls)
      tls = {
          {"certificate", one.tls->certificate},
          {"expires",
           to_text(std::chrono::system_clock::time_point(std::chrono::seconds(one.tls->expires)))},
          {"problem", text_or_null(one.tls->problem)}};
    json["tls"] = std::move(tls);
    json["open"] = one.is_open;
    list.push_back(std::move(json));
  }
  return list;
}

Json feeds_json(const std::vector<protocol::PolicyFeed::State>& all) {
  const auto time = [](const auto& at) { return at ? Json(to_text(*at)) : Json(); };
  Json list = Json::array();
  for (const protocol::PolicyFeed::State& one : all)
    list.push_back({{"from", one.from},
                    {"node", one.node},
                    {"connected", one.is_connected},
                    {"problem", text_or_null(one.problem)},
                    {"version", text_or_null(one.version)},
                    {"taken", one.taken},
                    {"taken_at", time(one.taken_at)},
                    {"refused", one.refused},
                    {"refused_at", time(one.refused_at)},
                    {"refusal", text_or_null(one.refusal)}});
  return list;
}

Json collectors_json(const std::vector<CollectorJson>& all) {
  Json list = Json::array();
  for (const CollectorJson& one : all)
    list.push_back({{"signal", std::string(one.signal)},
                    {"endpoint", one.endpoint},
                    {"sent", one.sent},
                    {"failed", one.failed},
                    {"dropped", one.dropped},
                    {"problem", text_or_null(one.problem)}});
  return list;
}

Json policy_of(const Admin& admin, const StatusDeps& deps) {
  Json json = admin.policy_json();
  json["stale"] =
      deps.history != nullptr && deps.history->last().outcome == live::Reading::Outcome::refused;
  json["refused_total"] = deps.history == nullptr ? 0 : deps.history->refusals();
  json["sent"] = feeds_json(deps.feeds ? deps.feeds() : decltype(deps.feeds()){});
  return json;
}

Json store_json(const store::Catalog& store, const store::Stats& stats) {
  const store::KindFigures its = store.kind_figures();
  const std::string why_not = store.why_not_ready();
  const std::string why_degraded = why_not.empty() ? store.why_degraded() : "";
  Json reasons = Json::array();
  for (const std::string& why : {why_not, why_degraded})
    if (!why.empty()) reasons.push_back(why);
  Json json{{"kind", std::string(its.kind())},   {"ready", why_not.empty()},
            {"degraded", !why_degraded.empty()}, {"reasons", std::move(reasons)},
            {"loading", stats.loading},          {"failing", stats.failing}};
  // Of a disk.
  const auto& disk = its.disk;
  const auto of_disk = [&](const char* key, Json value) {
    json[key] = disk ? std::move(value) : Json();
  };
  of_disk("durability", disk ? Json(std::string(disk->durability)) : Json());
  of_disk("commit_interval_ms", disk ? Json(disk->interval.us / 1000) : Json());
  of_disk("fsync", disk && disk->sync);
  of_disk("commits", stats.commits);
  of_disk("commit_failures", stats.commit_failures);
  of_disk("committed_counters", stats.committed_counters);
  of_disk("committed_bytes", stats.committed_bytes);
  of_disk("snapshots", stats.snapshots);
  of_disk("log_bytes", stats.log_bytes);
  // Of Redis.
  const store::RedisFigures redis = its.redis.value_or(store::RedisFigures{});
  json["connections"] = counts_json(redis.connections);
  json["second_connections"] = counts_json(redis.second_connections);
  json["failures"] = counts_json(redis.failures);
  json["calls"] = its.redis ? Json(redis.calls) : Json();
  json["local_decisions"] = its.redis ? Json(redis.local_decisions) : Json();
  json["time_zones_elsewhere"] = text_or_null(redis.zones_elsewhere);
  return json;
}

Json counters_json(const store::Stats& stats) {
  return {{"count", stats.counters},
          {"memory_bytes", stats.memory_bytes},
          {"memory_bytes_max", stats.memory_bytes_max > 0 ? Json(stats.memory_bytes_max) : Json()},
          {"refused", stats.refused},
          {"swept", stats.swept},
          {"purged", stats.purged}};
}

Json overrides_json(const live::OverrideRegistry* overrides) {
  return {{"count", overrides == nullptr ? 0 : overrides->table().size()},
          {"changes", overrides == nullptr ? 0 : overrides->table().changes()},
          {"persisted", overrides != nullptr && overrides->is_persisted()}};
}

Json errors_json(const StatusDeps& deps, uint64_t of_requests, uint64_t of_protocols) {
  const auto policy = deps.live.shown();
  Json closed = Json::object();
  const auto closed_for = deps.server_stats.closed();
  for (size_t i = 0; i < closed_for.size(); ++i) closed[closed_names[i]] = closed_for[i];
  return {{"requests", of_requests},
          {"protocol", of_protocols},
          {"connections_refused", deps.connections_refused()},
          {"connections_closed", std::move(closed)},
          {"matches_given_up", policy->rules->too_costly()},
          {"regexes_given_up", policy->rules->regexes_given_up()}};
}

wire::HttpResponse status(const Admin& admin, const StatusDeps& deps) {
  const Admin::Health health = admin.health();
  const store::Stats stats = deps.store.stats();
  const ProtocolTotals totals = deps.server_stats.requests();
  const RequestRates::Rates rates = deps.rates.rates(totals, RequestRates::Clock::now());
  Json json{{"version", admin.version()},
            {"time_zones", limit::Calendar::zone_data_text()},
            {"at", to_text(std::chrono::system_clock::now())},
            {"up_seconds", admin.uptime().count()},
            {"ready", health.ready},
            {"degraded", health.is_degraded()},
            {"reasons", health.reasons},
            {"listeners", listeners_json(deps.listeners())},
            {"policy", policy_of(admin, deps)},
            {"store", store_json(deps.store, stats)},
            {"counters", counters_json(stats)},
            {"waiting", stats.waiting},
            {"overrides", overrides_json(deps.overrides)},
            {"collectors",
             collectors_json(deps.collectors ? deps.collectors() : std::vector<CollectorJson>())}};
  Json connections = Json::object(), protocols = Json::object();
  uint64_t faults = 0;
  for (const protocol::Protocol protocol : protocol::numbers()) {
    const std::string name(protocol::name_of(protocol));
    const auto number = static_cast<size_t>(protocol);
    const ServerStats::Traffic traffic = deps.server_stats.traffic(protocol);
    faults += traffic.faults;
    connections[name] = deps.server_stats.connections(protocol);
    protocols[name] = {{"total", outcomes_json(totals[number])},
                       {"per_second", outcomes_json(rates.per_second[number])},
                       {"connections_opened", traffic.opened},
                       {"received_bytes", traffic.received},
                       {"sent_bytes", traffic.sent},
                       {"protocol_errors", traffic.faults}};
  }
  const RequestTotals all = sum_of(totals);
  json["connections"] = std::move(connections);
  json["requests"] = {{"total", outcomes_json(all)},
                      {"per_second", outcomes_json(sum_of(rates.per_second))},
                      {"over_seconds", rates.over_seconds}};
  json["protocols"] = std::move(protocols);
  json["errors"] =
      errors_json(deps, all[static_cast<size_t>(engine::RequestOutcome::failed)], faults);
  return json_response(200, json);
}

}  // namespace

void add_status(Admin& admin, StatusDeps deps) {
  admin.add({.method = "GET",
             .path = "/v1/status",
             .handler = [&admin, deps = std::move(deps)](const Admin::Call&) {
               return status(admin, deps);
             }});
}

}  // namespace sluice::admin
