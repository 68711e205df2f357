// What the paths of holds ask the core, and how each thing that may come of it is answered: the
// test stands in for the core. Sessions without engine and sockets.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "access/users_by_rights_test.h"
#include "base/buffer.h"
#include "base/time.h"
#include "limit/limit.h"
#include "protocol/http/http_text_test.h"
#include "request/charge.h"
#include "request/hold.h"
#include "request/session.h"

namespace sluice::http::hold_answers_test {
namespace {

using namespace session_world;
using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verb;
using request::Verdict;

const std::string id = "hold-0000-0000-1";
const std::string of_id = R"({"id": ")" + id + "\"";

constexpr limit::Limit hourly{limit::Algorithm::fixed_window, 100, base::seconds(3600), 0};

// A request to the core, as the session left it.
struct Asked {
  Verb verb;
  int64_t cost;
  bool together, needs_rule;
  request::RuleScope scope;
  std::vector<std::pair<std::string, std::string>> entries;
  size_t limits;
  friend bool operator==(const Asked&, const Asked&) = default;
};

// What the core leaves of a message: the call, and a verdict for each of its requests.
struct Core {
  HoldCall& call;
  std::vector<Verdict> verdicts;
  limit::Decision decision{.allowed = true,
                           .limit = 100,
                           .remaining = 60,
                           .reset_after = base::seconds(3600),
                           .retry_after = {}};

  // A verdict of a rule with the decision.
  void decide(bool allowed) {
    decision.allowed = allowed;
    for (Verdict& one : verdicts) {
      one.matched = true;
      one.allowed = allowed;
      one.tightest = &decision;
      one.limit = &hourly;
      one.rule = "tok";
      one.generation = 7;
    }
  }
  // The same in the call: of a message without subjects.
  void decide_call(bool allowed) {
    decision.allowed = allowed;
    call.has_decision = true;
    call.decision = decision;
    call.limit = hourly;
    call.rule = "tok";
    for (Verdict& one : verdicts) {
      one.matched = true;
      one.generation = 7;
    }
  }
  void fail(std::string_view why, request::Error cause) {
    call.outcome = HoldOutcome::failed;
    for (Verdict& one : verdicts) {
      one.error = why;
      one.cause = cause;
      one.generation = 7;
    }
  }
  void hold(std::vector<int64_t> reserved) {
    call.outcome = HoldOutcome::done;
    call.made_id = id;
    call.ends_in = base::milliseconds(59'500);
    call.reserved = std::move(reserved);
  }
};

using Settle = std::function<void(Core&)>;

class Door {
 public:
  explicit Door(const Setup& setup = {}) : world(setup) { peer = world.peer("127.0.0.1:41000"); }

  // The answer to one request over HTTP/1.1.
  HttpAnswer ask(const std::string& text, const Settle& settle) {
    HttpSession session(peer);
    request::Requests requests;
    base::Buffer out;
    session.receive(text, false, requests, out);
    asked.clear();
    call = {};
    settle_all(session, requests, settle, out);
    std::string told(out.view());
    return take_answer(told);
  }
  HttpAnswer ask(const std::string& path, const std::string& body, const Settle& settle,
                 const std::string& more = {}) {
    return ask(post(path, body, more), settle);
  }

  World world;
  request::Peer peer{};
  std::vector<Asked> asked;
  HoldCall call;  // of the last request, when it was asked
  std::string user, its_id, holder;
  base::Duration wait_at_most{};

 private:
  void settle_all(HttpSession& session, request::Requests& requests, const Settle& settle,
                  base::Buffer& out) {
    const auto items = requests.items();
    HoldCall* const its = items.empty() ? nullptr : items.front().message->hold;
    if (its == nullptr) {
      for (const request::Request& one : items) {
        EXPECT_EQ(one.verb, Verb::noop) << "a request of a hold without its call";
        session.reply(one, {}, {now_us}, out);
      }
      return;
    }
    call = *its;
    user = its->user;
    its_id = its->id;
    holder = its->holder;
    for (const request::Request& one : items) note(requests, one, its);
    Core core{*its, std::vector<Verdict>(items.size())};
    settle(core);
    for (size_t i = 0; i < items.size(); ++i)
      session.reply(items[i], core.verdicts[i], {now_us}, out);
  }
  void note(request::Requests& requests, const request::Request& one, const HoldCall* its) {
    EXPECT_EQ(one.message->hold, its) << "each request of a message has its call";
    Asked& noted = asked.emplace_back();
    noted.verb = one.verb;
    noted.cost = one.cost;
    noted.together = one.message->together;
    noted.needs_rule = one.message->needs_rule;
    noted.scope = one.scope;
    wait_at_most = one.message->wait_at_most;
    for (const request::Entry& entry : requests.descriptor(one))
      noted.entries.emplace_back(entry.key, entry.value);
    noted.limits = requests.limits(one).size();
  }
};

// A line of the table of answers.
struct Line {
  std::string path, body;
  Settle settle;
  int status;
  std::string answer;  // the whole body, or its end if it begins with "..."
};

void expect_line(const Line& line) {
  Door door;
  const HttpAnswer answer = door.ask(line.path, line.body, line.settle);
  EXPECT_EQ(answer.status, line.status) << line.path << " " << line.body << answer.body;
  if (line.answer.starts_with("..."))
    EXPECT_TRUE(answer.body.ends_with(line.answer.substr(3))) << answer.body;
  else
    EXPECT_EQ(answer.body, line.answer) << line.path;
  EXPECT_EQ(answer.field("content-type"),
            line.status == 200 ? "application/json" : "application/problem+json");
  EXPECT_EQ(answer.has("retry-after"), line.status == 503) << line.path;
  if (line.status != 200) {
    EXPECT_TRUE(door.world.listener.codes.empty() == (line.status != 400))
        << "counted as malformed: " << line.path << " " << line.status;
  }
}

// ---- What is asked ----

TEST(HoldQuestion, AReserveTakesFromItsSubject) {
  Door door;
  door.ask("/v1/reserve",
           R"({"entries": {"ip": "a", "what": "tok\u0065ns"}, "n": 40, "ttl": 2.5, "id": ")" + id +
               R"(", "holder": "w\u00e4rter"})",
           [](Core& core) { core.hold({40}); });
  EXPECT_EQ(door.asked, (std::vector<Asked>{{Verb::reserve,
                                             40,
                                             false,
                                             false,
                                             request::RuleScope::native,
                                             {{"ip", "a"}, {"what", "tokens"}},
                                             0}}));
  EXPECT_EQ(door.call.ask, HoldAsk::reserve);
  EXPECT_EQ(door.its_id, id);
  EXPECT_EQ(door.call.ttl.us, 2'500'000);
  EXPECT_EQ(door.holder, "w\xC3\xA4rter");
  EXPECT_EQ(door.user, "");
  EXPECT_TRUE(door.call.units.empty());
  door.ask("/v1/reserve", by_key("k", 9), [](Core& core) { core.hold({1}); });
  ASSERT_EQ(door.asked.size(), 1u);
  EXPECT_EQ(door.asked[0].scope, request::RuleScope::all);
  EXPECT_EQ(door.asked[0].limits, 1u);
  EXPECT_EQ(door.its_id, "");
  EXPECT_EQ(door.call.ttl.us, 0);
}

TEST(HoldQuestion, AReserveMayWait) {
  Door door;
  const auto held = [](Core& core) {
    core.decide(true);
    core.hold({1});
  };
  HttpAnswer answer = door.ask("/v1/reserve", by_ip("a", R"(, "timeout": 2.5)"), held);
  EXPECT_TRUE(door.call.waits);
  EXPECT_EQ(door.wait_at_most, base::milliseconds(2'500));
  EXPECT_TRUE(answer.tells(R"("mode": "enforce", "waited": 0, "id": )")) << answer.body;
  answer = door.ask("/v1/reserve", by_ip("a", R"(, "timeout": 0)"), held);
  EXPECT_FALSE(door.call.waits);
  EXPECT_TRUE(answer.tells(R"("waited": 0)")) << answer.body;
  answer = door.ask("/v1/reserve", by_ip("a"), held);
  EXPECT_FALSE(answer.tells("waited")) << answer.body;
}

TEST(HoldQuestion, AnAcquireIsAReserveOfPlaces) {
  Door door;
  const HttpAnswer answer =
      door.ask("/v1/acquire", by_ip("a", R"(, "ttl": 30, "release_on_close": true, "holder": "h")"),
               [](Core& core) {
                 core.decide(true);
                 core.hold({1});
               });
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(door.call.is_place && door.call.closes);
  EXPECT_EQ(door.call.ask, HoldAsk::reserve);
  EXPECT_EQ(door.holder, "h");
  door.ask("/v1/reserve", by_ip("a"), [](Core& core) { core.hold({1}); });
  EXPECT_FALSE(door.call.is_place || door.call.closes);
  EXPECT_EQ(door.ask("/v1/acquire", by_ip("a"),
                     [](Core& core) { core.call.outcome = HoldOutcome::no_places; })
                .status,
            400);
}

TEST(HoldQuestion, SubjectsOfOneReserveSettleTogetherAndNeedARule) {
  Door door;
  const std::string body =
      R"({"takes": [{"entries": {"ip": "a"}, "n": 7}, {"entries": {"ip": "b"}}], "n": 2})";
  door.ask("/v1/reserve", body, [](Core& core) { core.hold({7, 2}); });
  ASSERT_EQ(door.asked.size(), 2u);
  EXPECT_EQ(door.asked[0].cost, 7);
  EXPECT_EQ(door.asked[1].cost, 2);
  for (const Asked& one : door.asked) EXPECT_TRUE(one.together && one.needs_rule);
  Door other({.http = "{ unmatched: allow }"});
  other.ask("/v1/reserve", body, [](Core& core) { core.hold({7, 2}); });
  EXPECT_FALSE(other.asked.at(0).needs_rule);
}

// Ids stand for what is reserved: not for how long, nor by whom.
TEST(HoldQuestion, TheContentIsTheSubjectsAndTheirUnits) {
  Door door;
  const auto content = [&](const std::string& members) {
    door.ask("/v1/reserve", "{" + members + R"(, "id": ")" + id + "\"}",
             [](Core& core) { core.hold({1}); });
    return door.call.content;
  };
  const uint64_t one = content(R"("entries": {"ip": "a", "user": "b"}, "n": 4)");
  EXPECT_NE(one, 0u);
  EXPECT_EQ(content(R"("n": 4.0, "ttl": 9, "holder": "h", "detail": true, )"
                    R"("entries": {"user": "b", "ip": "\u0061"})"),
            one);
  EXPECT_NE(content(R"("entries": {"ip": "a", "user": "b"}, "n": 5)"), one);
  EXPECT_NE(content(R"("entries": {"ip": "a", "user": "c"}, "n": 4)"), one);
  door.ask("/v1/reserve", by_ip("a"), [](Core& core) { core.hold({1}); });
  EXPECT_EQ(door.call.content, 0u) << "without an id it has none";
}

TEST(HoldQuestion, WithoutASubjectThereIsOneRequestThatSettles) {
  Door door;
  const auto asks = [&](const char* path, const std::string& body, HoldAsk ask) {
    door.ask(path, body, [](Core& core) { core.call.outcome = HoldOutcome::unknown; });
    EXPECT_EQ(
        door.asked,
        (std::vector<Asked>{{Verb::settle, 0, false, false, request::RuleScope::native, {}, 0}}))
        << path;
    EXPECT_EQ(door.call.ask, ask) << path;
    EXPECT_EQ(door.its_id, id) << path;
  };
  asks("/v1/extend", of_id + R"(, "n": [5, 0], "ttl": 30})", HoldAsk::extend);
  EXPECT_EQ(door.call.units, (std::vector<int64_t>{5, 0}));
  EXPECT_EQ(door.call.ttl, base::seconds(30));
  asks("/v1/renew", of_id + R"(, "ttl": 0.5})", HoldAsk::renew);
  EXPECT_EQ(door.call.ttl, base::milliseconds(500));
  asks("/v1/commit", of_id + R"(, "n": 12})", HoldAsk::commit);
  EXPECT_EQ(door.call.units, std::vector<int64_t>{12});
  asks("/v1/release", of_id + "}", HoldAsk::release);
}

TEST(HoldQuestion, ACommitWithSubjectsChargesThem) {
  Door door;
  door.ask("/v1/commit", of_id + R"(, "takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}],
                       "n": [3, 0]})",
           [](Core& core) { core.call.outcome = HoldOutcome::full; });
  const auto charge = [](int64_t cost, const char* ip) {
    return Asked{Verb::charge, cost,        true, true, request::RuleScope::native,
                 {{"ip", ip}}, /*limits=*/0};
  };
  EXPECT_EQ(door.asked, (std::vector<Asked>{charge(3, "a"), charge(0, "b")}));
  EXPECT_EQ(door.call.units, (std::vector<int64_t>{3, 0}));
}

TEST(HoldQuestion, IdsAreThoseOfTheUser) {
  Door door({.users = tests::users_by_rights({})});
  const auto status = [&](const std::string& token) {
    const std::string more = token.empty() ? "" : "Authorization: Bearer " + token + "\r\n";
    return door
        .ask(
            "/v1/release", of_id + "}", [](Core& core) { core.call.outcome = HoldOutcome::done; },
            more)
        .status;
  };
  EXPECT_EQ(status("only-take"), 200);
  EXPECT_EQ(door.user, "only-take");
  EXPECT_EQ(status("without-take"), 403);
  EXPECT_EQ(status(""), 401);
}

// ---- Answers of 200 ----

const std::string takes_body =
    R"({"takes": [{"entries": {"ip": "a"}, "n": 40}, {"entries": {"ip": "b"}, "n": 2}]})";

TEST(HoldAnswer, OfAReserveThatIsHeld) {
  expect_line(
      {"/v1/reserve", by_ip("a", R"(, "n": 40)"),
       [](Core& core) {
         core.decide(true);
         core.hold({40});
       },
       200,
       R"({"allowed": true, "limit": 100, "remaining": 60, "retry_after": 0, )"
       R"("reset_after": 3600, "rule": "tok", "mode": "enforce", "id": "hold-0000-0000-1", )"
       R"("ttl": 59.5, "reserved": 40, "generation": 7})"});
  expect_line({"/v1/reserve", takes_body,
               [](Core& core) {
                 core.decide(true);
                 core.hold({40, 2});
               },
               200,
               R"({"allowed": true, "takes": [{"allowed": true, "limit": 100, "remaining": 60, )"
               R"("retry_after": 0, "reset_after": 3600, "rule": "tok", "mode": "enforce"}, )"
               R"({"allowed": true, "limit": 100, "remaining": 60, "retry_after": 0, )"
               R"("reset_after": 3600, "rule": "tok", "mode": "enforce"}], )"
               R"("id": "hold-0000-0000-1", "ttl": 59.5, "reserved": [40, 2], "generation": 7})"});
  expect_line({"/v1/reserve", R"({"takes": [{"entries": {"ip": "a"}}]})",
               [](Core& core) {
                 core.decide(true);
                 core.hold({1});
               },
               200, R"(..., "reserved": [1], "generation": 7})"});
}

TEST(HoldAnswer, OfAReserveThatIsRepeatedSaysSo) {
  expect_line({"/v1/reserve", by_ip("a", R"(, "id": "hold-0000-0000-1")"),
               [](Core& core) {
                 core.decide(true);
                 core.hold({1});
                 core.call.repeated = true;
               },
               200, R"(..., "ttl": 59.5, "reserved": 1, "repeated": true, "generation": 7})"});
}

TEST(HoldAnswer, OfAReserveThatCannotBeStoredButIsAllowed) {
  expect_line({"/v1/reserve", by_ip("a"),
               [](Core& core) {
                 core.decide(true);
                 core.call.outcome = HoldOutcome::not_held;
               },
               200, R"(..."mode": "enforce", "id": null, "held": false, "generation": 7})"});
}

TEST(HoldAnswer, OfAReserveWithoutALimitHasAnId) {
  Door door({.http = "{ unmatched: allow }"});
  const HttpAnswer answer = door.ask("/v1/reserve", by_ip("a"), [](Core& core) { core.hold({1}); });
  EXPECT_EQ(answer.body, R"({"allowed": true, "rule": null, "id": "hold-0000-0000-1", )"
                         R"("ttl": 59.5, "reserved": 1})");
}

TEST(HoldAnswer, OfAReserveHasDetailsAndFieldsAsATake) {
  Door door;
  const auto held = [](Core& core) {
    core.decide(true);
    core.hold({1});
  };
  const HttpAnswer answer = door.ask("/v1/reserve", by_ip("a", R"(, "detail": true)"), held);
  EXPECT_TRUE(answer.tells(R"("limits": [{"name": "tok", "allowed": true, "limit": 100)"))
      << answer.body;
  EXPECT_EQ(answer.field("ratelimit-policy"), "\"tok\";q=100;w=3600");
  EXPECT_EQ(answer.field("ratelimit"), "\"tok\";r=60;t=3600");
}

TEST(HoldAnswer, OfAnExtendHasTheNewSum) {
  const auto extended = [](std::vector<int64_t> reserved) {
    return [reserved](Core& core) {
      core.decide_call(true);
      core.hold(reserved);
    };
  };
  expect_line(
      {"/v1/extend", of_id + R"(, "n": 500})", extended({540}), 200,
       R"({"allowed": true, "limit": 100, "remaining": 60, "retry_after": 0, )"
       R"("reset_after": 3600, "rule": "tok", "mode": "enforce", "id": "hold-0000-0000-1", )"
       R"("ttl": 59.5, "reserved": 540, "generation": 7})"});
  expect_line({"/v1/extend", of_id + R"(, "n": [500, 0]})", extended({540, 2}), 200,
               R"(..., "reserved": [540, 2], "generation": 7})"});
  expect_line({"/v1/extend", of_id + R"(, "n": [500]})", extended({540}), 200,
               R"(..., "reserved": [540], "generation": 7})"});
  expect_line({"/v1/extend", of_id + R"(, "n": 0})", [](Core& core) { core.hold({40}); }, 200,
               R"({"allowed": true, "rule": null, "id": "hold-0000-0000-1", "ttl": 59.5, )"
               R"("reserved": 40})"});
  Door door;
  const HttpAnswer answer = door.ask("/v1/extend", of_id + R"(, "n": 1})", extended({41}));
  EXPECT_EQ(answer.field("ratelimit-policy"), "\"tok\";q=100;w=3600");
  EXPECT_EQ(answer.field("ratelimit"), "\"tok\";r=60;t=3600");
}

TEST(HoldAnswer, OfARenewAndAReleaseTellsNoLimit) {
  expect_line({"/v1/renew", of_id + "}",
               [](Core& core) {
                 core.decide_call(true);
                 core.hold({40});
               },
               200, R"({"id": "hold-0000-0000-1", "ttl": 59.5})"});
  expect_line({"/v1/release", of_id + "}",
               [](Core& core) {
                 core.decide_call(true);
                 core.call.outcome = HoldOutcome::done;
                 core.call.returned = 40;
               },
               200, R"({"state": "released", "returned": 40})"});
}

TEST(HoldAnswer, OfACommitTellsWhatBecameOfTheUnits) {
  const auto committed = [](std::vector<int64_t> used, int64_t returned, int64_t charged) {
    return [=](Core& core) {
      core.decide_call(true);
      core.call.outcome = HoldOutcome::done;
      core.call.used = used;
      core.call.returned = returned;
      core.call.charged = charged;
    };
  };
  const std::string limit =
      R"(, "limit": 100, "remaining": 60, "debt": 0, "rule": "tok", "generation": 7})";
  expect_line({"/v1/commit", of_id + R"(, "n": 12})", committed({12}, 28, 0), 200,
               R"({"state": "committed", "n": 12, "returned": 28, "charged": 0, "late": false, )"
               R"("repeated": false)" +
                   limit});
  expect_line({"/v1/commit", of_id + R"(, "n": [50, 0]})", committed({50, 0}, 2, 10), 200,
               R"({"state": "committed", "n": [50, 0], "returned": 2, "charged": 10, )"
               R"("late": false, "repeated": false)" +
                   limit});
  expect_line({"/v1/commit", of_id + R"(, "n": 12})",
               [&](Core& core) {
                 committed({12}, 0, 12)(core);
                 core.call.late = core.call.repeated = true;
                 core.call.decision.remaining = -5;
               },
               200,
               R"({"state": "committed", "n": 12, "returned": 0, "charged": 12, "late": true, )"
               R"("repeated": true, "limit": 100, "remaining": 0, "debt": 5, "rule": "tok", )"
               R"("generation": 7})"});
  expect_line({"/v1/commit", of_id + R"(, "n": 0})",
               [](Core& core) {
                 core.call.outcome = HoldOutcome::done;
                 core.call.used = {0};
               },
               200,
               R"({"state": "committed", "n": 0, "returned": 0, "charged": 0, "late": false, )"
               R"("repeated": false, "rule": null})"});
  Door door;
  const HttpAnswer answer = door.ask("/v1/commit", of_id + R"(, "n": 12})", committed({12}, 28, 0));
  EXPECT_FALSE(answer.has("ratelimit") || answer.has("ratelimit-policy"));
}

// Of subjects that were charged, as the id was unknown: the limit that takes longest.
TEST(HoldAnswer, OfACommitThatIsACharge) {
  static const limit::Decision good{.allowed = true, .limit = 9, .remaining = 3},
      over{.allowed = true,
           .limit = 50,
           .remaining = -4,
           .reset_after = base::seconds(9),
           .retry_after = base::seconds(9)};
  for (const bool first : {true, false}) {
    Door door;
    const HttpAnswer answer = door.ask(
        "/v1/commit",
        of_id + R"(, "takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}], "n": [3, 4]})",
        [&](Core& core) {
          core.decide(true);
          core.call.outcome = HoldOutcome::done;
          core.call.late = true;
          core.call.used = {3, 4};
          core.call.charged = 7;
          core.verdicts[0].tightest = first ? &over : &good;
          core.verdicts[1].tightest = first ? &good : &over;
          core.verdicts[first ? 0 : 1].rule = "tight";
        });
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body,
              R"({"state": "committed", "n": [3, 4], "returned": 0, "charged": 7, "late": true, )"
              R"("repeated": false, "limit": 50, "remaining": 0, "debt": 4, "rule": "tight", )"
              R"("generation": 7})");
    EXPECT_FALSE(answer.has("ratelimit"));
  }
}

// ---- Refusals ----

TEST(HoldAnswer, OfAReserveAndAnExtendThatDoNotFitIs429) {
  const std::string denial =
      R"({"type": "https://iana.org/assignments/http-problem-types#quota-exceeded", )"
      R"("title": "Quota exceeded", "status": 429, "violated-policies": ["tok"], )"
      R"("allowed": false, "limit": 100, "remaining": 60, "retry_after": 9, )"
      R"("reset_after": 3600, "rule": "tok", "mode": "enforce", "generation": 7})";
  const auto refused = [](bool by_call) {
    return [by_call](Core& core) {
      core.decision.retry_after = base::seconds(9);
      by_call ? core.decide_call(false) : core.decide(false);
      core.call.outcome = HoldOutcome::refused;
    };
  };
  Door door;
  const std::string extend = of_id + R"(, "n": 500})";
  for (const bool by_call : {false, true}) {
    const std::string path = by_call ? "/v1/extend" : "/v1/reserve";
    const std::string body = by_call ? extend : by_ip("a", R"(, "n": 500)");
    const HttpAnswer answer = door.ask(path, body, refused(by_call));
    EXPECT_EQ(answer.status, 429) << path;
    EXPECT_EQ(answer.body, denial);
    EXPECT_EQ(answer.field("retry-after"), "9");
    EXPECT_EQ(answer.field("ratelimit"), "\"tok\";r=60;t=9");
    const HttpAnswer fine = door.ask(path + "?status=200", body, refused(by_call));
    EXPECT_EQ(fine.status, 200);
    EXPECT_TRUE(fine.body.starts_with(R"({"allowed": false, "limit": 100)")) << fine.body;
    EXPECT_FALSE(fine.tells("\"id\""));
  }
  const HttpAnswer several = door.ask("/v1/reserve", takes_body, refused(false));
  EXPECT_EQ(several.status, 429);
  EXPECT_TRUE(several.tells(R"("allowed": false, "takes": [{"allowed": false, "limit": 100)"));
  EXPECT_FALSE(several.tells("\"id\"")) << several.body;
  const HttpAnswer bare =
      door.ask("/v1/extend", extend, [](Core& core) { core.call.outcome = HoldOutcome::refused; });
  EXPECT_EQ(bare.status, 429);
  EXPECT_TRUE(bare.body.ends_with(R"("allowed": false, "rule": null})")) << bare.body;
}

std::string problem_body(const std::string& name, const std::string& title, int status,
                         const std::string& rest) {
  return R"({"type": "urn:sluice:problem:)" + name + R"(", "title": ")" + title +
         R"(", "status": )" + std::to_string(status) + R"(, "detail": ")" + rest;
}

Settle comes_to(HoldOutcome outcome) {
  return [outcome](Core& core) { core.call.outcome = outcome; };
}

TEST(HoldAnswer, OfAnUnknownIdIs404) {
  const std::string sentence =
      "no reservation has this id: it was never made, it is of another user, or it ended so long "
      "ago that it is forgotten";
  const auto answer = [&](const std::string& more) {
    return problem_body("no-such-hold", "No such reservation", 404, sentence + more + "\"}");
  };
  const Settle unknown = comes_to(HoldOutcome::unknown);
  expect_line({"/v1/extend", of_id + R"(, "n": 1})", unknown, 404, answer("")});
  expect_line({"/v1/renew", of_id + "}", unknown, 404, answer("")});
  expect_line({"/v1/release", of_id + "}", unknown, 404, answer("")});
  expect_line({"/v1/commit", of_id + R"(, "n": 1})", unknown, 404,
               answer("; to charge what was used all the same, send its subject along")});
}

TEST(HoldAnswer, OfACommittedOneIs409WithTheUnits) {
  const auto settled = [](std::vector<int64_t> used) {
    return [used](Core& core) {
      core.call.outcome = HoldOutcome::settled;
      core.call.used = used;
    };
  };
  const auto answer = [](const std::string& sentence, const std::string& units) {
    return problem_body("already-settled", "Already settled", 409,
                        sentence + R"(", "n": )" + units + "}");
  };
  const std::string unchanged =
      "the reservation is committed, with the units in `n`; nothing was changed";
  expect_line({"/v1/reserve", by_ip("a", R"(, "id": "hold-0000-0000-1")"), settled({12}), 409,
               answer("the reservation with this id is committed, with the units in `n`: make a "
                      "new id for another",
                      "12")});
  expect_line({"/v1/extend", of_id + R"(, "n": 1})", settled({12}), 409, answer(unchanged, "12")});
  expect_line({"/v1/renew", of_id + "}", settled({12, 0}), 409, answer(unchanged, "[12, 0]")});
  expect_line({"/v1/release", of_id + "}", settled({12}), 409, answer(unchanged, "12")});
  expect_line(
      {"/v1/commit", of_id + R"(, "n": [1]})", settled({12}), 409, answer(unchanged, "[12]")});
  Door door;
  const HttpAnswer plain =
      door.ask("/v1/release", of_id + "}", settled({12}), "Accept: application/json\r\n");
  EXPECT_EQ(plain.body, R"({"detail": ")" + unchanged + R"(", "n": 12})");
}

TEST(HoldAnswer, OfAnEndedOneIs410) {
  const Settle ended = comes_to(HoldOutcome::ended);
  const auto answer = [](const std::string& sentence) {
    return problem_body("hold-ended", "The reservation has ended", 410, sentence + "\"}");
  };
  const std::string stop =
      "the reservation has ended: it was released, or its `ttl` is over; end the work, or make "
      "another reservation";
  expect_line({"/v1/extend", of_id + R"(, "n": 1})", ended, 410, answer(stop)});
  expect_line({"/v1/renew", of_id + "}", ended, 410, answer(stop)});
  expect_line({"/v1/commit", of_id + R"(, "n": 1})", ended, 410,
               answer("the reservation has ended, and a rule of it ignores commits that come late "
                      "(`late_commit: ignore`); nothing was charged")});
  expect_line(
      {"/v1/reserve", by_ip("a", R"(, "id": "hold-0000-0000-1")"), ended, 409,
       problem_body("id-in-use", "The id is in use", 409,
                    "the reservation with this id has ended: make a new id for another\"}")});
}

TEST(HoldAnswer, OfAnIdOfAnotherReservationIs409) {
  expect_line({"/v1/reserve", by_ip("a", R"(, "id": "hold-0000-0000-1")"),
               comes_to(HoldOutcome::in_use), 409,
               problem_body("id-in-use", "The id is in use", 409,
                            "the id names another reservation: an id belongs to one reservation, "
                            "which may be sent again unchanged\"}")});
}

TEST(HoldAnswer, OfUnitsThatAreNotOneForEachSubjectIs400) {
  const auto wrong = [](Core& core) {
    core.call.outcome = HoldOutcome::wrong_number;
    core.call.reserved = {40, 2};
  };
  for (const char* path : {"/v1/extend", "/v1/commit"})
    expect_line(
        {path, of_id + R"(, "n": 1})", wrong, 400,
         problem_body("bad-request", "Bad request", 400,
                      R"(`n` must have one number for each subject of the reservation: 2", )"
                      R"("pointer": "/n"})")});
}

TEST(HoldAnswer, OfOneThatMaySucceedLaterIs503WithATime) {
  const auto ends = [](const std::string& sentence) { return "...\"" + sentence + "\"}"; };
  const std::string extend = of_id + R"(, "n": 1})", only = of_id + "}";
  const std::pair<const char*, std::string> all[] = {{"/v1/reserve", by_ip("a")},
                                                     {"/v1/extend", extend},
                                                     {"/v1/renew", only},
                                                     {"/v1/commit", extend},
                                                     {"/v1/release", only}};
  for (const auto& [path, body] : all) {
    expect_line({path, body,
                 [](Core& core) { core.fail("the store is away", request::Error::store); }, 503,
                 ends("the store is away")});
    if (std::string_view(path) == "/v1/reserve") {
      expect_line({path, body, comes_to(HoldOutcome::full), 503,
                   ends("there are as many reservations as the server keeps; try again later")});
    } else {
      expect_line({path, body, comes_to(HoldOutcome::failed), 503,
                   ends("the store cannot decide it; send it again")});
    }
  }
}

TEST(HoldAnswer, OfCountersThatTheUserMayNotTouchIs403) {
  const auto forbids = [](Core& core) { core.fail(request::not_permitted, request::Error::none); };
  Door door;
  EXPECT_EQ(door.ask("/v1/reserve", by_ip("a"), forbids).status, 403);
  EXPECT_EQ(door.ask("/v1/reserve", takes_body, forbids).status, 403);
  EXPECT_EQ(door.ask("/v1/commit", of_id + R"(, "n": 1, "entries": {"ip": "a"}})", forbids).status,
            403);
  EXPECT_EQ(door.ask("/v1/renew", of_id + "}", forbids).status, 403);
  EXPECT_TRUE(door.world.listener.codes.empty())
      << "the engine reports it, which knows the counter";
}

TEST(HoldAnswer, OfSubjectsWithoutARule) {
  const auto unmatched = [](Core& core) { core.call.outcome = HoldOutcome::failed; };
  const auto several = [](Core& core) {
    core.fail(request::no_rule_applies, request::Error::none);
  };
  const std::string commit = of_id + R"(, "n": 1, "entries": {"ip": "a"}})";
  const std::string both =
      of_id + R"(, "n": [1, 2], "takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}]})";
  Door door;
  EXPECT_EQ(door.ask("/v1/reserve", by_ip("a"), unmatched).status, 404);
  HttpAnswer answer = door.ask("/v1/reserve", takes_body, several);
  EXPECT_EQ(answer.status, 404);
  EXPECT_TRUE(answer.tells("no-rule") && answer.tells(R"("pointer": "/takes")")) << answer.body;
  EXPECT_EQ(door.ask("/v1/commit", commit, unmatched).status, 404);
  answer = door.ask("/v1/commit", both, several);
  EXPECT_EQ(answer.status, 404);
  EXPECT_TRUE(answer.tells("no-rule") && answer.tells(R"("pointer": "/takes")")) << answer.body;
  Door denies({.http = "{ unmatched: deny }"});
  answer = denies.ask("/v1/reserve", by_ip("a"), unmatched);
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.body.ends_with(R"("allowed": false, "rule": null})")) << answer.body;
}

// ---- Without the core ----

TEST(HoldAnswer, ABodyThatIsNotRightIs400WithItsPlace) {
  Door door;
  const auto never = [](Core&) { ADD_FAILURE() << "the core was asked"; };
  const auto refused = [&](const char* path, const std::string& body, const char* pointer) {
    const HttpAnswer answer = door.ask(path, body, never);
    EXPECT_EQ(answer.status, 400) << path << body;
    EXPECT_TRUE(answer.tells(std::string(R"("pointer": ")") + pointer + "\"")) << answer.body;
    return answer;
  };
  refused("/v1/reserve", by_ip("a", R"(, "timeout": 86400)"), "/timeout");
  refused("/v1/reserve", by_ip("a", R"(, "ttl": 0)"), "/ttl");
  refused("/v1/extend", of_id + "}", "");
  refused("/v1/renew", R"({"id": "short"})", "/id");
  refused("/v1/commit",
          of_id + R"(, "n": 3, "takes": [{"entries": {"ip": "a"}}, {"entries": {"ip": "b"}}]})",
          "/n");
  refused("/v1/release", of_id + R"(, "n": 3})", "/n");
  EXPECT_EQ(door.ask("/v1/release?x=1", of_id + "}", never).status, 400);
  EXPECT_EQ(door.ask(get("/v1/reserve"), never).status, 405);
  EXPECT_EQ(door.ask("/v1/cancel", of_id + "}", never).status, 404);
  refused("/v1/acquire", by_ip("a", R"(, "release_on_close": 1)"), "/release_on_close");
  refused("/v1/reserve", by_ip("a", R"(, "release_on_close": true)"), "/release_on_close");
}

TEST(HoldAnswer, TwoListsOfLimitsForOneKeyAre400) {
  Door door;
  const auto take = [](const char* key, int quota, const char* more = "") {
    return std::string(R"({"key": ")") + key + R"(", "limits": [{"quota": )" +
           std::to_string(quota) + R"(, "window": "1m")" + more + "}]}";
  };
  const auto status = [&](const std::string& one, const std::string& other) {
    const HttpAnswer answer =
        door.ask("/v1/reserve", R"({"takes": [)" + one + ", " + other + "]}", [](Core& core) {
          core.decide(true);
          core.hold({1, 1});
        });
    if (answer.status == 400) {
      EXPECT_TRUE(answer.tells("two of `takes` bring different limits for one key") &&
                  answer.tells(R"("pointer": "/takes")"))
          << answer.body;
    }
    return answer.status;
  };
  EXPECT_EQ(status(take("k", 5), take("k", 6)), 400);
  EXPECT_EQ(status(take("k", 5), take("k", 5, R"(, "over": "count")")), 400);
  EXPECT_EQ(status(take("k", 5), take("k", 5, R"(, "name": "other")")), 200) << "one list";
  EXPECT_EQ(status(take("k", 5), take("l", 6)), 200);
}

TEST(HoldAnswer, LimitsThatComeAlongMayBeSwitchedOff) {
  Door door({.http = "{ inline_limits: false }"});
  const auto never = [](Core&) { ADD_FAILURE() << "the core was asked"; };
  EXPECT_EQ(door.ask("/v1/reserve", by_key("k", 9), never).status, 400);
  EXPECT_EQ(door.ask("/v1/commit",
                     of_id + R"(, "n": 1, "key": "k", )" +
                         by_key("k", 9).substr(std::string(R"({"key": "k", )").size()),
                     never)
                .status,
            400);
}

}  // namespace
}  // namespace sluice::http::hold_answers_test
