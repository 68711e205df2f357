#include "config/candidate.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "config/across_slots.h"
#include "config/config.h"
#include "config/load_policy.h"
#include "config/read_file.h"
#include "config/review_rules.h"
#include "config/settings.h"
#include "protocol/protocol.h"

namespace sluice::config {
namespace {

constexpr const char* body_name = "candidate";

// Rules, with the objects to which they point.
struct Held {
  request::Spaces spaces;
  std::shared_ptr<const policy::RuleSet> rules;
};

// Is `path` in the folder of the live sluice.yaml?
bool is_in_folder(const std::string& path, const std::string& live_file) {
  namespace fs = std::filesystem;
  const auto folder_of = [](const fs::path& file) {
    std::error_code error;
    return fs::weakly_canonical(file.has_parent_path() ? file.parent_path() : ".", error);
  };
  return !live_file.empty() && folder_of(path) == folder_of(live_file);
}

// Is it a policy there, by its name?
bool is_beside(const std::string& path, const std::string& live_file) {
  const std::filesystem::path one(path), live(live_file);
  const auto endings = known_endings();
  return std::find(endings.begin(), endings.end(), one.extension()) != endings.end() &&
         one.filename() != live.filename() && is_in_folder(path, live_file);
}

struct LiveConfig {
  Config config;
  std::vector<std::string> files;  // that were read for it
};

LiveConfig read_live(const std::string& live_file) {
  LiveConfig live;
  base::Diagnostics unused;
  const ReadScope scope;
  if (const auto text = live_file.empty() ? std::nullopt : read_file(live_file, unused))
    read_config(*text, live_file, live.config, unused);
  live.files = scope.asked();
  return live;
}

// A candidate may only name the server's own files: the policies beside its sluice.yaml, or those
// that it names. The answer about a candidate quotes the files that it names, and must not reveal
// others. False: it names another file, which is reported.
bool check_files(const Config& config, const std::string& live_file, const Config& live,
                 base::Diagnostics& diagnostics) {
  bool sound = true;
  auto endings = known_endings();
  endings.pop_back();  // `.yml` need not be mentioned
  for (const Policy& policy : config.policy) {
    const std::string& path = policy.files->path.value;
    if (!live_file.empty() && is_beside(path, live_file)) continue;
    if (std::any_of(live.policy.begin(), live.policy.end(),
                    [&](const Policy& known) { return known.files->path.value == path; }))
      continue;
    sound = false;
    diagnostics.push_back({.file = live_file.empty() ? body_name : live_file,
                           .subject = "policy",
                           .message = "`" + path + "` is not " + one_of(endings) +
                                      " beside the server's "
                                      "sluice.yaml, nor does that name it",
                           .remedy = "run `sluice check` on the machine, which reads any file"});
  }
  return sound;
}

}  // namespace

std::optional<admin::Candidate> read_candidate(std::string_view kind, const std::string& text,
                                               const std::string& live_file) {
  const auto as = kind_named(kind);
  if (!as) return std::nullopt;
  admin::Candidate candidate;
  const auto held = std::make_shared<Held>();
  if (as->is_sluice()) {
    Config config;
    const LiveConfig live = read_live(live_file);
    {
      // Of secrets and similar files, those beside the live file, or that it names. It must not be
      // read as a secret itself.
      const ReadScope scope([&](const std::string& path) {
        return std::find(live.files.begin() + (live.files.empty() ? 0 : 1), live.files.end(),
                         path) != live.files.end() ||
               (path != live_file && is_in_folder(path, live_file));
      });
      read_config(text, live_file.empty() ? body_name : live_file, config, candidate.diagnostics);
    }
    const ReadScope regular_files;
    const bool sound = !base::has_errors(candidate.diagnostics);
    if (check_files(config, live_file, live.config, candidate.diagnostics))
      held->rules =
          load_policy(config.policy_files(), held->spaces, candidate.diagnostics, config.own);
    if (!sound) held->rules.reset();
    if (held->rules) {
      auto across = find_across_slots(config.store, *held->rules, candidate.diagnostics);
      candidate.across_slots = std::move(across.names);
      if (across.refused) held->rules.reset();
    }
    if (held->rules && !check_reach(config, *held->rules, candidate.diagnostics))
      held->rules.reset();
    if (held->rules) review_rules(config, *held->rules, candidate.diagnostics, true);
    candidate.dialects = {&policy::native_dialect};
    for (const policy::Dialect* dialect : protocol::dialects())
      if (dialect->written) candidate.dialects.push_back(dialect);
  } else {
    PolicyTexts texts;
    texts.add(as->format().from_text(body_name, text, as->number));
    candidate.dialects = {protocol::dialect_of(*as->protocol)};
    held->rules = load_policy(texts, held->spaces, candidate.diagnostics);
    if (held->rules) review_rules(Config(), *held->rules, candidate.diagnostics, true);
  }
  if (held->rules) candidate.rules = {held, held->rules.get()};
  return candidate;
}

}  // namespace sluice::config
