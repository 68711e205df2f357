// The toy as a protocol of the program: its description and `sluice ask toy`. session.h describes
// the protocol.
#include "cli/ask.h"
#include "client/socket.h"
#include "protocol/protocol.h"
#include "tests/toy/session.h"

namespace sluice::toy {

namespace {

constexpr uint16_t port = 7007;

// Sends `take KEY`. Returns the server's line, with its end.
base::Result<std::string> ask_server(const cli::AskTarget& target, const std::string& key) {
  if (target.tls) return base::Problem{"the toy has no TLS"};
  auto socket = calls::Socket::connect(target.address.host, target.address.port, target.timeout);
  if (!socket) return std::move(socket).problem();
  if (!socket->send("take " + key + "\n")) return base::Problem{calls::sent_too_late};
  std::string reply;
  while (!reply.ends_with('\n'))
    if (base::Done received = socket->receive(reply); !received)
      return std::move(received).problem();
  if (reply.starts_with("error")) return base::Problem{std::move(reply)};
  return reply;
}

int ask(const protocol::Words& words, config::CommandIo& io) {
  cli::Arguments arguments("sluice ask toy [options] KEY", "Takes one unit of KEY.", "");
  cli::AskOptions options(port);
  cli::add_ask_options(arguments, options);
  if (const auto status = arguments.parse(words, io)) return *status;
  if (arguments.positional().size() != 1) return arguments.misused("one KEY is required", io);
  const auto target = cli::target_of(options, port, {"toy"});
  if (!target) return arguments.misused(target.problem().text, io);
  auto reply = ask_server(*target, arguments.positional().front());
  if (!reply) return cli::report_undecided(reply.problem().text, options.json, io);
  io.out << *reply << std::flush;
  return reply->starts_with("yes") ? cli::exit_allowed : cli::exit_denied;
}

constexpr protocol::Ask ask_words = {
    .usage = "KEY", .example = "", .question = "", .command = "", .run = ask};

}  // namespace

extern constinit const protocol::Description description = {
    .name = "toy",
    .title = "the toy",
    .port = port,
    .make_session =
        [](const request::Peer&) { return std::unique_ptr<request::Session>(new ToySession); },
    .ask = &ask_words,
};

}  // namespace sluice::toy
