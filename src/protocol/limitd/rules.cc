#include "protocol/limitd/rules.h"

#include <algorithm>
#include <array>
#include <deque>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/units.h"
#include "policy/read/yaml_tree_reader.h"
#include "policy/rule_set.h"
#include "policy/text.h"
#include "protocol/limitd/environment.h"
#include "protocol/limitd/type.h"
#include "protocol/limitd/value.h"

namespace sluice::limitd {

namespace {

// The rule of an override in limitd's own file has no name; its first condition names the type.
std::string rule_name(const policy::Rule& rule) {
  if (rule.conditions.empty()) return policy::name_or_pattern(rule);
  return std::string(rule.conditions.front().pattern.text());
}

std::string metric_name(const policy::Rule& rule) {
  if (!rule.name.empty() || rule.conditions.empty()) return policy::name_or_pattern(rule);
  return rule_name(rule) + " (overrides)";
}

}  // namespace

constinit const policy::Dialect dialect = {
    .name = "limitd",
    .rule_name = rule_name,
    .metric_name = metric_name,
    .unmatched = "limitd's protocol answers UNKNOWN_BUCKET_TYPE.",
};

namespace {

using Kind = LimitdValue::Kind;
using policy::in_ticks;

constexpr std::array<std::string_view, 14> top_keys = {"port",
                                                       "hostname",
                                                       "db",
                                                       "log_level",
                                                       "log_file",
                                                       "configurator",
                                                       "buckets",
                                                       "log_to_kinesis",
                                                       "log_to_kinesis_level",
                                                       "aws_kinesis_region",
                                                       "error_reporter_url",
                                                       "node_env",
                                                       "latency_buckets",
                                                       "collect_resource_usage"};
constexpr size_t top_keys_used = 7;
constexpr base::Duration interval_default = base::seconds(300);

class Reading {
 public:
  Reading(request::Spaces& spaces, policy::RuleSet& rules, LimitdConfig& config,
          base::Diagnostics& diagnostics)
      : spaces_(spaces), rules_(rules), config_(config), diagnostics_(diagnostics) {}

  void run(std::span<const NamedText> files, std::span<const NamedText> environment) {
    const size_t before = diagnostics_.size();
    for (const NamedText& file : files) read_file(file);
    for (const Top& top : tops_) setting(top);
    LimitdEnvironment variables(environment, diagnostics_);
    variables.settings(config_, flags_);
    std::vector<LimitdType> types = variables.types();
    // If a file could not be read, `db` may be in it, so it is not reported as missing.
    if (!config_.db && !db_is_wrong_ && !broken_) {
      const std::string_view file = files.empty() ? std::string_view() : files.front().name;
      error(file, "db", "missing database path",
            "add `db: /path` or `db: { inMemory: true }`, or set DB");
    }
    if (variables.has_types()) {
      if (!buckets_.empty())
        tell(base::Diagnostic::Severity::warning, buckets_.front().file->name, "buckets",
             "all bucket types of files are replaced by those of BUCKET_ variables",
             "unset the variables if the files are meant");
    } else if (has_buckets_) {
      for (const Bucket& bucket : buckets_)
        types.push_back(
            read_limitd_type(bucket.key, bucket.value, bucket.file->name, bucket.file->reader));
      if (types.empty() && !buckets_are_wrong_)
        tell(base::Diagnostic::Severity::warning, files.empty() ? "" : files.front().name,
             "buckets", "there is no bucket type: every request is answered UNKNOWN_BUCKET_TYPE",
             "add `buckets: { ip: { size: 10, per_second: 5 } }`");
    } else {
      error(
          files.empty() ? std::string_view() : files.front().name, "buckets",
          "is missing: there are no bucket types",
          "add `buckets: { ip: { size: 10, per_second: 5 } }`, or `buckets: {}` if none is meant");
    }
    if (has_errors_since(before)) return;
    add(types, files.empty() ? std::string_view() : files.front().name);
  }

 private:
  struct File {
    File(std::string_view its_name, policy::YamlDocument its, base::Diagnostics& diagnostics)
        : name(its_name), document(std::move(its)), reader(name, document, diagnostics) {}
    std::string_view name;
    policy::YamlDocument document;
    policy::YamlReader reader;
  };
  struct Top {
    policy::YamlNode key, value;
    File* file;
  };
  using Bucket = Top;

  void tell(base::Diagnostic::Severity severity, std::string_view file, std::string subject,
            std::string message, std::string remedy) {
    base::Diagnostic d;
    d.severity = severity;
    d.file = file;
    d.subject = std::move(subject);
    d.message = std::move(message);
    d.remedy = std::move(remedy);
    diagnostics_.push_back(std::move(d));
  }
  void error(std::string_view file, std::string subject, std::string message, std::string remedy) {
    tell(base::Diagnostic::Severity::error, file, std::move(subject), std::move(message),
         std::move(remedy));
  }
  bool has_errors_since(size_t first) const {
    return std::any_of(
        diagnostics_.begin() + static_cast<ptrdiff_t>(first), diagnostics_.end(),
        [](const base::Diagnostic& d) { return d.severity == base::Diagnostic::Severity::error; });
  }

  void read_file(const NamedText& text) {
    policy::YamlDocument document;
    if (auto wrong = parse_yaml(text.text, document)) {
      broken_ = true;
      diagnostics_.push_back(to_diagnostic(std::move(*wrong), text.name));
      return;
    }
    File& file = files_.emplace_back(text.name, std::move(document), diagnostics_);
    const policy::YamlNode root = file.document.root();
    if (root.is_null()) return;
    if (!root.is_map()) {
      broken_ = true;
      file.reader.error("the file", root, "must be a map of keys to values",
                        "begin with `db: /path` and `buckets:`");
      return;
    }
    for (const auto& [key, value] : file.reader.entries("the file", root)) {
      if (key.text() == "buckets")
        buckets({key, value, &file});
      else
        replace(tops_, top_by_name_, {key, value, &file});
    }
  }

  // A later file overrides an earlier one.
  static void replace(std::vector<Top>& all, std::unordered_map<std::string_view, size_t>& by_name,
                      const Top& top) {
    const auto [at, fresh] = by_name.try_emplace(top.key.text(), all.size());
    if (fresh)
      all.push_back(top);
    else
      all[at->second] = top;
  }

  void buckets(const Top& top) {
    has_buckets_ = true;
    if (!top.value.is_map()) {
      buckets_are_wrong_ = true;
      top.file->reader.error("buckets", top.value.line() > 0 ? top.value : top.key,
                             "must be a map of bucket types",
                             "write `buckets: { ip: { size: 10, per_second: 5 } }`");
      return;
    }
    for (const auto& [key, value] : top.file->reader.entries("buckets", top.value))
      replace(buckets_, bucket_by_name_, {key, value, top.file});
  }

  template <class T>
  void set(std::optional<LimitdConfig::Setting<T>>& setting, T value, const Top& top) {
    if (!setting)
      setting =
          LimitdConfig::Setting<T>{std::move(value), std::string(top.file->name), top.key.line()};
  }

  void setting(const Top& top) {
    const std::string_view name = top.key.text();
    policy::YamlReader& reader = top.file->reader;
    const auto known = std::find(top_keys.begin(), top_keys.end(), name);
    if (known == top_keys.end()) {
      const std::string_view near =
          base::nearest_word(name, {top_keys.begin(), top_keys.begin() + top_keys_used});
      reader.warning(name, top.key, "is not a key of limitd's and has no effect",
                     near.empty() ? "" : "did you mean `" + std::string(near) + "`?");
    } else if (known >= top_keys.begin() + top_keys_used) {
      reader.warning(name, top.key, "has no effect here", "");
    } else if (name == "db") {
      database(top);
    } else if (name == "configurator") {
      configurator(top);
    } else if (reader.has_text(name, top.value)) {
      const std::string text(top.value.text());
      if (name == "port") {
        if (const auto port = base::parse_port(text))
          set(config_.port, *port, top);
        else
          reader.error(name, top.value, in_ticks(text) + " is not a port", "write 1 to 65535");
      } else if (name == "hostname") {
        set(config_.hostname, text, top);
      } else if (name == "log_file") {
        set(config_.log_file, text, top);
      } else if (std::find(log_levels.begin(), log_levels.end(), text) != log_levels.end()) {
        set(config_.log_level, text, top);
      } else {
        reader.error(name, top.value, in_ticks(text) + " is not a level of the log",
                     policy::known_words(text, log_levels));
      }
    }
  }

  void database(const Top& top) {
    policy::YamlReader& reader = top.file->reader;
    const LimitdValue value = limitd_value(top.value);
    if (value.kind == Kind::null || (value.kind == Kind::text && value.text.empty())) return;
    db_is_wrong_ = true;
    LimitdConfig::Database database;
    if (value.kind == Kind::text) {
      database.path = value.text;
    } else if (!top.value.is_map()) {
      reader.error("db", top.value, "must be a path or a map",
                   "write `db: /path` or `db: { inMemory: true }`");
      return;
    } else {
      for (const auto& [key, node] : reader.entries("db", top.value)) {
        const LimitdValue what = limitd_value(node);
        if (key.text() == "path" && what.kind == Kind::text) {
          database.path = what.text;
        } else if (key.text() == "inMemory" && what.kind == Kind::boolean) {
          database.in_memory = what.boolean;
        } else if (key.text() == "path" || key.text() == "inMemory") {
          reader.error(
              "db", key,
              key.text() == "path" ? "path must be text" : "inMemory must be true or false",
              "write `db: /path` or `db: { inMemory: true }`");
          return;
        } else {
          reader.warning("db", key, in_ticks(key.text()) + " has no effect here", "");
        }
      }
      if (database.path.empty() && !database.in_memory) {
        reader.error("db", top.value, "path is required",
                     "write `db: { path: /path }` or `db: { inMemory: true }`");
        return;
      }
      if (database.in_memory) database.path.clear();
    }
    set(config_.db, std::move(database), top);
  }

  void configurator(const Top& top) {
    policy::YamlReader& reader = top.file->reader;
    constexpr std::string_view remedy = "write `{ type: file, path: /path, interval: 300000 }`";
    if (!top.value.is_map()) {
      reader.error("configurator", top.value.line() > 0 ? top.value : top.key,
                   "must be a map of keys to values", std::string(remedy));
      return;
    }
    LimitdConfig::Configurator configurator{"", interval_default};
    bool has_type = false;
    for (const auto& [key, node] : reader.entries("configurator", top.value)) {
      const LimitdValue value = limitd_value(node);
      if (key.text() == "type") {
        has_type = true;
        if (value.kind != Kind::text || value.text != "file")
          reader.error("configurator", key,
                       "type " + in_ticks(value.text) + " is not known: `file` is",
                       std::string(remedy));
      } else if (key.text() == "path") {
        if (value.kind == Kind::text)
          configurator.path = value.text;
        else
          reader.error("configurator", key, "path must be text", std::string(remedy));
      } else if (key.text() == "interval") {
        constexpr int64_t ms_max = base::bounds::window_us_max / 1000;
        if (value.kind == Kind::integer && value.integer >= 1 && value.integer <= ms_max)
          configurator.interval = base::milliseconds(value.integer);
        else
          reader.error("configurator", key, "interval must be a number of milliseconds from 1 on",
                       std::string(remedy));
      } else {
        reader.warning("configurator", key, in_ticks(key.text()) + " has no effect here", "");
      }
    }
    if (!has_type)
      reader.error("configurator", top.key, "has no type", std::string(remedy));
    else if (configurator.path.empty())
      reader.error("configurator", top.key, "has no path", std::string(remedy));
    else
      set(config_.configurator, std::move(configurator), top);
  }

  void add(const std::vector<LimitdType>& types, std::string_view file) {
    size_t count = rules_.size();
    for (const LimitdType& type : types) count += type.overrides.size() + 1;
    if (count > base::bounds::rules_max) {
      error(file, "buckets",
            "more than " + std::to_string(base::bounds::rules_max) +
                " types, overrides and rules in all",
            "join overrides of like keys by `match`");
      return;
    }
    for (const LimitdType& type : types) add_limitd_rules(type, spaces_, rules_);
    config_.types = types.size();
  }

  request::Spaces& spaces_;
  policy::RuleSet& rules_;
  LimitdConfig& config_;
  const LimitdConfig flags_ = config_;
  base::Diagnostics& diagnostics_;
  std::deque<File> files_;
  std::vector<Top> tops_;
  std::vector<Bucket> buckets_;
  std::unordered_map<std::string_view, size_t> top_by_name_, bucket_by_name_;
  bool has_buckets_ = false, buckets_are_wrong_ = false, db_is_wrong_ = false;
  bool broken_ = false;  // a file could not be read at all
};

}  // namespace

void read_limitd(std::span<const NamedText> files, std::span<const NamedText> environment,
                 request::Spaces& spaces, policy::RuleSet& rules, LimitdConfig& config,
                 base::Diagnostics& diagnostics) {
  Reading(spaces, rules, config, diagnostics).run(files, environment);
}

}  // namespace sluice::limitd
