#include "config/redis_settings.h"

#include "base/bounds.h"
#include "config/config.h"
#include "config/read_file.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

About about(std::string_view help, Shown shown = Shown::changed) {
  return {.help = help, .shown = shown};
}

// Nodes of Redis, or sentinels.
struct Nodes {
  static constexpr bool is_list = true;
  uint16_t usual;

  bool read(const Written& written, std::vector<redis::Node>& to) const {
    bool sound = true;
    std::vector<redis::Node> nodes;
    const std::vector<Written> items =
        items_of(written, "write `nodes: [\"localhost:" + std::to_string(usual) + "\"]`", sound);
    for (const Written& item : items) {
      const std::string& text = item.text;
      // A comma may stand behind the last one.
      if (text.empty() && written.reader == nullptr && &item == &items.back()) continue;
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
    return texts.empty() ? "" : list_text(texts);
  }
  std::string values() const { return "a list: HOST or HOST:PORT"; }
};

Table sentinel_table(redis::Sentinels& sentinel) {
  constexpr uint16_t sentinel_port = 26379;
  return {
      setting("master", sentinel.master, Text{}, about("the sentinels' name for the primary")),
      setting("nodes", sentinel.nodes, Nodes{sentinel_port}, about("addresses of some sentinels")),
      setting("username", sentinel.username, Text{}, about("for `AUTH` at a sentinel")),
      setting("password", sentinel.password, Text{},
              {.help = "for `AUTH` at a sentinel", .secret = true})};
}

bool check_sentinel(const Written& written, const GivenKeys&, redis::Sentinels& sentinel) {
  return (!sentinel.master.empty() && !sentinel.nodes.empty()) ||
         written.wrong("names no primary, or no sentinels",
                       "write `sentinel: { master: NAME, nodes: [\"localhost:26379\"] }`");
}

// The place of one Redis, and how it is reached. `Server`: redis::Options, or its Second.
template <class Server>
Table server_table(Server& server) {
  const bool behind_sentinel = !server.sentinel.master.empty();
  return {
      setting("nodes", server.nodes, Nodes{redis::default_port},
              about("a primary and the nodes that may become it, which have **one** set of data; "
                    "of a cluster some nodes",
                    behind_sentinel ? Shown::changed : Shown::always)),
      setting("cluster", server.cluster, Truth{}, about("it is a Redis Cluster")),
      section("sentinel", server.sentinel, sentinel_table,
              about("sentinels that know the primary, in place of `nodes`"), nullptr,
              check_sentinel),
      setting("username", server.username, Text{}, about("for `AUTH`")),
      setting("password", server.password, Text{}, {.help = "for `AUTH`", .secret = true}),
      setting("password_file", server.password_file, Path{},
              about("a file that holds the password alone, in place of `password`")),
      setting("tls", server.tls, Truth{}, about("it is reached by TLS")),
      setting("database", server.database, Number{0, 1'000'000},
              about("for `SELECT`", Shown::always))};
}

// No password may stand beside its file.
template <class Server>
bool check_password(const Written& written, const GivenKeys& given, Server&) {
  const auto password = given.find("password");
  if (password == given.end() || !given.contains("password_file")) return true;
  return written.reader->written("password", password->second)
      .wrong("stands beside `password_file`", "take one of them out");
}

using Second = redis::Options::Second;

bool check_second(const Written& written, const GivenKeys& given, Second& second) {
  if (!check_password(written, given, second)) return false;
  return !second.nodes.empty() || !second.sentinel.master.empty() ||
         written.wrong("names no Redis", "write `per_second: { nodes: [\"localhost:6380\"] }`");
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
  table.insert(
      table.end(),
      {setting("key_prefix", redis.key_prefix, KeyPrefix{},
               about("before every key but those that other programs share", Shown::always)),
       setting("tls_ca", redis.tls_files.authority, Path{},
               about("authorities beside the system's, for TLS: a PEM file")),
       setting("tls_certificate", redis.tls_files.certificate, Path{},
               about("shown to a Redis that asks for a certificate: a PEM file")),
       setting("tls_key", redis.tls_files.key, Path{}, about("its key: a PEM file")),
       setting("tls_any_name", redis.tls_files.any_name, Truth{},
               about("the name in Redis' certificate is not verified, its authority is")),
       setting("deadline_ms", redis.deadline, Milliseconds{1, ms_max},
               about("the longest wait of one decision", Shown::always)),
       setting("patience_ms", redis.patience, Milliseconds{1, ms_max},
               about("the longest wait of a list, a page of counters or a change of an override "
                     "for each answer of Redis; no decision waits for these")),
       setting("wait_replicas", redis.wait_replicas, Number{0, 100},
               about("a grant waits until so many replicas have it")),
       setting("wait_timeout_ms", redis.wait_timeout, Milliseconds{1, ms_max},
               about("the longest wait for replicas",
                     redis.wait_replicas > 0 ? Shown::always : Shown::never)),
       setting("across_slots", redis.settles_across_slots,
               Choice<bool>{{{"refuse", false}, {"settle", true}},
                            "a way to settle over several slots",
                            "write `settle` or `refuse`"},
               about("how a request is decided whose counters are in several slots of a cluster: "
                     "slot by slot, or it fails")),
       setting("over_cache", redis.over_cache_bytes,
               Size{0, base::bounds::table_bytes_max,
                    "write a number and a unit, as in `64MiB`, or take it out for none"},
               about("memory in which each server remembers [which counters are "
                     "over](redis.md#settings), of limits that write past their quota, and refuses "
                     "these without Redis")),
       section("per_second", redis.second, server_table<Second>,
               about("another Redis, for [limits of one second](redis.md#settings)",
                     redis.has_second() ? Shown::always : Shown::never),
               nullptr, check_second)});
  return table;
}

// Names the Redis by a flag or a variable.
Entry redis_named(StoreSettings& store, bool cluster, const About& about) {
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

// The settings of one Redis. `Server`: redis::Options, or its Second.
template <class Server>
void check_server(const Server& server, const base::Diagnostic& place,
                  base::Diagnostics& diagnostics) {
  const bool behind_sentinel = !server.sentinel.master.empty();
  if (behind_sentinel && (server.cluster || !server.nodes.empty()))
    complain(place, "`sentinel` excludes `nodes` and `cluster`",
             "name the sentinels alone, or take `sentinel` out", diagnostics);
  if (server.cluster && server.database != 0)
    complain(place, "Redis Cluster has no database " + std::to_string(server.database),
             "take `database` out", diagnostics);
}

bool read_password(const std::string& file, std::string& password, base::Diagnostics& diagnostics) {
  constexpr size_t bytes_max = 4096;
  if (file.empty()) return true;
  auto text = read_file(file, diagnostics);
  if (!text) return false;
  while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
  if (text->empty() || text->size() > bytes_max) {
    base::Diagnostic place;
    place.file = file;
    complain(place,
             text->empty() ? "holds no password"
                           : "holds more than the " + std::to_string(bytes_max) +
                                 " bytes that a password has at most",
             "write the password of the Redis into it, and nothing else", diagnostics);
    return false;
  }
  password = std::move(*text);
  return true;
}

}  // namespace

redis::Options RedisAccess::over(redis::Options options) const {
  if (username) options.username = *username;
  if (password || password_file) {
    options.password = password.value_or("");
    options.password_file = password_file.value_or("");
  }
  if (tls) options.tls = *tls;
  return options;
}

Table redis_entries(StoreSettings& store) {
  RedisAccess& access = store.redis_access;
  // `other` is taken back: at most one of two is set.
  const auto take = [&access](std::optional<std::string>& to, std::optional<std::string>* other) {
    return [&access, &to, other](const Written& written) {
      if (written.text.empty() && &to == &access.password_file)
        return written.wrong("names no file", "name the file that holds the password");
      to = written.text;
      if (other != nullptr) other->reset();
      access.origin = written.origin;
      return true;
    };
  };
  Entry redis{.key = "redis", .is_single = false};
  if (store.redis)
    redis = section("redis", store.redis->value, redis_table, {}, &store.redis->origin);
  redis.visit_usual = [](const auto& visit) {
    redis::Options usual;
    usual.nodes.clear();
    visit(redis_table(usual));
  };
  redis.read = [&store](const Written& written) {
    store.redis.emplace();
    store.redis->origin = written.origin;
    // A flag or a variable may name it; otherwise a start refuses it (check_redis).
    store.redis->value.nodes.clear();
    return read_record(written, store.redis->value, redis_table, check_password<redis::Options>);
  };
  return {redis_named(store, false,
                      {.flag = "--redis",
                       .variable = "SLUICE_REDIS",
                       .type = "HOST:PORT",
                       .help = "Keep counters in this Redis, shared with all servers that do so"}),
          redis_named(store, true,
                      {.flag = "--redis-cluster",
                       .variable = "SLUICE_REDIS_CLUSTER",
                       .type = "HOST:PORT",
                       .help = "The same in a Redis Cluster: some of its nodes, apart by commas"}),
          own_setting("", take(access.username, nullptr),
                      {.flag = "--redis-username",
                       .variable = "SLUICE_REDIS_USERNAME",
                       .type = "NAME",
                       .help = "Its user, where it wants one"}),
          own_setting("", take(access.password, &access.password_file),
                      {.variable = "SLUICE_REDIS_PASSWORD",
                       .help = "the password of the Redis, in place of a file",
                       .secret = true}),
          own_setting("", take(access.password_file, &access.password),
                      {.flag = "--redis-password-file",
                       .variable = "SLUICE_REDIS_PASSWORD_FILE",
                       .type = "FILE",
                       .help = "The file that holds its password"}),
          own_setting("",
                      [&access](const Written& written) {
                        bool tls = false;
                        if (!Truth{"write `true` to reach the Redis by TLS, else `false`"}.read(
                                written, tls))
                          return false;
                        access.tls = tls;
                        access.origin = written.origin;
                        return true;
                      },
                      {.flag = "--redis-tls",
                       .variable = "SLUICE_REDIS_TLS",
                       .help = "Reach the Redis by TLS; the variable is true or false"}),
          std::move(redis)};
}

void check_redis(const StoreSettings& store, base::Diagnostics& diagnostics) {
  if (!store.redis) return;
  const auto& [redis, origin] = *store.redis;
  base::Diagnostic place;
  place.subject = origin;
  if (redis.nodes.empty() && redis.sentinel.master.empty())
    return complain(place, "names no Redis",
                    "write `redis: { nodes: [\"localhost:6379\"] }`, or name it by --redis or "
                    "--redis-cluster",
                    diagnostics);
  const bool has_tls = redis.tls || redis.second.tls || store.redis_access.tls.value_or(false);
  if (!has_tls && redis.tls_files != net::TlsClient())
    complain(place, "has files for TLS, and is reached without",
             "write `tls: true`, or take them out", diagnostics);
  if (redis.tls_files.certificate.empty() != redis.tls_files.key.empty())
    complain(place, "has one of tls_certificate and tls_key", "name both, or none", diagnostics);
  check_server(redis, place, diagnostics);
  if (redis.has_second()) check_server(redis.second, place, diagnostics);
  if (redis.cluster && redis.key_prefix.find_first_of("{}") != std::string::npos)
    complain(place,
             "key_prefix has a brace, and in Redis Cluster braces decide which node has a key",
             "choose another, as in `sluice:`", diagnostics);
}

bool read_redis_passwords(redis::Options& options, base::Diagnostics& diagnostics) {
  const bool first = read_password(options.password_file, options.password, diagnostics);
  return read_password(options.second.password_file, options.second.password, diagnostics) && first;
}

}  // namespace sluice::config
