#include "cli/inspect.h"

#include "config/settings.h"

namespace sluice::cli {
namespace {

std::optional<divvy::DivvyFormat> format_of(config::FileKind kind) {
  if (kind == config::FileKind::divvy_json) return divvy::DivvyFormat::json;
  return divvy::DivvyFormat::ini;
}

}  // namespace

std::shared_ptr<const policy::RuleSet> inspect(const std::string& path,
                                               std::optional<config::FileKind> as, bool documented,
                                               request::Spaces& spaces,
                                               base::Diagnostics& diagnostics) {
  const bool told = as.has_value();
  std::optional<std::string> text;
  if (!as) as = config::kind_of(path);
  const bool limitd_by_name = !as && path.ends_with(".config");
  if (as == config::FileKind::sluice || limitd_by_name) {
    if (!(text = config::read_file(path, diagnostics))) return nullptr;
    if (!told && config::is_limitd(*text)) as = config::FileKind::limitd;
  }
  if (!as) {
    base::Diagnostic place;
    place.file = path;
    config::complain(place, "Unrecognized format for config file: " + path,
                     "name it .ini, .json, .yaml or .yml, or say what it is with --as",
                     diagnostics);
    return nullptr;
  }
  std::vector<config::PolicyFile> files{{.path = path, .format = format_of(*as)}};
  if (as == config::FileKind::limitd)
    files.front().limitd = std::make_shared<const limitd::LimitdSource>(
        limitd::LimitdSource{.use = limitd::LimitdSource::Use::whole});
  if (as == config::FileKind::sluice) {
    config::Config config;
    base::Diagnostics of_config;
    config::read_config(*text, path, config, of_config);
    diagnostics.insert(diagnostics.end(), of_config.begin(), of_config.end());
    // Policies that are named soundly are looked at all the same, so that one run tells everything.
    files = config.has_policy() ? config.policy_files() : std::vector<config::PolicyFile>();
    if (base::has_errors(of_config)) {
      config::load_policy(files, spaces, diagnostics);
      return nullptr;
    }
  }
  if (documented)
    for (config::PolicyFile& file : files) file.matching = divvy::DivvyMatching::documented;
  return config::load_policy(files, spaces, diagnostics);
}

std::optional<Pairs> pairs_of(std::span<const std::string> words, std::string& problem) {
  Pairs pairs;
  for (const std::string& word : words) {
    const size_t cut = word.find('=');
    if (cut == std::string::npos) {
      problem = "`" + word + "` has no `=`; a request is words of the form key=value";
      return std::nullopt;
    }
    pairs.emplace_back(word.substr(0, cut), word.substr(cut + 1));
  }
  return pairs;
}

std::string to_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli
