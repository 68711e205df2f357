#include "config/load_policy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "policy/read/native.h"
#include "protocol/protocol.h"

namespace sluice::config {
namespace {

constexpr std::string_view sluice_kind = "sluice";
constexpr std::array<std::string_view, 2> sluice_endings = {".yaml", ".yml"};

bool ends_with_any(std::string_view name, std::span<const std::string_view> endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

// The first kind of any format for which `matches` returns true.
template <class Matches>
std::optional<FileKind> find_kind(Matches&& matches) {
  for (const protocol::Protocol protocol : with_policy_files()) {
    const auto kinds = describe(protocol).policy->kinds;
    for (size_t i = 0; i < kinds.size(); ++i)
      if (matches(kinds[i])) return FileKind{protocol, i};
  }
  return std::nullopt;
}

class NativeTexts final : public protocol::PolicyTexts {
 public:
  NativeTexts(std::string path, std::shared_ptr<const policy::YamlDocument> document)
      : path_(std::move(path)), document_(std::move(document)) {}

  void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                 base::Diagnostics& diagnostics) const override {
    policy::read_native(*document_, path_, spaces, rules, diagnostics);
  }

 private:
  std::string path_;
  std::shared_ptr<const policy::YamlDocument> document_;
};

template <class T>
void append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

}  // namespace

std::vector<protocol::Protocol> with_policy_files() {
  std::vector<protocol::Protocol> found;
  const auto all = protocol::all();
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->policy != nullptr) found.push_back(static_cast<protocol::Protocol>(i));
  return found;
}

std::optional<FileKind> kind_of(std::string_view file_name) {
  const auto kind = find_kind([&](const protocol::PolicyKind& one) {
    return !one.ending.empty() && file_name.ends_with(one.ending);
  });
  if (kind) return kind;
  if (ends_with_any(file_name, sluice_endings)) return FileKind{};
  return std::nullopt;
}

std::optional<FileKind> kind_of_folder() {
  for (const protocol::Protocol protocol : with_policy_files())
    if (describe(protocol).policy->folders) return FileKind{protocol, 0};
  return std::nullopt;
}

std::optional<FileKind> kind_named(std::string_view name) {
  if (name == sluice_kind) return FileKind{};
  return find_kind([&](const protocol::PolicyKind& one) { return one.name == name; });
}

std::vector<std::string_view> kind_names() {
  std::vector<std::string_view> names;
  find_kind([&](const protocol::PolicyKind& one) {
    names.push_back(one.name);
    return false;
  });
  names.push_back(sluice_kind);
  return names;
}

std::vector<std::string_view> known_endings() {
  std::vector<std::string_view> endings;
  find_kind([&](const protocol::PolicyKind& one) {
    if (!one.ending.empty()) endings.push_back(one.ending);
    return false;
  });
  endings.insert(endings.end(), sluice_endings.begin(), sluice_endings.end());
  return endings;
}

bool is_doubtful(std::string_view file_name) {
  const auto protocols = with_policy_files();
  return std::any_of(protocols.begin(), protocols.end(), [&](protocol::Protocol protocol) {
    return ends_with_any(file_name, describe(protocol).policy->doubtful_endings);
  });
}

std::optional<FileKind> kind_of_text(std::string_view file_name, std::string_view text) {
  for (const protocol::Protocol protocol : with_policy_files()) {
    const protocol::PolicyFormat& format = *describe(protocol).policy;
    if (ends_with_any(file_name, format.doubtful_endings) && format.holds(text))
      return FileKind{protocol, 0};
  }
  return std::nullopt;
}

std::unique_ptr<protocol::PolicyTexts> NativeRulesFile::read(protocol::Unusable,
                                                             base::Diagnostics&) const {
  return std::make_unique<NativeTexts>(path.value, document_);
}

void PolicyTexts::add(std::unique_ptr<protocol::PolicyTexts> texts) {
  append(texts->paths, paths);
  append(texts->digests, digests);
  append(texts->missing, missing);
  interval = std::max(interval, texts->interval);
  complete = complete && texts->complete;
  policies.push_back(std::move(texts));
}

PolicyTexts read_texts(const PolicyList& files, protocol::Unusable unusable,
                       base::Diagnostics& diagnostics) {
  PolicyTexts read;
  for (const auto& file : files) read.add(file->read(unusable, diagnostics));
  return read;
}

std::shared_ptr<const policy::RuleSet> load_policy(const PolicyList& files, request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics,
                                                   OwnSettings own) {
  return load_policy(read_texts(files, protocol::Unusable::error, diagnostics), spaces, diagnostics,
                     own);
}

std::shared_ptr<const policy::RuleSet> load_policy(const PolicyTexts& texts,
                                                   request::Spaces& spaces,
                                                   base::Diagnostics& diagnostics,
                                                   OwnSettings own) {
  const size_t told_before = diagnostics.size();
  auto rules = std::make_shared<policy::RuleSet>(protocol::dialects());
  const auto all = protocol::all();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i]->add_rules == nullptr) continue;
    const bool has_own = i < own.size() && own[i];
    all[i]->add_rules(has_own ? &*own[i] : nullptr, spaces, *rules);
  }
  for (const auto& policy : texts.policies) policy->add_rules(spaces, *rules, diagnostics);
  const base::Diagnostics fresh(diagnostics.begin() + static_cast<ptrdiff_t>(told_before),
                                diagnostics.end());
  if (!texts.complete || base::has_errors(fresh)) return nullptr;
  return rules;
}

}  // namespace sluice::config
