#include "config/settings.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/units.h"
#include "config/operations.h"
#include "config/users.h"
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

// ---- The table ----

namespace {

Choice<spdlog::level::level_enum> log_levels() {
  Choice<spdlog::level::level_enum> all;
  for (const std::string_view name : log::log_level_names())
    all.all.emplace_back(name, *log::log_level(name));
  return all;
}

// Nodes of Redis, or sentinels.
struct Nodes {
  static constexpr bool is_list = true;
  uint16_t usual;

  bool read(const Written& written, std::vector<redis::Node>& to) const {
    bool sound = true;
    std::vector<redis::Node> nodes;
    for (const Written& item :
         items_of(written, "write `nodes: [\"localhost:" + std::to_string(usual) + "\"]`", sound)) {
      const std::string& text = item.text;
      if (text.empty() && written.reader == nullptr) continue;
      const size_t at = text.rfind('@');
      base::Result<Address> address =
          at == text.npos ? parse_address(text, usual)
                          : base::Problem{
                                "write HOST:PORT; `username` and `password` are keys "
                                "beside `nodes`"};
      // The text before an `@` may be secret.
      if (address)
        nodes.push_back({address->host, address->port});
      else
        sound = item.wrong("`" + (at == text.npos ? text : "..." + text.substr(at)) +
                               "` is not an address of a Redis",
                           std::move(address).problem().text);
    }
    if (sound && nodes.empty())
      sound = written.wrong("names no Redis", "write HOST:PORT, as in `localhost:6379`");
    if (sound) to = std::move(nodes);
    return sound;
  }
  std::string text(const std::vector<redis::Node>& nodes) const {
    std::vector<std::string> texts;
    for (const redis::Node& node : nodes)
      texts.push_back(in_quotes(format_address(node.host, node.port)));
    return list_text(texts);
  }
};

Table sentinel_table(redis::Sentinels& sentinel) {
  constexpr uint16_t sentinel_port = 26379;
  return {setting("master", sentinel.master, Text{}, {.shown = Shown::changed}),
          setting("nodes", sentinel.nodes, Nodes{sentinel_port}, {.shown = Shown::changed}),
          setting("username", sentinel.username, Text{}, {.shown = Shown::changed}),
          setting("password", sentinel.password, Text{}, {.secret = true})};
}

// The place of one Redis, and how it is reached. `Server`: redis::Options, or its Second.
template <class Server>
Table server_table(Server& server) {
  const bool behind_sentinel = !server.sentinel.master.empty();
  Entry sentinel = section("sentinel", server.sentinel, sentinel_table);
  sentinel.read = [&server](const Written& written) {
    const size_t before = written.diagnostics.size();
    read_table(*written.reader, written.node, "sentinel", sentinel_table(server.sentinel));
    if (written.diagnostics.size() > before || !written.node.is_map() ||
        (!server.sentinel.master.empty() && !server.sentinel.nodes.empty()))
      return true;
    return written.wrong("names no primary, or no sentinels",
                         "write `sentinel: { master: NAME, nodes: [\"localhost:26379\"] }`");
  };
  return {setting("nodes", server.nodes, Nodes{redis::default_port},
                  {.shown = behind_sentinel ? Shown::changed : Shown::always}),
          setting("cluster", server.cluster, Truth{}, {.shown = Shown::changed}),
          std::move(sentinel),
          setting("username", server.username, Text{}, {.shown = Shown::changed}),
          setting("password", server.password, Text{}, {.secret = true}),
          setting("password_file", server.password_file, Path{}, {.shown = Shown::changed}),
          setting("tls", server.tls, Truth{}, {.shown = Shown::changed}),
          setting("database", server.database, Number{0, 1'000'000})};
}

// Reads the table of one Redis, in which no password may stand beside its file.
bool read_server(const Written& written, const Table& table) {
  const GivenKeys given = read_table(*written.reader, written.node, written.key, table);
  const auto password = given.find("password");
  if (password == given.end() || !given.contains("password_file")) return true;
  complain(written.reader->place("password", password->second), "stands beside `password_file`",
           "take one of them out", written.diagnostics);
  return false;
}

struct KeyPrefix : Text {
  static bool read(const Written& written, std::string& to) {
    constexpr size_t bytes_max = 256;
    to = written.text;
    std::string problem;
    if (to.size() > bytes_max) problem = "is longer than " + std::to_string(bytes_max) + " bytes";
    for (const protocol::Description* protocol : protocol::all())
      if (!protocol->redis_prefix.empty() && to.starts_with(protocol->redis_prefix))
        problem = "is that of " + std::string(protocol->title) + "'s own keys";
    return problem.empty() || written.wrong(problem, "choose another, as in `sluice:`");
  }
};

Table redis_table(redis::Options& redis) {
  constexpr uint64_t ms_max = 60'000;
  Table table = server_table(redis);
  Entry second = section("per_second", redis.second, server_table<redis::Options::Second>,
                         {.shown = redis.has_second() ? Shown::always : Shown::never});
  second.read = [&redis](const Written& written) {
    const size_t before = written.diagnostics.size();
    if (!read_server(written, server_table(redis.second)) || redis.has_second() ||
        !written.node.is_map() || written.diagnostics.size() > before)
      return true;
    return written.wrong("names no Redis", "write `per_second: { nodes: [\"localhost:6380\"] }`");
  };
  const About changed{.shown = Shown::changed};
  table.insert(table.end(),
               {setting("key_prefix", redis.key_prefix, KeyPrefix{}),
                setting("deadline_ms", redis.deadline, Milliseconds{1, ms_max}),
                setting("patience_ms", redis.patience, Milliseconds{1, ms_max}, changed),
                setting("wait_replicas", redis.wait_replicas, Number{0, 100}, changed),
                setting("wait_timeout_ms", redis.wait_timeout, Milliseconds{1, ms_max},
                        {.shown = redis.wait_replicas > 0 ? Shown::always : Shown::never}),
                setting("across_slots", redis.settles_across_slots,
                        Choice<bool>{{{"refuse", false}, {"settle", true}}}, changed),
                setting("over_cache", redis.over_cache_bytes,
                        Size{0, base::bounds::table_bytes_max}, changed),
                std::move(second)});
  return table;
}

bool read_redis(const Written& written, StoreSettings& store) {
  store.redis.emplace();
  store.redis->origin = written.origin;
  // A flag or a variable may name it; otherwise a start refuses it (check_redis).
  store.redis->value.nodes.clear();
  return read_server(written, redis_table(store.redis->value));
}

// Names the Redis by a flag or a variable.
Entry redis_named(StoreSettings& store, bool cluster, About about) {
  return own_setting(
      "",
      [&store, cluster](const Written& written) {
        std::vector<redis::Node> nodes;
        if (!Nodes{redis::default_port}.read(written, nodes)) return false;
        if (!store.redis) store.redis.emplace();
        store.redis->origin = written.origin;
        store.redis->value.nodes = std::move(nodes);
        store.redis->value.cluster = cluster;
        store.redis->value.sentinel = {};
        return true;
      },
      about);
}

Table store_table(StoreSettings& store) {
  const Shown on_disk = store.path.value.empty() || store.redis ? Shown::never : Shown::always;
  Table table = {
      setting("memory", store.memory_bytes,
              Size{base::bounds::table_bytes_min, base::bounds::table_bytes_max},
              {.flag = "--memory",
               .variable = "SLUICE_MEMORY",
               .type = "SIZE",
               .help = "Bound of the counter table, as 64MiB or 2GiB"}),
      setting("servers", store.servers, Number{1, 100'000},
              {.shown = store.redis ? Shown::changed : Shown::never}),
      setting("path", store.path, Path{},
              {.flag = "--data",
               .variable = "SLUICE_DATA",
               .type = "DIR",
               .help = "Keep counters in this folder, so that they survive; made if missing",
               .shown = on_disk}),
      setting("durability", store.durability,
              Choice<Durability>{{{"none", Durability::none},
                                  {"interval", Durability::interval},
                                  {"always", Durability::always}},
                                 "write `none` (counters are forgotten at exit), `interval` or "
                                 "`always` (committed before they are answered)"},
              {.flag = "--durability",
               .variable = "SLUICE_DURABILITY",
               .type = "none|interval|always",
               .help = "none, interval (a kill may forget the last 200 ms), or always (what was\n"
                       "answered is never forgotten); with --data, default interval",
               .shown = on_disk}),
      setting("interval_ms", store.interval, Milliseconds{1, base::bounds::commit_interval_ms_max},
              {.shown = on_disk}),
      setting("fsync", store.fsync,
              Truth{"write `true` to have commits survive a power cut, else `false`"},
              {.shown = on_disk}),
      redis_named(store, false,
                  {.flag = "--redis",
                   .variable = "SLUICE_REDIS",
                   .type = "HOST:PORT",
                   .help = "Keep counters in this Redis, shared with all servers that do so"}),
      redis_named(store, true,
                  {.flag = "--redis-cluster",
                   .variable = "SLUICE_REDIS_CLUSTER",
                   .type = "HOST:PORT",
                   .help = "The same in a Redis Cluster: some of its nodes, apart by commas"})};
  declare_redis_access(store.redis_access, table);
  Entry redis{.key = "redis", .is_single = false};
  if (store.redis)
    redis = section("redis", store.redis->value, redis_table, {}, &store.redis->origin);
  redis.read = [&store](const Written& written) { return read_redis(written, store); };
  table.push_back(std::move(redis));
  return table;
}

Table modules_table(LogConfig& log) {
  Table table;
  for (const std::string_view name : log::log_module_names) {
    const log::LogModule module = *log::log_module(name);
    const auto at = log.modules.find(module);
    Entry entry = own_setting(
        name,
        [&log, module](const Written& written) {
          auto level = log.level.value;
          if (!log_levels().read(written, level)) return false;
          log.modules[module] = {level, written.origin};
          return true;
        },
        {.shown = Shown::changed},
        [&log, module] {
          const auto its = log.modules.find(module);
          return its == log.modules.end() ? "" : log_levels().text(its->second.value);
        });
    if (at != log.modules.end()) entry.origin = &at->second.origin;
    table.push_back(std::move(entry));
  }
  return table;
}

Table denials_table(LogConfig& log) {
  return {setting("every", log.denials_every,
                  Number{0,
                         engine::DenialSampler::every_max,
                         "a number of denials",
                         {},
                         "write 1 to log each, 100 for every hundredth; 0 for none"})};
}

Table log_table(LogConfig& log) {
  return {setting("level", log.level, log_levels(),
                  {.flag = "--log-level",
                   .variable = "SLUICE_LOG_LEVEL",
                   .type = "trace|debug|info|warn|error|off",
                   .help = "The least severe messages that are logged"}),
          setting("format", log.format, choice<log::LogFormat>(log::log_format_names),
                  {.flag = "--log-format",
                   .variable = "SLUICE_LOG_FORMAT",
                   .type = "text|json",
                   .help = "text, or json: an object a line"}),
          section("modules", log, modules_table), section("denials", log, denials_table)};
}

Table admin_table(Operations& operations) {
  return {setting("token_file", operations.admin_token_file, Path{},
                  {.variable = "SLUICE_ADMIN_TOKEN_FILE",
                   .help = "the file that holds what requests to the admin port have to show"})};
}

// Sets `unmatched` of every listener whose protocol has that option; it is an error if none has.
bool read_unmatched(const Written& written, Config& config) {
  request::Unmatched unmatched{};
  if (!unmatched_kind().read(written, unmatched)) return false;
  bool any = false;
  for (auto& [listener, its_origin] : config.listen) {
    if (!listener.protocol || has_own_unmatched(*listener.protocol)) continue;
    listener.unmatched = unmatched;
    any = true;
  }
  return any || written.wrong("has no effect on any of the listeners",
                              "write `unmatched` in the protocol's own section of sluice.yaml");
}

std::string print_listen(Config& config) {
  std::string out = "listen:\n";
  for (auto& [listener, origin] : config.listen) {
    std::string unused, usual_address;
    Listener usual;
    out += line_with_origin("  - " + text_of(listener_table(listener, unused),
                                             values_of(listener_table(usual, usual_address))),
                            origin);
  }
  return out;
}

std::string listen_text(Config& config) {
  std::string out;
  for (auto& [listener, origin] : config.listen) {
    std::string unused;
    out += text_of(listener_table(listener, unused), {});
  }
  return out;
}

Entry protocol_section(Config& config, size_t number, const protocol::Description& protocol,
                       Table& flags) {
  protocol::Settings& its = *config.own[number];
  for (const protocol::SettingsFlag& flag : protocol.settings->flags) {
    Entry entry = own_setting(
        "",
        [&its, &flag](const Written& written) {
          its.set(flag, written.text, written.origin, written.place, written.diagnostics);
          return true;
        },
        {.flag = flag.flag, .variable = flag.variable, .type = flag.type_name, .help = flag.help});
    entry.owner = protocol.settings;
    flags.push_back(std::move(entry));
  }
  Entry entry{.key = protocol.name, .is_single = false};
  entry.owner = protocol.settings;
  entry.read = [&its](const Written& written) {
    its.read(*written.reader, written.node);
    return true;
  };
  entry.text = [&its] {
    std::string text;
    for (const auto& [line, origin] : its.lines()) text += line + "\n";
    return text;
  };
  entry.print = [&its] {
    std::string text;
    for (const auto& [line, origin] : its.lines()) text += line_with_origin(line, origin);
    return text;
  };
  return entry;
}

void add_protocols(protocol::SettingsFormat::Subject subject, Config& config, Table& table) {
  each_settings(subject, [&](size_t number, const protocol::Description& protocol) {
    Table flags;
    Entry entry = protocol_section(config, number, protocol, flags);
    table.push_back(std::move(entry));
    table.insert(table.end(), flags.begin(), flags.end());
  });
}

Table listener_entries(Config& config) {
  Entry listen = own_setting(
      "listen", [&config](const Written& written) { return read_listen(written, config); }, {},
      [&config] { return listen_text(config); });
  listen.is_single = false;
  listen.print = [&config] { return print_listen(config); };
  return {std::move(listen)};
}

}  // namespace

Choice<request::Unmatched> unmatched_kind() {
  return {{{"allow", request::Unmatched::allow},
           {"deny", request::Unmatched::deny},
           {"error", request::Unmatched::error}},
          "write what a request is answered that no rule applies to, or take it out: then it is "
          "what the protocol's original answers"};
}

Table listener_table(Listener& listener, std::string& address) {
  const Length timeout{{base::bounds::timeout_us_min}, {base::bounds::timeout_us_max}};
  const About changed{.shown = Shown::changed};
  return {
      own_setting(
          "protocol",
          [&listener](const Written& written) {
            return set_protocol(written.text, written.place, listener, written.diagnostics);
          },
          {}, [&listener] { return std::string(name_of(listener)); }),
      own_setting(
          "address",
          [&address](const Written& written) {
            address = written.text;
            return true;
          },
          {}, [&listener] { return HostPort{0}.text(listener.address); }),
      setting("request_timeout", listener.timeouts.request, timeout, changed),
      setting("send_timeout", listener.timeouts.send, timeout, changed),
      setting("unmatched", listener.unmatched, unmatched_kind(),
              {.shown = listener.unmatched == request::Unmatched::as_protocol ? Shown::never
                                                                              : Shown::always}),
      setting("strict", listener.strict, Truth{"write `strict: true`, or take it out"}, changed)};
}

Table table_of(Config& config) {
  Table table = listener_entries(config);
  table.insert(
      table.end(),
      {setting("workers", config.workers,
               Number{1, base::bounds::workers_max, "a number of workers", "auto"},
               {.flag = "--workers",
                .variable = "SLUICE_WORKERS",
                .type = "N",
                .help = "Threads that serve: auto, or a number"}),
       setting("connections", config.connections,
               Number{1, base::bounds::connections_max, "a number of connections"},
               {.flag = "--connections",
                .variable = "SLUICE_CONNECTIONS",
                .type = "N",
                .help = "Clients served at a time; more are refused"}),
       section("store", config.store, store_table), section("log", config.log, log_table)});
  add_protocols(protocol::SettingsFormat::Subject::store, config, table);
  Entry users = own_setting("users",
                            [&config](const Written& written) {
                              read_users(*written.reader, written.key, written.node, config.users);
                              return true;
                            },
                            {.reloaded = true});
  users.is_single = false;
  users.print = [&config] {
    std::string text;
    for (const auto& [line, origin] : lines_of(config.users))
      text += line_with_origin(line, origin);
    return text;
  };
  table.push_back(std::move(users));
  table.push_back(section("admin", config.operations, admin_table));
  table.push_back(own_setting(
      "", [&config](const Written& written) { return read_admin(written, config); },
      {.flag = "--admin",
       .variable = "SLUICE_ADMIN",
       .type = "ADDRESS",
       .help = "Where the admin port listens, as 127.0.0.1:8380, or the path of a socket;\n"
               "off: nowhere. By default a command without a port for it makes a socket\n"
               "in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR, /run/sluice, /tmp/sluice-UID or\n"
               "the folder of the counters"}));
  table.push_back(setting("", config.operations.admin_token, AdminToken{},
                          {.variable = "SLUICE_ADMIN_TOKEN",
                           .help = "what requests to the admin port have to show",
                           .secret = true}));
  table.push_back(own_setting(
      "", [&config](const Written& written) { return read_unmatched(written, config); },
      {.flag = "--unmatched",
       .type = "allow|deny|error",
       .help = "What a request is answered that no rule applies to: allow, deny or error;\n"
               "by default what the protocol's original answers"}));
  add_protocols(protocol::SettingsFormat::Subject::operations, config, table);
  Entry policy = own_setting(
      "policy", [&config](const Written& written) { return read_policy(written, config); },
      {.shown = Shown::never, .reloaded = true});
  policy.is_single = false;
  Entry rules{
      .key = "rules", .about = {.shown = Shown::never, .reloaded = true}, .is_single = false};
  rules.read = [&config](const Written& written) {
    // Errors in the rules are reported when they become a rule set.
    config.rules.value.count = written.node.size();
    config.rules.origin = written.origin;
    return true;
  };
  table.push_back(std::move(policy));
  table.push_back(std::move(rules));
  return table;
}

std::vector<std::string> changed_settings(const Config& a, const Config& b) {
  const auto values = [](Config config) {
    config.store.durability.value = config.store.effective_durability();
    return values_of(table_of(config));
  };
  const auto before = values(a), after = values(b);
  std::vector<std::string> changed;
  for (const auto& [path, text] : before)
    if (const auto at = after.find(path); at == after.end() || at->second != text)
      changed.push_back(path);
  for (const auto& [path, text] : after)
    if (!before.contains(path)) changed.push_back(path);
  return changed;
}

}  // namespace sluice::config
