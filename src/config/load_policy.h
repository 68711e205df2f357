// Policies from files: their texts, and the rule set read from them. Everything wrong is a
// diagnostic. Main thread, and the thread that reloads.
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

// What a file is: of a kind of a protocol's format, or a sluice.yaml.
struct FileKind {
  std::optional<protocol::Protocol> protocol{};  // nothing: a sluice.yaml
  size_t number = 0;                             // of the format's kinds

  bool is_sluice() const { return !protocol; }
  const protocol::PolicyFormat& format() const { return *describe(*protocol).policy; }
  bool operator==(const FileKind&) const = default;
};

// The kind of a file by its name alone, case-sensitive; nothing for names that say nothing.
std::optional<FileKind> kind_of(std::string_view file_name);
// Of a folder, if there is a format whose policies are folders.
std::optional<FileKind> kind_of_folder();
// The kind that `--as` names: "sluice", or one of a protocol's format.
std::optional<FileKind> kind_named(std::string_view name);
// All that it may name, "sluice" last.
std::vector<std::string_view> kind_names();
// The endings by which kind_of knows a file, those of a sluice.yaml last.
std::vector<std::string_view> known_endings();

// Some formats share their endings with others and with a sluice.yaml: may a file of this name be
// such a one, and which is it by its text?
bool is_doubtful(std::string_view file_name);
std::optional<FileKind> kind_of_text(std::string_view file_name, std::string_view text);

// The protocols that have policy files of their own, in the order of their list.
std::vector<protocol::Protocol> with_policy_files();

using PolicyList = std::vector<base::Cloned<protocol::PolicyFiles>>;

// The native rules of a sluice.yaml, whose document is parsed already.
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

// The texts of several policies, read all at once.
struct PolicyTexts {
  std::vector<std::unique_ptr<protocol::PolicyTexts>> policies;
  // Of all of them, as in protocol::PolicyTexts.
  std::vector<std::string> paths;
  std::vector<uint64_t> digests;
  std::vector<std::string> missing;
  std::chrono::milliseconds interval{0};
  bool complete = true;

  void add(std::unique_ptr<protocol::PolicyTexts> texts);
};
PolicyTexts read_texts(const PolicyList& files, protocol::Unusable unusable,
                       base::Diagnostics& diagnostics);

// Settings of protocols' own, by their numbers; none: the defaults.
using OwnSettings = std::span<const base::Cloned<protocol::Settings>>;

// The rules of all texts in their order, behind those that protocols have without a file; or null,
// then `diagnostics` holds an error. Warnings come either way.
std::shared_ptr<const policy::RuleSet> load_policy(const PolicyTexts& texts,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics,
                                                   OwnSettings own = {});
std::shared_ptr<const policy::RuleSet> load_policy(const PolicyList& files, request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics,
                                                   OwnSettings own = {});

}  // namespace sluice::config
