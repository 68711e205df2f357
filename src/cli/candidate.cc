#include "cli/candidate.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/config.h"
#include "cli/load_policy.h"

namespace sluice::cli {
namespace {

constexpr const char* body_name = "candidate";

// Rules, and what they point into.
struct Held {
  limit::Spaces spaces;
  std::shared_ptr<const policy::RuleSet> rules;
};

// Does the path, as it is opened, lie in that folder or below it?
bool is_below(const std::string& path, const std::string& folder) {
  const auto base = std::filesystem::path(folder.empty() ? "." : folder).lexically_normal();
  const auto rest = std::filesystem::path(path).lexically_normal().lexically_relative(base);
  return !rest.empty() && *rest.begin() != "..";
}

// Whoever asks about a candidate is told what is wrong with the files that it names: so these are
// the server's own, those beside its sluice.yaml or named by it. False: another one is.
bool check_files(const Config& config, const std::string& live_file,
                 base::Diagnostics& diagnostics) {
  Config live;
  base::Diagnostics unused;
  if (const auto text = live_file.empty() ? std::nullopt : read_file(live_file, unused))
    read_config(*text, live_file, live, unused);
  bool sound = true;
  for (const Policy& policy : config.policy) {
    const std::string& path = policy.path.value;
    if (!live_file.empty() &&
        is_below(path, std::filesystem::path(live_file).parent_path().string()))
      continue;
    if (std::any_of(live.policy.begin(), live.policy.end(),
                    [&](const Policy& known) { return known.path.value == path; }))
      continue;
    sound = false;
    diagnostics.push_back({.file = live_file.empty() ? body_name : live_file,
                           .subject = "policy",
                           .message = "`" + path +
                                      "` is not beside the server's sluice.yaml, "
                                      "nor does that name it",
                           .remedy = "ask `sluice check` on the machine, which reads any file"});
  }
  return sound;
}

}  // namespace

std::optional<server::Candidate> read_candidate(std::string_view kind, const std::string& text,
                                                const std::string& live_file) {
  const auto as = kind_named(kind);
  if (!as) return std::nullopt;
  server::Candidate candidate;
  const auto held = std::make_shared<Held>();
  if (*as == FileKind::sluice) {
    Config config;
    read_config(text, live_file.empty() ? body_name : live_file, config, candidate.diagnostics);
    const bool sound = !base::has_errors(candidate.diagnostics);
    if (check_files(config, live_file, candidate.diagnostics))
      held->rules = load_policy(config.policy_files(), held->spaces, candidate.diagnostics);
    if (!sound) held->rules.reset();
    candidate.dialects = {policy::Dialect::divvy, policy::Dialect::limitd};
    candidate.native = true;
  } else {
    PolicyFile file{.path = body_name};
    PolicyTexts texts;
    texts.texts.emplace_back(text);
    texts.limitd.emplace_back();
    if (*as == FileKind::limitd) {
      file.limitd = std::make_shared<const LimitdSource>();
      texts.limitd.front().files = {{body_name, text}};
      candidate.dialects = {policy::Dialect::limitd};
    } else {
      file.format =
          *as == FileKind::divvy_json ? policy::DivvyFormat::json : policy::DivvyFormat::ini;
      candidate.dialects = {policy::Dialect::divvy};
    }
    held->rules = load_policy({file}, texts, Unusable::error, held->spaces, candidate.diagnostics);
  }
  if (held->rules) candidate.rules = {held, held->rules.get()};
  return candidate;
}

}  // namespace sluice::cli
