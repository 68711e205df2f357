#include "config/settings.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/units.h"
#include "config/operations.h"
#include "config/otlp_settings.h"
#include "config/redis_settings.h"
#include "config/users.h"
#include "engine/denials.h"
#include "log/log.h"
#include "server/server.h"

namespace sluice::config {
namespace {

constexpr std::string_view admin_name = "admin", health_name = "health";

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
  listener.only_health = name == health_name;
  if (listener.protocol || name == admin_name || name == health_name) return true;
  std::vector<std::string_view> served;
  for (const protocol::Description* protocol : protocol::all()) served.push_back(protocol->name);
  served.push_back(admin_name);
  served.push_back(health_name);
  const auto near = base::nearest_word(name, served);
  complain(place, "`" + std::string(name) + "` is not a protocol",
           near.empty() ? "this version serves " + list_words(served, false)
                        : "did you mean `" + std::string(near) + "`?",
           diagnostics);
  return false;
}

std::string_view name_of(const Listener& listener) {
  return listener.protocol      ? describe(*listener.protocol).name
         : listener.only_health ? health_name
                                : admin_name;
}

bool has_own_unmatched(protocol::Protocol protocol) {
  const protocol::SettingsFormat* const settings = describe(protocol).settings;
  return settings != nullptr && settings->unmatched != nullptr;
}

uint16_t port_of(const Listener& listener) {
  return listener.protocol      ? describe(*listener.protocol).port
         : listener.only_health ? health_port
                                : admin_port;
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
  // These end a line in YAML.
  static constexpr std::pair<std::string_view, std::string_view> breaks[] = {
      {"\u0085", "\\N"}, {"\u2028", "\\L"}, {"\u2029", "\\P"}};
  for (const auto& [line_break, escape] : breaks)
    for (size_t at = 0; (at = out.find(line_break, at)) != out.npos;)
      out.replace(at, line_break.size(), escape);
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
  static const std::string remedy = "use one of " + list_words(log::log_level_names(), false);
  Choice<spdlog::level::level_enum> all{{}, "a log level", remedy};
  for (const std::string_view name : log::log_level_names())
    all.all.emplace_back(name, *log::log_level(name));
  return all;
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
              {.help = "how many servers share the counters: `on_store_error: local` divides "
                       "limits by it",
               .shown = store.redis ? Shown::changed : Shown::never}),
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
                                 "a durability",
                                 "write `none` (counters are forgotten at exit), `interval` or "
                                 "`always` (committed before they are answered)"},
              {.flag = "--durability",
               .variable = "SLUICE_DURABILITY",
               .type = "none|interval|always",
               .help = "none, interval (a kill may forget the last 200 ms), or always (what was\n"
                       "answered is never forgotten); with --data, default interval",
               .shown = on_disk}),
      setting("interval_ms", store.interval, Milliseconds{1, base::bounds::commit_interval_ms_max},
              {.help = "from one commit to the next", .shown = on_disk}),
      setting(
          "fsync", store.fsync,
          Truth{"write `true` to have commits survive a power cut, else `false`"},
          {.help = "each commit reaches the medium, and survives a power cut", .shown = on_disk}),
      setting("wait", store.wait,
              Length{{base::bounds::timeout_us_min},
                     {base::bounds::drain_us_max},
                     base::Duration{},
                     "10s"},
              {.flag = "--wait",
               .variable = "SLUICE_WAIT",
               .type = "LENGTH",
               .help = "How long a start waits for a server that still has the folder;\nas 10s, "
                       "default 0: not at all",
               .shown = on_disk == Shown::always ? Shown::changed : Shown::never})};
  Table redis = redis_entries(store);
  table.insert(table.end(), redis.begin(), redis.end());
  return table;
}

Table holds_table(HoldSettings& holds) {
  constexpr base::Duration least = base::milliseconds(1), day{base::bounds::hold_us_max};
  return {setting("max", holds.most, Number{1, base::bounds::holds_max},
                  {.help = "reservations at most; as many settled ones are remembered",
                   .shown = Shown::changed}),
          setting("ttl", holds.ttl, Length{least, day, {}, "60s"},
                  {.help = "how long a reservation is held unless it says so itself",
                   .shown = Shown::changed}),
          setting("remember", holds.remember, Length{least, day, {}, "10m"},
                  {.help = "how long a settled reservation is known, so that it is settled once",
                   .shown = Shown::changed})};
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
                         "write 1 to log each, 100 for every hundredth; 0 for none"},
                  {.help = "log every so many denials; 0: none"})};
}

Table log_table(LogConfig& log) {
  Entry modules = section("modules", log, modules_table,
                          {.help = "a level for each of `server`, `requests`, `policy`, `store`, "
                                   "`redis`, `admin`"});
  modules.visit_usual = {};
  modules.values = "a map";
  return {setting("level", log.level, log_levels(),
                  {.flag = "--log-level",
                   .variable = "SLUICE_LOG_LEVEL",
                   .type = "trace|debug|info|warn|error|off",
                   .help = "The least severe messages that are logged"}),
          setting("format", log.format,
                  choice<log::LogFormat>(log::log_format_names, "a format of the log",
                                         "write `text`, or `json` for an object a line"),
                  {.flag = "--log-format",
                   .variable = "SLUICE_LOG_FORMAT",
                   .type = "text|json",
                   .help = "text, or json: an object a line"}),
          std::move(modules), section("denials", log, denials_table)};
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

// The listeners as texts, each with its origin.
std::vector<std::pair<std::string, std::string>> listener_texts(Config& config) {
  std::vector<std::pair<std::string, std::string>> all;
  std::string unused, unused_too;
  Listener usual;
  const Texts usual_texts = values_of(listener_table(usual, unused_too));
  for (auto& [listener, origin] : config.listen)
    all.emplace_back(text_of(listener_table(listener, unused), usual_texts), origin);
  return all;
}

Entry listen_entry(Config& config) {
  Entry listen{.key = "listen", .is_single = false, .each = "[]"};
  listen.read = [&config](const Written& written) { return read_listen(written, config); };
  listen.text = [&config] {
    std::string out;
    for (const auto& [text, origin] : listener_texts(config)) out += text;
    return out;
  };
  listen.print = [&config] {
    std::string out = "listen:\n";
    for (const auto& [text, origin] : listener_texts(config))
      out += line_with_origin("  - " + text, origin);
    return out;
  };
  listen.visit_usual = [](const auto& visit) {
    Listener usual;
    std::string address;
    visit(listener_table(usual, address));
  };
  return listen;
}

Entry protocol_entry(protocol::Settings& its, const protocol::Description& protocol) {
  return {.key = protocol.name,
          .is_single = false,
          .read =
              [&its](const Written& written) {
                its.origin = written.origin;
                read_table(written, its.table());
                return true;
              },
          .origin = &its.origin,
          .owner = protocol.settings,
          .parts = [&its] { return its.table(); },
          .visit_usual =
              [make = protocol.settings->make](const auto& visit) { visit(make()->table()); },
          .on_one_line = protocol.settings->on_one_line};
}

Entry users_entry(Config& config) {
  Entry users{.key = "users", .about = {.reloaded = true}, .is_single = false};
  users.read = [&config](const Written& written) { return read_users(written, config.users); };
  users.print = [&config] { return print_users(config.users); };
  users.each = "[]";
  users.visit_usual = [](const auto& visit) {
    ConfiguredUser usual;
    visit(user_table(usual));
  };
  return users;
}

}  // namespace

Choice<request::Unmatched> unmatched_kind() {
  return {{{"allow", request::Unmatched::allow},
           {"deny", request::Unmatched::deny},
           {"error", request::Unmatched::error}},
          {},
          "write what a request is answered that no rule applies to, or take it out: then it is "
          "what the protocol's original answers"};
}

namespace {

Table tls_table(net::TlsServer& tls) {
  using Client = net::TlsServer::Client;
  const auto about = [](std::string_view help) { return About{.help = help}; };
  return {
      setting(
          "certificate", tls.certificate, Path{},
          about("a PEM file: the server's certificate, then those between it and its authority")),
      setting("key", tls.key, Path{}, about("a PEM file: its key")),
      setting("client_ca", tls.client_ca, Path{},
              about("a PEM file: the authorities of clients' certificates")),
      setting("system_ca", tls.with_system, Truth{},
              about("those of the system are authorities of clients as well")),
      setting("client", tls.client,
              Choice<Client>{{{"ignore", Client::ignore},
                              {"request", Client::request},
                              {"require", Client::require}}},
              about("is a client asked for a certificate, and must it have one? With `client_ca` "
                    "it must, unless this says otherwise")),
      setting("names", tls.names, ListOf{Text{}, "names: [app.example]", true},
              about("a client's certificate must have one of these names, DNS or URI")),
      setting("min_version", tls.only_1_3, Choice<bool>{{{"1.2", false}, {"1.3", true}}},
              about("the least version of TLS"))};
}

bool check_tls(const Written& written, const GivenKeys& given, net::TlsServer& tls) {
  using Client = net::TlsServer::Client;
  if (tls.certificate.empty() || tls.key.empty())
    return written.wrong("names no certificate, or no key",
                         "write `tls: { certificate: FILE, key: FILE }`");
  const bool has_authority = !tls.client_ca.empty() || tls.with_system;
  if (has_authority && !given.contains("client")) tls.client = Client::require;
  if (tls.client != Client::ignore && !has_authority)
    return written.wrong("asks clients for certificates, and names no authority of them",
                         "write `client_ca: FILE`");
  if (tls.client == Client::ignore && (has_authority || !tls.names.empty()))
    return written.wrong("says which clients may come, and asks them for no certificate",
                         "write `client_ca: FILE` and `client: require`");
  return true;
}

}  // namespace

Table listener_table(Listener& listener, std::string& address) {
  const Length timeout{{base::bounds::timeout_us_min}, {base::bounds::timeout_us_max}};
  const auto changed = [](std::string_view help) {
    return About{.help = help, .shown = Shown::changed};
  };
  Entry protocol = own_setting(
      "protocol",
      [&listener](const Written& written) {
        return set_protocol(written.text, written.place, listener, written.diagnostics);
      },
      {.help = "what is spoken there", .required = true},
      [&listener] { return std::string(name_of(listener)); });
  for (const protocol::Description* one : protocol::all())
    protocol.values += "`" + std::string(one->name) + "`, ";
  protocol.values += "`admin`, `health`";
  Entry where = own_setting(
      "address",
      [&address](const Written& written) {
        address = written.text;
        return true;
      },
      {.help = "without a port the protocol's own", .required = true},
      [&listener] { return HostPort{0}.text(listener.address); });
  where.values = "HOST:PORT";
  About unmatched = changed(
      "what a request is answered that no rule applies to; without it what "
      "the protocol's original answers. Not of protocols with an `unmatched` of their own");
  if (listener.unmatched == request::Unmatched::as_protocol) unmatched.shown = Shown::never;
  return {std::move(protocol),
          std::move(where),
          setting("request_timeout", listener.timeouts.request, timeout,
                  changed("a request that has begun arrives whole in that time, or its connection "
                          "ends")),
          setting("send_timeout", listener.timeouts.send, timeout,
                  changed("a client takes something of its replies in that time, or its connection "
                          "ends")),
          setting("unmatched", listener.unmatched, unmatched_kind(), unmatched),
          setting("strict", listener.strict, Truth{"write `strict: true`, or take it out"},
                  changed("of a protocol that takes it: odd requests are errors, as its page "
                          "says")),
          section("tls", listener.tls, tls_table, changed("it speaks TLS; [how](security.md#tls)"),
                  nullptr, check_tls)};
}

Table table_of(Config& config) {
  Table table = {
      listen_entry(config),
      setting("workers", config.workers,
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
      setting(
          "drain", config.drain,
          Length{
              {base::bounds::timeout_us_min}, {base::bounds::drain_us_max}, base::Duration{}, "5s"},
          {.flag = "--drain",
           .variable = "SLUICE_DRAIN",
           .type = "LENGTH",
           .help = "How long a stop goes on serving while /health/ready says no, so "
                   "that\nload balancers send no more; as 5s, default 0: not at all"}),
      setting("time_zone_data", config.time_zone_data, Path{},
              {.flag = "--time-zone-data",
               .variable = "SLUICE_TIME_ZONE_DATA",
               .type = "DIR",
               .help = "Where the data of time zones are, for windows of the calendar; by "
                       "default\nin $TZDIR, in /usr/share/zoneinfo, or those in the program",
               .shown = Shown::changed}),
      section("store", config.store, store_table),
      section("holds", config.holds, holds_table),
      section("log", config.log, log_table),
      section("otlp", config.otlp, otlp_table,
              {.help = "what is sent to a collector of OpenTelemetry; "
                       "[how](operating.md#traces)",
               .shown = Shown::changed},
              nullptr, check_otlp)};
  each_settings([&](size_t number, const protocol::Description& protocol) {
    table.push_back(protocol_entry(*config.own[number], protocol));
  });
  const auto is_list = [](Entry entry) {
    entry.is_single = false;
    return entry;
  };
  Entry rules{
      .key = "rules", .about = {.shown = Shown::never, .reloaded = true}, .is_single = false};
  rules.read = [&config](const Written& written) {
    // Errors in the rules are reported when they become a rule set.
    config.rules.value.count = written.node.size();
    config.rules.origin = written.origin;
    return true;
  };
  const Table more = {
      users_entry(config),
      section("admin", config.operations, admin_table),
      own_setting(
          "", [&config](const Written& written) { return read_admin(written, config); },
          {.flag = "--admin",
           .variable = "SLUICE_ADMIN",
           .type = "ADDRESS",
           .help = "Where the admin port listens, as 127.0.0.1:8380, or the path of a socket;\n"
                   "off: nowhere. A server without a port for it by default makes a socket\n"
                   "in $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR, /run/sluice, /tmp/sluice-UID or\n"
                   "the folder of the counters"}),
      setting("", config.operations.admin_token, AdminToken{},
              {.variable = "SLUICE_ADMIN_TOKEN",
               .help = "what requests to the admin port have to show",
               .secret = true}),
      own_setting(
          "", [&config](const Written& written) { return read_unmatched(written, config); },
          {.flag = "--unmatched",
           .type = "allow|deny|error",
           .help = "What a request is answered that no rule applies to: allow, deny or error;\n"
                   "by default what the protocol's original answers. Not of protocols with an\n"
                   "`unmatched` of their own"}),
      is_list(own_setting(
          "policy", [&config](const Written& written) { return read_policy(written, config); },
          {.shown = Shown::never, .reloaded = true})),
      std::move(rules)};
  table.insert(table.end(), more.begin(), more.end());
  return table;
}

std::vector<std::string> changed_settings(const Config& a, const Config& b) {
  // Where both have a folder or none, it is the durability in force that counts.
  const bool is_alike = a.store.path.value.empty() == b.store.path.value.empty();
  const auto values = [&](Config config) {
    if (is_alike) config.store.durability.value = config.store.effective_durability();
    return values_of(table_of(config));
  };
  const Texts before = values(a), after = values(b);
  // A map that only one of them has is named alone: "store.redis".
  const auto outermost = [](const std::string& path, const Texts& others) {
    size_t end = path.find('.');
    for (; end != path.npos; end = path.find('.', end + 1)) {
      const auto at = others.lower_bound(path.substr(0, end + 1));
      if (at == others.end() || !at->first.starts_with(path.substr(0, end + 1))) break;
    }
    return path.substr(0, end);
  };
  std::vector<std::string> changed;
  const auto add = [&](std::string path) {
    if (changed.empty() || changed.back() != path) changed.push_back(std::move(path));
  };
  for (const auto& [path, text] : before)
    if (const auto at = after.find(path); at == after.end())
      add(outermost(path, after));
    else if (at->second != text)
      add(path);
  for (const auto& [path, text] : after)
    if (!before.contains(path)) add(outermost(path, before));
  return changed;
}

}  // namespace sluice::config
