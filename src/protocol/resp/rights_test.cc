// What each command answers to each kind of client where the server has users. Every command of the
// table needs a line here.
#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users_by_rights_test.h"
#include "protocol/resp/command_table.h"
#include "protocol/resp/commands_world_test.h"

namespace sluice::resp::rights_test {
namespace {

using access::Right;
using commands_test::World;
using tests::every_right;
using tests::users_by_rights;

// Its arguments, and how its reply begins to a client that may send it.
struct Line {
  std::string arguments, reply;
  // The counters that it touches, of which a limited right must have each; none: it touches none.
  std::vector<std::string> counters{};
  std::string to_stranger = "-NOAUTH";  // before any login
  bool is_of_hold = false;              // it is about a hold of the user, whatever counters it has
};

const std::vector<std::string> of_keys = {"cl.throttle:0|k", "throttle:0|k", "gcra:0|k",
                                          "inline:k"};

const std::map<std::string_view, Line> lines = {
    {"asking", {"", "+OK"}},
    {"auth", {"only-take", "+OK", {}, "+OK"}},
    {"cl.throttle", {"k 3 60 60", "*5", {"cl.throttle:0|k"}}},
    {"client", {"ID", ":"}},
    {"cluster", {"INFO", "-ERR"}},
    {"command", {"COUNT", ":"}},
    {"config", {"GET save", "*"}},
    {"del", {"k", ":", of_keys}},
    {"discard", {"", "-ERR DISCARD without MULTI"}},
    {"echo", {"hello", "$5"}},
    {"exec", {"", "-ERR EXEC without MULTI"}},
    {"exists", {"k", ":", of_keys}},
    {"gcra", {"k 3 60 60", "*5", {"gcra:0|k"}}},
    {"hello", {"2", "*"}},
    {"increx", {"k UBOUND 9 EX 60 ENX", "*2", {"inline:k"}}},
    {"info", {"", "$"}},
    {"multi", {"", "+OK"}},
    {"ping", {"", "+PONG"}},
    {"pttl", {"k", ":", of_keys}},
    {"quit", {"", "+OK", {}, "+OK"}},
    {"readonly", {"", "+OK"}},
    {"readwrite", {"", "+OK"}},
    {"reset", {"", "+RESET", {}, "+RESET"}},
    {"select", {"0", "+OK"}},
    {"sluice.acquire", {"0 KEY k LIMIT 9 30 ALGORITHM concurrency", "*5", {"inline:k"}}},
    {"sluice.charge", {"ENTRIES 2 path=/login ip=a", "*7", {"login:a"}}},
    {"sluice.commit",
     {"hold-0000-0000-1 N 1 SUBJECT ENTRIES 2 path=/login ip=a", "*5", {"login:a"}}},
    {"sluice.explain", {"ENTRIES 2 path=/login ip=a", "*", {"login:a"}}},
    {"sluice.extend", {"hold-0000-0000-1 N 1", "-NOID", {}, "-NOAUTH", true}},
    {"sluice.help", {"", "*"}},
    {"sluice.info", {"", "*8"}},
    {"sluice.mreserve",
     {"60 2 path=/login ip=a N 1 path=/login ip=b N 1", "*4", {"login:a", "login:b"}}},
    {"sluice.mtake",
     {"2 ENTRIES 2 path=/login ip=a ENTRIES 2 path=/login ip=b", "*", {"login:a", "login:b"}}},
    {"sluice.peek", {"ENTRIES 2 path=/login ip=a", "*5", {"login:a"}}},
    {"sluice.put", {"ENTRIES 2 path=/login ip=a", "*2", {"login:a"}}},
    {"sluice.release", {"hold-0000-0000-1", "-NOID", {}, "-NOAUTH", true}},
    {"sluice.renew", {"hold-0000-0000-1", "-NOID", {}, "-NOAUTH", true}},
    {"sluice.reserve", {"60 path=/login ip=a N 1", "*5", {"login:a"}}},
    {"sluice.reset", {"ENTRIES 2 path=/login ip=a", ":", {"login:a"}}},
    {"sluice.take", {"ENTRIES 2 path=/login ip=a", "*5", {"login:a"}}},
    {"sluice.wait", {"1 ENTRIES 2 path=/login ip=a", "*6", {"login:a"}}},
    {"throttle", {"k 3 60 60", "*5", {"throttle:0|k"}}},
    {"time", {"", "*2"}},
    {"ttl", {"k", ":", of_keys}},
    {"unlink", {"k", ":", of_keys}},
    {"unwatch", {"", "+OK"}},
    {"watch", {"k", "+OK"}},
};

access::User limited(const std::string& name, const std::vector<std::string>& patterns) {
  access::User one{name, every_right, access::digest_of(name)};
  for (const Right right : {Right::take, Right::put, Right::look})
    one.reach[static_cast<size_t>(right)] = access::Reach(patterns);
  return one;
}

// `only-R`, `without-R`, `limited` to the patterns, and one of a certificate.
std::shared_ptr<const access::Users> users(const std::vector<std::string>& patterns) {
  access::User by_certificate{"by-certificate", every_right};
  by_certificate.certificate = "client.example";
  std::vector<access::User> all = {by_certificate};
  if (!patterns.empty()) all.push_back(limited("limited", patterns));
  return users_by_rights(std::move(all));
}

// The reply to a client's command, after it has shown the token, which may be wrong.
std::string reply_to(World& world, const access::Access& access, const std::string& token,
                     const std::string& command, const std::string& certificate = {}) {
  request::Peer peer = world.peer();
  peer.access = &access;
  peer.certificate = certificate;
  RespSession session(peer);
  if (!token.empty()) world.say(session, "AUTH " + token + "\n");
  return world.say(session, command + "\n");
}

TEST(RespRights, EachCommandAnswersEachClientAsItsLineSays) {
  RespOptions options;
  for (auto& answers : options.answers) answers = true;
  for (const CommandEntry& entry : command_entries()) {
    const auto found = lines.find(entry.name);
    ASSERT_NE(found, lines.end()) << entry.name << " has no line in this test";
    const Line& line = found->second;
    std::string command(entry.name);
    if (!line.arguments.empty()) command += " " + line.arguments;
    const auto expect = [&](const std::vector<std::string>& patterns, const std::string& token,
                            const std::string& reply, const std::string& certificate = {}) {
      World world(options);  // each with full counters
      const access::Access access{users(patterns)};
      const std::string said = reply_to(world, access, token, command, certificate);
      EXPECT_TRUE(said.starts_with(reply))
          << command << " by " << (certificate.empty() ? token : certificate) << ": " << said;
    };
    expect({}, "", line.to_stranger);
    expect({}, "wrong", line.to_stranger);
    expect({}, "", line.to_stranger, "unknown.example");
    expect({}, "", line.reply, "client.example");
    for (size_t i = 0; i < access::right_names.size(); ++i) {
      const std::string name(access::right_names[i]);
      const bool is_its = entry.right == static_cast<Right>(i);
      expect({}, "without-" + name, is_its ? "-NOPERM" : line.reply);
      expect({}, "only-" + name, entry.right && !is_its ? "-NOPERM" : line.reply);
    }
    const bool touches = !line.counters.empty();
    EXPECT_EQ(entry.right.has_value(), touches || line.is_of_hold) << entry.name;
    expect({"login:z*", "other"}, "limited", touches ? "-NOPERM" : line.reply);
    if (!touches) continue;
    expect(line.counters, "limited", line.reply);
    for (size_t left_out = 0; left_out < line.counters.size(); ++left_out) {
      std::vector<std::string> patterns = line.counters;
      patterns[left_out] += "-and-more";
      expect(patterns, "limited", "-NOPERM");
    }
  }
  for (const auto& [name, line] : lines) EXPECT_NE(find_command(name), nullptr) << name;
}

struct Limited {
  explicit Limited(const std::vector<std::string>& patterns)
      : access(users(patterns)), session(with(access)) {
    world.say(session, "AUTH limited\n");
  }
  request::Peer with(const access::Access& its) {
    request::Peer peer = world.peer();
    peer.access = &its;
    return peer;
  }
  std::string say(const std::string& text) { return world.say(session, text + "\n"); }

  World world;
  access::Access access;
  RespSession session;
};

constexpr const char* no_permission =
    "-NOPERM this user has no permissions to access a counter of the command\r\n";

TEST(RespRights, OneKeyThatIsNotAllowedRefusesTheWholeCommand) {
  Limited limited({"login:a*"});
  for (const char* each : {"", " EACH"})
    EXPECT_EQ(limited.say("SLUICE.MTAKE 2 ENTRIES 2 path=/login ip=a ENTRIES 2 path=/login ip=b" +
                          std::string(each)),
              no_permission)
        << each;
  EXPECT_EQ(limited.world.numbers("SLUICE.TAKE ENTRIES 2 path=/login ip=a"), "1 3 2 0 60000")
      << "not charged";
  EXPECT_EQ(limited.say("SLUICE.MTAKE 2 ENTRIES 2 path=/login ip=a ENTRIES 2 path=/login ip=ab")
                .substr(0, 2),
            "*3");
}

TEST(RespRights, ANegativeQuantityIsOfTheRightToPut) {
  Limited limited({"cl.throttle:0|k"});
  std::vector<access::User> all = {
      access::User{"limited", {Right::take, Right::put}, access::digest_of("limited")}};
  all[0].reach[static_cast<size_t>(Right::put)] = access::Reach({"cl.throttle:0|p*"});
  limited.access.set(std::make_shared<const access::Users>(std::move(all)));
  EXPECT_EQ(limited.say("CL.THROTTLE other 3 60 60 1").substr(0, 2), "*5");
  EXPECT_EQ(limited.say("CL.THROTTLE other 3 60 60 -1"), no_permission);
  EXPECT_EQ(limited.say("CL.THROTTLE pot 3 60 60 -1").substr(0, 2), "*5");
}

// Each command of a transaction stands for itself, as it does with a right that is missing.
TEST(RespRights, ATransactionGoesOnAfterARefusal) {
  Limited limited({"login:a*"});
  EXPECT_EQ(limited.say("MULTI\nSLUICE.TAKE ENTRIES 2 path=/login ip=b\nSLUICE.TAKE ENTRIES 2 "
                        "path=/login ip=a\nEXEC"),
            "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n" + std::string(no_permission) +
                "*5\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n");
}

TEST(RespRights, FollowLoginsAndReloadsWithinABatch) {
  Limited limited({"login:a*"});
  EXPECT_EQ(limited.say(
                "SLUICE.TAKE ENTRIES 2 path=/login ip=b\nAUTH only-take\nSLUICE.TAKE "
                "ENTRIES 2 path=/login ip=b\nAUTH limited\nSLUICE.TAKE ENTRIES 2 path=/login ip=b"),
            std::string(no_permission) + "+OK\r\n*5\r\n:1\r\n:3\r\n:2\r\n:0\r\n:60000\r\n+OK\r\n" +
                no_permission);
  limited.access.set(users({"login"}));
  EXPECT_EQ(limited.say("SLUICE.TAKE ENTRIES 2 path=/login ip=b").substr(0, 2), "*5");
  limited.access.set(users({}));
  EXPECT_EQ(limited.say("SLUICE.TAKE ENTRIES 2 path=/login ip=b").substr(0, 7), "-NOAUTH");
}

TEST(RespRights, ASilentRefusalChargesNothing) {
  Limited limited({"login:a*"});
  EXPECT_EQ(limited.say("CLIENT REPLY SKIP\nSLUICE.TAKE ENTRIES 2 path=/login ip=b\nPING"),
            "+PONG\r\n");
  EXPECT_EQ(limited.world.numbers("SLUICE.TAKE ENTRIES 2 path=/login ip=b"), "1 3 2 0 60000");
}

}  // namespace
}  // namespace sluice::resp::rights_test
