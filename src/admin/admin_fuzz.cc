// Requests of any bytes to the admin port, without its sockets: method, path, query and body, one
// a line. Every answer has a known status and is JSON or text; nothing that is asked ends the
// process, what only looks changes no counter and no override, and an override that was set is
// reported as it was answered.
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "admin/admin.h"
#include "admin/counters.h"
#include "admin/denials.h"
#include "admin/log_control.h"
#include "admin/routes.h"
#include "admin/top_board.h"
#include "base/hash.h"
#include "engine/engine.h"
#include "engine/lists.h"
#include "live/change_log.h"
#include "live/override_registry.h"
#include "policy/read/native.h"
#include "protocol/divvy/rules.h"
#include "protocol/divvy/session.h"
#include "protocol/droplet/rules.h"
#include "protocol/limitd/rules.h"
#include "store/embedded_store.h"

namespace {

using namespace sluice;

constexpr std::string_view native =
    "rules:\n- name: n\n  match: { tenant: \"*\", api: \"*\" }\n  actor: [tenant, api]\n  limits:\n"
    "  - { quota: 5, window: 1h, burst: 10 }\n  - { quota: 9, window: 1d, algorithm: sliding_log "
    "}\n"
    "  then: continue\n";
constexpr std::string_view divvy =
    "[k=v]\ncreditLimit = 10\nresetSeconds = 600\nactorField = who\n"
    "[s=*]\ncreditLimit = 2\nresetSeconds = 60\nmatchPolicy = canary\n"
    "[bad=1 p=**]\ncreditLimit = 2\nresetSeconds = 60\n"
    "[default]\ncreditLimit = 3\nresetSeconds = 60\n";
constexpr std::string_view limitd =
    "db: { inMemory: true }\nbuckets:\n  user:\n    size: 3\n    override:\n"
    "      x: { match: \"/a+$/\", size: 9, per_second: 1 }\n";

int64_t now_us = 1'700'000'000'000'000;

std::shared_ptr<const policy::RuleSet> rules(request::Spaces& spaces) {
  auto set = std::make_shared<policy::RuleSet>();
  base::Diagnostics diagnostics;
  policy::read_native(native, "n", spaces, *set, diagnostics);
  divvy::read_divvy(divvy, divvy::DivvyFormat::ini, divvy::DivvyMatching::code, "d", spaces, *set,
                    diagnostics);
  limitd::LimitdConfig config;
  const limitd::NamedText file{"l", limitd};
  limitd::read_limitd({&file, 1}, {}, spaces, *set, config, diagnostics);
  droplet::add_droplet_rule(spaces, *set);
  if (base::has_errors(diagnostics)) std::abort();
  return set;
}

std::shared_ptr<spdlog::logger> silent() {
  return std::make_shared<spdlog::logger>("fuzz", std::make_shared<spdlog::sinks::null_sink_mt>());
}

struct World {
  World() {
    queries.set_post([this](auto query) { engine.run_query(std::move(query)); });
    counters.add_to(admin);
    admin::add_overrides(admin, registry, live);
    const auto visit_keys = [this](admin::TopBoard::Visit visit) { visit(top_keys); };
    top_board.add(visit_keys);
    denial_board.add(visit_keys);
    using Call = admin::Admin::Call;
    admin.add({.method = "GET", .path = "/v1/log", .handler = [this](const Call&) {
                 return log_control.get();
               }});
    admin.add({.method = "PUT", .path = "/v1/log", .handler = [this](const Call& call) {
                 return log_control.put(call.request, admin, call.by, changes);
               }});
    admin::add_changes(admin, changes);
    admin.add({.method = "GET", .path = "/v1/top", .handler = [this](const Call& call) {
                 return top_board.answer(call.request, admin);
               }});
    admin.add({.method = "GET", .path = "/v1/denials", .handler = [this](const Call& call) {
                 return denial_board.answer(call.request);
               }});
  }

  // Something to be at the top.
  void hit(std::string_view who) {
    engine::Batch& batch = engine.next_batch();
    base::Buffer out;
    const std::string line = "HIT k=v who=" + std::string(who) + "\n";
    session.receive(line, false, batch.requests, out);
    engine.serve(batch, protocol::find("divvy").value(), session, out);
  }

  request::Spaces spaces;
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  live::Live live{live::LivePolicy{rules(spaces)}};
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  admin::ServerStats server_stats;
  metrics::Sources sources;
  admin::Admin admin{{}, {live, server_stats, sources}};
  live::ChangeLog changes{silent()};
  live::OverrideRegistry registry{
      {.spaces = spaces, .live = live, .clock = clock, .log = silent(), .changes = &changes}};
  admin::TopBoard top_board{clock, live, server_stats, &spaces};
  admin::DenialBoard denial_board{clock, live, server_stats, &spaces};
  engine::TopKeys top_keys{top_board.hash()};
  engine::Engine engine{{.store = store,
                         .clock = clock,
                         .live = live,
                         .overrides = &registry.table(),
                         .top_keys = &top_keys},
                        silent()};
  engine::TableScanner scanner{store};
  engine::AdminQueries queries{store, scanner};
  admin::CounterRoutes counters{{live, queries, clock, store, &registry.table()}};
  log::Log log{spdlog::level::info, std::make_shared<spdlog::sinks::null_sink_mt>(), 16};
  admin::LogControl log_control{log, 0};
  divvy::DivvySession session;
};

std::string_view line_of(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

// What was answered of one override is what is reported of it.
void check_override(World& world, const wire::HttpResponse& set) {
  auto answered = nlohmann::json::parse(set.body);
  answered.erase("kept");
  if (!answered.contains("id")) return;  // several
  wire::HttpRequest request;
  request.method = "GET";
  request.path = "/v1/overrides/" + answered["id"].get<std::string>();
  const wire::HttpResponse told = world.admin.answer(request);
  if (told.status != 200 || nlohmann::json::parse(told.body) != answered) std::abort();
}

}  // namespace

// The leak checker does not look into the maps that overrides are kept in.
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0";
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static std::unique_ptr<World> world;
  if (world == nullptr || world->registry.table().size() > 2'000) world = std::make_unique<World>();
  std::string_view text(reinterpret_cast<const char*>(data), size);
  wire::HttpRequest request;
  request.method = line_of(text);
  request.path = line_of(text);
  request.query = line_of(text);
  request.body = text;
  request.host = "localhost";
  world->hit(request.method);
  const bool looks = request.method != "PUT" && request.method != "DELETE";
  const bool sets = request.method == "POST" && request.path == "/v1/overrides";
  const uint64_t before = world->store.stats().counters,
                 changes = world->registry.table().changes();
  if (world->admin.refuse(request)) std::abort();
  world->admin.is_slow(request);
  const wire::HttpResponse response = world->admin.answer(request);
  constexpr std::array statuses{200u, 201u, 400u, 404u, 405u, 409u, 422u, 503u, 507u};
  if (std::find(statuses.begin(), statuses.end(), response.status) == statuses.end()) {
    std::fprintf(stderr, "%u %s\n", response.status, response.body.c_str());
    std::abort();
  }
  if (response.content_type.find("json") != std::string::npos &&
      !nlohmann::json::accept(response.body))
    std::abort();
  if (looks && world->store.stats().counters != before) std::abort();
  const bool changed = world->registry.table().changes() != changes;
  if (changed && ((looks && !sets) || response.status > 201)) std::abort();
  if (sets && response.status <= 201) check_override(*world, response);
  now_us += 1'000;
  world->registry.housekeep();
  if (world->store.stats().counters > 10'000) {
    now_us += int64_t{86'400'000'000} * 40;
    world->store.sweep({now_us}, 1'000'000);
  }
  return 0;
}
