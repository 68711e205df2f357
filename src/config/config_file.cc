// Reads a sluice.yaml into a Config.
#include <algorithm>

#include "base/hash.h"
#include "base/units.h"
#include "config/file_reader.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

using policy::YamlDocument;
using policy::YamlNode;

// Reads `listen` and `policy`.
class ListReader {
 public:
  ListReader(FileReader& reader, Config& config)
      : reader_(reader), config_(config), diagnostics_(reader.diagnostics()) {}

  void listen(const Written& written) { listen(written.key, written.node); }
  void policy(const Written& written) { policy(written.key, written.node); }

 private:
  using Known = FileReader::Known;

  void map(const YamlNode& node, const std::string& what, const std::vector<Known>& known) {
    reader_.map(node, what, known);
  }
  std::optional<std::string> text(const std::string& key, const YamlNode& node) {
    return reader_.text(key, node);
  }
  base::Diagnostic place(std::string_view subject, const YamlNode& node) const {
    return reader_.place(subject, node);
  }

  void listen(const std::string& key, const YamlNode& node) {
    if (!reader_.sequence(key, node, "write `listen: [" + listener_example_yaml() + "]`")) return;
    config_.listen.clear();
    for (YamlNode entry = node.first_child(); entry; entry = entry.next()) listener(entry);
  }

  void listener(const YamlNode& node) {
    const size_t problems = diagnostics_.size();
    Listener listener;
    std::string address_text;
    const GivenKeys given =
        read_table(reader_, node, "listen", listener_table(listener, address_text));
    const auto of = [&](std::string_view key) {
      const auto at = given.find(key);
      return at == given.end() ? YamlNode() : at->second;
    };
    const bool has_protocol = given.contains("protocol");
    const YamlNode address = of("address"), unmatched = of("unmatched"), strict = of("strict");
    const YamlNode timeout =
        given.contains("request_timeout") ? of("request_timeout") : of("send_timeout");
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

  FileReader& reader_;
  Config& config_;
  base::Diagnostics& diagnostics_;
};

// Without `listen`: listens for the protocols that have a policy. If none has one of its own,
// there are only native rules, and it listens for the protocols whose default address is of this
// machine alone: other machines reach only what a file names.
void listen_by_policy(Config& config) {
  const auto is_served = [&config](protocol::Protocol protocol) {
    const auto& all = config.policy;
    if (all.empty()) return is_loopback(describe(protocol).host);
    return std::any_of(all.begin(), all.end(),
                       [&](const Policy& policy) { return policy.protocol == protocol; });
  };
  std::erase_if(config.listen, [&](const Setting<Listener>& listener) {
    return listener.value.protocol && !is_served(*listener.value.protocol);
  });
}

// Is a protocol served for which no rule exists without a file?
bool needs_policy(const Config& config) {
  return std::any_of(config.listen.begin(), config.listen.end(), [](const auto& l) {
    return l.value.protocol && describe(*l.value.protocol).add_rules == nullptr;
  });
}

}  // namespace

bool read_listen(const Written& written, Config& config) {
  ListReader(*written.reader, config).listen(written);
  return true;
}

bool read_policy(const Written& written, Config& config) {
  ListReader(*written.reader, config).policy(written);
  return true;
}

void read_config(std::string_view text, const std::string& file, Config& config,
                 base::Diagnostics& diagnostics) {
  config.file = file;
  config.file_digest = base::digest(text);
  auto document = std::make_shared<YamlDocument>();
  if (const auto error = policy::parse_yaml(text, *document)) {
    diagnostics.push_back(policy::to_diagnostic(*error, file));
    return;
  }
  FileReader reader(file, *document, diagnostics);
  const YamlNode root = document->root();
  GivenKeys given;
  if (!root.is_null()) given = read_table(reader, root, "the file", table_of(config));
  if (given.contains("rules")) {
    config.rules.value.path = file;
    config.rules.value.document = document;
  }
  if (config.store.redis) config.store.redis->value.servers = config.store.servers;
  if (!given.contains("policy") && !given.contains("rules") && needs_policy(config))
    reader.yaml().error("policy", {}, "is missing, and so is `rules`: no request would meet a rule",
                        "add `policy: [" + policy_example() + "]` or `rules: [...]`");
  if (!given.contains("listen")) listen_by_policy(config);
}

}  // namespace sluice::config
