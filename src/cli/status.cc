#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
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

// `counts` with the rates between the looks in place of the server's own.
Json with_rates(const Json& before, const Json& counts, double seconds) {
  Json json = counts.is_object() ? counts : Json::object();
  const Json &total = field(counts, "total"), &total_before = field(before, "total");
  Json rates = Json::object();
  for (const char* outcome : outcomes)
    rates[outcome] = std::max(number_field(total, outcome).value_or(0) -
                                  number_field(total_before, outcome).value_or(0),
                              0.0) /
                     seconds;
  json["per_second"] = std::move(rates);
  return json;
}

void set_rates(Json& status, const Look& before, const Look& now) {
  const double seconds = seconds_between(before, now);
  status["requests"] =
      with_rates(field(before.status, "requests"), field(now.status, "requests"), seconds);
  status["requests"]["over_seconds"] = seconds;
  const Json& protocols = field(now.status, "protocols");
  if (!protocols.is_object()) return;
  for (const auto& [name, counts] : protocols.items())
    status["protocols"][name] =
        with_rates(field(field(before.status, "protocols"), name), counts, seconds);
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

// Those that are 0 are left out, but for what each server has.
bool is_shown(const Json& counts, const char* outcome) {
  return number_field(counts, outcome).value_or(0) > 0 || std::string_view(outcome) == "allowed" ||
         std::string_view(outcome) == "denied";
}

std::string totals_words(const Json& totals) {
  std::string text;
  for (const char* outcome : outcomes)
    if (is_shown(totals, outcome))
      text += (text.empty() ? "" : ", ") + grouped(totals, outcome) + " " + outcome;
  return text + " since the start";
}

std::string rates_words(const Json& requests) {
  const Json& rates = field(requests, "per_second");
  std::string text;
  for (const char* outcome : outcomes)
    if (is_shown(rates, outcome))
      text += (text.empty() ? "" : ", ") + rate_words(number_field(rates, outcome).value_or(0)) +
              "/s " + outcome;
  double seconds = number_field(requests, "over_seconds").value_or(0);
  if (seconds >= 1) seconds = std::round(seconds);
  return text + " over the last " + seconds_words(seconds);
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

// Of a policy that another server sends.
std::string sender_words(const Json& sent, bool coloured) {
  std::string text = "sent by " + config::on_screen(text_field(sent, "from")) + " for node " +
                     config::on_screen(text_field(sent, "node"));
  const std::string version = text_field(sent, "version"), at = text_field(sent, "taken_at");
  text += at.empty() ? ", nothing yet"
                     : ", version `" + config::on_screen(version) + "`, taken last at " +
                           config::on_screen(at);
  if (const std::string problem = text_field(sent, "problem"); !problem.empty())
    text += "; " + config::paint("no stream: " + config::on_screen(problem), config::red, coloured);
  if (const std::string why = text_field(sent, "refusal"); !why.empty())
    text += "; refused last at " + config::on_screen(text_field(sent, "refused_at")) + ": " +
            config::paint(config::on_screen(why), config::yellow, coloured);
  return text;
}

std::string certificate_words(const Json& listener, const Json& tls, bool coloured) {
  std::string text = config::on_screen(text_field(listener, "address")) + ": " +
                     config::on_screen(text_field(tls, "certificate")) + ", ends at " +
                     config::on_screen(text_field(tls, "expires"));
  if (const std::string problem = text_field(tls, "problem"); !problem.empty())
    text += "; " + config::paint("not what lies there: " + config::on_screen(problem), config::red,
                                 coloured);
  return text;
}

std::string collector_words(const Json& its, bool coloured) {
  std::string text = config::on_screen(text_field(its, "signal")) + " to " +
                     config::on_screen(text_field(its, "endpoint")) + ": " + grouped(its, "sent") +
                     " sent";
  for (const char* lost : {"failed", "dropped"})
    if (integer_field(its, lost) > 0) text += ", " + grouped(its, lost) + " " + lost;
  if (const std::string problem = text_field(its, "problem"); !problem.empty())
    text += "; " + config::paint(config::on_screen(problem), config::red, coloured);
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
  for (const Json& sent : list_field(policy, "sent")) line("", sender_words(sent, coloured));
  if (const auto zones = text_field(json, "time_zones"); !zones.empty())
    line("", "time zones: " + config::on_screen(zones));
  if (const auto zones = text_field(field(json, "store"), "time_zones_elsewhere"); !zones.empty())
    line("", "another server on this Redis has the time zones " + config::on_screen(zones) +
                 ": windows of the calendar may differ there");
  if (stale) {
    const Json& reading = field(policy, "last_reading");
    line("", config::paint("a newer one was refused", config::red, coloured) + " at " +
                 config::on_screen(text_field(reading, "at")) +
                 ", so this one is older than the files:");
    for (const auto& d : diagnostics_of(list_field(reading, "diagnostics")))
      line("", "  " + config::on_screen(base::to_string(d)));
  }
  const char* title = "warnings";
  for (const auto& d : diagnostics_of(list_field(policy, "warnings"))) {
    line(title, config::on_screen(base::to_string(d)));
    title = "";
  }
  title = "certificates";
  for (const Json& listener : list_field(json, "listeners")) {
    const Json& tls = field(listener, "tls");
    if (!tls.is_object()) continue;
    line(title, certificate_words(listener, tls, coloured));
    title = "";
  }
  line("requests", totals_words(field(field(json, "requests"), "total")));
  line("", rates_words(field(json, "requests")));
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
  if (integer_field(field(json, "overrides"), "count") > 0)
    line("overrides", grouped(field(json, "overrides"), "count"));
  line("store", store_words(field(json, "store"), coloured));
  title = "collectors";
  for (const Json& its : list_field(json, "collectors")) {
    line(title, collector_words(its, coloured));
    title = "";
  }
  return out;
}

int show_status(AdminPort& port, const AdminFlags& flags, std::chrono::microseconds over,
                config::CommandIo& io) {
  AdminPort::Reply failure;
  std::optional<Look> before;
  if (over.count() > 0) {
    before = look_at(port, failure);
    if (!before) return report_failure(failure, flags.json, io);
    std::this_thread::sleep_for(over);
  }
  const auto now = look_at(port, failure);
  if (!now) return report_failure(failure, flags.json, io);

  Json json{{"server", port.name()}};
  json.update(now->status);
  json["server"] = port.name();
  if (before) set_rates(json, *before, *now);
  io.out << (flags.json ? to_text(json) : status_text(json, io.out_colour)) << std::flush;
  const bool well = true_field(json, "ready") && !true_field(json, "degraded") &&
                    !true_field(field(json, "policy"), "stale");
  return well ? config::exit_ok : config::exit_failure;
}

}  // namespace

int status(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice status [options]", about_status, footer_of_status());
  AdminFlags flags;
  std::string over_text = "0s";
  add_admin_flags(arguments, flags);
  add_over_flag(arguments, over_text);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  int ending = config::exit_ok;
  const auto over = over_of(over_text, arguments, io, ending);
  if (!over) return ending;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  return show_status(*port, flags, *over, io);
}

}  // namespace sluice::cli
