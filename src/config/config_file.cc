// Reads a sluice.yaml into a Config.
#include <algorithm>

#include "base/hash.h"
#include "base/units.h"
#include "config/file_reader.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

// Of a sentinel that is named without one.
constexpr uint16_t sentinel_port = 26379;

using policy::YamlDocument;
using policy::YamlNode;

class ConfigReader {
 public:
  ConfigReader(const std::string& file, std::shared_ptr<const YamlDocument> document,
               Config& config, base::Diagnostics& diagnostics)
      : file_(file),
        document_(std::move(document)),
        reader_(file, *document_, diagnostics),
        config_(config),
        diagnostics_(diagnostics) {}

  void read() {
    const YamlNode root = document_->root();
    bool has_policy = false, has_listen = false;
    std::vector<Known> known{
        {"listen",
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
        {"log", [&](const auto&, const auto& node) { log(node); }}};
    using Subject = protocol::SettingsFormat::Subject;
    for (const Subject subject : {Subject::store, Subject::operations})
      each_settings(subject, [&](size_t i, const protocol::Description& protocol) {
        known.push_back({protocol.name, [this, i](const auto&, const auto& node) {
                           config_.own[i]->read(reader_, node);
                         }});
      });
    known.push_back({"users", [&](const auto& key, const auto& node) {
                       read_users(reader_, key, node, config_.users);
                     }});
    known.push_back({"admin", [&](const auto&, const auto& node) { admin(node); }});
    known.push_back({"rules", [&](const auto&, const auto& node) {
                       has_policy = true;
                       // Errors in the rules are reported when they become a rule set.
                       config_.rules = {{file_, document_, node.size()}, reader_.origin(node)};
                     }});
    if (!root.is_null()) reader_.map(root, "the file", known);
    if (!has_policy && needs_policy())
      reader_.yaml().error("policy", {},
                           "is missing, and so is `rules`: no request would meet a rule",
                           "add `policy: [" + policy_example() + "]` or `rules: [...]`");
    if (!has_listen) listen_by_policy();
  }

 private:
  using Known = FileReader::Known;

  void map(const YamlNode& node, const std::string& what, const std::vector<Known>& known) {
    reader_.map(node, what, known);
  }
  std::optional<std::string> text(const std::string& key, const YamlNode& node) {
    return reader_.text(key, node);
  }

  template <class Set>
  void scalar(const std::string& key, const YamlNode& node, Set set) {
    if (const auto value = text(key, node))
      set(*value, reader_.origin(node), place(key, node), config_, diagnostics_);
  }

  base::Diagnostic place(std::string_view subject, const YamlNode& node) const {
    return reader_.place(subject, node);
  }

  void listen(const std::string& key, const YamlNode& node) {
    if (!reader_.sequence(key, node, "write `listen: [" + listener_example_yaml() + "]`")) return;
    config_.listen.clear();
    for (YamlNode entry = node.first_child(); entry; entry = entry.next()) listener(entry);
  }

  // Without `listen`: listens for the protocols that have a policy. If none has one of its own,
  // there are only native rules, and it listens for the protocols whose default address is of this
  // machine alone: other machines reach only what a file names.
  void listen_by_policy() {
    const auto is_served = [this](protocol::Protocol protocol) {
      const auto& all = config_.policy;
      if (all.empty()) return is_loopback(describe(protocol).host);
      return std::any_of(all.begin(), all.end(),
                         [&](const Policy& policy) { return policy.protocol == protocol; });
    };
    std::erase_if(config_.listen, [&](const Setting<Listener>& listener) {
      return listener.value.protocol && !is_served(*listener.value.protocol);
    });
  }

  void listener(const YamlNode& node) {
    const size_t problems = diagnostics_.size();
    Listener listener;
    bool has_protocol = false;
    YamlNode address, timeout, unmatched, strict;
    map(node, "listen",
        {{"protocol",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto name = text(key, value))
              has_protocol = set_protocol(*name, place(key, value), listener, diagnostics_);
          }},
         {"address", [&](const std::string&, const YamlNode& value) { address = value; }},
         {"unmatched",
          [&](const std::string& key, const YamlNode& value) {
            unmatched = value;
            if (const auto word = text(key, value))
              if (const auto its = unmatched_of(*word, place(key, value), diagnostics_))
                listener.unmatched = *its;
          }},
         {"request_timeout",
          [&](const std::string& key, const YamlNode& value) {
            timeout = value;
            time_limit(key, value, listener.timeouts.request);
          }},
         {"send_timeout",
          [&](const std::string& key, const YamlNode& value) {
            timeout = value;
            time_limit(key, value, listener.timeouts.send);
          }},
         {"strict", [&](const std::string& key, const YamlNode& value) {
            strict = value;
            listener.strict = reader_.truth(key, value, "write `strict: true`, or take it out")
                                  .value_or(listener.strict);
          }}});
    if (diagnostics_.size() > problems) return;
    if (has_protocol && !listener.protocol && !timeout.is_null()) {
      complain(place("listen", timeout), "is an admin port, which has timeouts of its own",
               "take request_timeout and send_timeout out", diagnostics_);
      return;
    }
    if (!unmatched.is_null() && (!listener.protocol || has_own_unmatched(*listener.protocol))) {
      const std::string name(name_of(listener));
      complain(place("unmatched", unmatched),
               listener.protocol ? name + " has a setting of its own for it"
                                 : "has no effect on an admin port, which has no rules",
               listener.protocol ? "write `" + name + ": { unmatched: " +
                                       std::string(request::name_of(listener.unmatched)) + " }`"
                                 : "take it out",
               diagnostics_);
      return;
    }
    if (has_protocol && strict && !takes_strict(listener)) {
      complain(place("strict", strict),
               "has no effect on " +
                   (listener.protocol ? std::string(name_of(listener)) : "an admin port"),
               "take it out", diagnostics_);
      return;
    }
    if (!has_protocol || address.is_null()) {
      complain(place("listen", node),
               std::string("has no ") + (has_protocol ? "address" : "protocol"),
               "write `" + listener_example_yaml() + "`", diagnostics_);
      return;
    }
    const auto parsed = reader_.address("address", address, port_of(listener));
    if (!parsed) return;
    listener.address = *parsed;
    config_.listen.push_back({std::move(listener), reader_.origin(node)});
  }

  static bool takes_strict(const Listener& listener) {
    return listener.protocol && describe(*listener.protocol).takes_strict;
  }

  void time_limit(const std::string& key, const YamlNode& node, base::Duration& into) {
    const auto t = text(key, node);
    if (!t) return;
    const auto length = base::parse_duration(*t);
    if (length && length->us >= base::bounds::timeout_us_min &&
        length->us <= base::bounds::timeout_us_max)
      into = *length;
    else
      complain(place(key, node), "`" + *t + "` is not a timeout",
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
              set_data(path->empty() ? *path : reader_.beside_file(*path), reader_.origin(value),
                       place(key, value), config_, diagnostics_);
          }},
         {"durability", [&](const std::string& key,
                            const YamlNode& value) { scalar(key, value, set_durability); }},
         {"interval_ms", [&](const std::string& key,
                             const YamlNode& value) { scalar(key, value, set_interval_ms); }},
         {"fsync",
          [&](const std::string& key, const YamlNode& value) { scalar(key, value, set_fsync); }},
         {"servers",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto n = reader_.number(key, value, 1, 100'000))
              servers = static_cast<unsigned>(*n);
          }},
         {"redis", [&](const std::string&, const YamlNode& value) { redis(value); }}});
    if (config_.store.redis) config_.store.redis->value.servers = servers;
  }

  // False: it is not a list.
  bool redis_nodes(const std::string& key, const YamlNode& value, uint16_t usual,
                   std::vector<redis::Node>& nodes) {
    nodes.clear();
    if (!reader_.sequence(key, value,
                          "write `nodes: [\"localhost:" + std::to_string(usual) + "\"]`"))
      return false;
    for (YamlNode one = value.first_child(); one; one = one.next()) {
      const auto name = text(key, one);
      if (!name) continue;
      const auto named =
          name->find('@') == std::string::npos ? parse_address(*name, usual) : base::Problem{};
      if (named)
        nodes.push_back({named->host, named->port});
      else
        redis_node_of(*name, place(key, one), diagnostics_);  // it says why
    }
    return true;
  }

  void redis_sentinel(const YamlNode& node, redis::Sentinels& sentinel) {
    bool named = false;
    map(node, "sentinel",
        {{"master",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto t = text(key, value)) sentinel.master = *t;
          }},
         {"nodes",
          [&](const std::string& key, const YamlNode& value) {
            named = redis_nodes(key, value, sentinel_port, sentinel.nodes);
          }},
         {"username",
          [&](const std::string& key, const YamlNode& value) {
            if (const auto t = text(key, value)) sentinel.username = *t;
          }},
         {"password", [&](const std::string& key, const YamlNode& value) {
            if (const auto t = text(key, value)) sentinel.password = *t;
          }}});
    if (node.is_map() && (!named || sentinel.master.empty()))
      complain(place("sentinel", node), "names no primary, or no sentinels",
               "write `sentinel: { master: NAME, nodes: [\"localhost:26379\"] }`", diagnostics_);
  }

  // Reads the place of one Redis and its options. `Server`: redis::Options, or its Second.
  template <class Server>
  std::vector<Known> redis_server(Server& options, bool& named, std::string& origin) {
    return {{"nodes",
             [&](const std::string& key, const YamlNode& value) {
               origin = reader_.origin(value);
               named = redis_nodes(key, value, redis::default_port, options.nodes);
             }},
            {"cluster",
             [&](const std::string& key, const YamlNode& value) {
               const auto cluster = reader_.truth(key, value, "write `true` or `false`");
               if (cluster) options.cluster = *cluster;
             }},
            {"sentinel",
             [&](const std::string&, const YamlNode& value) {
               if (!named) options.nodes.clear();
               named = true;
               origin = reader_.origin(value);
               redis_sentinel(value, options.sentinel);
             }},
            {"username",
             [&](const std::string& key, const YamlNode& value) {
               if (const auto t = text(key, value)) options.username = *t;
             }},
            {"password",
             [&](const std::string& key, const YamlNode& value) {
               if (const auto t = text(key, value)) options.password = *t;
               if (!options.password_file.empty())
                 complain(place(key, value), "stands beside `password_file`",
                          "take one of them out", diagnostics_);
             }},
            {"password_file",
             [&](const std::string& key, const YamlNode& value) {
               if (const auto t = text(key, value)) options.password_file = reader_.beside_file(*t);
               if (!options.password.empty())
                 complain(place(key, value), "stands beside `password`", "take one of them out",
                          diagnostics_);
             }},
            {"tls",
             [&](const std::string& key, const YamlNode& value) {
               const auto tls = reader_.truth(key, value, "write `true` or `false`");
               if (tls) options.tls = *tls;
             }},
            {"database", [&](const std::string& key, const YamlNode& value) {
               if (const auto n = reader_.number(key, value, 0, 1'000'000))
                 options.database = static_cast<int>(*n);
             }}};
  }

  void redis(const YamlNode& node) {
    Setting<redis::Options> setting;
    redis::Options& options = setting.value;
    bool named = false, second_named = false;
    std::string second_origin;
    std::vector<Known> known = redis_server(options, named, setting.origin);
    const std::vector<Known> more = {
        {"per_second",
         [&](const std::string&, const YamlNode& value) {
           map(value, "per_second", redis_server(options.second, second_named, second_origin));
           if (!second_named && value.is_map())
             complain(place("per_second", value), "names no Redis",
                      "write `per_second: { nodes: [\"localhost:6380\"] }`", diagnostics_);
         }},
        {"over_cache",
         [&](const std::string& key, const YamlNode& value) {
           const auto t = text(key, value);
           const auto bytes = t ? base::parse_size(*t) : std::nullopt;
           if (bytes && *bytes <= base::bounds::table_bytes_max)
             options.over_cache_bytes = *bytes;
           else if (t)
             complain(place(key, value), "`" + *t + "` is not a size of at most 16G",
                      "write one as in `16M`, or take it out for none", diagnostics_);
         }},
        {"key_prefix",
         [&](const std::string& key, const YamlNode& value) {
           const auto t = text(key, value);
           if (!t) return;
           options.key_prefix = *t;
           const std::string problem = problem_of_prefix(*t);
           if (!problem.empty())
             complain(place(key, value), problem, "choose another, as in `sluice:`", diagnostics_);
         }},
        {"deadline_ms",
         [&](const std::string& key, const YamlNode& value) {
           if (const auto n = reader_.number(key, value, 1, 60'000))
             options.deadline = base::milliseconds(static_cast<int64_t>(*n));
         }},
        {"wait_replicas",
         [&](const std::string& key, const YamlNode& value) {
           if (const auto n = reader_.number(key, value, 0, 100))
             options.wait_replicas = static_cast<unsigned>(*n);
         }},
        {"wait_timeout_ms",
         [&](const std::string& key, const YamlNode& value) {
           if (const auto n = reader_.number(key, value, 1, 60'000))
             options.wait_timeout = base::milliseconds(static_cast<int64_t>(*n));
         }},
        {"across_slots",
         [&](const std::string& key, const YamlNode& value) {
           const auto t = text(key, value);
           options.settles_across_slots = t && *t == "settle";
           if (t && *t != "refuse" && *t != "settle")
             complain(place(key, value), "`" + *t + "` is not a way to settle over several slots",
                      "write `settle` or `refuse`", diagnostics_);
         }},
        {"patience_ms", [&](const std::string& key, const YamlNode& value) {
           if (const auto n = reader_.number(key, value, 1, 60'000))
             options.patience = base::milliseconds(static_cast<int64_t>(*n));
         }}};
    known.insert(known.end(), more.begin(), more.end());
    map(node, "redis", known);
    if (!named && node.is_map() && setting.origin == "default") {
      // A flag or a variable may name it; otherwise a start refuses it (check_redis).
      setting.origin = reader_.origin(node);
      options.nodes.clear();
    }
    config_.store.redis = std::move(setting);
  }

  // The problem of a prefix of keys in Redis; empty: it may be used.
  static std::string problem_of_prefix(const std::string& prefix) {
    if (prefix.size() > 256) return "is longer than 256 bytes";
    for (const protocol::Description* protocol : protocol::all())
      if (!protocol->redis_prefix.empty() && prefix.starts_with(protocol->redis_prefix))
        return "is that of " + std::string(protocol->title) + "'s own keys";
    return {};
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
      known.push_back(
          {name, [&](const std::string& key, const YamlNode& value) {
             const auto word = text(key, value);
             if (!word) return;
             if (const auto level = log_level_of(*word, place(key, value), diagnostics_))
               config_.log.modules[*log::log_module(key)] = {*level, reader_.origin(value)};
           }});
    map(node, "modules", known);
  }

  void admin(const YamlNode& node) {
    map(node, "admin", {{"token_file", [&](const std::string& key, const YamlNode& value) {
                           if (const auto path = text(key, value))
                             config_.operations.admin_token_file = {reader_.beside_file(*path),
                                                                    reader_.origin(value)};
                         }}});
  }

  // Is a protocol served for which no rule exists without a file?
  bool needs_policy() const {
    return std::any_of(config_.listen.begin(), config_.listen.end(), [](const auto& l) {
      return l.value.protocol && describe(*l.value.protocol).add_rules == nullptr;
    });
  }

  // The first key of the map that is one of `words`.
  static YamlNode key_of(const YamlNode& map, const std::vector<std::string_view>& words) {
    YamlNode key = map.is_map() ? map.first_child() : YamlNode();
    while (key &&
           (!key.is_scalar() || std::find(words.begin(), words.end(), key.text()) == words.end()))
      key = key.next().next();
    return key;
  }

  // Reports native rules in a place where files must be named: a key `rules`, or a rule itself.
  // True: there are some.
  bool holds_rules(const YamlNode& map) {
    if (const YamlNode rules = key_of(map, {"rules"})) {
      complain(place("rules", rules), "stands in `policy`, which names files",
               "put `rules:` beside it, at the front of a line", diagnostics_);
      return true;
    }
    const YamlNode part = key_of(map, {"match", "actor", "limit", "limits", "unlimited", "deny"});
    if (!part || key_of(map, policy_names())) return false;
    complain(place("policy", part), "names files, and this is a rule",
             "put it under `rules:`, at the front of a line", diagnostics_);
    return true;
  }

  // The protocol names that are keys of `policy`.
  static std::vector<std::string_view> policy_names() {
    std::vector<std::string_view> names;
    for (const protocol::Protocol protocol : with_policy_files())
      names.push_back(describe(protocol).name);
    return names;
  }

  void policy(const std::string& key, const YamlNode& node) {
    if (holds_rules(node)) return;
    if (!reader_.sequence(key, node, "write `policy: [" + policy_example() + "]`")) return;
    config_.policy.clear();
    for (YamlNode entry = node.first_child(); entry; entry = entry.next()) {
      if (holds_rules(entry)) return;
      policy_entry(entry);
    }
  }

  // The part of an entry of `policy` that is about one protocol.
  struct EntryPart {
    protocol::Protocol protocol;
    base::Cloned<protocol::PolicyFiles> files;
    bool named = false;            // it names a file
    std::string_view option = {};  // an option of the format that is set

    const protocol::Description& description() const { return describe(protocol); }
  };

  void policy_entry(const YamlNode& entry) {
    const size_t problems = diagnostics_.size();
    std::vector<EntryPart> parts;
    for (const protocol::Protocol protocol : with_policy_files())
      parts.push_back({protocol, base::Cloned(describe(protocol).policy->configured({}))});
    std::vector<Known> known;
    std::vector<std::string_view> options;
    for (EntryPart& one : parts) {
      known.push_back({one.description().name, [&](const std::string& key, const YamlNode& value) {
                         policy_path(key, value, one);
                       }});
      // Several formats may have an option of that name; the file decides which one is meant.
      for (const std::string_view option : one.description().policy->options)
        if (std::find(options.begin(), options.end(), option) == options.end())
          options.push_back(option);
    }
    std::vector<std::pair<std::string_view, YamlNode>> given;
    for (const std::string_view option : options)
      known.push_back({option, [&, option](const std::string&, const YamlNode& value) {
                         given.emplace_back(option, value);
                       }});
    map(entry, "policy", known);
    for (const auto& [option, value] : given) policy_option(option, value, parts);
    if (diagnostics_.size() == problems) add_policy(entry, parts);
  }

  void policy_option(std::string_view option, const YamlNode& value,
                     std::vector<EntryPart>& parts) {
    const auto has = [&](const EntryPart& one) {
      const auto& its = one.description().policy->options;
      return std::find(its.begin(), its.end(), option) != its.end();
    };
    auto owner = std::find_if(parts.begin(), parts.end(),
                              [&](const EntryPart& one) { return one.named && has(one); });
    if (owner == parts.end()) owner = std::find_if(parts.begin(), parts.end(), has);
    owner->option = option;
    const std::string key(option);
    if (const auto t = text(key, value))
      owner->files->set(option, *t, reader_.origin(value), place(key, value), diagnostics_);
  }

  void policy_path(const std::string& key, const YamlNode& value, EntryPart& part) {
    const auto path = text(key, value);
    if (!path) return;
    part.named = true;
    part.files->path = {reader_.beside_file(*path), reader_.origin(value)};
  }

  void add_policy(const YamlNode& entry, const std::vector<EntryPart>& parts) {
    const EntryPart* first = nullptr;
    for (const EntryPart& one : parts)
      for (const EntryPart& other : parts)
        if (!one.option.empty() && other.named && &other != &one) {
          complain(place(one.option, entry),
                   "is " + std::string(one.description().title) + "'s, and this policy is " +
                       std::string(other.description().title) + "'s",
                   "take it out", diagnostics_);
          return;
        }
    for (const EntryPart& one : parts) {
      if (!one.named) continue;
      if (first == nullptr)
        first = &one;
      else
        complain(place(one.description().name, entry),
                 "stands in one entry with `" + std::string(first->description().name) + "`",
                 "write `policy: [" + policy_example(first->description()) + ", " +
                     policy_example(one.description()) + "]`",
                 diagnostics_);
    }
    if (first == nullptr) {
      complain(place("policy", entry), "names no file", "write `" + policy_example() + "`",
               diagnostics_);
      return;
    }
    const auto& all = config_.policy;
    if (std::any_of(all.begin(), all.end(),
                    [&](const Policy& p) { return p.protocol == first->protocol; }))
      complain(place(first->description().name, entry),
               std::string(first->description().policy->second),
               std::string(first->description().policy->second_remedy), diagnostics_);
    else
      config_.policy.push_back({first->protocol, first->files});
  }

  const std::string& file_;
  std::shared_ptr<const YamlDocument> document_;
  FileReader reader_;
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
  ConfigReader(file, std::move(document), config, diagnostics).read();
}

}  // namespace sluice::config
