#include "protocol/limitd/policy_files.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "config/read_file.h"
#include "policy/read/native_text.h"
#include "policy/read/yaml_tree.h"
#include "protocol/policy_files.h"

namespace sluice::limitd {
namespace {

std::vector<NamedText> views(const Texts& texts) {
  std::vector<NamedText> all;
  for (const auto& [name, text] : texts) all.push_back({name, text});
  return all;
}

void warn(std::string file, size_t line, std::string subject, std::string message,
          std::string remedy, base::Diagnostics& diagnostics) {
  base::Diagnostic d;
  d.severity = base::Diagnostic::Severity::warning;
  d.file = std::move(file);
  d.line = line;
  d.subject = std::move(subject);
  d.message = std::move(message);
  d.remedy = std::move(remedy);
  diagnostics.push_back(std::move(d));
}

std::optional<std::string> take(const std::string& path, LimitdTexts& read,
                                base::Diagnostics& diagnostics) {
  read.paths.push_back(path);
  auto text = config::read_file(path, diagnostics);
  if (text)
    read.digests.push_back(base::digest(*text));
  else if (config::is_missing(path))
    read.missing.push_back(path);
  return text;
}

LimitdConfig flags_of(const LimitdSource& source) {
  LimitdConfig config = source.flags;
  // With a sluice.yaml, `store` decides where counters are kept, so `db` is not required.
  if (source.use != LimitdSource::Use::whole) config.db = {{"", true}, "", 0};
  return config;
}

LimitdConfig read_main(const LimitdTexts& texts, const LimitdSource& source,
                       request::Spaces& spaces, policy::RuleSet& rules,
                       base::Diagnostics& diagnostics) {
  LimitdConfig config = flags_of(source);
  read_limitd(views(texts.files), views(source.environment), spaces, rules, config, diagnostics);
  return config;
}

void find_configurator(const LimitdSource& source, LimitdTexts& read) {
  const bool may_have_one = std::any_of(read.files.begin(), read.files.end(), [](const auto& file) {
    return file.second.find("configurator") != std::string::npos;
  });
  if (!may_have_one) return;
  request::Spaces spaces;
  policy::RuleSet rules;
  base::Diagnostics told_with_the_rules;
  const auto config = read_main(read, source, spaces, rules, told_with_the_rules);
  if (base::has_errors(told_with_the_rules) || !config.configurator) return;
  read.configured_path = config.configurator->value.path;
  read.interval = std::chrono::milliseconds(
      std::max<int64_t>(config.configurator->value.interval.us / 1000, 1));
}

template <class T>
void warn_unserved(const std::optional<LimitdConfig::Setting<T>>& setting, const char* key,
                   const char* instead, base::Diagnostics& diagnostics) {
  if (setting)
    warn(setting->file, setting->line, key, "has no effect in a policy of a sluice.yaml",
         std::string("its `") + instead + "` counts", diagnostics);
}

void warn_unserved(const LimitdConfig& config, const LimitdSource& source,
                   base::Diagnostics& diagnostics) {
  // The built-in example has no settings that the user wrote.
  if (source.use != LimitdSource::Use::policy) return;
  if (config.db && !config.db->value.path.empty())
    warn(config.db->file, config.db->line, "db", "has no effect in a policy of a sluice.yaml",
         "its `store` counts", diagnostics);
  warn_unserved(config.port, "port", "listen", diagnostics);
  warn_unserved(config.hostname, "hostname", "listen", diagnostics);
  warn_unserved(config.log_level, "log_level", "log", diagnostics);
  warn_unserved(config.log_file, "log_file", "log", diagnostics);
}

}  // namespace

LimitdTexts read_limitd_texts(const std::string& path, const LimitdSource& source,
                              Unusable configured, base::Diagnostics& diagnostics) {
  LimitdTexts read;
  if (source.use == LimitdSource::Use::built_in) {
    read.files.emplace_back(protocol::example_name("limitd"), std::string(example));
    read.digests.push_back(base::digest(example));
    return read;
  }
  const auto add = [&](const std::string& name) {
    if (auto text = take(name, read, diagnostics))
      read.files.emplace_back(name, *std::move(text));
    else
      read.complete = false;
  };
  if (!path.empty()) {
    add(path);
    const std::string folder = path + ".d/";
    const auto names = config::names_in(folder);
    read.paths.push_back(folder);
    read.digests.push_back(config::digest_of_names(names));
    for (const auto& name : names) add(folder + name);
  }
  if (!read.complete) return read;
  find_configurator(source, read);
  if (read.configured_path.empty()) return read;
  base::Diagnostics problems;
  read.configured = take(read.configured_path, read, problems);
  if (!read.configured && configured == Unusable::error) read.complete = false;
  for (auto& d : problems) {
    if (configured == Unusable::main_file) d.severity = base::Diagnostic::Severity::warning;
    diagnostics.push_back(std::move(d));
  }
  return read;
}

void add_limitd(const LimitdTexts& texts, const LimitdSource& source, Unusable configured,
                request::Spaces& spaces, policy::RuleSet& rules, base::Diagnostics& diagnostics) {
  if (!texts.complete) return;  // missing texts have been reported
  if (texts.configured_path.empty()) {
    warn_unserved(read_main(texts, source, spaces, rules, diagnostics), source, diagnostics);
    return;
  }
  if (texts.configured) {
    // The types come from the configurator's file; only the settings of the main file count.
    request::Spaces unused_spaces;
    policy::RuleSet unused;
    warn_unserved(read_main(texts, source, unused_spaces, unused, diagnostics), source,
                  diagnostics);
    base::Diagnostics problems;
    LimitdConfig config;
    const NamedText text{texts.configured_path, *texts.configured};
    read_limitd(std::span(&text, 1), {}, spaces, rules, config, problems);
    const bool usable = !base::has_errors(problems);
    for (auto& d : problems) {
      if (configured == Unusable::main_file) d.severity = base::Diagnostic::Severity::warning;
      diagnostics.push_back(std::move(d));
    }
    if (usable || configured == Unusable::error) return;
  }
  base::Diagnostics told;
  const auto config = read_main(texts, source, spaces, rules, told);
  if (!texts.configured) {
    warn_unserved(config, source, told);
    diagnostics.insert(diagnostics.end(), told.begin(), told.end());
  }
  warn(texts.configured_path, 0, "configurator",
       "cannot be used, so the bucket types of the main file are served until it can",
       "fix it; no restart is needed", diagnostics);
}

LimitdConfig limitd_settings(const LimitdTexts& texts, const LimitdSource& source,
                             base::Diagnostics& diagnostics) {
  request::Spaces spaces;
  policy::RuleSet rules;
  return read_main(texts, source, spaces, rules, diagnostics);
}

namespace {

using protocol::PolicyFiles;

std::shared_ptr<const LimitdSource> source_for(LimitdSource::Use use) {
  return std::make_shared<const LimitdSource>(LimitdSource{.use = use});
}

// The texts that were read, with everything on which their rules depend.
class ReadTexts final : public protocol::PolicyTexts {
 public:
  ReadTexts(LimitdTexts texts, std::shared_ptr<const LimitdSource> source, Unusable configured)
      : texts_(std::move(texts)), source_(std::move(source)), configured_(configured) {
    paths = texts_.paths;
    digests = texts_.digests;
    missing = texts_.missing;
    interval = texts_.interval;
    complete = texts_.complete;
  }

  void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                 base::Diagnostics& diagnostics) const override {
    add_limitd(texts_, *source_, configured_, spaces, rules, diagnostics);
  }

 private:
  LimitdTexts texts_;
  std::shared_ptr<const LimitdSource> source_;
  Unusable configured_;
};

constexpr protocol::PolicyKind kinds[] = {{"limitd"}};
constexpr std::string_view doubtful_endings[] = {".yaml", ".yml", ".config"};

// Converts limitd's rules to native ones. A rule of a type gets a condition for `key`, which every
// request has. The end of an override is reported, because native rules cannot express it.
std::vector<policy::Rule> to_native(std::span<const policy::Rule> rules, base::Time now,
                                    base::Diagnostics& diagnostics) {
  std::vector<policy::Rule> lasting;
  for (const policy::Rule& rule : rules) {
    if (rule.until <= now) continue;
    if (rule.until.us != INT64_MAX)
      diagnostics.push_back({.file = rule.file,
                             .line = rule.line,
                             .column = 0,
                             .subject = "override [" + rule.pattern + "]",
                             .message = "has an `until`, which no native rule has",
                             .remedy = "take it out of the file, and give the server that limit "
                                       "with `sluice override set --until`"});
    lasting.push_back(rule);
    if (rule.conditions.size() == 1)
      lasting.back().conditions.push_back({"key", policy::Pattern::wildcard("*")});
  }
  return policy::as_native(
      lasting, "keep the file: `policy: [{ limitd: FILE }]` in place of `rules`", diagnostics);
}

}  // namespace

bool is_limitd(std::string_view yaml) {
  policy::YamlDocument document;
  if (policy::parse_yaml(yaml, document)) return false;
  const policy::YamlNode root = document.root();
  if (!root.is_map()) return false;
  bool buckets = false;
  for (policy::YamlNode key = root.first_child(), value; key; key = value.next()) {
    value = key.next();
    if (key.text() == "buckets") buckets = true;
    if (key.text() == "listen" || key.text() == "policy" || key.text() == "rules") return false;
  }
  return buckets;
}

std::unique_ptr<PolicyFiles> LimitdFiles::clone() const {
  return std::make_unique<LimitdFiles>(*this);
}

std::unique_ptr<protocol::PolicyTexts> LimitdFiles::read(protocol::Unusable unusable,
                                                         base::Diagnostics& diagnostics) const {
  return std::make_unique<ReadTexts>(read_limitd_texts(path.value, *source_, unusable, diagnostics),
                                     source_, unusable);
}

constinit const protocol::PolicyFormat policy_format = {
    .file = "limitd.yaml",
    .summary = "limitd's bucket types",
    .rules = "bucket types",
    .request = "type=ip key=10.0.0.7",
    .counter = {},
    .second = "there is a limitd policy already",
    .second_remedy = "put its bucket types into the folder FILE.d of the first",
    .without_rules = "there is no bucket type: every request is answered UNKNOWN_BUCKET_TYPE",
    .kinds = kinds,
    .doubtful_endings = doubtful_endings,
    .holds = is_limitd,
    .options = {},
    .flags = {},
    .log_rules = false,
    .configured = [](base::Setting<std::string> path) -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<LimitdFiles>(std::move(path), source_for(LimitdSource::Use::policy));
    },
    .single = [](std::string path, size_t) -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<LimitdFiles>(base::Setting<std::string>{std::move(path)},
                                           source_for(LimitdSource::Use::whole));
    },
    .from_text = [](std::string name, std::string text,
                    size_t) -> std::unique_ptr<protocol::PolicyTexts> {
      LimitdTexts texts;
      texts.files.emplace_back(std::move(name), std::move(text));
      return std::make_unique<ReadTexts>(std::move(texts), source_for(LimitdSource::Use::policy),
                                         Unusable::error);
    },
    .to_native = to_native,
    .example = []() -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<LimitdFiles>(base::Setting<std::string>{},
                                           source_for(LimitdSource::Use::built_in));
    },
};

}  // namespace sluice::limitd
