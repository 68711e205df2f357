#include "protocol/envoy/policy_files.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/bounds.h"
#include "base/hash.h"
#include "base/units.h"
#include "config/settings.h"
#include "protocol/envoy/limits_file.h"
#include "protocol/envoy/xds.h"

namespace sluice::envoy {
namespace {

using base::Diagnostic;
using protocol::PolicyFiles;

constexpr std::string_view merge_domains = "merge_domains", ignore_dots = "ignore_dot_files",
                           without_limits = "start_without_limits", prefix = "key_prefix",
                           jitter = "life_jitter", store_error = "on_store_error",
                           strict = "strict";
constexpr std::string_view options_of_files[] = {merge_domains, ignore_dots, without_limits, prefix,
                                                 jitter,        store_error, strict};

constexpr uint64_t jitter_max = 86'400;
constexpr size_t prefix_bytes_max = 256;

constexpr std::array on_errors = {request::OnError::error, request::OnError::deny,
                                  request::OnError::local, request::OnError::allow};

class LimitsTexts final : public protocol::PolicyTexts {
 public:
  LimitsTexts(LimitsFolder folder, const LimitsReading& reading, const RulesOptions& rules,
              bool may_be_wrong)
      : files_(std::move(folder.files)),
        reading_(reading),
        rules_(rules),
        may_be_wrong_(may_be_wrong) {
    paths = std::move(folder.paths);
    digests = std::move(folder.digests);
    missing = std::move(folder.missing);
    complete = folder.complete || may_be_wrong;
    unreadable_ = !folder.complete;
  }

  void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                 base::Diagnostics& diagnostics) const override {
    std::vector<LimitsText> texts;
    texts.reserve(files_.size());
    for (const auto& [name, text] : files_) texts.push_back({name, text});
    const size_t told_before = diagnostics.size();
    auto set = read_limits(texts, reading_, diagnostics);
    RulesOptions options = rules_;
    if (!set || unreadable_) {
      if (!may_be_wrong_) return;
      forgive(std::span(diagnostics).subspan(told_before));
      options.not_loaded = true;
      set = LimitSet();
    }
    LimitRules::add(*std::move(set), options, spaces, rules);
  }

  static void forgive(std::span<Diagnostic> errors) {
    for (Diagnostic& one : errors) one.severity = Diagnostic::Severity::warning;
  }

 private:
  std::vector<std::pair<std::string, std::string>> files_;
  LimitsReading reading_;
  RulesOptions rules_;
  bool may_be_wrong_, unreadable_ = false;
};

std::string truth(bool value) {
  return value ? "true" : "false";
}

constexpr protocol::PolicyKind kinds[] = {{"envoy"}};
constexpr std::string_view doubtful_endings[] = {".yaml", ".yml"};
constexpr protocol::PolicyFlag flags[] = {
    {"--merge-domains", "Several files of Envoy's may have one domain (MERGE_DOMAIN_CONFIG)",
     merge_domains, "true"},
    {"--ignore-dot-files",
     "Names that begin with a dot are ignored in a folder of Envoy's, as a\n"
     "ConfigMap has them (RUNTIME_IGNOREDOTFILES)",
     ignore_dots, "true"},
    {"--strict",
     "What the original accepts in files of Envoy's although it is\n"
     "doubtful is an error",
     strict, "true"}};

}  // namespace

std::unique_ptr<PolicyFiles> LimitsFiles::clone() const {
  return std::make_unique<LimitsFiles>(*this);
}

void LimitsFiles::set(std::string_view option, std::string_view text, const std::string& origin,
                      const Diagnostic& place, base::Diagnostics& diagnostics) {
  origin_ = origin;
  const auto set_truth = [&](bool& to) {
    if (text == "true" || text == "false")
      to = text == "true";
    else
      config::complain(place, "`" + std::string(text) + "` is neither true nor false",
                       "write `" + std::string(option) + ": true`, or take it out", diagnostics);
  };
  if (option == merge_domains) return set_truth(reading.merge_domains);
  if (option == ignore_dots) return set_truth(ignore_dot_files);
  if (option == without_limits) return set_truth(start_without_limits);
  if (option == strict) return set_truth(reading.strict);
  if (option == prefix) {
    if (text.size() <= prefix_bytes_max)
      rules.key_prefix = text;
    else
      config::complain(place, "the prefix has more than 256 bytes", "write a shorter one",
                       diagnostics);
  } else if (option == jitter) {
    const auto seconds = base::parse_count(text);
    if (seconds && *seconds <= jitter_max)
      rules.life_jitter_s = static_cast<uint32_t>(*seconds);
    else
      config::complain(place, "`" + std::string(text) + "` is not a number of seconds up to 86400",
                       "write `life_jitter: 300`, or 0 for none", diagnostics);
  } else {
    const auto named = std::ranges::find(
        on_errors, text, [](request::OnError one) { return request::name_of(one); });
    if (named != on_errors.end())
      rules.on_store_error = *named;
    else
      config::complain(place, "`" + std::string(text) + "` is not an answer",
                       "write error, deny, local or allow", diagnostics);
  }
}

std::vector<std::pair<std::string, std::string>> LimitsFiles::options() const {
  std::vector<std::pair<std::string, std::string>> lines;
  const auto add = [&](std::string_view option, std::string text) {
    lines.emplace_back(std::string(option) + ": " + std::move(text), origin_);
  };
  if (reading.merge_domains) add(merge_domains, truth(true));
  if (ignore_dot_files) add(ignore_dots, truth(true));
  if (start_without_limits) add(without_limits, truth(true));
  if (reading.strict) add(strict, truth(true));
  if (!rules.key_prefix.empty()) add(prefix, config::in_quotes(rules.key_prefix));
  if (rules.life_jitter_s != 0) add(jitter, std::to_string(rules.life_jitter_s));
  if (rules.on_store_error != request::OnError::error)
    add(store_error, std::string(request::name_of(rules.on_store_error)));
  return lines;
}

std::unique_ptr<protocol::PolicyTexts> LimitsFiles::read(protocol::Unusable unusable,
                                                         base::Diagnostics& diagnostics) const {
  const bool may_be_wrong = start_without_limits && unusable == protocol::Unusable::main_file;
  const size_t told_before = diagnostics.size();
  LimitsFolder folder = read_limits_folder(path.value, ignore_dot_files, diagnostics);
  if (may_be_wrong) LimitsTexts::forgive(std::span(diagnostics).subspan(told_before));
  return std::make_unique<LimitsTexts>(std::move(folder), reading, rules, may_be_wrong);
}

constinit const protocol::PolicyFormat policy_format = {
    .file = "limits",
    .summary = "a folder of Envoy's limits",
    .rules = "limits",
    .request = "domain=messaging message_type=marketing to_number=2061234567",
    .counter = {},
    .second = "there are Envoy's limits already, from a folder or by xDS",
    .second_remedy = "put all of them into one folder, or have all of them sent",
    .without_rules = {},
    .kinds = kinds,
    .doubtful_endings = doubtful_endings,
    .holds = is_limits_file,
    .options = options_of_files,
    .flags = flags,
    .log_rules = false,
    .folders = true,
    .configured = [](base::Setting<std::string> path) -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<LimitsFiles>(std::move(path));
    },
    .single = [](std::string path, size_t) -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<LimitsFiles>(base::Setting<std::string>{std::move(path)});
    },
    .from_text = [](std::string name, std::string text,
                    size_t) -> std::unique_ptr<protocol::PolicyTexts> {
      LimitsFolder folder;
      folder.digests.push_back(base::digest(text));
      folder.files.emplace_back(std::move(name), std::move(text));
      return std::make_unique<LimitsTexts>(std::move(folder), LimitsReading(), RulesOptions(),
                                           false);
    },
    .example = nullptr,
    .sent_key = "xds",
    .sent = []() -> std::unique_ptr<protocol::SentPolicy> { return std::make_unique<XdsPolicy>(); },
};

}  // namespace sluice::envoy
