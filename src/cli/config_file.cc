// sluice.yaml into a Config. yaml-cpp parses; keys are checked here, because it takes unknown and
// duplicate ones alike.
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cli/settings.h"
#include "server/server.h"

namespace sluice::cli {
namespace {

class Reader {
 public:
  Reader(const std::string& file, Config& config, base::Diagnostics& diagnostics)
      : file_(file), config_(config), diagnostics_(diagnostics) {}

  void document(const YAML::Node& root) {
    bool has_policy = false;
    if (!root.IsNull())
      map(root, "the file",
          {{"listen", [&](const auto& key, const auto& node) { listen(key, node); }},
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
           {"rules", unserved("native rules are", "put them into a Divvy policy")}});
    if (!has_policy)
      complain(place("policy"), "is missing, so no request would have a rule",
               "add `policy: [{ divvy: rules.ini }]`", diagnostics_);
  }

  base::Diagnostic place(std::string subject, const YAML::Mark& mark = YAML::Mark::null_mark()) {
    base::Diagnostic d;
    d.file = file_;
    if (!mark.is_null()) {
      d.line = static_cast<size_t>(mark.line) + 1;
      d.column = static_cast<size_t>(mark.column) + 1;
    }
    d.subject = std::move(subject);
    return d;
  }

 private:
  using Take = std::function<void(const std::string& key, const YAML::Node& value)>;
  struct Known {
    std::string_view key;
    Take take;
  };

  // Hands each known key of a map to its taker, once.
  void map(const YAML::Node& node, const std::string& what, const std::vector<Known>& known) {
    std::vector<std::string_view> words;
    for (const auto& k : known) words.push_back(k.key);
    if (!node.IsMap()) {
      std::string keys;
      for (const auto& word : words) keys += (keys.empty() ? "`" : ", `") + std::string(word) + "`";
      complain(place(what, node.Mark()), "is to be a map of keys to values", "its keys are " + keys,
               diagnostics_);
      return;
    }
    std::vector<std::pair<std::string, int>> seen;
    for (const auto& pair : node) {
      const YAML::Mark mark = pair.first.Mark();
      if (!pair.first.IsScalar()) {
        complain(place(what, mark), "has a key that is no word", "", diagnostics_);
        continue;
      }
      const std::string& key = pair.first.Scalar();
      const auto at =
          std::find_if(known.begin(), known.end(), [&](const Known& k) { return k.key == key; });
      const auto before =
          std::find_if(seen.begin(), seen.end(), [&](const auto& s) { return s.first == key; });
      if (at == known.end()) {
        unknown(key, mark, words);
      } else if (before != seen.end()) {
        complain(place(key, mark),
                 "is here twice, first on line " + std::to_string(before->second + 1),
                 "keep one of them", diagnostics_);
      } else {
        seen.emplace_back(key, mark.line);
        at->take(key, pair.second);
      }
    }
  }

  void unknown(const std::string& key, const YAML::Mark& mark,
               const std::vector<std::string_view>& words) {
    std::string remedy;
    if (const auto near = base::nearest_word(key, words); !near.empty()) {
      remedy = "did you mean `" + std::string(near) + "`?";
    } else {
      for (const auto& word : words)
        remedy += (remedy.empty() ? "known here: " : ", ") + std::string(word);
    }
    complain(place(key, mark), "is no key that is known here", std::move(remedy), diagnostics_);
  }

  // A key of the design that this version cannot honour: refused, because a limit must not get lost
  // silently.
  Take unserved(std::string what, std::string remedy) {
    return [this, what = std::move(what), remedy = std::move(remedy)](const std::string& key,
                                                                      const YAML::Node& node) {
      complain(place(key, node.Mark()), what + " not served by this version", remedy, diagnostics_);
    };
  }

  const std::string* text(const std::string& key, const YAML::Node& node) {
    if (node.IsScalar() && !node.Scalar().empty()) return &node.Scalar();
    complain(place(key, node.Mark()),
             node.IsNull() || node.IsScalar() ? "has no value" : "is to be a single value", "",
             diagnostics_);
    return nullptr;
  }

  template <class Set>
  void scalar(const std::string& key, const YAML::Node& node, Set set) {
    if (const std::string* value = text(key, node))
      set(*value, origin(node), place(key, node.Mark()), config_, diagnostics_);
  }

  std::string origin(const YAML::Node& node) const {
    return file_ + ":" + std::to_string(node.Mark().line + 1);
  }

  bool sequence(const std::string& key, const YAML::Node& node, const char* example) {
    if (node.IsSequence() && node.size() > 0) return true;
    complain(place(key, node.Mark()), "is to be a list with at least one entry", example,
             diagnostics_);
    return false;
  }

  void listen(const std::string& key, const YAML::Node& node) {
    if (!sequence(key, node, "write `listen: [{ protocol: divvy, address: \"[::]:8321\" }]`"))
      return;
    config_.listen.clear();
    for (const auto& entry : node) listener(entry);
  }

  void listener(const YAML::Node& node) {
    const size_t problems = diagnostics_.size();
    std::optional<server::Protocol> protocol;
    YAML::Node address;
    map(node, "listen",
        {{"protocol",
          [&](const std::string& key, const YAML::Node& value) {
            if (const std::string* name = text(key, value))
              protocol = protocol_named(*name, place(key, value.Mark()), diagnostics_);
          }},
         {"address", [&](const std::string&, const YAML::Node& value) { address.reset(value); }}});
    if (diagnostics_.size() > problems) return;
    if (!protocol || address.IsNull()) {
      complain(place("listen", node.Mark()),
               std::string("has no ") + (protocol ? "address" : "protocol"),
               "write `{ protocol: divvy, address: \"[::]:8321\" }`", diagnostics_);
      return;
    }
    const std::string* value = text("address", address);
    if (value == nullptr) return;
    if (auto parsed = address_of(*value, *protocol, place("address", address.Mark()), diagnostics_))
      config_.listen.push_back({{*protocol, std::move(*parsed)}, origin(node)});
  }

  void store(const YAML::Node& node) {
    const std::string remedy = "take it out; counters are kept in memory";
    map(node, "store",
        {{"memory",
          [&](const std::string& key, const YAML::Node& value) { scalar(key, value, set_memory); }},
         {"path", unserved("a durable store is", remedy)},
         {"durability", unserved("a durable store is", remedy)},
         {"redis", unserved("a store in Redis is", remedy)}});
  }

  void log(const YAML::Node& node) {
    map(node, "log", {{"level", [&](const std::string& key, const YAML::Node& value) {
                         scalar(key, value, set_log_level);
                       }}});
  }

  void policy(const std::string& key, const YAML::Node& node) {
    if (!sequence(key, node, "write `policy: [{ divvy: rules.ini }]`")) return;
    config_.policy.clear();
    for (const auto& entry : node) {
      const size_t problems = diagnostics_.size();
      Policy policy;
      map(entry, "policy",
          {{"divvy",
            [&](const std::string& k, const YAML::Node& value) {
              if (const std::string* path = text(k, value))
                policy.path = {beside_file(*path), origin(value)};
            }},
           {"matching",
            [&](const std::string& k, const YAML::Node& value) { matching(k, value, policy); }},
           {"limitd", unserved("limitd's bucket types are", "take it out")}});
      if (diagnostics_.size() > problems) continue;
      if (policy.path.value.empty()) {
        complain(place("policy", entry.Mark()), "names no file", "write `{ divvy: rules.ini }`",
                 diagnostics_);
      } else if (!config_.policy.empty()) {
        complain(place("divvy", entry.Mark()),
                 "a second Divvy policy cannot be reached behind the first one's default rule",
                 "put its rules into the first", diagnostics_);
      } else {
        config_.policy.push_back(std::move(policy));
      }
    }
  }

  void matching(const std::string& key, const YAML::Node& node, Policy& policy) {
    const std::string* name = text(key, node);
    if (name == nullptr) return;
    if (*name == "code") {
      policy.matching = {policy::DivvyMatching::code, origin(node)};
    } else if (*name == "documented") {
      policy.matching = {policy::DivvyMatching::documented, origin(node)};
    } else {
      complain(place(key, node.Mark()), "`" + *name + "` is no way of matching",
               "write `code` (as Divvy 1.7.1 does it) or `documented` (as its README says)",
               diagnostics_);
    }
  }

  std::string beside_file(const std::string& path) const {
    return (std::filesystem::path(file_).parent_path() / path).lexically_normal().string();
  }

  const std::string& file_;
  Config& config_;
  base::Diagnostics& diagnostics_;
};

}  // namespace

void read_config(std::string_view text, const std::string& file, Config& config,
                 base::Diagnostics& diagnostics) {
  Reader reader(file, config, diagnostics);
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(std::string(text));
    if (documents.size() > 1)
      complain(reader.place("---"), "begins a second document, which nobody would read", "keep one",
               diagnostics);
    else
      reader.document(documents.empty() ? YAML::Node() : documents.front());
  } catch (const YAML::Exception& e) {
    complain(reader.place("", e.mark), "is not YAML: " + e.msg, "", diagnostics);
  }
}

}  // namespace sluice::cli
