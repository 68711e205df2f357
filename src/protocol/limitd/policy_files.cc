#include "protocol/limitd/policy_files.h"

#include <utility>

#include "policy/read/native_text.h"
#include "policy/read/yaml_tree.h"

namespace sluice::limitd {
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
