#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/watch.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_status =
    "Says how a running server is: ready or not, which policy is live and whether a newer one was\n"
    "refused, how much it does, and how its store is.";

std::string footer_of_status() {
  return admin_footer(
      "Examples:\n"
      "  sluice status\n"
      "  sluice status --over 1s --json\n"
      "  sluice status --admin 10.0.0.5:8380 --token-file admin.token",
      "ready", "not ready, degraded, or the policy that was read last is refused");
}

Json integer(double value) {
  return static_cast<int64_t>(std::llround(value));
}

std::string without_quotes(std::string text) {
  std::erase(text, '"');
  return text;
}

// The value of `key: ` in the lines of `store`, as --print-config prints them; "": nothing.
std::string store_setting(const std::string& settings, std::string_view key) {
  bool here = false;
  size_t at = 0;
  while (at < settings.size()) {
    const size_t end = std::min(settings.find('\n', at), settings.size());
    const std::string line = settings.substr(at, end - at);
    at = end + 1;
    if (!line.starts_with(' ')) here = line.starts_with("store:");
    const size_t text = line.find_first_not_of(' ');
    if (!here || text == line.npos || !std::string_view(line).substr(text).starts_with(key))
      continue;
    std::string value = line.substr(text + key.size());
    value.resize(std::min(value.find(" #"), value.size()));
    const size_t from = value.find_first_not_of(' ');
    if (from == value.npos) return "there";
    return without_quotes(value.substr(from, value.find_last_not_of(' ') + 1 - from));
  }
  return "";
}

Json store_json(const MetricsText& metrics, const std::string& settings) {
  const bool redis = metrics.has("sluice_redis_connections");
  const bool disk = !redis && !store_setting(settings, "path:").empty();
  Json json{{"kind", redis ? "redis" : disk ? "disk" : "memory"}};
  if (disk) {
    json["durability"] = store_setting(settings, "durability:");
    json["loading"] = metrics.value("sluice_store_loading") != 0;
    json["failing"] = metrics.value("sluice_store_failing") != 0;
    json["commits"] = integer(metrics.value("sluice_commits_total"));
    json["commit_failures"] = integer(metrics.value("sluice_commit_failures_total"));
  }
  if (!redis) return json;
  json["connections"] = Json::object();
  for (const auto& sample : metrics.of("sluice_redis_connections"))
    json["connections"][std::string(sample.label("state"))] = integer(sample.value);
  json["failures"] = Json::object();
  for (const auto& sample : metrics.of("sluice_redis_failures_total"))
    json["failures"][std::string(sample.label("reason"))] = integer(sample.value);
  json["local_decisions"] = integer(metrics.value("sluice_redis_local_decisions_total"));
  return json;
}

Json requests_json(const std::optional<Look>& before, const Look& now) {
  Json total = Json::object(), rates = Json::object();
  for (const char* outcome : outcomes) {
    const double count = now.metrics.sum("sluice_requests_total", "outcome", outcome);
    total[outcome] = integer(count);
    if (before)
      rates[outcome] =
          std::max(count - before->metrics.sum("sluice_requests_total", "outcome", outcome), 0.0) /
          seconds_between(*before, now);
  }
  Json json{{"total", total}};
  if (before) json["per_second"] = rates;
  return json;
}

// By the server's clock; of an earlier version by this machine's. Null: it does not say.
Json up_seconds(const Json& config, const MetricsText& metrics) {
  if (field(config, "up_seconds").is_number()) return field(config, "up_seconds");
  const double started = metrics.value("process_start_time_seconds");
  if (started <= 0) return {};
  const double clock =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return integer(std::floor(std::max(clock - started, 0.0)));
}

Json status_json(const AdminPort& port, const Json& health, bool ready, const Json& config,
                 const std::optional<Look>& before, const Look& now) {
  const MetricsText& metrics = now.metrics;
  const Json& reading = field(config, "last_reading");
  Json json{{"server", port.name()},
            {"version", text_field(config, "version")},
            {"ready", ready},
            {"degraded", ready && text_field(health, "status") == "degraded"},
            {"reasons", list_field(health, "reasons")},
            {"up_seconds", up_seconds(config, metrics)}};
  json["policy"] = {{"generation", field(config, "generation")},
                    {"hash", field(config, "hash")},
                    {"live_since", field(config, "live_since")},
                    {"rules", field(config, "rules")},
                    {"built_in_rules", field(config, "built_in_rules")},
                    {"files", list_field(config, "files")},
                    {"reloadable", field(config, "reloadable")},
                    {"stale", text_field(reading, "outcome") == "refused"},
                    {"last_reading", reading}};
  json["requests"] = requests_json(before, now);
  json["connections"] = Json::object();
  for (const auto& sample : metrics.of("sluice_connections"))
    json["connections"][std::string(sample.label("protocol"))] = integer(sample.value);
  json["waiting"] = integer(metrics.value("sluice_waiting_requests"));
  json["counters"] = {{"count", integer(metrics.value("sluice_counters"))},
                      {"memory_bytes", integer(metrics.value("sluice_store_memory_bytes"))},
                      {"memory_bytes_max", integer(metrics.value("sluice_store_memory_max_bytes"))},
                      {"refused", integer(metrics.value("sluice_memory_refusals_total"))}};
  json["store"] = store_json(metrics, text_field(config, "settings"));
  return json;
}

std::string grouped(const Json& json, const char* key) {
  return base::grouped(static_cast<uint64_t>(std::max<int64_t>(integer_field(json, key), 0)));
}

// "12.3MiB", as base::format_size only says exact ones.
std::string size_words(const Json& json, const char* key) {
  double size = static_cast<double>(integer_field(json, key));
  const char* unit = "B";
  for (const char* larger : {"KiB", "MiB", "GiB", "TiB"}) {
    if (size < 1024) break;
    size /= 1024;
    unit = larger;
  }
  const auto tenths = std::llround(size * 10);
  const bool whole = tenths % 10 == 0 || tenths >= 1000;
  return std::to_string(tenths / 10) + (whole ? "" : "." + std::to_string(tenths % 10)) + unit;
}

// "2 up, 1 down" of an object of numbers, those that are 0 left out.
std::string list_words(const Json& counts, const char* if_none) {
  std::string text;
  for (const auto& [name, count] : counts.items())
    if (integer_field(counts, name) != 0)
      text += (text.empty() ? "" : ", ") + grouped(counts, name.c_str()) + " " +
              config::on_screen(name);
  return text.empty() ? if_none : text;
}

std::string rates_words(const Json& requests) {
  const Json& rates = field(requests, "per_second");
  const Json& total = field(requests, "total");
  std::string text;
  for (const char* outcome : outcomes) {
    if (integer_field(total, outcome) == 0 && std::string_view(outcome) != "allowed") continue;
    text += (text.empty() ? "" : ", ") +
            (rates.is_object() ? rate_words(number_field(rates, outcome).value_or(0)) + "/s "
                               : grouped(total, outcome) + " ") +
            outcome;
  }
  if (!rates.is_object()) return text + " since the start";
  return text;
}

std::string store_words(const Json& store, bool coloured) {
  const std::string kind = text_field(store, "kind");
  if (kind == "redis") {
    const Json& connections = field(store, "connections");
    const bool well = integer_field(connections, "up") > 0;
    std::string text = "Redis: " + list_words(connections, "no") + " connections";
    if (!well) text = config::paint(text, config::red, coloured);
    if (const auto failed = list_words(field(store, "failures"), ""); !failed.empty())
      text += "; failures so far: " + failed;
    if (integer_field(store, "local_decisions") > 0)
      text += "; " + grouped(store, "local_decisions") + " decisions made here";
    return text;
  }
  if (kind == "memory") return "memory alone: a restart forgets";
  std::string text = "disk, durability " + config::on_screen(text_field(store, "durability")) +
                     ", " + grouped(store, "commits") + " commits";
  if (integer_field(store, "commit_failures") > 0)
    text += ", " + grouped(store, "commit_failures") + " failed";
  if (true_field(store, "loading")) text += "; not all counters are back from it yet";
  if (true_field(store, "failing"))
    text += "; " + config::paint("it cannot be written at the moment", config::red, coloured);
  return text;
}

std::string status_text(const Json& json, bool coloured) {
  std::string out;
  const auto line = [&](const char* title, const std::string& text) {
    out += config::fitted(title, 13) + text + "\n";
  };
  const Json& policy = field(json, "policy");
  const bool ready = true_field(json, "ready"), stale = true_field(policy, "stale");
  const bool degraded = true_field(json, "degraded");
  const int64_t built_in = integer_field(policy, "built_in_rules");
  line("server", "sluice " + config::on_screen(text_field(json, "version")) + " at " +
                     text_field(json, "server") + ": " +
                     (degraded ? config::paint("degraded", config::red, coloured)
                      : ready  ? config::paint("ready", config::green, coloured)
                               : config::paint("not ready", config::red, coloured)));
  for (const Json& reason : list_field(json, "reasons"))
    if (reason.is_string()) line("", config::on_screen(reason.get<std::string>()));
  if (field(json, "up_seconds").is_number()) line("up", seconds_words(field(json, "up_seconds")));
  line("policy", "generation " + grouped(policy, "generation") + ", live since " +
                     config::on_screen(text_field(policy, "live_since")) + ", " +
                     base::counted(static_cast<uint64_t>(integer_field(policy, "rules")), "rule") +
                     (built_in > 0 ? " and " + std::to_string(built_in) + " built in" : "") +
                     ", hash " + config::on_screen(text_field(policy, "hash")));
  for (const Json& file : list_field(policy, "files"))
    if (file.is_string()) line("", config::on_screen(file.get<std::string>()));
  if (stale) {
    const Json& reading = field(policy, "last_reading");
    line("", config::paint("a newer one was refused", config::red, coloured) + " at " +
                 config::on_screen(text_field(reading, "at")) +
                 ", so this one is older than the files:");
    for (const auto& d : diagnostics_of(list_field(reading, "diagnostics")))
      line("", "  " + config::on_screen(base::to_string(d)));
  }
  line("requests", rates_words(field(json, "requests")));
  line("connections", list_words(field(json, "connections"), "none"));
  const Json& counters = field(json, "counters");
  std::string held = grouped(counters, "count") + " in " + size_words(counters, "memory_bytes");
  if (integer_field(counters, "memory_bytes_max") > 0)
    held += " of " + size_words(counters, "memory_bytes_max");
  if (integer_field(counters, "refused") > 0)
    held +=
        "; " + config::paint(grouped(counters, "refused") + " refused for want of memory so far",
                             config::yellow, coloured);
  if (text_field(field(json, "store"), "kind") == "redis")
    held = "in Redis; here, for when it cannot be asked: " + held;
  line("counters", held);
  line("waiting", grouped(json, "waiting"));
  line("store", store_words(field(json, "store"), coloured));
  return out;
}

int show_status(AdminPort& port, const AdminFlags& flags, std::chrono::microseconds over,
                std::optional<Look>& last, config::CommandIo& io) {
  auto health = port.get("/health/ready");
  const bool ready = health.is_done();
  const bool says_why = health.kind == AdminPort::Reply::Kind::refused && health.status == 503;
  if (!ready && !says_why) return report_failure(health, flags.json, io);
  auto config = port.get("/v1/config");
  if (!config.is_done()) return report_failure(config, flags.json, io);
  AdminPort::Reply failure;
  std::optional<Look> before = std::move(last);
  if (over.count() > 0) {
    before = look_at(port, failure);
    if (!before) return report_failure(failure, flags.json, io);
    std::this_thread::sleep_for(over);
  }
  auto now = look_at(port, failure);
  if (!now) return report_failure(failure, flags.json, io);

  const Json json = status_json(port, health.json, ready, config.json, before, *now);
  last = std::move(now);
  io.out << (flags.json ? to_text(json) : status_text(json, io.out_colour)) << std::flush;
  const bool well =
      ready && !true_field(json, "degraded") && !true_field(field(json, "policy"), "stale");
  return well ? config::exit_ok : config::exit_failure;
}

}  // namespace

int status(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice status [options]", about_status, footer_of_status());
  AdminFlags flags;
  WatchFlags watching;
  std::string over_text = "0s";
  add_admin_flags(arguments.app(), flags);
  add_over_flag(arguments.app(), over_text);
  add_watch_flags(arguments.app(), watching);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  int ending = config::exit_ok;
  const auto over = over_of(over_text, arguments, io, ending);
  if (!over) return ending;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  std::optional<Look> last;  // the one before, while it is watched
  return show_or_watch(watching, arguments, io, [&](config::CommandIo& to) {
    return show_status(*port, flags, *over, last, to);
  });
}

}  // namespace sluice::cli
