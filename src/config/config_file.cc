// sluice.yaml into a Config.
#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>

#include "base/hash.h"
#include "base/units.h"
#include "config/settings.h"
#include "policy/read/yaml_tree_reader.h"
#include "server/server.h"

namespace sluice::config {
namespace {

using policy::YamlDocument;
using policy::YamlNode;

class Reader {
 public:
  Reader(const std::string& file, std::shared_ptr<const YamlDocument> document, Config& config,
         base::Diagnostics& diagnostics)
      : file_(file),
        document_(std::move(document)),
        yaml_(file, *document_, diagnostics),
        config_(config),
        diagnostics_(diagnostics) {}

  void read() {
    const YamlNode root = document_->root();
    bool has_policy = false, has_listen = false;
    if (!root.is_null())
      map(root, "the file",
          {{"listen",
            [&](const auto& key, const auto& node) {
              has_listen = true;
              listen(key, node);
            }},
           {"workers", [&](const auto& key, const auto& node) { scalar(key, node, set_workers); }},
           {"connections",
            [&](const auto& key, const auto& node) { scalar(key, node, set_connections); }},
           {"store", [&](const auto&, const auto& node) { store(node); }},
           {"policy",
            [&](const auto& key, const auto& node) {
              has_policy = true;
              policy(key, node);
            }},
           {"log", [&](const auto&, const auto& node) { log(node); }},
           {"droplet", [&](const auto&, const auto& node) { droplet(node); }},
           {"divvy", [&](const auto&, const auto& node) { divvy(node); }},
           {"admin", [&](const auto&, const auto& node) { admin(node); }},
           {"rules", [&](const auto&, const auto& node) {
              has_policy = true;
              // What is wrong with them is told when they become a rule set.
              config_.rules = {{file_, document_, node.size()}, origin(node)};
            }}});
    if (!has_policy && needs_policy())
      yaml_.error("policy", {}, "is missing, and so are rules: no request would have one",
                  "add `policy: [{ divvy: rules.ini }]` or `rules: [...]`");
    if (!has_listen) listen_by_policy();
  }

 private:
  using Take = std::function<void(const std::string& key, const YamlNode& value)>;
  struct Known {
    std::string_view key;
    Take take;
  };

  // Hands each known key of a map to its taker, once.
  void map(const YamlNode& node, const std::string& what, const std::vector<Known>& known) {
    std::vector<std::string_view> words;
    for (const auto& k : known) words.push_back(k.key);
    for (const auto& [key, value] : yaml_.entries(what, node, words))
      for (const auto& k : known)
        if (k.key == key.text()) k.take(std::string(k.key), value);
  }

  std::optional<std::string> text(const std::string& key, const YamlNode& node) {
    if (!yaml_.has_text(key, node)) return std::nullopt;
    return std::string(node.text());
  }

  template <class Set>
  void scalar(const std::string& key, const YamlNode& node, Set set) {
    if (const auto value = text(key, node))
      set(*value, origin(node), yaml_.place(key, node), config_, diagnostics_);
  }

  std::string origin(const YamlNode& node) const {
    return file_ + ":" + std::to_string(node.line());
  }

  bool sequence(const std::string& key, const YamlNode& node, const char* example) {
    if (node.is_list() && node.size() > 0) return true;
    complain(yaml_.place(key, node), "is to be a list with at least one entry", example,
             diagnostics_);
    return false;
  }

  void listen(const std::string& key, const YamlNode& node) {
    if (!sequence(key, node, "write `listen: [{ protocol: divvy, address: \"[::]:8321\" }]`"))
      return;
    config_.listen.clear();
    for (YamlNode entry = node.first_child(); entry; entry = entry.next()) listener(entry);
  }

  // Without a word on it: what there is a policy for.
  void listen_by_policy() {
    const auto is_limitd = [](const Policy& policy) { return policy.limitd != nullptr; };
    const auto& all = config_.policy;
    const bool limitd = std::any_of(all.begin(), all.end(), is_limitd);
    const bool divvy = all.empty() || !std::all_of(all.begin(), all.end(), is_limitd);
    std::erase_if(config_.listen, [&](const auto& listener) {
      const auto protocol = listener.value.protocol;
      return protocol != protocol::Protocol::admin &&
             !(protocol == protocol::Protocol::divvy && divvy) &&
             !(protocol == protocol::Protocol::limitd && limitd);
    });
  }

  void listener(const YamlNode& node) {
    const size_t problems = diagnostics_.size();
    std::optional<protocol::Protocol> protocol;
    YamlNode address, timeout;
    net::Timeouts timeouts;
    map(node, "listen",
        {{"protocol",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto name = text(key, value))
              protocol = protocol_named(*name, yaml_.place(key, value), diagnostics_);
          }},
         {"address", [&](const std::string&, const YamlNode& value) { address = value; }},
         {"request_timeout",
          [&](const std::string& key, const YamlNode& value) {
            timeout = value;
            time_limit(key, value, timeouts.request);
          }},
         {"send_timeout", [&](const std::string& key, const YamlNode& value) {
            timeout = value;
            time_limit(key, value, timeouts.send);
          }}});
    if (diagnostics_.size() > problems) return;
    if (protocol == protocol::Protocol::admin && !timeout.is_null()) {
      complain(yaml_.place("listen", timeout), "is an admin port, which has timeouts of its own",
               "take request_timeout and send_timeout out", diagnostics_);
      return;
    }
    if (!protocol || address.is_null()) {
      complain(yaml_.place("listen", node),
               std::string("has no ") + (protocol ? "address" : "protocol"),
               "write `{ protocol: divvy, address: \"[::]:8321\" }`", diagnostics_);
      return;
    }
    const auto value = text("address", address);
    if (!value) return;
    if (auto parsed = address_of(*value, *protocol, yaml_.place("address", address), diagnostics_))
      config_.listen.push_back({{*protocol, std::move(*parsed), timeouts}, origin(node)});
  }

  void time_limit(const std::string& key, const YamlNode& node, base::Duration& into) {
    const auto t = text(key, node);
    if (!t) return;
    const auto length = base::parse_duration(*t);
    if (length && length->us >= base::bounds::timeout_us_min &&
        length->us <= base::bounds::timeout_us_max)
      into = *length;
    else
      complain(yaml_.place(key, node), "`" + *t + "` is not a timeout",
               "write a length of time from `100ms` to `1d`, as in `30s`", diagnostics_);
  }

  void store(const YamlNode& node) {
    unsigned servers = 1;
    map(node, "store",
        {{"memory",
          [&](const std::string& key, const YamlNode& value) { scalar(key, value, set_memory); }},
         {"path",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto path = text(key, value))
              set_data(path->empty() ? *path : beside_file(*path), origin(value),
                       yaml_.place(key, value), config_, diagnostics_);
          }},
         {"durability", [&](const std::string& key,
                            const YamlNode& value) { scalar(key, value, set_durability); }},
         {"interval_ms", [&](const std::string& key,
                             const YamlNode& value) { scalar(key, value, set_interval_ms); }},
         {"fsync",
          [&](const std::string& key, const YamlNode& value) { scalar(key, value, set_fsync); }},
         {"servers",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto n = number(key, value, 1, 100'000)) servers = static_cast<unsigned>(*n);
          }},
         {"redis", [&](const std::string&, const YamlNode& value) { redis(value); }}});
    if (config_.store.redis) config_.store.redis->value.servers = servers;
  }

  void redis(const YamlNode& node) {
    Setting<redis::Options> setting;
    redis::Options& options = setting.value;
    bool named = false;
    map(node, "redis",
        {{"nodes",
          [&](const std::string& key, const YamlNode& value) {
            setting.origin = origin(value);
            named = sequence(key, value, "write `nodes: [\"localhost:6379\"]`");
            options.nodes.clear();
            for (YamlNode one = value.first_child(); named && one; one = one.next()) {
              const auto name = text(key, one);
              if (!name) continue;
              if (auto address = redis_node_of(*name, yaml_.place(key, one), diagnostics_))
                options.nodes.push_back(std::move(*address));
            }
          }},
         {"username",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto t = text(key, value)) options.username = *t;
          }},
         {"password",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto t = text(key, value)) options.password = *t;
          }},
         {"tls",
          [&](const std::string& key, const YamlNode& value) {
            const auto t = text(key, value);
            if (!t) return;
            options.tls = *t == "true";
            if (*t != "true" && *t != "false")
              complain(yaml_.place(key, value), "`" + *t + "` is neither true nor false",
                       "write `true` or `false`", diagnostics_);
          }},
         {"database",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto n = number(key, value, 0, 1'000'000))
              options.database = static_cast<int>(*n);
          }},
         {"key_prefix",
          [&](const std::string& key, const YamlNode& value) {
            const auto t = text(key, value);
            if (!t) return;
            options.key_prefix = *t;
            if (t->size() > 256 || t->starts_with("divvy:"))
              complain(yaml_.place(key, value),
                       t->size() > 256 ? "is longer than 256 bytes" : "is that of Divvy's own keys",
                       "choose another, as in `sluice:`", diagnostics_);
          }},
         {"deadline_ms",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto n = number(key, value, 1, 60'000))
              options.deadline = base::milliseconds(static_cast<int64_t>(*n));
          }},
         {"patience_ms", [&](const std::string& key, const YamlNode& value) {
            if (const auto n = number(key, value, 1, 60'000))
              options.patience = base::milliseconds(static_cast<int64_t>(*n));
          }}});
    if (!named && node.is_map() && setting.origin == "default")
      complain(yaml_.place("redis", node), "names no Redis",
               "write `redis: { nodes: [\"localhost:6379\"] }`", diagnostics_);
    config_.store.redis = std::move(setting);
  }

  std::optional<uint64_t> number(const std::string& key, const YamlNode& node, uint64_t least,
                                 uint64_t most) {
    const auto t = text(key, node);
    if (!t) return std::nullopt;
    const auto n = base::parse_count(*t);
    if (n && *n >= least && *n <= most) return n;
    complain(yaml_.place(key, node), "`" + *t + "` is no number that fits here",
             "write " + std::to_string(least) + " to " + std::to_string(most), diagnostics_);
    return std::nullopt;
  }

  void log(const YamlNode& node) {
    map(node, "log",
        {{"level", [&](const std::string& key,
                       const YamlNode& value) { scalar(key, value, set_log_level); }},
         {"format", [&](const std::string& key,
                        const YamlNode& value) { scalar(key, value, set_log_format); }},
         {"modules", [&](const std::string&, const YamlNode& value) { log_modules(value); }},
         {"denials", [&](const std::string&, const YamlNode& value) {
            map(value, "denials", {{"every", [&](const std::string& key, const YamlNode& every) {
                                      scalar(key, every, set_denials_every);
                                    }}});
          }}});
  }

  void log_modules(const YamlNode& node) {
    std::vector<Known> known;
    for (const std::string_view name : log::log_module_names)
      known.push_back({name, [&](const std::string& key, const YamlNode& value) {
                         const auto word = text(key, value);
                         if (!word) return;
                         if (const auto level =
                                 log_level_of(*word, yaml_.place(key, value), diagnostics_))
                           config_.log.modules[*log::log_module(key)] = {*level, origin(value)};
                       }});
    map(node, "modules", known);
  }

  void droplet(const YamlNode& node) {
    map(node, "droplet", {{"cleanup_interval", [&](const std::string& key, const YamlNode& value) {
                             scalar(key, value, set_cleanup_interval);
                           }}});
  }

  void admin(const YamlNode& node) {
    map(node, "admin",
        {{"token_file", [&](const std::string& key, const YamlNode& value) {
            if (const auto path = text(key, value))
              config_.operations.admin_token_file = {beside_file(*path), origin(value)};
          }}});
  }

  void divvy(const YamlNode& node) {
    map(node, "divvy",
        {{"metrics", [&](const std::string&, const YamlNode& value) { divvy_page(value); }},
         {"statsd", [&](const std::string&, const YamlNode& value) { statsd(value); }}});
  }

  void address(const std::string& key, const YamlNode& node, uint16_t port, Address& into) {
    const auto value = text(key, node);
    if (!value) return;
    std::string problem;
    if (auto address = parse_address(*value, port, problem))
      into = std::move(*address);
    else
      complain(yaml_.place(key, node), "`" + *value + "` is no address", std::move(problem),
               diagnostics_);
  }

  void divvy_page(const YamlNode& node) {
    DivvyPage page{.address = {"::", divvy_metrics_port}};
    map(node, "metrics",
        {{"address",
          [&](const std::string& key, const YamlNode& value) {
            address(key, value, divvy_metrics_port, page.address);
          }},
         {"path", [&](const std::string& key, const YamlNode& value) {
            if (const auto path = text(key, value)) page.path = *path;
          }}});
    config_.operations.divvy_page = {page, origin(node)};
  }

  void statsd(const YamlNode& node) {
    Statsd statsd{.address = {"127.0.0.1", statsd_port}, .prefix = {}};
    map(node, "statsd",
        {{"address",
          [&](const std::string& key, const YamlNode& value) {
            address(key, value, statsd_port, statsd.address);
          }},
         {"prefix",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto prefix = text(key, value)) statsd.prefix = *prefix;
          }},
         {"tcp", [&](const std::string& key, const YamlNode& value) {
            const auto word = text(key, value);
            if (!word) return;
            statsd.tcp = *word == "true";
            if (*word != "true" && *word != "false")
              complain(yaml_.place(key, value), "`" + *word + "` is neither true nor false",
                       "write `tcp: true`, or take it out for UDP", diagnostics_);
          }}});
    config_.operations.statsd = {statsd, origin(node)};
  }

  // Droplet's requests bring their limits.
  bool needs_policy() const {
    return std::any_of(config_.listen.begin(), config_.listen.end(), [](const auto& l) {
      return l.value.protocol != protocol::Protocol::droplet &&
             l.value.protocol != protocol::Protocol::admin;
    });
  }

  // The first key of a map that is one of these.
  static YamlNode key_of(const YamlNode& map, std::initializer_list<std::string_view> words) {
    YamlNode key = map.is_map() ? map.first_child() : YamlNode();
    while (key &&
           (!key.is_scalar() || std::find(words.begin(), words.end(), key.text()) == words.end()))
      key = key.next().next();
    return key;
  }

  // Native rules where files are named: `rules` as a key, or a rule. Then that is told.
  bool holds_rules(const YamlNode& map) {
    if (const YamlNode rules = key_of(map, {"rules"})) {
      complain(yaml_.place("rules", rules), "stands in `policy`, which names files",
               "put `rules:` beside it, at the front of a line", diagnostics_);
      return true;
    }
    const YamlNode part = key_of(map, {"match", "actor", "limit", "limits", "unlimited", "deny"});
    if (!part || key_of(map, {"divvy", "limitd"})) return false;
    complain(yaml_.place("policy", part), "names files, and this is a rule",
             "put it under `rules:`, at the front of a line", diagnostics_);
    return true;
  }

  void policy(const std::string& key, const YamlNode& node) {
    if (holds_rules(node)) return;
    if (!sequence(key, node, "write `policy: [{ divvy: rules.ini }]`")) return;
    config_.policy.clear();
    for (YamlNode entry = node.first_child(); entry; entry = entry.next()) {
      if (holds_rules(entry)) return;
      const size_t problems = diagnostics_.size();
      Policy policy;
      Setting<std::string> limitd;
      map(entry, "policy",
          {{"divvy",
            [&](const std::string& k, const YamlNode& value) {
              if (const auto path = text(k, value))
                policy.path = {beside_file(*path), origin(value)};
            }},
           {"matching",
            [&](const std::string& k, const YamlNode& value) { matching(k, value, policy); }},
           {"limitd", [&](const std::string& k, const YamlNode& value) {
              const auto path = text(k, value);
              if (!path) return;
              limitd = {beside_file(*path), origin(value)};
              if (path->empty())
                complain(yaml_.place(k, value), "names no file", "write `{ limitd: limitd.yaml }`",
                         diagnostics_);
            }}});
      if (diagnostics_.size() > problems) continue;
      const bool has_divvy = !policy.path.value.empty();
      if (!limitd.value.empty() && policy.matching.origin != "default") {
        complain(yaml_.place("matching", entry), "is Divvy's, and this policy is limitd's",
                 "take it out", diagnostics_);
        continue;
      }
      if (!limitd.value.empty()) add_limitd(entry, has_divvy, limitd);
      if (has_divvy)
        add_divvy(entry, policy);
      else if (limitd.value.empty())
        complain(yaml_.place("policy", entry), "names no file", "write `{ divvy: rules.ini }`",
                 diagnostics_);
    }
  }

  void add_divvy(const YamlNode& entry, const Policy& policy) {
    const bool second = std::any_of(config_.policy.begin(), config_.policy.end(),
                                    [](const Policy& p) { return p.limitd == nullptr; });
    if (second)
      complain(yaml_.place("divvy", entry),
               "a second Divvy policy cannot be reached behind the first one's default rule",
               "put its rules into the first", diagnostics_);
    else
      config_.policy.push_back(policy);
  }

  void add_limitd(const YamlNode& entry, bool has_divvy, const Setting<std::string>& path) {
    const bool second = std::any_of(config_.policy.begin(), config_.policy.end(),
                                    [](const Policy& p) { return p.limitd != nullptr; });
    if (has_divvy)
      complain(yaml_.place("limitd", entry), "stands in one entry with `divvy`",
               "write `policy: [{ divvy: rules.ini }, { limitd: limitd.yaml }]`", diagnostics_);
    else if (second)
      complain(yaml_.place("limitd", entry), "there is a limitd policy already",
               "put its bucket types into the folder FILE.d of the first", diagnostics_);
    else
      config_.policy.push_back(
          {.path = path, .limitd = std::make_shared<const limitd::LimitdSource>()});
  }

  void matching(const std::string& key, const YamlNode& node, Policy& policy) {
    const auto name = text(key, node);
    if (!name) return;
    if (*name == "code") {
      policy.matching = {divvy::DivvyMatching::code, origin(node)};
    } else if (*name == "documented") {
      policy.matching = {divvy::DivvyMatching::documented, origin(node)};
    } else {
      complain(yaml_.place(key, node), "`" + *name + "` is no way of matching",
               "write `code` (as Divvy 1.7.1 does it) or `documented` (as its README says)",
               diagnostics_);
    }
  }

  std::string beside_file(const std::string& path) const {
    return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
  }

  const std::string& file_;
  std::shared_ptr<const YamlDocument> document_;
  policy::YamlReader yaml_;
  Config& config_;
  base::Diagnostics& diagnostics_;
};

}  // namespace

void read_config(std::string_view text, const std::string& file, Config& config,
                 base::Diagnostics& diagnostics) {
  config.file = file;
  config.file_digest = base::digest(text);
  auto document = std::make_shared<YamlDocument>();
  if (const auto error = policy::parse_yaml(text, *document)) {
    diagnostics.push_back(policy::to_diagnostic(*error, file));
    return;
  }
  Reader(file, std::move(document), config, diagnostics).read();
}

}  // namespace sluice::config
