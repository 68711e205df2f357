#include "cli/inspect.h"

#include "config/settings.h"

namespace sluice::cli {
namespace {

std::optional<policy::DivvyFormat> format_of(FileKind kind) {
  if (kind == FileKind::divvy_json) return policy::DivvyFormat::json;
  return policy::DivvyFormat::ini;
}

}  // namespace

std::shared_ptr<const policy::RuleSet> inspect(const std::string& path, std::optional<FileKind> as,
                                               bool documented, limit::Spaces& spaces,
                                               base::Diagnostics& diagnostics) {
  const bool told = as.has_value();
  std::optional<std::string> text;
  if (!as) as = kind_of(path);
  const bool limitd_by_name = !as && path.ends_with(".config");
  if (as == FileKind::sluice || limitd_by_name) {
    if (!(text = read_file(path, diagnostics))) return nullptr;
    if (!told && is_limitd(*text)) as = FileKind::limitd;
  }
  if (!as) {
    base::Diagnostic place;
    place.file = path;
    complain(place, "Unrecognized format for config file: " + path,
             "name it .ini, .json, .yaml or .yml, or say what it is with --as", diagnostics);
    return nullptr;
  }
  std::vector<PolicyFile> files{{.path = path, .format = format_of(*as)}};
  if (as == FileKind::limitd)
    files.front().limitd =
        std::make_shared<const LimitdSource>(LimitdSource{.use = LimitdSource::Use::whole});
  if (as == FileKind::sluice) {
    Config config;
    base::Diagnostics of_config;
    read_config(*text, path, config, of_config);
    diagnostics.insert(diagnostics.end(), of_config.begin(), of_config.end());
    // Policies that are named soundly are looked at all the same, so that one run tells everything.
    files = config.has_policy() ? config.policy_files() : std::vector<PolicyFile>();
    if (base::has_errors(of_config)) {
      load_policy(files, spaces, diagnostics);
      return nullptr;
    }
  }
  if (documented)
    for (PolicyFile& file : files) file.matching = policy::DivvyMatching::documented;
  return load_policy(files, spaces, diagnostics);
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
