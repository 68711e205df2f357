#include "config/settings.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/units.h"
#include "engine/denials.h"
#include "log/log.h"
#include "server/server.h"

namespace sluice::config {
namespace {

constexpr std::string_view admin_name = "admin";

std::string listed(const std::vector<std::string_view>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + std::string(word);
  return text;
}

}  // namespace

void complain(const base::Diagnostic& place, std::string message, std::string remedy,
              base::Diagnostics& diagnostics) {
  base::Diagnostic d = place;
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  diagnostics.push_back(std::move(d));
}

void set_workers(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                 Config& config, base::Diagnostics& diagnostics) {
  if (text == "auto") {
    config.workers = {0, origin};
    return;
  }
  const auto n = base::parse_count(text);
  if (!n || *n < 1 || *n > base::bounds::workers_max) {
    complain(place, "`" + std::string(text) + "` is not a number of workers",
             "write `auto` or 1 to " + std::to_string(base::bounds::workers_max), diagnostics);
    return;
  }
  config.workers = {static_cast<unsigned>(*n), origin};
}

void set_connections(std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, Config& config,
                     base::Diagnostics& diagnostics) {
  const auto n = base::parse_count(text);
  if (!n || *n < 1 || *n > base::bounds::connections_max) {
    complain(place, "`" + std::string(text) + "` is not a number of connections",
             "write 1 to " + std::to_string(base::bounds::connections_max), diagnostics);
    return;
  }
  config.connections = {*n, origin};
}

void set_memory(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                Config& config, base::Diagnostics& diagnostics) {
  const auto bytes = base::parse_size(text);
  if (!bytes) {
    complain(place, "`" + std::string(text) + "` is not a size",
             "write a number and a unit, as in `64MiB` or `2GiB`", diagnostics);
  } else if (*bytes < base::bounds::table_bytes_min) {
    complain(place, "`" + std::string(text) + "` is too little for a store of counters",
             "give it " + base::format_size(base::bounds::table_bytes_min) + " or more",
             diagnostics);
  } else if (*bytes > base::bounds::table_bytes_max) {
    complain(place, "`" + std::string(text) + "` is more than a store of counters can use",
             "give it " + base::format_size(base::bounds::table_bytes_max) + " or less",
             diagnostics);
  } else {
    config.store.memory_bytes = {*bytes, origin};
  }
}

void set_data(std::string_view text, const std::string& origin, const base::Diagnostic& place,
              Config& config, base::Diagnostics& diagnostics) {
  if (text.empty())
    complain(place, "names no folder", "write one, as in `/var/lib/sluice`", diagnostics);
  else
    config.store.path = {std::string(text), origin};
}

std::string_view name_of(Durability durability) {
  switch (durability) {
    case Durability::unsaid:
    case Durability::none:
      return "none";
    case Durability::interval:
      return "interval";
    case Durability::always:
      break;
  }
  return "always";
}

void set_durability(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                    Config& config, base::Diagnostics& diagnostics) {
  for (const auto durability : {Durability::none, Durability::interval, Durability::always}) {
    if (text != name_of(durability)) continue;
    config.store.durability = {durability, origin};
    return;
  }
  complain(
      place, "`" + std::string(text) + "` is not a durability",
      "write `none` (counters are forgotten at exit), `interval` or `always` (committed before "
      "they are answered)",
      diagnostics);
}

void set_interval_ms(std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, Config& config,
                     base::Diagnostics& diagnostics) {
  const auto n = base::parse_count(text);
  if (!n || *n < 1 || *n > base::bounds::commit_interval_ms_max) {
    complain(place, "`" + std::string(text) + "` is not a number of milliseconds",
             "write 1 to " + std::to_string(base::bounds::commit_interval_ms_max), diagnostics);
    return;
  }
  config.store.interval = {base::milliseconds(static_cast<int64_t>(*n)), origin};
}

void set_fsync(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics) {
  if (text == "true" || text == "false")
    config.store.fsync = {text == "true", origin};
  else
    complain(place, "`" + std::string(text) + "` is neither true nor false",
             "write `true` to have commits survive a power cut, else `false`", diagnostics);
}

std::optional<redis::Node> redis_node_of(std::string_view text, const base::Diagnostic& place,
                                         base::Diagnostics& diagnostics) {
  const size_t at = text.rfind('@');
  base::Result<Address> address =
      at == std::string_view::npos
          ? parse_address(text, redis::default_port)
          : base::Problem{"write HOST:PORT; `username` and `password` are keys beside `nodes`"};
  if (address) return redis::Node{address->host, address->port};
  // The text before an `@` may be secret.
  const std::string shown =
      at == std::string_view::npos ? std::string(text) : "..." + std::string(text.substr(at));
  complain(place, "`" + shown + "` is not an address of a Redis", std::move(address).problem().text,
           diagnostics);
  return std::nullopt;
}

void set_redis(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics) {
  std::vector<redis::Node> nodes;
  while (!text.empty()) {
    const size_t end = std::min(text.find(','), text.size());
    auto node = redis_node_of(text.substr(0, end), place, diagnostics);
    if (!node) return;
    nodes.push_back(std::move(*node));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  if (nodes.empty()) {
    complain(place, "names no Redis", "write HOST:PORT, as in `localhost:6379`", diagnostics);
    return;
  }
  if (!config.store.redis) config.store.redis.emplace();
  config.store.redis->origin = origin;
  redis::Options& options = config.store.redis->value;
  options.nodes = std::move(nodes);
  options.cluster = false;
  options.sentinel = {};
}

void set_redis_cluster(std::string_view text, const std::string& origin,
                       const base::Diagnostic& place, Config& config,
                       base::Diagnostics& diagnostics) {
  const size_t before = diagnostics.size();
  set_redis(text, origin, place, config, diagnostics);
  if (diagnostics.size() == before) config.store.redis->value.cluster = true;
}

std::optional<spdlog::level::level_enum> log_level_of(std::string_view text,
                                                      const base::Diagnostic& place,
                                                      base::Diagnostics& diagnostics) {
  if (const auto level = log::log_level(text)) return level;
  const auto near = base::nearest_word(text, log::log_level_names());
  complain(place, "`" + std::string(text) + "` is not a log level",
           near.empty() ? "use one of " + listed(log::log_level_names())
                        : "did you mean `" + std::string(near) + "`?",
           diagnostics);
  return std::nullopt;
}

void set_log_level(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics) {
  if (const auto level = log_level_of(text, place, diagnostics))
    config.log.level = {*level, origin};
}

void set_log_format(std::string_view text, const std::string& origin, const base::Diagnostic& place,
                    Config& config, base::Diagnostics& diagnostics) {
  if (text == "text" || text == "json")
    config.log.format = {text == "json" ? log::LogFormat::json : log::LogFormat::text, origin};
  else
    complain(place, "`" + std::string(text) + "` is not a format of the log",
             "write `text`, or `json` for an object a line", diagnostics);
}

void set_denials_every(std::string_view text, const std::string& origin,
                       const base::Diagnostic& place, Config& config,
                       base::Diagnostics& diagnostics) {
  const auto n = base::parse_count(text);
  if (!n || *n > engine::DenialSampler::every_max) {
    complain(place, "`" + std::string(text) + "` is not a number of denials",
             "write 1 to log each, 100 for every hundredth; 0 for none", diagnostics);
    return;
  }
  config.log.denials_every = {*n, origin};
}

bool set_protocol(std::string_view name, const base::Diagnostic& place, Listener& listener,
                  base::Diagnostics& diagnostics) {
  listener.protocol = protocol::find(name);
  if (listener.protocol || name == admin_name) return true;
  std::vector<std::string_view> served;
  for (const protocol::Description* protocol : protocol::all()) served.push_back(protocol->name);
  served.push_back(admin_name);
  const auto near = base::nearest_word(name, served);
  complain(place, "`" + std::string(name) + "` is not a protocol",
           near.empty() ? "this version serves " + listed(served)
                        : "did you mean `" + std::string(near) + "`?",
           diagnostics);
  return false;
}

std::string_view name_of(const Listener& listener) {
  return listener.protocol ? describe(*listener.protocol).name : admin_name;
}

bool has_own_unmatched(protocol::Protocol protocol) {
  const protocol::SettingsFormat* const settings = describe(protocol).settings;
  return settings != nullptr && settings->unmatched != nullptr;
}

std::optional<request::Unmatched> unmatched_of(std::string_view text, const base::Diagnostic& place,
                                               base::Diagnostics& diagnostics) {
  for (const auto unmatched :
       {request::Unmatched::allow, request::Unmatched::deny, request::Unmatched::error})
    if (text == name_of(unmatched)) return unmatched;
  complain(place, "`" + std::string(text) + "` is not one of allow, deny, error",
           "write what a request is answered that no rule applies to, or take it out: then it is "
           "what the protocol's original answers",
           diagnostics);
  return std::nullopt;
}

void set_unmatched(std::string_view text, const std::string&, const base::Diagnostic& place,
                   Config& config, base::Diagnostics& diagnostics) {
  const auto unmatched = unmatched_of(text, place, diagnostics);
  if (!unmatched) return;
  bool any = false;
  for (auto& [listener, its_origin] : config.listen) {
    if (!listener.protocol || has_own_unmatched(*listener.protocol)) continue;
    listener.unmatched = *unmatched;
    any = true;
  }
  if (!any)
    complain(place, "has no effect on any of the listeners",
             "write `unmatched` in the protocol's own section of sluice.yaml", diagnostics);
}

uint16_t port_of(const Listener& listener) {
  return listener.protocol ? describe(*listener.protocol).port : admin_port;
}

std::optional<Address> address_of(std::string_view text, uint16_t port_default,
                                  const base::Diagnostic& place, base::Diagnostics& diagnostics) {
  auto address = parse_address(text, port_default);
  if (address) return *std::move(address);
  complain(place, "`" + std::string(text) + "` is not an address",
           std::move(address).problem().text, diagnostics);
  return std::nullopt;
}

std::string one_of(const std::vector<std::string_view>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  return text;
}

std::string listener_example() {
  const protocol::Description& first = *protocol::all().front();
  return std::string(first.name) + "=" + format_address("::", first.port);
}

std::string listener_example_yaml() {
  const protocol::Description& first = *protocol::all().front();
  return "{ protocol: " + std::string(first.name) +
         ", address: " + in_quotes(format_address("::", first.port)) + " }";
}

std::string policy_example(const protocol::Description& protocol) {
  return "{ " + std::string(protocol.name) + ": " + std::string(protocol.policy->file) + " }";
}

std::string policy_example() {
  return policy_example(describe(with_policy_files().front()));
}

bool same_lines(const Lines& a, const Lines& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first; });
}

std::string in_quotes(std::string_view text) {
  static constexpr char hex[] = "0123456789ABCDEF";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      (out += '\\') += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      ((out += "\\x") += hex[byte >> 4]) += hex[byte & 15];
    } else {
      out += c;
    }
  }
  return out += '"';
}

std::string in_one_unit(base::Duration length) {
  if (length.us % 1'000'000 == 0) return std::to_string(length.us / 1'000'000) + "s";
  if (length.us % 1'000 == 0) return std::to_string(length.us / 1'000) + "ms";
  return std::to_string(length.us) + "us";
}

}  // namespace sluice::config
