// The policies that a protocol brings along in files of its own format: how they are named in a
// configuration and on the command line, how one is read, and what its rules are called. Each
// protocol with such files defines a PolicyFormat in its folder (Description::policy). Constant
// data and objects without state of their own; the main thread and the thread that reloads.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/setting.h"
#include "base/time.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::protocol {

struct PolicyFormat;

// What a file leads to that a policy's main file names and that cannot be used: the policy is
// refused, or the main file is served without it.
enum class Unusable { error, main_file };

// What the files of one policy hold, read all at once.
class PolicyTexts {
 public:
  virtual ~PolicyTexts() = default;

  // Appends the rules. Everything wrong or doubtful becomes a diagnostic; with an error among them
  // `rules` cannot be used.
  virtual void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                         base::Diagnostics& diagnostics) const = 0;

  std::vector<std::string> paths;         // of which any change matters, read or not
  std::vector<uint64_t> digests;          // of all that was read
  std::vector<std::string> missing;       // paths that do not exist
  std::chrono::milliseconds interval{0};  // how often to look for changes; 0: no need to
  bool complete = true;                   // all could be read
};

// One policy as it is configured: where its files are, and how they are read.
class PolicyFiles {
 public:
  explicit PolicyFiles(base::Setting<std::string> where) : path(std::move(where)) {}
  virtual ~PolicyFiles() = default;

  virtual std::unique_ptr<PolicyFiles> clone() const = 0;
  // Null: of no protocol (native rules).
  virtual const PolicyFormat* format() const = 0;

  // Sets one of the format's options. What is wrong with `text` is reported at `place`.
  virtual void set(std::string_view option, std::string_view text, const std::string& origin,
                   const base::Diagnostic& place, base::Diagnostics& diagnostics);
  // The options as lines of YAML ("key: value"), each with its origin.
  virtual std::vector<std::pair<std::string, std::string>> options() const { return {}; }

  // Never null. What cannot be read is reported.
  virtual std::unique_ptr<PolicyTexts> read(Unusable unusable,
                                            base::Diagnostics& diagnostics) const = 0;

  base::Setting<std::string> path;  // as it is opened; empty: there is no main file

 protected:
  PolicyFiles(const PolicyFiles&) = default;
  PolicyFiles& operator=(const PolicyFiles&) = default;
};

// What a single file can be.
struct PolicyKind {
  std::string_view name;      // for `--as` and `?as=`: "divvy-ini"
  std::string_view ending{};  // which says that a file is one: ".ini"; or empty
};

// A flag of all commands that read any file; it sets an option of the policies that they read.
struct PolicyFlag {
  std::string_view flag, help;     // "--documented"
  std::string_view option, value;  // as PolicyFiles::set takes them
};

struct PolicyFormat {
  // Words of help and messages.
  std::string_view file;     // a name for a file: "rules.ini"
  std::string_view summary;  // what is in one: "Divvy's INI or JSON"
  std::string_view rules;    // what its rules are called: "bucket types"
  std::string_view request;  // one in words key=value, which `sluice explain` takes
  std::string_view counter;  // the name of a counter, for examples; or empty
  // What is wrong with a second policy in one configuration, and what to do.
  std::string_view second, second_remedy;
  // What comes of a listener without rules, for a warning; empty: no warning.
  std::string_view without_rules;

  std::span<const PolicyKind> kinds;  // never empty
  // Files with these endings may be of the first kind: `holds` says whether a text is one.
  std::span<const std::string_view> doubtful_endings;
  bool (*holds)(std::string_view text);
  std::span<const std::string_view> options;  // keys beside the protocol's name in `policy`
  std::span<const PolicyFlag> flags;
  bool log_rules;        // each rule is logged at debug level when it is read
  bool folders = false;  // a folder by itself is a policy of the first kind

  // A policy that a sluice.yaml names.
  std::unique_ptr<PolicyFiles> (*configured)(base::Setting<std::string> path);
  // A file by itself, as `sluice check` reads it. `kind`: its place in `kinds`.
  std::unique_ptr<PolicyFiles> (*single)(std::string path, size_t kind);
  // A text that is in no file; `name` stands for its path in messages.
  std::unique_ptr<PolicyTexts> (*from_text)(std::string name, std::string text, size_t kind);
  // Rules of the format as native ones that decide requests of the protocol alike, for
  // `sluice init`. What cannot be said by native rules is an error. Null: they are not converted.
  std::vector<policy::Rule> (*to_native)(std::span<const policy::Rule> rules, base::Time now,
                                         base::Diagnostics& diagnostics) = nullptr;
  // The built-in example; null: there is none.
  std::unique_ptr<PolicyFiles> (*example)();
};

// The name of a protocol's built-in example, in place of a file's.
std::string example_name(std::string_view protocol);

}  // namespace sluice::protocol
