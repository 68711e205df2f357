#include "protocol/divvy/policy_files.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "base/hash.h"
#include "config/read_file.h"
#include "config/settings.h"
#include "policy/read/native_text.h"

namespace sluice::divvy {

// The text of examples/example-config.ini, which the build compiles into the program.

extern const std::string_view example;

namespace {

using protocol::PolicyFiles;

class DivvyTexts final : public protocol::PolicyTexts {
 public:
  // `name` names the file in messages. A missing format is reported when the rules are read.
  // Without a text the object has no rules.
  DivvyTexts(std::string name, std::optional<DivvyFormat> format, DivvyMatching matching,
             request::OnError on_store_error = request::OnError::error)
      : name_(std::move(name)),
        format_(format),
        matching_(matching),
        on_store_error_(on_store_error) {}

  void set_text(std::string text) {
    digests.push_back(base::digest(text));
    text_ = std::move(text);
  }

  void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                 base::Diagnostics& diagnostics) const override {
    if (!format_) {
      base::Diagnostic place;
      place.file = name_;
      config::complain(place, "Unrecognized format for config file: " + name_,
                       "name it .ini or .json, in small letters, after what it holds", diagnostics);
      return;
    }
    if (text_)
      read_divvy(*text_, *format_, matching_, name_, spaces, rules, diagnostics, on_store_error_);
  }

 private:
  std::string name_;
  std::optional<DivvyFormat> format_;
  DivvyMatching matching_;
  request::OnError on_store_error_;
  std::optional<std::string> text_;
};

class DivvyExample final : public PolicyFiles {
 public:
  DivvyExample() : PolicyFiles({}) {}

  std::unique_ptr<PolicyFiles> clone() const override { return std::make_unique<DivvyExample>(); }
  const protocol::PolicyFormat* format() const override { return &policy_format; }
  std::unique_ptr<protocol::PolicyTexts> read(protocol::Unusable,
                                              base::Diagnostics&) const override {
    auto texts = std::make_unique<DivvyTexts>(protocol::example_name("divvy"), DivvyFormat::ini,
                                              DivvyMatching::code);
    texts->set_text(std::string(example));
    return texts;
  }
};

constexpr protocol::PolicyKind kinds[] = {{"divvy-ini", ".ini"}, {"divvy-json", ".json"}};

DivvyFormat format_of_kind(size_t kind) {
  return kind == 1 ? DivvyFormat::json : DivvyFormat::ini;
}

constexpr std::string_view matching_option = "matching", documented = "documented";
constexpr std::string_view store_error = "on_store_error";
constexpr std::string_view options[] = {matching_option, store_error};
constexpr std::array<request::OnError, 4> on_errors{request::OnError::error, request::OnError::deny,
                                                    request::OnError::local,
                                                    request::OnError::allow};
constexpr protocol::PolicyFlag flags[] = {
    {"--documented",
     "Match `*` as Divvy's README says, not as its code does: the key must be\n"
     "there, every star is any run of characters, and the end is anchored",
     matching_option, documented}};

std::vector<policy::Rule> to_native(std::span<const policy::Rule> rules, base::Time,
                                    base::Diagnostics& diagnostics) {
  return policy::as_native(rules, "keep the file: `policy: [{ divvy: FILE }]` in place of `rules`",
                           diagnostics);
}

}  // namespace

std::unique_ptr<PolicyFiles> DivvyFiles::clone() const {
  return std::make_unique<DivvyFiles>(*this);
}

void DivvyFiles::set(std::string_view option, std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, base::Diagnostics& diagnostics) {
  if (option == store_error) {
    const auto named = std::ranges::find(
        on_errors, text, [](request::OnError one) { return request::name_of(one); });
    if (named != on_errors.end())
      on_store_error = {*named, origin};
    else
      config::complain(place, "`" + std::string(text) + "` is not an answer",
                       "write error, deny, local or allow", diagnostics);
    return;
  }
  if (text == "code")
    matching = {DivvyMatching::code, origin};
  else if (text == documented)
    matching = {DivvyMatching::documented, origin};
  else
    config::complain(place, "`" + std::string(text) + "` is not a way of matching",
                     "write `code` (as Divvy 1.7.1 does it) or `documented` (as its README says)",
                     diagnostics);
}

std::vector<std::pair<std::string, std::string>> DivvyFiles::options() const {
  const bool code = matching.value == DivvyMatching::code;
  std::vector<std::pair<std::string, std::string>> lines{
      {std::string("matching: ") + (code ? "code" : "documented"), matching.origin}};
  if (on_store_error.value != request::OnError::error)
    lines.emplace_back(
        std::string(store_error) + ": " + std::string(request::name_of(on_store_error.value)),
        on_store_error.origin);
  return lines;
}

std::unique_ptr<protocol::PolicyTexts> DivvyFiles::read(protocol::Unusable,
                                                        base::Diagnostics& diagnostics) const {
  const auto format = format_ ? format_ : divvy_format(path.value);
  auto texts =
      std::make_unique<DivvyTexts>(path.value, format, matching.value, on_store_error.value);
  texts->paths.push_back(path.value);
  if (!format) return texts;
  if (auto text = config::read_file(path.value, diagnostics)) {
    texts->set_text(*std::move(text));
    return texts;
  }
  texts->complete = false;
  if (config::is_missing(path.value)) texts->missing.push_back(path.value);
  return texts;
}

constinit const protocol::PolicyFormat policy_format = {
    .file = "rules.ini",
    .summary = "Divvy's INI or JSON",
    .rules = "rules",
    .request = "method=GET path=/pantry/cookies ip=10.0.0.7",
    .counter = "divvy:ip=* method=GET path=/pantry/cookies:10.0.0.7:3:3600",
    .second = "a second Divvy policy cannot be reached behind the first one's default rule",
    .second_remedy = "put its rules into the first",
    .without_rules = {},
    .kinds = kinds,
    .doubtful_endings = {},
    .holds = nullptr,
    .options = options,
    .flags = flags,
    .log_rules = true,
    .configured = [](base::Setting<std::string> path) -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<DivvyFiles>(std::move(path));
    },
    .single = [](std::string path, size_t kind) -> std::unique_ptr<PolicyFiles> {
      return std::make_unique<DivvyFiles>(base::Setting<std::string>{std::move(path)},
                                          format_of_kind(kind));
    },
    .from_text = [](std::string name, std::string text,
                    size_t kind) -> std::unique_ptr<protocol::PolicyTexts> {
      auto texts =
          std::make_unique<DivvyTexts>(std::move(name), format_of_kind(kind), DivvyMatching::code);
      texts->set_text(std::move(text));
      return texts;
    },
    .to_native = to_native,
    .example = []() -> std::unique_ptr<PolicyFiles> { return std::make_unique<DivvyExample>(); },
};

}  // namespace sluice::divvy
