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

std::vector<std::string_view> protocol_names() {
  std::vector<std::string_view> names;
  for (const protocol::Description* one : protocol::all()) names.push_back(one->name);
  return names;
}

std::string protocol_help() {
  std::string text = "Whose request it is: " + config::one_of(protocol_names());
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

// The answer to a request that no rule decides: that of the protocol's listeners, or of the
// protocol if the file has none of it. `unmatched`: the answers of the file's listeners. Where the
// protocol is a default that none of them serves, all are named.
std::string unmatched_words(protocol::Protocol protocol, bool was_named,
                            const Unmatched& unmatched) {
  const protocol::Description& its = describe(protocol);
  std::string answers, all;
  const auto append = [](std::string& words, const std::string& more) {
    words += (words.empty() ? "" : "; ") + more;
  };
  for (const auto& [served, answer] : unmatched) {
    append(all, served + ": " + answer);
    if (served == its.name) append(answers, answer);
  }
  if (!answers.empty()) return answers;
  if (!was_named && !all.empty()) return all;
  return its.dialect != nullptr ? std::string(its.dialect->unmatched) : std::string();
}

}  // namespace

int explain(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice explain --policy FILE|--admin ADDRESS [options] key=value...",
                      about_explain, footer_of_explain(),
                      {"explained", "the policy cannot be used"});
  std::optional<std::string> path, protocol_name;
  FileFlags flags;
  bool json = false;
  arguments.add_option("--policy", path, "The policy, or a sluice.yaml that names one", "FILE");
  add_file_flags(arguments, flags);
  arguments.add_option("--protocol", protocol_name, protocol_help(),
                       type_of_values(protocol_names()));
  AdminFlags admin;
  bool live = false;
  arguments.add_flag("--live", live,
                     "Ask a running server in place of --policy: its rules, overrides and\n"
                     "counters, of which nothing is taken");
  add_admin_flags(arguments, admin);
  if (const auto status = arguments.parse(words, io)) return *status;
  std::optional<config::FileKind> kind;
  if (flags.as && !(kind = config::kind_named(*flags.as)))
    return arguments.misused(unknown_kind(*flags.as), io);
  json = admin.json;
  live |= admin.admin.has_value();
  if (live && path)
    return arguments.misused("--policy FILE and a running server exclude each other", io);
  std::optional<protocol::Protocol> protocol;
  if (protocol_name && !(protocol = protocol::find(*protocol_name)))
    return arguments.misused(
        "--protocol must be " + protocol::joined_names(" or ") + ", not `" + *protocol_name + "`",
        io);
  if (live) return explain_live(admin, protocol, arguments, io);
  if (!path) return arguments.misused("--policy FILE, --admin ADDRESS or --live is required", io);
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
