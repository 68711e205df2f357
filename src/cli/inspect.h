// Functions of `check` and `explain`: reading files of any kind without serving them, requests from
// words, results as JSON.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin_json.h"
#include "base/result.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "config/load_policy.h"

namespace sluice::cli {

// For each protocol that a sluice.yaml serves: its name, and the answer to requests to which no
// rule applies, as a text for people.
using Unmatched = std::vector<std::pair<std::string, std::string>>;

// Applies the settings of a server's flags and variables to what a sluice.yaml says.
using ApplySettings = std::function<void(config::Config&, base::Diagnostics&)>;

// The rules of a policy file, or those that a sluice.yaml names. Null: there is an error, in
// `diagnostics`. `as`: the kind of the file; empty: its name decides. Flags override the file's own
// settings. `across_slots` receives a text for each group of rules whose counters a Redis Cluster
// would have in several slots: their names. `apply`: empty: the file says everything.
std::shared_ptr<const policy::RuleSet> inspect(
    const std::string& path, std::optional<config::FileKind> as, const FileFlags& flags,
    request::Spaces& spaces, base::Diagnostics& diagnostics, Unmatched* unmatched = nullptr,
    std::vector<std::string>* across_slots = nullptr, const ApplySettings& apply = {});

// The pairs of a request from words `key=value`, cut at the first `=` and otherwise literal. A
// problem: a word has no `=`.
using Pairs = std::vector<std::pair<std::string, std::string>>;
base::Result<Pairs> pairs_of(std::span<const std::string> words);

// Print a line on standard error about something that does not stop the command: `warn` for a
// likely mistake, `note` for information. All lines of commands on standard error begin with
// `error: `, `warning: ` or `note: `, after the place in a file, if there is one.
void note(const std::string& text, config::CommandIo& io);
void warn(const std::string& problem, config::CommandIo& io);
// Prints why a command has failed; returns exit_failure.
int fail(const std::string& problem, config::CommandIo& io);

// The JSON as indented text with a line end. Bytes that are not UTF-8 are replaced, because JSON
// cannot contain them.
std::string to_text(const nlohmann::ordered_json& json);

}  // namespace sluice::cli
