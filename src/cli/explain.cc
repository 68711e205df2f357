#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/explanation.h"
#include "cli/inspect.h"

namespace sluice::cli {
namespace {

constexpr const char* about_explain =
    "Says, rule by rule in their order, whether a rule of a policy applies to a\n"
    "request and why not, which one decides, and which counter would be charged.\n"
    "Nothing is charged and no server asked.";

constexpr const char* footer_of_explain =
    "A request is words key=value, cut at the first `=` and otherwise taken literally.\n"
    "\n"
    "Example:\n"
    "  sluice explain --policy rules.ini method=GET path=/pantry/cookies ip=10.0.0.7\n"
    "  sluice explain --policy limitd.yaml type=ip key=10.0.0.7\n"
    "\n"
    "Exit status: 0 explained, 1 the policy cannot be used, 2 wrong usage.";

using policy::Dialect;

Dialect dialect_of(const policy::RuleSet& rules, const std::optional<std::string>& protocol) {
  if (protocol) return *protocol == "limitd" ? Dialect::limitd : Dialect::divvy;
  const bool types_alone = !rules.rules(Dialect::limitd).empty() &&
                           rules.rules(Dialect::divvy).empty() && rules.native_rules().empty();
  return types_alone ? Dialect::limitd : Dialect::divvy;
}

}  // namespace

int explain(const Words& words, config::Outside& outside) {
  Arguments arguments("sluice explain --policy FILE [options] key=value...", about_explain,
                      footer_of_explain);
  std::optional<std::string> path, as, protocol;
  bool documented = false, json = false;
  arguments.app()
      .add_option("--policy", path, "The policy, or a sluice.yaml that names one")
      ->type_name("FILE");
  add_kind_flags(arguments.app(), as, documented);
  arguments.app()
      .add_option("--protocol", protocol,
                  "Whose request it is: divvy or limitd; default divvy, limitd where the\n"
                  "policy has bucket types alone")
      ->type_name("NAME");
  arguments.app().add_flag("--json", json, "Print the explanation as JSON");
  if (const auto status = arguments.parse(words, outside)) return *status;
  std::optional<config::FileKind> kind;
  if (as && !(kind = config::kind_named(*as))) return arguments.misused(unknown_kind(*as), outside);
  if (!path) return arguments.misused("there is no --policy FILE", outside);
  if (protocol && *protocol != "divvy" && *protocol != "limitd")
    return arguments.misused("--protocol is to be divvy or limitd, not `" + *protocol + "`",
                             outside);
  std::string problem;
  const auto pairs = pairs_of(arguments.positional(), problem);
  if (!pairs) return arguments.misused(problem, outside);

  request::Spaces spaces;
  base::Diagnostics diagnostics;
  const auto rules = inspect(*path, kind, documented, spaces, diagnostics);
  tell(diagnostics, outside);
  if (!rules) return config::exit_failure;
  std::vector<request::Entry> descriptor;
  for (const auto& [key, value] : *pairs) descriptor.push_back({key, value});
  const Dialect dialect = dialect_of(*rules, protocol);
  const auto explanation =
      policy::explain(*rules, dialect, {.descriptor = descriptor, .now = base::Clock().now()});
  outside.out << (json ? to_text(to_json(explanation, *pairs))
                       : to_text(explanation, dialect, *pairs, outside.out_colour))
              << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
