#include <algorithm>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/explain_live.h"
#include "cli/explanation.h"
#include "cli/inspect.h"
#include "cli/option_values.h"
#include "config/settings.h"
#include "protocol/protocol.h"

namespace sluice::cli {
namespace {

constexpr const char* about_explain =
    "Says, rule by rule in their order, whether a rule of a policy applies to a\n"
    "request and why not, which one decides, and which counter would be charged.\n"
    "Nothing is charged. With --policy a file answers; with --live or --admin a running\n"
    "server, by its rules, overrides and counters as they are now.";

std::string footer_of_explain() {
  std::string examples;
  for (const protocol::Protocol protocol : config::with_policy_files()) {
    const protocol::PolicyFormat& format = *describe(protocol).policy;
    examples += "  sluice explain --policy " + std::string(format.file) + " " +
                std::string(format.request) + "\n";
  }
  return "A request is words key=value, cut at the first `=` and otherwise taken literally.\n"
         "\n"
         "Example:\n" +
         examples +
         "\n"
         "  sluice explain --admin 127.0.0.1:8380 " +
         std::string(describe(config::with_policy_files().front()).policy->request) + "\n";
}

std::vector<std::string_view> explained_protocols() {
  std::vector<std::string_view> names;
  for (const protocol::Protocol protocol : config::with_policy_files())
    names.push_back(describe(protocol).name);
  return names;
}

std::string protocol_help() {
  std::string text = "Whose request it is: " + config::one_of(explained_protocols());
  const auto all = config::with_policy_files();
  text += "; default " + std::string(describe(all.front()).name);
  for (size_t i = 1; i < all.size(); ++i)
    text += ", " + std::string(describe(all[i]).name) + " where the policy has " +
            std::string(describe(all[i]).policy->rules) + " alone";
  return wrapped(text);
}

// The protocol whose rules these are, if they are all of one protocol; otherwise the first
// protocol.
protocol::Protocol usual_protocol(const policy::RuleSet& rules) {
  const auto all = config::with_policy_files();
  std::vector<protocol::Protocol> with_rules;
  for (const protocol::Protocol protocol : all)
    if (!rules.rules(protocol::dialect_of(protocol)).empty()) with_rules.push_back(protocol);
  return with_rules.size() == 1 && rules.native_rules().empty() ? with_rules.front() : all.front();
}

// The answer to a request that no rule decides. `unmatched`: the answers of the file's listeners,
// which are named where the protocol is a default that none of them serves.
std::string unmatched_words(protocol::Protocol protocol, bool was_named,
                            const Unmatched& unmatched) {
  const std::string_view name = describe(protocol).name;
  if (was_named || unmatched.empty() ||
      std::ranges::any_of(unmatched, [&](const auto& one) { return one.first == name; }))
    return std::string(describe(protocol).dialect->unmatched);
  std::string words;
  for (const auto& [served, answer] : unmatched)
    words += (words.empty() ? "" : "; ") + served + ": " + answer;
  return words;
}

// The protocol with that name, if it has rules of its own to explain.
std::optional<protocol::Protocol> protocol_named(const std::string& name) {
  const auto found = protocol::find(name);
  return found && describe(*found).policy != nullptr ? found : std::nullopt;
}

}  // namespace

int explain(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice explain --policy FILE|--admin ADDRESS [options] key=value...",
                      about_explain, footer_of_explain(),
                      {"explained", "the policy cannot be used"});
  std::optional<std::string> path, protocol_name;
  FileFlags flags;
  bool json = false;
  arguments.app()
      .add_option("--policy", path, "The policy, or a sluice.yaml that names one")
      ->type_name("FILE");
  add_file_flags(arguments.app(), flags);
  arguments.app()
      .add_option("--protocol", protocol_name, protocol_help())
      ->type_name(type_of_values(explained_protocols()));
  AdminFlags admin;
  bool live = false;
  arguments.app().add_flag("--live", live,
                           "Ask a running server in place of --policy: its rules, overrides and\n"
                           "counters, of which nothing is taken");
  add_admin_flags(arguments.app(), admin);
  if (const auto status = arguments.parse(words, io)) return *status;
  std::optional<config::FileKind> kind;
  if (flags.as && !(kind = config::kind_named(*flags.as)))
    return arguments.misused(unknown_kind(*flags.as), io);
  json = admin.json;
  live |= admin.admin.has_value();
  if (live && path)
    return arguments.misused("--policy FILE and a running server exclude each other", io);
  if (live) return explain_live(admin, protocol_name, arguments, io);
  if (!path) return arguments.misused("--policy FILE, --admin ADDRESS or --live is required", io);
  std::optional<protocol::Protocol> protocol;
  if (protocol_name && !(protocol = protocol_named(*protocol_name)))
    return arguments.misused("--protocol must be " + config::one_of(explained_protocols()) +
                                 ", not `" + *protocol_name + "`",
                             io);
  const auto pairs = pairs_of(arguments.positional());
  if (!pairs) return arguments.misused(pairs.problem().text, io);

  request::Spaces spaces;
  base::Diagnostics diagnostics;
  Unmatched unmatched;
  const auto rules = inspect(*path, kind, flags, spaces, diagnostics, &unmatched);
  tell(diagnostics, io);
  if (!rules) return config::exit_failure;
  std::vector<request::Entry> descriptor;
  for (const auto& [key, value] : *pairs) descriptor.push_back({key, value});
  if (!protocol) protocol = usual_protocol(*rules);
  if (const policy::Dialect* const its = protocol::dialect_of(*protocol);
      its != nullptr && its->arrange != nullptr)
    its->arrange(descriptor);
  const auto explanation = policy::explain(*rules, protocol::dialect_of(*protocol),
                                           {.descriptor = descriptor, .now = base::Clock().now()});
  io.out << (json ? to_text(to_json(explanation, *pairs))
                  : to_text(explanation,
                            unmatched_words(*protocol, protocol_name.has_value(), unmatched),
                            *pairs, io.out_colour))
         << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
