// A session without an engine: what it answers to commands about the connection and the server,
// however the bytes are cut.
#include "protocol/resp/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::resp {
namespace {

struct Server final : request::ServerView {
  std::string_view version() const override { return "1.2.3"; }
  request::ServerFigures figures() const override { return {}; }
};
const Server server;

struct Talk {
  std::string said;
  bool closed = false;
  std::string fault;
  friend bool operator==(const Talk&, const Talk&) = default;
};

// What a new connection answers to `text`, which arrives in pieces of `piece` bytes after one of
// `first` bytes.
Talk talk(const std::string& text, size_t first, size_t piece) {
  RespSession session({.server = &server});
  request::Requests requests;
  base::Buffer out, handshake;
  Talk result;
  std::string in;
  for (size_t arrived = 0; arrived < text.size() && !result.closed;) {
    const size_t to = std::min(text.size(), arrived + (arrived == 0 ? first : piece));
    in += text.substr(arrived, to - arrived);
    arrived = to;
    while (true) {
      requests.clear();
      const auto received = session.receive(in, false, requests, handshake);
      for (const request::Request& request : requests.items()) {
        EXPECT_EQ(request.verb, request::Verb::noop);
        EXPECT_TRUE(session.reply(request, {}, {1'795'000'000'000'042}, out));
      }
      in.erase(0, received.consumed);
      if (received.closing) {
        session.end(request::Ending::announced, {}, out);
        result.closed = true;
        result.fault = session.fault().code;
        break;
      }
      if (received.consumed == 0 && requests.size() == 0) break;
    }
  }
  EXPECT_TRUE(handshake.empty());
  result.said = out.view();
  return result;
}

// What a new connection answers to `text`; checks that it answers the same wherever `text` is cut.
Talk talk(const std::string& text) {
  const Talk whole = talk(text, text.size(), 1);
  for (size_t cut = 1; cut < text.size(); ++cut) {
    const Talk cut_once = talk(text, cut, text.size());
    const bool tells_id = text.find("HELLO") != text.npos || text.find("hello") != text.npos ||
                          text.find(" ID") != text.npos;
    EXPECT_TRUE(tells_id || cut_once == whole) << cut << " " << text;
    EXPECT_EQ(cut_once.closed, whole.closed);
  }
  return whole;
}

std::string said(const std::string& text) {
  const Talk all = talk(text);
  EXPECT_FALSE(all.closed) << text;
  return all.said;
}

// The replies after the reply to HELLO, which is checked except for the number of the connection.
std::string greeting(char proto, std::string_view head, const std::string& text) {
  std::string all = said(text);
  const std::string id = "$2\r\nid\r\n:";
  const size_t at = all.find(id);
  EXPECT_NE(at, all.npos) << all;
  if (at == all.npos) return all;
  const size_t end = all.find('\r', at + id.size());
  EXPECT_GT(end, at + id.size());
  all.replace(at + id.size(), end - at - id.size(), "#");
  const std::string expected = std::string(head) +
                               "$6\r\nserver\r\n$6\r\nsluice\r\n$7\r\nversion\r\n$5\r\n1.2.3\r\n" +
                               "$5\r\nproto\r\n:" + proto +
                               "\r\n$2\r\nid\r\n:#\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n"
                               "$4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";
  EXPECT_EQ(all.substr(0, expected.size()), expected);
  return all.substr(std::min(expected.size(), all.size()));
}

TEST(RespSession, NamesOfConnectionsAreBounded) {
  const std::string long_one(256, 'n'), too_long(257, 'n');
  EXPECT_EQ(said("CLIENT SETNAME " + long_one + "\nCLIENT GETNAME\n"),
            "+OK\r\n$256\r\n" + long_one + "\r\n");
  for (const std::string command : {"CLIENT SETNAME ", "CLIENT SETINFO LIB-NAME ",
                                    "CLIENT SETINFO lib-ver ", "HELLO 2 SETNAME "}) {
    const std::string answer = said(command + too_long + "\nCLIENT GETNAME\n");
    EXPECT_TRUE(answer.starts_with("-ERR ")) << answer;
    EXPECT_TRUE(answer.ends_with("\r\n$-1\r\n")) << answer;
  }
}

TEST(RespSession, ListsOnlyTheEnabledCommands) {
  RespOptions options;
  options.answers[static_cast<size_t>(CommandFamily::throttle)] = false;
  RespSession some({.options = &options}), all;
  const auto say = [](RespSession& session, std::string_view text) {
    request::Requests requests;
    base::Buffer out;
    session.receive(text, false, requests, out);
    for (const request::Request& request : requests.items()) session.reply(request, {}, {0}, out);
    return std::string(out.view());
  };
  const auto count = [&](RespSession& session) {
    return std::stoi(say(session, "COMMAND COUNT\n").substr(1));
  };
  EXPECT_EQ(count(some), count(all) - 1);
  EXPECT_EQ(say(some, "COMMAND\n").find("\r\nthrottle\r\n"), std::string::npos);
  EXPECT_NE(say(all, "COMMAND\n").find("\r\nthrottle\r\n"), std::string::npos);
  EXPECT_EQ(say(some, "COMMAND INFO throttle\n"), "*1\r\n*-1\r\n");
  EXPECT_EQ(say(some, "COMMAND DOCS throttle\n"), "*0\r\n");
}

TEST(RespSession, AnswersInOrder) {
  EXPECT_EQ(said("PING\r\nECHO a\r\nping \"b c\"\r\nREADONLY\r\nreadwrite\r\nASKING\r\n"),
            "+PONG\r\n$1\r\na\r\n$3\r\nb c\r\n+OK\r\n+OK\r\n+OK\r\n");
  EXPECT_EQ(said("*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n*0\r\n*1\r\n$4\r\nTIME\r\n"),
            "$2\r\n\r\n\r\n*2\r\n$10\r\n1795000000\r\n$2\r\n42\r\n");
  std::string many, pongs;
  for (int i = 0; i < 1000; ++i) {
    many += "PING\n";
    pongs += "+PONG\r\n";
  }
  EXPECT_EQ(talk(many, many.size(), 1).said, pongs);
}

TEST(RespSession, Greets) {
  EXPECT_EQ(greeting('2', "*14\r\n", "HELLO\r\n"), "");
  EXPECT_EQ(greeting('2', "*14\r\n", "HELLO 2\r\nCLIENT GETNAME\r\n"), "$-1\r\n");
  EXPECT_EQ(greeting('3', "%7\r\n", "HELLO 3\r\nCLIENT GETNAME\r\n"), "_\r\n");
  EXPECT_EQ(greeting('3', "%7\r\n", "hello 3 setname me auth default x\r\nCLIENT GETNAME\r\n"),
            "$2\r\nme\r\n");
  EXPECT_EQ(said("HELLO 4\r\nHELLO 1\r\nHELLO abc\r\nHELLO 3 NOSUCH\r\nHELLO 3 SETNAME\r\n"
                 "HELLO 3 SETNAME a AUTH me x\r\nHELLO 3 SETNAME 'a b'\r\nCLIENT GETNAME\r\n"),
            "-NOPROTO unsupported protocol version\r\n-NOPROTO unsupported protocol version\r\n"
            "-ERR Protocol version is not an integer or out of range\r\n"
            "-ERR Syntax error in HELLO option 'NOSUCH'\r\n"
            "-ERR Syntax error in HELLO option 'SETNAME'\r\n"
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n$-1\r\n");
  EXPECT_EQ(said("AUTH x\r\nAUTH default x\r\nAUTH me x\r\n"),
            "-ERR AUTH <password> called without any password configured for the default user. Are "
            "you sure your configuration is correct?\r\n+OK\r\n"
            "-WRONGPASS invalid username-password pair or user is disabled.\r\n");
}

TEST(RespSession, AnswersCommandsAboutTheConnection) {
  EXPECT_EQ(said("SELECT 0\r\nSELECT 15\r\nSELECT 16\r\nSELECT -1\r\nSELECT x\r\n"),
            "+OK\r\n+OK\r\n-ERR DB index is out of range\r\n-ERR DB index is out of range\r\n"
            "-ERR value is not an integer or out of range\r\n");
  EXPECT_EQ(said("CLIENT SETNAME me\r\nclient getname\r\nCLIENT SETNAME \"a\\n\"\r\n"
                 "CLIENT SETNAME ''\r\nCLIENT GETNAME\r\n"),
            "+OK\r\n$2\r\nme\r\n"
            "-ERR Client names cannot contain spaces, newlines or special characters.\r\n"
            "+OK\r\n$-1\r\n");
  EXPECT_EQ(said("CLIENT SETINFO LIB-NAME x\r\nCLIENT SETINFO lib-ver 1\r\n"
                 "CLIENT MAINT_NOTIFICATIONS ON\r\nCLIENT SETNAME\r\nCLIENT\r\n"),
            "+OK\r\n+OK\r\n"
            "-ERR unknown subcommand 'MAINT_NOTIFICATIONS'. Try CLIENT HELP.\r\n"
            "-ERR wrong number of arguments for 'client|setname' command\r\n"
            "-ERR wrong number of arguments for 'client' command\r\n");
  const auto id = [] { return std::stoll(talk("CLIENT ID\r\n", 100, 1).said.substr(1)); };
  const auto first = id();
  EXPECT_GT(id(), first);
  EXPECT_EQ(said("CLIENT SETNAME me\r\nRESET\r\nCLIENT GETNAME\r\n"), "+OK\r\n+RESET\r\n$-1\r\n");
  EXPECT_EQ(greeting('3', "%7\r\n", "HELLO 3\r\nRESET\r\nCLIENT GETNAME\r\n"), "+RESET\r\n$-1\r\n");
}

TEST(RespSession, ClientReplySilencesReplies) {
  EXPECT_EQ(said("CLIENT REPLY OFF\r\nPING\r\nNOSUCH\r\nCLIENT REPLY SKIP\r\nPING\r\n"
                 "CLIENT REPLY ON\r\nPING a\r\n"),
            "+OK\r\n$1\r\na\r\n");
  EXPECT_EQ(said("CLIENT REPLY SKIP\r\nPING\r\nPING a\r\n"), "$1\r\na\r\n");
  EXPECT_EQ(said("CLIENT REPLY x\r\n"), "-ERR syntax error\r\n");
  EXPECT_EQ(talk("CLIENT REPLY OFF\r\n*x\r\n"), (Talk{"", true, "protocol"}));
}

TEST(RespSession, AnswersCommandInfo) {
  EXPECT_EQ(said("COMMAND COUNT\r\n"), ":47\r\n");
  EXPECT_EQ(said("COMMAND INFO echo nosuch\r\n"),
            "*2\r\n*10\r\n$4\r\necho\r\n:2\r\n*1\r\n+fast\r\n:0\r\n:0\r\n:0\r\n"
            "*2\r\n+@fast\r\n+@connection\r\n*0\r\n*0\r\n*0\r\n*-1\r\n");
  EXPECT_EQ(said("COMMAND DOCS nosuch\r\n"), "*0\r\n");
  EXPECT_EQ(said("COMMAND DOCS PING nosuch\r\n"),
            "*2\r\n$4\r\nping\r\n*8\r\n$7\r\nsummary\r\n$31\r\nAnswers PONG, or with the text.\r\n"
            "$5\r\nsince\r\n$5\r\n1.0.0\r\n$5\r\ngroup\r\n$10\r\nconnection\r\n"
            "$9\r\narguments\r\n*1\r\n*6\r\n$4\r\nname\r\n$7\r\nmessage\r\n$4\r\ntype\r\n"
            "$6\r\nstring\r\n$5\r\nflags\r\n*1\r\n+optional\r\n");
  // Replies about all commands have as many items as they announce.
  for (const std::string text :
       {"COMMAND\r\n", "COMMAND INFO\r\n", "COMMAND DOCS\r\n", "HELLO 3\r\nCOMMAND DOCS\r\n"}) {
    const std::string replies = talk(text, text.size(), 1).said;
    wire::RespReplyReader reader;
    std::string_view rest = replies;
    for (int n = text.starts_with("HELLO") ? 2 : 1; n > 0; --n) {
      const auto result = reader.next(rest);
      ASSERT_EQ(result.found, wire::RespReplyReader::Found::reply) << text;
      rest.remove_prefix(result.consumed);
    }
    EXPECT_EQ(rest, "") << text;
  }
  EXPECT_EQ(said("COMMAND x\r\n"), "-ERR unknown subcommand 'x'. Try COMMAND HELP.\r\n");
}

TEST(RespSession, AnswersErrorsToUnknownCommands) {
  EXPECT_EQ(said("CONFIG GET save\r\nCONFIG SET a b\r\n"),
            "*0\r\n-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n");
  EXPECT_EQ(said("CLUSTER NODES\r\n"), "-ERR This instance has cluster support disabled\r\n");
  EXPECT_EQ(said("NOSUCH\r\nNOSUCH a b\r\nPING a b\r\nECHO\r\n"),
            "-ERR unknown command 'NOSUCH', with args beginning with: \r\n"
            "-ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' \r\n"
            "-ERR wrong number of arguments for 'ping' command\r\n"
            "-ERR wrong number of arguments for 'echo' command\r\n");
  EXPECT_EQ(said("*2\r\n$3\r\nx\r\n\r\n$1\r\n\n\r\n"),
            "-ERR unknown command 'x  ', with args beginning with: ' ' \r\n");
  const std::string x(200, 'x'), y(100, 'y');
  EXPECT_EQ(talk(x + " " + y + " " + y + " z\n", 1000, 1).said,
            "-ERR unknown command '" + x.substr(0, 128) + "', with args beginning with: '" + y +
                "' '" + y.substr(0, 25) + "' \r\n");
}

TEST(RespSession, RefusesCommandsOfRedisByName) {
  const auto refused = [](const std::string& name, const std::string& more = "") {
    const std::string reply = said(name + more + "\n");
    const std::string head = "-ERR " + name + " is not supported; ";
    EXPECT_TRUE(reply.starts_with(head)) << reply;
    return reply.substr(std::min(head.size(), reply.size()));
  };
  EXPECT_EQ(refused("SCAN", " 0"),
            "list counters with `sluice counters` or GET /v1/counters at the admin port\r\n");
  EXPECT_EQ(refused("SLUICE.HOLDS", " tenant=a"),
            "list what is held with `sluice holds` or GET /v1/holds at the admin port\r\n");
  EXPECT_EQ(refused("CLIENT UNBLOCK", " 7 ERROR"),
            "give SLUICE.WAIT a timeout, or close the connection that waits\r\n");
  for (const char* name :
       {"KEYS", "TYPE", "FLUSHALL", "FLUSHDB", "CLIENT LIST", "CLIENT KILL", "CLIENT PAUSE",
        "CLIENT TRACKING", "CLIENT NO-EVICT", "CLIENT NO-TOUCH", "COMMAND LIST", "COMMAND GETKEYS"})
    EXPECT_GT(refused(name).size(), 10u) << name;
  EXPECT_EQ(said("keys *\nclient list\n"), said("KEYS\nCLIENT LIST TYPE normal\n"));
  EXPECT_EQ(said("MULTI\nSCAN 0\nEXEC\n").substr(0, 15), "+OK\r\n-ERR SCAN ");
  EXPECT_TRUE(said("MULTI\nSCAN 0\nEXEC\n").find("-EXECABORT ") != std::string::npos);
}

TEST(RespSession, EndsByQuitErrorsAndRefusals) {
  EXPECT_EQ(talk("PING\r\nQUIT\r\nPING\r\n"), (Talk{"+PONG\r\n+OK\r\n", true, ""}));
  EXPECT_EQ(talk("PING\r\n*x\r\nPING\r\n"),
            (Talk{"+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n", true, "protocol"}));
  EXPECT_EQ(talk("POST / HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n"), (Talk{"", true, "http"}));
  RespSession session({.server = &server});
  base::Buffer out;
  session.end(request::Ending::refused, "too many connections", out);
  EXPECT_EQ(out.view(), "-ERR too many connections\r\n");
}

}  // namespace
}  // namespace sluice::resp
