#include "cli/candidate.h"

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
