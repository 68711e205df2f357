// Policies in files of a protocol's own format: their names in a configuration and on the command
// line, how they are read, and the words for their rules. A protocol with such files defines a
// PolicyFormat in its folder (Description::policy). Constant data, and objects without state of
// their own; main thread, and the thread that reloads.
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "base/setting.h"
#include "base/time.h"
#include "metrics/page.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::config {
struct Entry;
}

namespace sluice::protocol {

struct PolicyFormat;

// What happens if a file that a policy's main file names cannot be used: the policy is refused
// (error), or the main file is served without it (main_file).
enum class Unusable { error, main_file };

// The texts of the files of one policy, read together.
class PolicyTexts {
 public:
  virtual ~PolicyTexts() = default;

  // Appends the rules. Errors and warnings become diagnostics; after an error `rules` must not be
  // used.
  virtual void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                         base::Diagnostics& diagnostics) const = 0;

  std::vector<std::string> paths;         // to be watched for changes, whether read or not
  std::vector<uint64_t> digests;          // of the files that were read
  std::vector<std::string> missing;       // paths that do not exist
  std::chrono::milliseconds interval{0};  // between two checks for changes; 0: no checks
  bool complete = true;                   // all files could be read
};

// A policy that another server sends, at any time, in place of files. It has a thread of its own.
class PolicyFeed : public metrics::Source {
 public:
  // For people and for programs: from whom the policy comes, and what came of it. Times are those
  // of the system's clock; none: never.
  struct State {
    std::string from, node;  // the other server, and the name under which this one asks
    bool is_connected = false;
    std::string problem;  // why it is not; empty: it is, or was not tried
    std::string version;  // of what is in force, in the sender's words
    std::string refusal;  // the answer to what was refused last
    uint64_t taken = 0, refused = 0;
    std::optional<std::chrono::system_clock::time_point> taken_at{}, refused_at{};
  };

  // Reads the whole policy again, with what has arrived. Nothing: it is live; else why it is not,
  // or that the server stops.
  using Apply = std::function<std::optional<std::string>()>;

  // Once, after the server has begun to serve.
  virtual void start(Apply apply, std::shared_ptr<spdlog::logger> log) = 0;
  // Ends the thread. `apply` is not called any more.
  virtual void stop() = 0;
  virtual State state() const = 0;
};

class SentPolicy;

// One configured policy: the place of its files, and how they are read.
class PolicyFiles {
 public:
  explicit PolicyFiles(base::Setting<std::string> where) : path(std::move(where)) {}
  virtual ~PolicyFiles() = default;

  virtual std::unique_ptr<PolicyFiles> clone() const = 0;
  // Null: the policy belongs to no protocol (native rules).
  virtual const PolicyFormat* format() const = 0;

  // Sets one of the format's options. An error in `text` is reported at `place`.
  virtual void set(std::string_view /*option*/, std::string_view /*text*/,
                   const std::string& /*origin*/, const base::Diagnostic& /*place*/,
                   base::Diagnostics& /*diagnostics*/) {}
  // The options as lines of YAML ("key: value"), each with its origin.
  virtual std::vector<std::pair<std::string, std::string>> options() const { return {}; }

  // Null: it lies in files.
  virtual SentPolicy* sent() { return nullptr; }
  const SentPolicy* sent() const { return const_cast<PolicyFiles*>(this)->sent(); }

  // Reads the files. Never null; files that cannot be read are reported.
  virtual std::unique_ptr<PolicyTexts> read(Unusable unusable,
                                            base::Diagnostics& diagnostics) const = 0;

  base::Setting<std::string> path;  // as it is opened; empty: the policy has no main file

 protected:
  PolicyFiles(const PolicyFiles&) = default;
  PolicyFiles& operator=(const PolicyFiles&) = default;
};

// A policy that is sent.
class SentPolicy : public PolicyFiles {
 public:
  SentPolicy* sent() final { return this; }
  // By whom, as settings that are bound to the values of this object (config/table.h).
  virtual std::vector<config::Entry> sender() = 0;
  virtual std::shared_ptr<PolicyFeed> feed() const = 0;
  // At a reload: is fed by what feeds `running`, the policy of the same format at the start. Null:
  // there was none. Reports what takes effect at the next start only.
  virtual void go_on_from(SentPolicy* running, const std::string& file,
                          base::Diagnostics& diagnostics) = 0;

 protected:
  using PolicyFiles::PolicyFiles;
  SentPolicy(const SentPolicy&) = default;
};

// A kind of single files.
struct PolicyKind {
  std::string_view name;      // for `--as` and `?as=`: "divvy-ini"
  std::string_view ending{};  // of the names of such files: ".ini"; may be empty
};

// A flag of all commands that read policy files; it sets an option of the policies.
struct PolicyFlag {
  std::string_view flag, help;     // "--documented"
  std::string_view option, value;  // for PolicyFiles::set
};

struct PolicyFormat {
  // Texts for help and messages.
  std::string_view file;     // an example of a file's name: "rules.ini"
  std::string_view summary;  // the contents of a file: "Divvy's INI or JSON"
  std::string_view rules;    // the word for its rules: "bucket types"
  std::string_view request;  // an example of key=value words for `sluice explain`
  std::string_view counter;  // an example of a counter's name; may be empty
  // The problem and the remedy if a configuration has a second policy.
  std::string_view second, second_remedy;
  // A warning's text about a listener without rules; empty: no warning.
  std::string_view without_rules;

  std::span<const PolicyKind> kinds;  // never empty
  // Files with these endings may be of the first kind; `holds` decides by the text.
  std::span<const std::string_view> doubtful_endings;
  bool (*holds)(std::string_view text);
  std::span<const std::string_view> options;  // keys beside the protocol's name, in `policy`
  std::span<const PolicyFlag> flags;
  bool log_rules;        // log each rule at debug level when it is read
  bool folders = false;  // a folder is a policy of the first kind

  // Makes a policy that a sluice.yaml names.
  std::unique_ptr<PolicyFiles> (*configured)(base::Setting<std::string> path);
  // Makes a policy of a single file, for `sluice check`. `kind`: index in `kinds`.
  std::unique_ptr<PolicyFiles> (*single)(std::string path, size_t kind);
  // Makes a policy of a text that is not in a file; `name` replaces its path in messages.
  std::unique_ptr<PolicyTexts> (*from_text)(std::string name, std::string text, size_t kind);
  // For `sluice init`: converts rules of the format to native rules that decide requests of the
  // protocol in the same way. A rule that cannot be converted is an error. Null: the format has no
  // conversion.
  std::vector<policy::Rule> (*to_native)(std::span<const policy::Rule> rules, base::Time now,
                                         base::Diagnostics& diagnostics) = nullptr;
  // The built-in example; null: there is none.
  std::unique_ptr<PolicyFiles> (*example)();
  // The key in `policy` of such a policy that is sent, and how one is made; empty and null: none
  // is.
  std::string_view sent_key = {};
  std::unique_ptr<SentPolicy> (*sent)() = nullptr;
};

// The name of a protocol's built-in example, in place of a file's.
inline std::string example_name(std::string_view protocol) {
  return "built-in example (" + std::string(protocol) + ")";
}

}  // namespace sluice::protocol
