// Reads a sluice.yaml into a Config.
#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "base/units.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

using policy::YamlDocument;
using policy::YamlNode;

bool takes_strict(const Listener& listener) {
  return listener.protocol && describe(*listener.protocol).takes_strict;
}

// Reads an entry of `listen`. Nothing: it is wrong, which was reported.
std::optional<Listener> read_listener(const Written& written) {
  Listener listener;
  std::string address_text;
  const size_t problems = written.diagnostics.size();
  const GivenKeys given = read_table(written, listener_table(listener, address_text));
  if (written.diagnostics.size() > problems) return std::nullopt;
  const auto wrong = [&](std::string_view at, std::string_view subject, std::string what,
                         std::string remedy) {
    complain(written.reader->place(subject, given.at(std::string(at))), std::move(what),
             std::move(remedy), written.diagnostics);
    return std::nullopt;
  };
  const bool has_protocol = given.contains("protocol");
  const bool has_time = given.contains("request_timeout");
  const std::string name(name_of(listener));
  if (has_protocol && !listener.protocol && (has_time || given.contains("send_timeout")))
    return wrong(has_time ? "request_timeout" : "send_timeout", "listen",
                 "is an admin port, which has timeouts of its own",
                 "take request_timeout and send_timeout out");
  if (given.contains("unmatched") && !listener.protocol)
    return wrong("unmatched", "unmatched", "has no effect on an admin port, which has no rules",
                 "take it out");
  if (given.contains("unmatched") && has_own_unmatched(*listener.protocol))
    return wrong("unmatched", "unmatched", name + " has a setting of its own for it",
                 "write `" + name +
                     ": { unmatched: " + std::string(request::name_of(listener.unmatched)) + " }`");
  if (has_protocol && given.contains("strict") && !takes_strict(listener))
    return wrong("strict", "strict",
                 "has no effect on " + (listener.protocol ? name : "an admin port"), "take it out");
  if (!has_protocol || !given.contains("address")) {
    written.wrong(std::string("has no ") + (has_protocol ? "address" : "protocol"),
                  "write `" + listener_example_yaml() + "`");
    return std::nullopt;
  }
  auto address =
      address_of(address_text, port_of(listener),
                 written.reader->place("address", given.at("address")), written.diagnostics);
  if (!address) return std::nullopt;
  listener.address = *std::move(address);
  return listener;
}

// The first key of the map that is one of `words`.
YamlNode key_of(const YamlNode& map, const std::vector<std::string_view>& words) {
  YamlNode key = map.is_map() ? map.first_child() : YamlNode();
  while (key &&
         (!key.is_scalar() || std::find(words.begin(), words.end(), key.text()) == words.end()))
    key = key.next().next();
  return key;
}

// Reports native rules in a place where files must be named: a key `rules`, or a rule itself.
// True: there are some.
bool holds_rules(const Written& written, const YamlNode& map) {
  FileReader& reader = *written.reader;
  if (const YamlNode rules = key_of(map, {"rules"})) {
    complain(reader.place("rules", rules), "stands in `policy`, which names files",
             "put `rules:` beside it, at the front of a line", written.diagnostics);
    return true;
  }
  std::vector<std::string_view> names;
  for (const protocol::Protocol protocol : with_policy_files())
    names.push_back(describe(protocol).name);
  const YamlNode part = key_of(map, {"match", "actor", "limit", "limits", "unlimited", "deny"});
  if (!part || key_of(map, names)) return false;
  complain(reader.place("policy", part), "names files, and this is a rule",
           "put it under `rules:`, at the front of a line", written.diagnostics);
  return true;
}

// The part of an entry of `policy` that is about one protocol.
struct EntryPart {
  protocol::Protocol protocol;
  base::Cloned<protocol::PolicyFiles> files;
  bool named = false;            // it names a file
  std::string_view option = {};  // an option of the format that is set

  const protocol::Description& description() const { return describe(protocol); }
  // Has another key named it before? Notes that there is one.
  bool is_named_twice(const Written& written) {
    if (!std::exchange(named, true)) return false;
    written.wrong("stands beside another key for the same policy", "take one of them out");
    return true;
  }
  bool has(std::string_view option_of_some) const {
    const auto& its = description().policy->options;
    return std::find(its.begin(), its.end(), option_of_some) != its.end();
  }
};

bool add_policy(const Written& written, const std::vector<EntryPart>& parts, Config& config) {
  const auto wrong = [&](std::string_view subject, std::string what, std::string remedy) {
    complain(written.reader->place(subject, written.node), std::move(what), std::move(remedy),
             written.diagnostics);
    return false;
  };
  const auto title = [](const EntryPart& part) { return std::string(part.description().title); };
  for (const EntryPart& one : parts)
    for (const EntryPart& other : parts)
      if (!one.option.empty() && other.named && &other != &one)
        return wrong(one.option,
                     "is " + title(one) + "'s, and this policy is " + title(other) + "'s",
                     "take it out");
  const EntryPart* first = nullptr;
  for (const EntryPart& one : parts) {
    if (!one.named) continue;
    if (first == nullptr)
      first = &one;
    else
      wrong(one.description().name,
            "stands in one entry with `" + std::string(first->description().name) + "`",
            "write `policy: [" + policy_example(first->description()) + ", " +
                policy_example(one.description()) + "]`");
  }
  if (first == nullptr) return wrong("policy", "names no file", "write `" + policy_example() + "`");
  if (std::any_of(config.policy.begin(), config.policy.end(),
                  [&](const Policy& p) { return p.protocol == first->protocol; }))
    return wrong(first->description().name, std::string(first->description().policy->second),
                 std::string(first->description().policy->second_remedy));
  config.policy.push_back({first->protocol, first->files});
  return true;
}

// Reads an entry of `policy`.
void read_policy_entry(const Written& written, Config& config) {
  const size_t problems = written.diagnostics.size();
  std::vector<EntryPart> parts;
  for (const protocol::Protocol protocol : with_policy_files())
    parts.push_back({protocol, base::Cloned(describe(protocol).policy->configured({}))});
  Table table;
  std::vector<Written> given;
  for (EntryPart& part : parts)
    table.push_back(own_setting(part.description().name, [&part](const Written& its) {
      if (part.is_named_twice(its)) return false;
      part.files->path = {its.reader->beside_file(its.text), its.origin};
      return true;
    }));
  for (EntryPart& part : parts) {
    const protocol::PolicyFormat& format = *part.description().policy;
    if (format.sent_key.empty()) continue;
    Entry sent = own_setting(format.sent_key, [&part, &format](const Written& its) {
      if (part.is_named_twice(its)) return false;
      part.files = base::Cloned<protocol::PolicyFiles>(format.sent());
      part.files->path.origin = its.origin;
      read_table(its, part.files->sent()->sender());
      return true;
    });
    sent.is_single = false;
    table.push_back(std::move(sent));
  }
  for (const EntryPart& part : parts)
    for (const std::string_view option : part.description().policy->options) {
      if (std::any_of(table.begin(), table.end(),
                      [&](const Entry& one) { return one.key == option; }))
        continue;
      table.push_back(own_setting(option, [&given](const Written& its) {
        given.push_back(its);
        return true;
      }));
    }
  read_table(written, table);
  // Several formats may have an option of that name; the file decides which one is meant.
  for (const Written& option : given) {
    auto owner = std::find_if(parts.begin(), parts.end(), [&](const EntryPart& one) {
      return one.named && one.has(option.key);
    });
    if (owner == parts.end())
      owner = std::find_if(parts.begin(), parts.end(),
                           [&](const EntryPart& one) { return one.has(option.key); });
    const auto& names = owner->description().policy->options;
    owner->option = *std::find(names.begin(), names.end(), option.key);
    owner->files->set(option.key, option.text, option.origin, option.place, option.diagnostics);
  }
  if (written.diagnostics.size() == problems) add_policy(written, parts, config);
}

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
  FileReader& reader = *written.reader;
  if (!reader.sequence(written.key, written.node,
                       "write `listen: [" + listener_example_yaml() + "]`"))
    return false;
  config.listen.clear();
  for (YamlNode entry = written.node.first_child(); entry; entry = entry.next())
    if (auto listener = read_listener(reader.written("listen", entry)))
      config.listen.push_back({*std::move(listener), reader.origin(entry)});
  return true;
}

bool read_policy(const Written& written, Config& config) {
  FileReader& reader = *written.reader;
  if (holds_rules(written, written.node)) return false;
  if (!reader.sequence(written.key, written.node, "write `policy: [" + policy_example() + "]`"))
    return false;
  config.policy.clear();
  for (YamlNode entry = written.node.first_child(); entry; entry = entry.next()) {
    if (holds_rules(written, entry)) return false;
    read_policy_entry(reader.written("policy", entry), config);
  }
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
  if (!root.is_null()) given = read_table(reader.written("the file", root), table_of(config));
  if (given.contains("rules")) {
    config.rules.value.path = file;
    config.rules.value.document = document;
  }
  if (!given.contains("policy") && !given.contains("rules") && needs_policy(config))
    reader.yaml().error("policy", {}, "is missing, and so is `rules`: no request would meet a rule",
                        "add `policy: [" + policy_example() + "]` or `rules: [...]`");
  if (!given.contains("listen")) listen_by_policy(config);
}

}  // namespace sluice::config
