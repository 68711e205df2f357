// The text of SLUICE.HELP.
#include "protocol/resp/sluice_command.h"

namespace sluice::resp {
namespace {

// In the form of Redis' help texts: a command, and below it what it does.
constexpr std::string_view sluice_help[] = {
    "SLUICE.<command> [<arg> ...]. Commands are:",
    "SLUICE.TAKE <subject> [N <n>] [WITHNAME]",
    "    Take n units (default 1) if there are enough, else none.",
    "SLUICE.PEEK <subject> [N <n>] [WITHNAME]",
    "    Tell what TAKE would reply, and take nothing.",
    "SLUICE.PUT <subject> [N <n> | ALL]",
    "    Give n units back (default 1), or all.",
    "SLUICE.RESET <subject>",
    "    Make the counters of the subject as fresh.",
    "SLUICE.WAIT <timeout> <subject> [N <n>]",
    "    Take n units, and wait for them for at most so many seconds (0: for ever).",
    "SLUICE.MTAKE <numsubjects> <subject> [<subject> ...] [EACH] [N <n>]",
    "    Take n units of all subjects or, if one has too few, of none; EACH: of those that have.",
    "SLUICE.CHARGE <subject> [N <n>] [ID <id>] [WITHNAME]",
    "    Count n units (default 1) that were used, past the limit too. Sent again with its id it "
    "is",
    "    counted once.",
    "SLUICE.EXPLAIN <subject>",
    "    Tell which rules apply, which one decides, and their counters.",
    "SLUICE.INFO",
    "    Tell of the server and its policy.",
    "SLUICE.HELP",
    "    Print this help.",
    "A <subject> is a request to the rules of the policy, or a key with limits of its own:",
    "    <key>=<value> [<key>=<value> ...]           (not of SLUICE.MTAKE)",
    "    ENTRIES <numentries> <key>=<value> [<key>=<value> ...]",
    "    KEY <key> LIMIT <quota> <window> [ALGORITHM <name>] [BURST <n>] [OVER COUNT] [LIMIT ...]",
    "A <window> is 250ms, 60s, 1h, or a number of seconds.",
};

}  // namespace

std::span<const std::string_view> help_lines() {
  return sluice_help;
}

}  // namespace sluice::resp
