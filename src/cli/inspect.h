// Files as `check` and `explain` look at them: of any kind, without serving them; requests as
// words, results as JSON.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load_policy.h"

namespace sluice::cli {

// Of each protocol that a sluice.yaml has served: what requests are answered that no rule applies
// to, for people.
using Unmatched = std::vector<std::pair<std::string, std::string>>;

// The rules that a file holds, or that a sluice.yaml names; null when `diagnostics` has got an
// error. `as`: its kind, otherwise by its name. Flags override what the file itself says.
// `across_slots`: of each group of rules that a Redis Cluster would settle over several slots, the
// names.
std::shared_ptr<const policy::RuleSet> inspect(const std::string& path,
                                               std::optional<config::FileKind> as,
                                               const FileFlags& flags, request::Spaces& spaces,
                                               base::Diagnostics& diagnostics,
                                               Unmatched* unmatched = nullptr,
                                               std::vector<std::string>* across_slots = nullptr);

// The pairs of a request from words `key=value`, cut at the first `=` and otherwise literal.
// Nothing: a word has none; `problem` says which.
using Pairs = std::vector<std::pair<std::string, std::string>>;
std::optional<Pairs> pairs_of(std::span<const std::string> words, std::string& problem);

// Lines on standard error of what does not keep the command from going on: what is worth a look,
// and what is as it may be. All that commands say there begins with `error: `, `warning: ` or
// `note: `, behind the place in a file where there is one.
void note(const std::string& text, config::CommandIo& io);
void warn(const std::string& problem, config::CommandIo& io);
// Says that a command has failed; returns its status.
int fail(const std::string& problem, config::CommandIo& io);

// As text with a line end. Bytes that are not UTF-8 are replaced, as JSON cannot hold them.
std::string to_text(const nlohmann::ordered_json& json);

}  // namespace sluice::cli
