#include "config/policy_source.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/hash.h"
#include "config/across_slots.h"
#include "config/operations.h"
#include "config/read_file.h"
#include "config/review_rules.h"
#include "config/settings.h"
#include "config/time_zones.h"

namespace sluice::config {
namespace {

// Only regular files can be read again: another file might block, or be empty the second time.
bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode) || S_ISDIR(status.st_mode);
}

}  // namespace

PolicySource::PolicySource(Config config, ReadConfig read, request::Spaces& spaces,
                           size_t known_max)
    : start_(std::move(config)), read_(std::move(read)), spaces_(spaces), known_max_(known_max) {}

std::vector<std::string> PolicySource::files_of(const Config& config) const {
  std::vector<std::string> files;
  if (!config.file.empty()) files.push_back(config.file);
  for (const auto& policy : config.policy)
    if (!policy.files->path.value.empty()) files.push_back(policy.files->path.value);
  const auto tokens = config::files_of(config.users);
  files.insert(files.end(), tokens.begin(), tokens.end());
  return files;
}

bool PolicySource::is_repeatable() const {
  const auto files = files_of(start_);
  return std::all_of(files.begin(), files.end(), is_regular);
}

live::Loaded PolicySource::first() {
  live::Loaded loaded;
  if (!read_time_zones(start_, loaded.diagnostics)) return loaded;
  load(start_, std::nullopt, loaded);
  start_.rules.value.document.reset();  // frees a long text that is not needed any more
  return loaded;
}

// The policy of that format that was there at the start, if it is sent; else null.
protocol::SentPolicy* PolicySource::running(const protocol::PolicyFormat* format) {
  for (Policy& policy : start_.policy)
    if (policy.files->format() == format) return policy.files->sent();
  return nullptr;
}

// Do the files of the last rules have the texts with this hash? Then no other file needs a look,
// because the same sluice.yaml names the same files.
bool PolicySource::are_texts_of(uint64_t hash) const {
  // What was sent is no file.
  for (const Policy& policy : start_.policy)
    if (policy.files->sent() != nullptr) return false;
  std::vector<uint64_t> digests;
  for (const auto& path : files_) {
    if (!is_regular(path)) return false;
    const auto digest = digest_of_path(path);
    if (!digest) return false;
    digests.push_back(*digest);
  }
  return base::digest_of(digests) == hash;
}

live::Loaded PolicySource::again(uint64_t hash) {
  const ReadScope regular_files;
  live::Loaded loaded;
  // A reload does not change the folder, but takes what has changed in it.
  if (!read_time_zones(start_, loaded.diagnostics)) return loaded;
  if (are_texts_of(hash)) {
    loaded.hash = hash;
    loaded.files = files_;
    loaded.interval = interval_;
    return loaded;
  }
  loaded.files = files_of(start_);
  const auto refuse_special = [&loaded] {
    for (const auto& path : loaded.files) {
      if (is_regular(path)) continue;
      base::Diagnostic place;
      place.file = path;
      complain(place, "is not a regular file", "a policy that must be reloaded comes from files",
               loaded.diagnostics);
    }
    return base::has_errors(loaded.diagnostics);
  };
  if (!start_.file.empty()) {
    loaded.files = {start_.file};
    if (is_missing(start_.file)) loaded.missing = loaded.files;
  }
  if (refuse_special()) return loaded;
  const Config config = read_(loaded.diagnostics);
  if (base::has_errors(loaded.diagnostics)) return loaded;
  loaded.files = files_of(config);
  if (refuse_special()) return loaded;
  load(config, hash, loaded);
  if (loaded.rules) warn_of_changes(config, loaded.diagnostics);
  return loaded;
}

void PolicySource::load(const Config& config, std::optional<uint64_t> unless,
                        live::Loaded& loaded) {
  PolicyList files = config.policy_files();
  if (unless)
    for (auto& file : files)
      if (protocol::SentPolicy* const sent = file->sent())
        sent->go_on_from(running(file->format()), config.file, loaded.diagnostics);
  for (const Policy& was : start_.policy) {
    const bool is_there = std::ranges::any_of(files, [&](const auto& file) {
      return file->format() == was.files->format() && std::as_const(*file).sent() != nullptr;
    });
    if (!unless || std::as_const(*was.files).sent() == nullptr || is_there) continue;
    base::Diagnostic place;
    place.severity = base::Diagnostic::Severity::warning;
    place.file = config.file;
    place.subject = "policy." + std::string(was.files->format()->sent_key);
    complain(place, "was taken out since the start; what is sent has no effect any more",
             "restart the server to end the stream", loaded.diagnostics);
  }
  const auto unusable = unless ? protocol::Unusable::error : protocol::Unusable::main_file;
  const PolicyTexts texts = read_texts(files, unusable, loaded.diagnostics);
  loaded.files = texts.paths;
  if (!config.file.empty()) loaded.files.insert(loaded.files.begin(), config.file);
  loaded.missing = texts.missing;
  loaded.interval = texts.interval;
  const MadeUsers made = make_users(config.users, loaded.diagnostics);
  for (const std::string& path : config::files_of(config.users)) {
    loaded.files.push_back(path);
    if (is_missing(path)) loaded.missing.push_back(path);
  }
  if (texts.complete && made.users) {
    std::vector<uint64_t> digests;
    if (!config.file.empty()) digests.push_back(config.file_digest);
    digests.insert(digests.end(), texts.digests.begin(), texts.digests.end());
    digests.insert(digests.end(), made.digests.begin(), made.digests.end());
    loaded.hash = base::digest_of(digests);
    if (loaded.hash == unless) return;
  }
  if (!made.users) return;
  if (unless && spaces_.known() >= known_max_) {
    spaces_.want_round();
    base::Diagnostic place;
    place.file = config.file;
    complain(place,
             "is not read again: this process knows " + std::to_string(spaces_.known()) +
                 " different limits of this policy, of those before it and of counters, the most "
                 "that it keeps",
             "reload it again in a minute, when limits that are not used any more are dropped, or "
             "restart the server",
             loaded.diagnostics);
    return;
  }
  // A reload does not change the protocols' own settings, so those of the start are used.
  loaded.rules = load_policy(texts, spaces_, loaded.diagnostics, start_.own);
  if (!loaded.rules) return;
  // Nor does it change the store.
  if (!check_across_slots(
          start_.store, *loaded.rules, loaded.diagnostics,
          unless ? policy::StoreIsRead::at_start : policy::StoreIsRead::with_the_rules)) {
    loaded.rules.reset();
    return;
  }
  if (!check_reach(config, *loaded.rules, loaded.diagnostics)) {
    loaded.rules.reset();
    return;
  }
  review_rules(start_, *loaded.rules, loaded.diagnostics);
  loaded.users = made.users;
  files_ = loaded.files;
  interval_ = loaded.interval;
}

void PolicySource::warn_of_changes(const Config& config, base::Diagnostics& diagnostics) const {
  for (std::string& path : changed_settings(config, start_)) {
    base::Diagnostic place;
    place.severity = base::Diagnostic::Severity::warning;
    place.file = config.file;
    place.subject = std::move(path);
    complain(place, "was changed since the start, and a reload does not apply it",
             "restart the server to apply it", diagnostics);
  }
}

}  // namespace sluice::config
