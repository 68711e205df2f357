// The words are sent as a command without parsing them (client_verb::command). The server parses
// them, so an older program can send the new options of a newer server.
#include "cli/ask.h"

#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/asked_server.h"
#include "cli/inspect.h"
#include "config/screen_text.h"
#include "protocol/resp/answer.h"
#include "protocol/resp/commands.h"
#include "protocol/resp/reply_text.h"

namespace sluice::resp {
namespace {

constexpr const char* about_ask_resp =
    "Asks a running server over Redis' protocol, and says its answer in words.\n"
    "  take     N units now, or none\n"
    "  charge   N units that were used, past the limit too; exit code 1 if a limit is in debt\n"
    "  peek     would `take` be allowed? Takes nothing\n"
    "  put      N units back; with ALL all of them\n"
    "  reset    makes the counters of the subject as fresh\n"
    "  explain  which limits apply, and how they stand\n"
    "  wait     N units, waiting for them for at most so many seconds: `wait 2 SUBJECT`\n"
    "  mtake    N units of each of several subjects, or of none: `mtake 2 SUBJECT SUBJECT`\n"
    "  reserve  N units for so many seconds, or none: `reserve 60 SUBJECT N 500`\n"
    "  mreserve the same of several subjects: `mreserve 60 2 SUBJECT N 500 SUBJECT N 1`\n"
    "  acquire  N places for so many seconds (0: the rule's lease), or none: `acquire 60 SUBJECT`\n"
    "  extend   N units more for a reservation, or none: `extend ID N 100`\n"
    "  renew    the end of a reservation, or of places: `renew ID 60`\n"
    "  commit   a reservation came to N units: `commit ID N 420`\n"
    "  release  all units of a reservation, or all places, back: `release ID`\n"
    "  info     the server (no SUBJECT)\n"
    "Any other word is sent as the command that it is: `cl.throttle`, `throttle` and `gcra` are\n"
    "answered in words too, all else as redis-cli prints it.";

constexpr const char* footer_of_ask_resp =
    "A subject is a request to the rules of the policy, KEY=VALUE..., or a key with limits of its\n"
    "own, KEY key LIMIT quota window [ALGORITHM word] [BURST n]. Options of the command come\n"
    "behind it: N n, WITHNAME, ID id of `charge`, `reserve` and `acquire`, WAIT seconds of these "
    "two\n"
    "last. What begins with `-` needs a `--` in front of the words.\n"
    "In capitals, INFO and RESET are the commands of Redis.\n"
    "\n"
    "Examples:\n"
    "  sluice ask resp cl.throttle user:17 4 10 60\n"
    "  allowed: 4 of 5 left, all of them again within 6s\n"
    "\n"
    "  sluice ask resp take KEY user:17 LIMIT 100 1h N 3\n"
    "  allowed: 97 of 100 left, all of them again within 1m48s\n"
    "\n";

// Sends one command and waits for its reply.
base::Result<RespValue> ask_server(const cli::AskTarget& target, const cli::AskedUser& user,
                                   std::span<const std::string_view> words) {
  client_request request;
  request.verb = client_verb::command;
  request.words.assign(words.begin(), words.end());
  client_result result = cli::AskedServer("resp", target, user).call(request);
  if (result.error != client_errc::none) return base::Problem{std::move(result.text)};
  auto reply = resp_value(result.reply);
  if (!reply) return base::Problem{resp_too_deep};
  return *std::move(reply);
}

// Prints the reply to a command whose reply format is not known here.
int print_reply(const RespValue& reply, std::span<const std::string_view> words, bool json,
                config::CommandIo& io) {
  io.out << (json ? cli::to_text(json_of(reply)) : as_redis_cli(reply, words)) << std::flush;
  return reply.is_error() ? cli::exit_undecided : cli::exit_allowed;
}

}  // namespace

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask resp [options] COMMAND [WORD...]", about_ask_resp,
                           std::string(footer_of_ask_resp) + cli::about_users, cli::exit_of_ask);
  cli::AskOptions options(description.port);
  cli::add_ask_options(arguments, options);
  cli::AskedUser user;
  cli::add_user_option(arguments, user);
  arguments.set_words(asked_words());
  if (const auto status = arguments.parse(words, io)) return *status;
  const cli::Words& positional = arguments.positional();
  if (positional.empty())
    return arguments.misused(
        "behind `resp` comes take, charge, peek, put, reset, explain, info, wait, mtake, reserve, "
        "mreserve, acquire, extend, commit, release or renew, or a command of Redis' protocol",
        io);
  const auto target = cli::target_of(options, description.port, {"resp", "redis"});
  if (!target) return arguments.misused(target.problem().text, io);

  if (const base::Done read = cli::read_token(user, io); !read)
    return arguments.misused(read.problem().text, io);
  const AskedCommand command = asked_command(positional);
  std::vector<std::string_view> sent(positional.begin(), positional.end());
  sent.front() = command.name;
  const auto reply = ask_server(*target, user, sent);
  if (!reply) return cli::report_undecided(reply.problem().text, options.json, io);
  if (command.form == ReplyForm::other) return print_reply(*reply, sent, options.json, io);
  if (command.form == ReplyForm::verdict) {
    const int status = print_reply(*reply, sent, options.json, io);
    return status == cli::exit_allowed && is_denied(*reply) ? cli::exit_denied : status;
  }
  if (reply->is_error())
    return cli::report_undecided("the server refused: " + reply->text, options.json, io);
  const auto answer = answer_to(command.form, *reply, options.json, io.out_colour);
  if (!answer)
    return cli::report_undecided("that is not a reply to " + std::string(command.name),
                                 options.json, io);
  io.out << answer->text << std::flush;
  return answer->denied ? cli::exit_denied : cli::exit_allowed;
}

}  // namespace sluice::resp
