// Reads policies from files: first their texts, then the rule set from these. Errors become
// diagnostics. Main thread, and the thread that reloads.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cloned.h"
#include "base/diagnostic.h"
#include "policy/read/yaml_tree.h"
#include "policy/rule_set.h"
#include "protocol/policy_files.h"
#include "protocol/protocol.h"
#include "protocol/settings.h"
#include "request/space.h"

namespace sluice::config {

// The kind of a file: one of the kinds of a protocol's format, or a sluice.yaml.
struct FileKind {
  std::optional<protocol::Protocol> protocol{};  // empty: a sluice.yaml
  size_t number = 0;                             // index among the format's kinds

  bool is_sluice() const { return !protocol; }
  const protocol::PolicyFormat& format() const { return *describe(*protocol).policy; }
  bool operator==(const FileKind&) const = default;
};

// The kind of a file by its name, which is case-sensitive; empty: the name does not tell.
std::optional<FileKind> kind_of(std::string_view file_name);
// The kind of a folder, if there is a format whose policies are folders.
std::optional<FileKind> kind_of_folder();
// The kind that `--as` names: "sluice", or one of a protocol's format.
std::optional<FileKind> kind_named(std::string_view name);
// All names that `--as` accepts, "sluice" last.
std::vector<std::string_view> kind_names();
// The endings of names that kind_of knows, those of a sluice.yaml last.
std::vector<std::string_view> known_endings();

// Some formats share their endings with other formats and with a sluice.yaml. is_doubtful: is this
// such a name? The other function decides by the file's text.
bool is_doubtful(std::string_view file_name);
std::optional<FileKind> kind_of_text(std::string_view file_name, std::string_view text);

// The protocols that have policy files of their own, in the order of their list.
std::vector<protocol::Protocol> with_policy_files();

using PolicyList = std::vector<base::Cloned<protocol::PolicyFiles>>;

// The native rules of a sluice.yaml whose document was parsed already.
class NativeRulesFile final : public protocol::PolicyFiles {
 public:
  NativeRulesFile(base::Setting<std::string> where,
                  std::shared_ptr<const policy::YamlDocument> document)
      : PolicyFiles(std::move(where)), document_(std::move(document)) {}

  std::unique_ptr<PolicyFiles> clone() const override {
    return std::unique_ptr<PolicyFiles>(new NativeRulesFile(*this));
  }
  const protocol::PolicyFormat* format() const override { return nullptr; }
  std::unique_ptr<protocol::PolicyTexts> read(protocol::Unusable unusable,
                                              base::Diagnostics& diagnostics) const override;

 private:
  std::shared_ptr<const policy::YamlDocument> document_;
};

// The texts of several policies, read together.
struct PolicyTexts {
  std::vector<std::unique_ptr<protocol::PolicyTexts>> policies;
  // For all policies, as in protocol::PolicyTexts.
  std::vector<std::string> paths;
  std::vector<uint64_t> digests;
  std::vector<std::string> missing;
  std::chrono::milliseconds interval{0};
  bool complete = true;

  void add(std::unique_ptr<protocol::PolicyTexts> texts);
};
PolicyTexts read_texts(const PolicyList& files, protocol::Unusable unusable,
                       base::Diagnostics& diagnostics);

// The protocols' own settings, by the protocols' numbers; none: the defaults.
using OwnSettings = std::span<const base::Cloned<protocol::Settings>>;

// The rules of all texts in their order, after the rules that protocols have without a file. Null:
// there is an error, in `diagnostics`. Warnings are appended in both cases.
std::shared_ptr<const policy::RuleSet> load_policy(const PolicyTexts& texts,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics,
                                                   OwnSettings own = {});
std::shared_ptr<const policy::RuleSet> load_policy(const PolicyList& files, request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics,
                                                   OwnSettings own = {});

}  // namespace sluice::config
