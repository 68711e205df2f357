#include "cli/inspect.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "config/across_slots.h"
#include "config/operations.h"
#include "config/read_file.h"
#include "config/redis_settings.h"
#include "config/review_rules.h"
#include "config/screen_text.h"
#include "config/settings.h"
#include "config/time_zones.h"

namespace sluice::cli {
namespace {

// Is there a file in the folder, or below it, whose name could be that of a policy?
bool has_policy_files(const std::string& folder) {
  constexpr size_t looked_at_max = 10'000;
  std::error_code problem;
  size_t looked_at = 0;
  for (std::filesystem::recursive_directory_iterator at(folder, problem), end;
       !problem && at != end && looked_at < looked_at_max; at.increment(problem), ++looked_at) {
    const auto ending = at->path().extension();
    if (ending == ".yaml" || ending == ".yml") return true;
  }
  return looked_at == looked_at_max;
}

// Finds the kind of a file by its text, if its name does not tell. False: it cannot be read.
bool find_kind(const std::string& path, std::optional<config::FileKind>& as,
               std::optional<std::string>& text, base::Diagnostics& diagnostics) {
  std::error_code unknown;
  if (!as && std::filesystem::is_directory(path, unknown)) {
    as = config::kind_of_folder();
    if (as && has_policy_files(path)) return true;
    base::Diagnostic place;
    place.file = path;
    config::complain(place, "is a folder without a policy in it", "name a file", diagnostics);
    return false;
  }
  const bool told = as.has_value();
  if (!as) as = config::kind_of(path);
  const bool has_to_be_read = as ? as->is_sluice() : config::is_doubtful(path);
  if (!has_to_be_read) return true;
  if (!(text = config::read_file(path, diagnostics))) return false;
  if (!told)
    if (const auto kind = config::kind_of_text(path, *text)) as = kind;
  return true;
}

void say_unmatched(const config::Config& config, Unmatched& unmatched) {
  for (const auto& [listener, origin] : config.listen) {
    if (!listener.protocol) continue;
    const protocol::Description& its = describe(*listener.protocol);
    std::string words;
    if (its.settings != nullptr && its.settings->unmatched != nullptr)
      words = its.settings->unmatched(config.settings_of(*listener.protocol));
    else if (listener.unmatched != request::Unmatched::as_protocol)
      words = std::string(name_of(listener.unmatched)) + ", as `unmatched` of its listener says";
    else if (its.dialect != nullptr)
      words = its.dialect->unmatched;
    if (words.empty()) continue;
    std::pair said(std::string(its.name), std::move(words));
    if (std::find(unmatched.begin(), unmatched.end(), said) == unmatched.end())
      unmatched.push_back(std::move(said));
  }
}

}  // namespace

std::shared_ptr<const policy::RuleSet> inspect(const std::string& path,
                                               std::optional<config::FileKind> as,
                                               const FileFlags& flags, request::Spaces& spaces,
                                               base::Diagnostics& diagnostics, Unmatched* unmatched,
                                               std::vector<std::string>* across_slots,
                                               const ApplySettings& apply) {
  std::optional<std::string> text;
  if (!find_kind(path, as, text, diagnostics)) return nullptr;
  if (!as) {
    base::Diagnostic place;
    place.file = path;
    if (config::is_missing(path)) {
      config::complain(place, "there is no such file or folder", "check the path", diagnostics);
      return nullptr;
    }
    // A file that cannot be read, or is not text, is reported as that, not as of an unknown kind.
    if (!config::read_file(path, diagnostics)) return nullptr;
    config::complain(
        place, "Unrecognized format for config file: " + path,
        "name it " + config::one_of(config::known_endings()) + ", or say what it is with --as",
        diagnostics);
    return nullptr;
  }
  config::PolicyList files;
  config::Config config;
  if (as->is_sluice()) {
    base::Diagnostics of_config;
    config::read_config(*text, path, config, of_config);
    if (apply) apply(config, of_config);
    if (flags.to_be_served && !base::has_errors(of_config)) {
      config::check_store(config, of_config);
      config::check_listeners(config, of_config);
    }
    diagnostics.insert(diagnostics.end(), of_config.begin(), of_config.end());
    const bool has_zones =
        base::has_errors(of_config) || config::read_time_zones(config, diagnostics);
    if (unmatched != nullptr) say_unmatched(config, *unmatched);
    // Other policies are inspected nevertheless, so that one run reports all errors.
    if (config.has_policy()) files = config.policy_files();
    if (base::has_errors(of_config) || !has_zones) {
      config::load_policy(files, spaces, diagnostics, config.own);
      return nullptr;
    }
    if (!config::make_users(config.users, diagnostics).users) {
      config::load_policy(files, spaces, diagnostics);
      return nullptr;
    }
  } else {
    files.emplace_back(as->format().single(path, as->number));
  }
  for (const FileFlags::OfFormat& one : flags.of_formats)
    for (auto& file : files)
      if (one.given && file->format() == one.format)
        file->set(one.flag->option, one.flag->value, std::string(one.flag->flag), {}, diagnostics);
  auto rules = config::load_policy(files, spaces, diagnostics, config.own);
  if (!rules) return rules;
  if (across_slots == nullptr) {
    if (!config::check_across_slots(config.store, *rules, diagnostics)) return nullptr;
  } else {
    auto across = config::find_across_slots(config.store, *rules, diagnostics);
    *across_slots = std::move(across.names);
    if (across.refused) return nullptr;
  }
  if (!config::check_reach(config, *rules, diagnostics)) return nullptr;
  if (flags.to_be_served) config::review_rules(config, *rules, diagnostics, true);
  return rules;
}

void note(const std::string& text, config::CommandIo& io) {
  io.err << "note: " << config::on_screen(text) << std::endl;
}

void warn(const std::string& problem, config::CommandIo& io) {
  io.err << config::paint("warning:", config::yellow, io.err_colour) << ' '
         << config::on_screen(problem) << std::endl;
}

int fail(const std::string& problem, config::CommandIo& io) {
  io.err << config::paint("error:", config::red, io.err_colour) << ' ' << config::on_screen(problem)
         << std::endl;
  return config::exit_failure;
}

base::Result<Pairs> pairs_of(std::span<const std::string> words) {
  Pairs pairs;
  for (const std::string& word : words) {
    const size_t cut = word.find('=');
    if (cut == std::string::npos)
      return base::Problem{"`" + word + "` has no `=`; a request is words of the form key=value"};
    pairs.emplace_back(word.substr(0, cut), word.substr(cut + 1));
  }
  return pairs;
}

std::string to_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace sluice::cli
