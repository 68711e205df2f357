// Requests of any bytes to the admin port, without its sockets: method, path, query and body, one
// a line. Every answer has a known status and is JSON or text; nothing that is asked ends the
// process, and what only looks changes no counter.
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

#include "base/hash.h"
#include "policy/divvy.h"
#include "policy/droplet.h"
#include "policy/limitd.h"
#include "policy/native.h"
#include "server/admin.h"
#include "server/counter_routes.h"
#include "server/engine.h"
#include "server/lister.h"
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

std::shared_ptr<const policy::RuleSet> rules(limit::Spaces& spaces) {
  auto set = std::make_shared<policy::RuleSet>();
  base::Diagnostics diagnostics;
  policy::read_native(native, "n", spaces, *set, diagnostics);
  policy::read_divvy(divvy, policy::DivvyFormat::ini, policy::DivvyMatching::code, "d", spaces,
                     *set, diagnostics);
  policy::LimitdConfig config;
  const policy::NamedText file{"l", limitd};
  policy::read_limitd({&file, 1}, {}, spaces, *set, config, diagnostics);
  policy::add_droplet_rule(spaces, *set);
  if (base::has_errors(diagnostics)) std::abort();
  return set;
}

struct World {
  World() {
    inquiries.set_post([this](auto inquiry) { engine.inquire(std::move(inquiry)); });
    counters.add_to(admin);
  }

  limit::Spaces spaces;
  store::EmbeddedStore store{0, base::Hash(1), spaces};
  server::Live live{server::LivePolicy{rules(spaces)}};
  base::Clock clock{{[] { return now_us; }, [] { return now_us; }}};
  server::Figures figures;
  metrics::Sources sources;
  server::Admin admin{{}, {live, figures, sources}};
  server::Engine engine{
      {.store = store, .clock = clock, .live = live},
      std::make_shared<spdlog::logger>("fuzz", std::make_shared<spdlog::sinks::null_sink_mt>())};
  server::Lister lister{store};
  server::Inquiries inquiries{store, lister};
  server::CounterRoutes counters{{live, inquiries, clock, store}};
};

std::string_view line_of(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static World world;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  wire::HttpRequest request;
  request.method = line_of(text);
  request.path = line_of(text);
  request.query = line_of(text);
  request.body = text;
  request.host = "localhost";
  const bool looks = request.method != "PUT" && request.method != "DELETE";
  const uint64_t before = world.store.stats().counters;
  if (world.admin.refuse(request)) std::abort();
  world.admin.is_slow(request);
  const wire::HttpResponse response = world.admin.answer(request);
  constexpr std::array statuses{200u, 400u, 404u, 405u, 409u, 422u, 503u};
  if (std::find(statuses.begin(), statuses.end(), response.status) == statuses.end()) {
    std::fprintf(stderr, "%u %s\n", response.status, response.body.c_str());
    std::abort();
  }
  if (response.content_type.find("json") != std::string::npos &&
      !nlohmann::json::accept(response.body))
    std::abort();
  if (looks && world.store.stats().counters != before) std::abort();
  now_us += 1'000;
  if (world.store.stats().counters > 10'000) {
    now_us += int64_t{86'400'000'000} * 40;
    world.store.sweep({now_us}, 1'000'000);
  }
  return 0;
}
