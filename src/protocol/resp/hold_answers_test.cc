// What the commands about holds ask the core, and how each thing that may come of it is answered,
// at once or late: the test stands in for the core. A session without engine and sockets.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "access/users.h"
#include "access/users_by_rights_test.h"
#include "base/buffer.h"
#include "base/time.h"
#include "limit/limit.h"
#include "protocol/resp/session.h"
#include "request/charge_ids.h"
#include "request/hold.h"
#include "request/peer.h"
#include "request/session.h"

namespace sluice::resp::hold_answers_test {
namespace {

using request::HoldAsk;
using request::HoldCall;
using request::HoldOutcome;
using request::Verb;
using request::Verdict;

const std::string id = "hold-0000-0000-1";

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
    }
  }
  // The same in the call: of a message without subjects.
  void decide_call(bool allowed) {
    decision.allowed = allowed;
    call.has_decision = true;
    call.decision = decision;
    for (Verdict& one : verdicts) one.matched = true;
  }
  void fail(std::string_view why, request::Error cause) {
    call.outcome = HoldOutcome::failed;
    for (Verdict& one : verdicts) {
      one.error = why;
      one.cause = cause;
    }
  }
  void hold(std::vector<int64_t> reserved) {
    call.outcome = HoldOutcome::done;
    call.made_id = id;
    call.ends_in = base::milliseconds(59'500);
    call.reserved = std::move(reserved);
  }
  void hold_allowed(std::vector<int64_t> reserved) {
    decide(true);
    hold(std::move(reserved));
  }
};

using Settle = std::function<void(Core&)>;

struct Listening final : request::ListenerView {
  Listening() : request::ListenerView(false) {}
  bool is_loopback() const override { return true; }
  void refused(std::string_view code, std::string_view) const override { codes.emplace_back(code); }
  void log_unmatched(std::string_view) const override {}
  mutable std::vector<std::string> codes;
};

class Door {
 public:
  explicit Door(const RespOptions& its_options = {}, const access::Access* access = nullptr)
      : options(its_options),
        session({.listener = &listener, .options = &options, .access = access}) {}

  // The replies to inline commands, up to one that waits.
  std::string ask(const std::string& text, const Settle& settle) {
    in_ += text + "\n";
    base::Buffer out;
    while (!in_.empty() && !session.state().holds_back) {
      request::Requests requests;
      const std::string input = in_;
      const auto received = session.receive(input, false, requests, out);
      in_.erase(0, received.consumed);
      if (received.consumed == 0 && requests.size() == 0) break;
      settle_all(requests, settle, out);
    }
    return std::string(out.view());
  }
  // The reply that comes late to what waits: with copies of the requests, whose calls are gone.
  std::string reply_late(const Settle& settle) {
    base::Buffer out;
    HoldCall late = call;
    Core core{late, std::vector<Verdict>(parked_.size())};
    settle(core);
    const std::vector<request::Request> parked = std::exchange(parked_, {});
    const std::vector<request::Message> messages = std::exchange(messages_, {});
    for (size_t i = 0; i < parked.size(); ++i) {
      request::Message its = messages[i];
      its.hold = nullptr;
      request::Request copy = parked[i];
      copy.message = &its;
      core.verdicts[i].hold = &late;
      session.reply(copy, core.verdicts[i], {}, out);
    }
    return std::string(out.view());
  }

  const RespOptions options;
  const Listening listener;
  RespSession session;
  std::vector<Asked> asked;
  HoldCall call;  // of the last message, when it was asked
  request::Message message;
  std::string user, its_id, holder;

 private:
  void settle_all(request::Requests& requests, const Settle& settle, base::Buffer& out) {
    const auto items = requests.items();
    for (size_t first = 0, end = 0; first < items.size(); first = end) {
      HoldCall* const its = items[first].message->hold;
      for (end = first + 1; end < items.size() && its != nullptr; ++end)
        if (items[end].message != items[first].message) break;
      if (its == nullptr) {
        session.reply(items[first], {}, {}, out);
        continue;
      }
      const auto part = items.subspan(first, end - first);
      note(requests, part, *its);
      if (settle == nullptr) {  // it is parked
        for (const request::Request& one : part) {
          parked_.push_back(one);
          messages_.push_back(*one.message);
        }
        continue;
      }
      Core core{*its, std::vector<Verdict>(part.size())};
      settle(core);
      for (size_t i = 0; i < part.size(); ++i) session.reply(part[i], core.verdicts[i], {}, out);
    }
  }
  void note(request::Requests& requests, std::span<const request::Request> part,
            const HoldCall& its) {
    call = its;
    message = *part.front().message;
    user = its.user;
    its_id = its.id;
    holder = its.holder;
    asked.clear();
    for (const request::Request& one : part) {
      Asked& noted = asked.emplace_back();
      noted.verb = one.verb;
      noted.cost = one.cost;
      noted.together = one.message->together;
      noted.needs_rule = one.message->needs_rule;
      noted.scope = one.scope;
      for (const request::Entry& entry : requests.descriptor(one))
        noted.entries.emplace_back(entry.key, entry.value);
      noted.limits = requests.limits(one).size();
    }
  }

  std::string in_;
  std::vector<request::Request> parked_;
  std::vector<request::Message> messages_;
};

const Settle never = [](Core&) { ADD_FAILURE() << "the core was asked"; };

Settle comes_to(HoldOutcome outcome) {
  return [outcome](Core& core) { core.call.outcome = outcome; };
}

// Replies in the manner of redis-cli: "1 (id) 100 60", "(nil)" for a null, "-ERR ..." for an error.
std::string shown(const std::string& bytes) {
  std::string text;
  for (size_t at = 0; at < bytes.size();) {
    const size_t end = bytes.find("\r\n", at);
    std::string line = bytes.substr(at + 1, end - at - 1);
    const char kind = bytes[at];
    at = end + 2;
    if (kind == '*' && line != "-1") {
      text += "[" + line + "] ";
      continue;
    }
    if (kind == '-') line = "-" + line;
    if ((kind == '$' || kind == '*') && line == "-1") {
      line = "(nil)";
    } else if (kind == '$') {
      const size_t size = std::stoul(line);
      line = bytes.substr(at, size);
      at += size + 2;
    }
    text += line + " ";
  }
  if (!text.empty()) text.pop_back();
  return text;
}

std::string answer(const std::string& command, const Settle& settle,
                   const RespOptions& options = {}) {
  Door door(options);
  return shown(door.ask(command, settle));
}

// ---- What is asked ----

const auto holds_one = [](Core& core) { core.hold_allowed({1}); };

TEST(RespHoldQuestion, AReserveTakesFromItsSubject) {
  Door door;
  door.ask("SLUICE.RESERVE 2.5 ip=a what=tokens N 40 ID " + id + " HOLDER w-1", holds_one);
  const Asked taken{Verb::reserve,
                    40,
                    false,
                    false,
                    request::RuleScope::native,
                    {{"ip", "a"}, {"what", "tokens"}},
                    0};
  EXPECT_EQ(door.asked, std::vector<Asked>{taken});
  EXPECT_EQ(door.call.ask, HoldAsk::reserve);
  EXPECT_EQ(door.its_id, id);
  EXPECT_EQ(door.call.ttl.us, 2'500'000);
  EXPECT_EQ(door.holder, "w-1");
  EXPECT_EQ(door.user, "");
  EXPECT_FALSE(door.call.waits);
  EXPECT_TRUE(door.call.units.empty());
  door.ask("SLUICE.RESERVE 0 KEY k LIMIT 9 1m N 1", holds_one);
  ASSERT_EQ(door.asked.size(), 1u);
  EXPECT_EQ(door.asked[0].scope, request::RuleScope::all);
  EXPECT_EQ(door.asked[0].limits, 1u);
  EXPECT_EQ(door.its_id, "");
  EXPECT_EQ(door.call.ttl.us, 0);
}

TEST(RespHoldQuestion, SubjectsOfOneReserveSettleTogetherAndNeedARule) {
  const std::string command = "SLUICE.MRESERVE 60 2 ip=a N 7 ip=b N 2";
  Door door;
  door.ask(command, [](Core& core) { core.hold_allowed({7, 2}); });
  ASSERT_EQ(door.asked.size(), 2u);
  EXPECT_EQ(door.asked[0].cost, 7);
  EXPECT_EQ(door.asked[1].cost, 2);
  for (const Asked& one : door.asked) EXPECT_TRUE(one.together && one.needs_rule);
  RespOptions options;
  options.unmatched = Unmatched::allow;
  Door other(options);
  other.ask(command, [](Core& core) { core.hold_allowed({7, 2}); });
  EXPECT_FALSE(other.asked.at(0).needs_rule);
}

// The number that any protocol computes of the same subjects and units: not of how long they are
// held, nor by whom.
TEST(RespHoldQuestion, TheContentIsTheSubjectsAndTheirUnits) {
  Door door;
  const auto content = [&](const std::string& words) {
    door.ask("SLUICE.RESERVE " + words, holds_one);
    return door.call.content;
  };
  const std::string its = " ID " + id;
  request::ChargeContent one;
  one.add_entries({{"ip", "a"}, {"user", "b"}}, 4);
  EXPECT_EQ(content("60 ip=a user=b N 4" + its), one.digest());
  EXPECT_EQ(content("9 user=b ip=a HOLDER h WITHUNITS N 4" + its), one.digest());
  EXPECT_NE(content("60 ip=a user=b N 5" + its), one.digest());
  EXPECT_NE(content("60 ip=a user=c N 4" + its), one.digest());
  EXPECT_EQ(content("60 ip=a user=b N 4"), 0u) << "without an id it has none";
  one.add_key("k", 3);
  one.add_limit({limit::Algorithm::fixed_window, 9, base::seconds(60), 0}, true, 5);
  door.ask(
      "SLUICE.MRESERVE 60 2 ip=a user=b N 4 KEY k LIMIT 9 1m ALGORITHM fixed_window OVER "
      "COUNT OVERDRAFT 5 N 3" +
          its,
      [](Core& core) {
        core.hold_allowed({4, 3});
      });
  EXPECT_EQ(door.call.content, one.digest());
}

TEST(RespHoldQuestion, WithoutASubjectThereIsOneRequestThatSettles) {
  Door door;
  const auto asks = [&](const std::string& command, HoldAsk ask, std::vector<int64_t> units,
                        int64_t ttl_us) {
    door.ask("SLUICE." + command, comes_to(HoldOutcome::unknown));
    EXPECT_EQ(
        door.asked,
        (std::vector<Asked>{{Verb::settle, 0, false, false, request::RuleScope::native, {}, 0}}))
        << command;
    EXPECT_EQ(door.call.ask, ask) << command;
    EXPECT_EQ(door.its_id, id) << command;
    EXPECT_EQ(door.call.units, units) << command;
    EXPECT_EQ(door.call.ttl.us, ttl_us) << command;
  };
  asks("EXTEND " + id + " N 5 0 TTL 30", HoldAsk::extend, {5, 0}, 30'000'000);
  asks("EXTEND " + id + " TTL 30", HoldAsk::renew, {}, 30'000'000);
  asks("RENEW " + id + " 0.5", HoldAsk::renew, {}, 500'000);
  asks("RENEW " + id, HoldAsk::renew, {}, 0);
  asks("COMMIT " + id + " N 12", HoldAsk::commit, {12}, 0);
  asks("RELEASE " + id, HoldAsk::release, {}, 0);
}

TEST(RespHoldQuestion, ACommitWithSubjectsChargesThem) {
  Door door;
  const auto charge = [](bool together, int64_t cost, const char* ip) {
    return Asked{Verb::charge, cost,        together, together, request::RuleScope::native,
                 {{"ip", ip}}, /*limits=*/0};
  };
  door.ask("SLUICE.COMMIT " + id + " N 3 0 SUBJECT ip=a SUBJECT ip=b", comes_to(HoldOutcome::full));
  EXPECT_EQ(door.asked, (std::vector<Asked>{charge(true, 3, "a"), charge(true, 0, "b")}));
  EXPECT_EQ(door.call.units, (std::vector<int64_t>{3, 0}));
  door.ask("SLUICE.COMMIT " + id + " N 3 SUBJECT ip=a", comes_to(HoldOutcome::full));
  EXPECT_EQ(door.asked, std::vector<Asked>{charge(false, 3, "a")});
}

TEST(RespHoldQuestion, IdsAreThoseOfTheUser) {
  const access::Access access{tests::users_by_rights({})};
  Door door({}, &access);
  const auto said = [&](const std::string& token) {
    const Settle done = comes_to(HoldOutcome::done);
    return shown(door.ask("AUTH " + token + "\nSLUICE.RELEASE " + id, done));
  };
  EXPECT_EQ(said("only-take"), "OK 0");
  EXPECT_EQ(door.user, "only-take");
  EXPECT_TRUE(said("without-take").starts_with("OK -NOPERM "));
}

// ---- Waits ----

const std::string waits = "SLUICE.RESERVE 60 ip=a N 40 WAIT 2.5";

TEST(RespHoldWait, HoldsBackWhatComesBehindItAndIsAnsweredLate) {
  Door door;
  EXPECT_EQ(door.ask(waits + "\nPING", nullptr), "");
  EXPECT_TRUE(door.call.waits);
  EXPECT_EQ(door.message.wait_at_most.us, 2'500'000);
  EXPECT_TRUE(door.message.must_fit);
  EXPECT_TRUE(door.session.state().holds_back && door.session.state().waits_for_units);
  EXPECT_EQ(door.options.connections->waiting, 1u);
  EXPECT_EQ(shown(door.reply_late([](Core& core) { core.hold_allowed({40}); })),
            "[5] 1 " + id + " 100 60 59500");
  EXPECT_FALSE(door.session.state().holds_back || door.session.state().waits_for_units);
  EXPECT_EQ(door.options.connections->waiting, 0u);
  EXPECT_EQ(door.ask("", never), "+PONG\r\n");
}

TEST(RespHoldWait, IsANullWhenItIsOver) {
  Door door;
  const Settle over = [](Core& core) {
    core.call.outcome = HoldOutcome::refused;
    for (Verdict& one : core.verdicts) one.expired = true;
  };
  door.ask(waits, nullptr);
  EXPECT_EQ(door.reply_late(over), "*-1\r\n");
  door.ask("HELLO 3", never);
  door.ask(waits, nullptr);
  EXPECT_EQ(door.reply_late(over), "_\r\n");
  EXPECT_EQ(door.options.connections->waiting, 0u);
}

TEST(RespHoldWait, OfSeveralSubjectsIsAnError) {
  const std::string several = "SLUICE.MRESERVE 60 2 ip=a N 1 ip=b N 2 WAIT ";
  EXPECT_EQ(answer(several + "1", never),
            "-ERR a reservation of several subjects does not wait for units: leave WAIT out");
  EXPECT_EQ(answer(several + "0",
                   [](Core& core) {
                     core.hold_allowed({1, 2});
                   }),
            "[4] 1 " + id + " [2] 100 60 [2] 100 60");
}

TEST(RespHoldWait, ThatIsDecidedAtOnceIsAnsweredAtOnce) {
  Door door;
  EXPECT_EQ(shown(door.ask(waits + "\nPING", [](Core& core) { core.hold_allowed({40}); })),
            "[5] 1 " + id + " 100 60 59500 PONG");
  EXPECT_EQ(door.options.connections->waiting, 0u);
}

// One that does not wait stands before it in its batch.
TEST(RespHoldWait, IsNotEndedByTheReplyToAnotherReserve) {
  Door door;
  size_t replies = 0;
  request::Requests requests;
  base::Buffer out;
  const std::string both = "SLUICE.RESERVE 60 ip=b N 1\n" + waits + "\n";
  EXPECT_EQ(door.session.receive(both, false, requests, out).consumed, both.size());
  for (const request::Request& one : requests.items()) {
    EXPECT_TRUE(door.session.state().holds_back) << replies;
    Verdict verdict;
    verdict.error = "the store is away";
    verdict.cause = request::Error::store;
    door.session.reply(one, verdict, {}, out);
    ++replies;
  }
  EXPECT_EQ(replies, 2u);
  EXPECT_FALSE(door.session.state().holds_back);
}

TEST(RespHoldWait, OfNoSecondsAndInATransactionDoesNotWait) {
  Door door;
  const Settle refused = [](Core& core) {
    core.decision.retry_after = base::seconds(9);
    core.decide(false);
    core.call.outcome = HoldOutcome::refused;
  };
  EXPECT_EQ(shown(door.ask("SLUICE.RESERVE 60 ip=a N 40 WAIT 0", refused)),
            "[5] 0 (nil) 100 60 9000");
  EXPECT_FALSE(door.call.waits || door.message.must_fit);
  EXPECT_EQ(shown(door.ask("MULTI\n" + waits + "\nEXEC", refused)),
            "OK QUEUED [1] [5] 0 (nil) 100 60 9000");
  EXPECT_FALSE(door.call.waits);
  EXPECT_EQ(door.message.wait_at_most.us, 0);
}

TEST(RespHoldWait, OfMoreClientsThanMayWaitIsBusy) {
  RespOptions options;
  options.waiting_max = 1;
  Door door(options);
  door.ask(waits, nullptr);
  RespSession other({.options = &door.options});
  request::Requests requests;
  base::Buffer out;
  const std::string text = waits + "\n";
  other.receive(text, false, requests, out);
  ASSERT_EQ(requests.size(), 1u);
  EXPECT_TRUE(other.reply(requests.items()[0], {}, {}, out));
  EXPECT_EQ(out.view(), "-BUSY too many clients wait, try again later\r\n");
  EXPECT_FALSE(other.state().holds_back);
  EXPECT_EQ(door.options.connections->waiting, 1u);
}

TEST(RespHoldWait, IsAnErrorWhenTheServerStops) {
  Door door;
  door.ask(waits, nullptr);
  EXPECT_EQ(
      door.reply_late([](Core& core) { core.fail(request::server_stops, request::Error::none); }),
      "-TRYAGAIN the server stops; nothing was taken\r\n");
}

TEST(RespHoldWait, ThatIsSilentEndsToo) {
  Door door;
  door.ask("CLIENT REPLY OFF\n" + waits, nullptr);
  EXPECT_TRUE(door.session.state().holds_back);
  EXPECT_EQ(door.reply_late([](Core& core) { core.hold_allowed({40}); }), "");
  EXPECT_FALSE(door.session.state().holds_back);
  door.ask("SLUICE.MRESERVE 60 2 ip=a N 1 ip=b N 2", [](Core& core) { core.hold_allowed({1, 2}); });
  EXPECT_EQ(shown(door.ask("CLIENT REPLY ON\nSLUICE.MRESERVE 60 1 ip=a N 1",
                           [](Core& core) { core.hold_allowed({1}); })),
            "OK [3] 1 " + id + " [2] 100 60")
      << "nothing of a silent reply is left";
}

// ---- Replies ----

const std::string reserve = "SLUICE.RESERVE 60 ip=a N 40";
const std::string mreserve = "SLUICE.MRESERVE 60 2 ip=a N 40 ip=b N 2";
const std::string extend = "SLUICE.EXTEND " + id + " N 500";
const std::string commit = "SLUICE.COMMIT " + id + " N 12";

TEST(RespHoldAnswer, OfAReserveThatIsHeld) {
  EXPECT_EQ(answer(reserve, [](Core& core) { core.hold_allowed({40}); }),
            "[5] 1 " + id + " 100 60 59500");
  EXPECT_EQ(answer(reserve + " WITHUNITS", [](Core& core) { core.hold_allowed({25}); }),
            "[6] 1 " + id + " 100 60 59500 [1] 25");
  EXPECT_EQ(answer(mreserve,
                   [](Core& core) {
                     core.hold_allowed({40, 2});
                   }),
            "[4] 1 " + id + " [2] 100 60 [2] 100 60");
  EXPECT_EQ(answer(mreserve + " WITHUNITS",
                   [](Core& core) {
                     core.hold_allowed({40, 2});
                   }),
            "[5] 1 " + id + " [2] 100 60 [2] 100 60 [2] 40 2");
  EXPECT_EQ(answer(reserve,
                   [](Core& core) {
                     core.hold_allowed({40});
                     core.decision.remaining = -5;
                   }),
            "[5] 1 " + id + " 100 0 59500")
      << "a counter in debt, of a reserve that is repeated";
}

TEST(RespHoldAnswer, OfAReserveThatCannotBeStoredButIsAllowed) {
  const Settle not_held = [](Core& core) {
    core.decide(true);
    core.call.outcome = HoldOutcome::not_held;
  };
  EXPECT_EQ(answer(reserve, not_held), "[5] 1 (nil) 100 60 0");
  EXPECT_EQ(answer(mreserve, not_held), "[4] 1 (nil) [2] 100 60 [2] 100 60");
}

TEST(RespHoldAnswer, OfWhatDoesNotFit) {
  const auto refused = [](base::Duration retry, bool by_call) {
    return [=](Core& core) {
      core.decision.retry_after = retry;
      by_call ? core.decide_call(false) : core.decide(false);
      core.call.outcome = HoldOutcome::refused;
      if (by_call) core.call.reserved = {40};
    };
  };
  EXPECT_EQ(answer(reserve, refused(base::Duration{8'999'001}, false)), "[5] 0 (nil) 100 60 9000");
  EXPECT_EQ(answer(reserve, refused(base::never, false)), "[5] 0 (nil) 100 60 -1");
  EXPECT_EQ(answer(reserve + " WITHUNITS", refused(base::never, false)),
            "[6] 0 (nil) 100 60 -1 [0]");
  EXPECT_EQ(answer(mreserve, refused(base::seconds(9), false)), "[2] 0 (nil)");
  EXPECT_EQ(answer(extend, refused(base::seconds(9), true)), "[5] 0 (nil) 100 60 9000");
  EXPECT_EQ(answer(extend + " WITHUNITS", refused(base::seconds(9), true)),
            "[6] 0 (nil) 100 60 9000 [1] 40");
  EXPECT_EQ(answer(extend, comes_to(HoldOutcome::refused)), "[5] 0 (nil) (nil) (nil) -1");
  // A rule with `on_store_error: deny`.
  EXPECT_EQ(answer(reserve,
                   [](Core& core) {
                     core.decision.retry_after = base::seconds(1);
                     core.decide(false);
                   }),
            "[5] 0 (nil) 100 60 1000");
}

TEST(RespHoldAnswer, OfAnExtendHasTheLimitAndTheEnd) {
  const Settle extended = [](Core& core) {
    core.decide_call(true);
    core.hold({540, 2});
  };
  EXPECT_EQ(answer(extend, extended), "[5] 1 " + id + " 100 60 59500");
  EXPECT_EQ(answer(extend + " WITHUNITS", extended), "[6] 1 " + id + " 100 60 59500 [2] 540 2");
  EXPECT_EQ(answer("SLUICE.EXTEND " + id + " TTL 9", [](Core& core) { core.hold({40}); }),
            "[5] 1 " + id + " (nil) (nil) 59500");
}

TEST(RespHoldAnswer, OfACommitTellsWhatBecameOfTheUnits) {
  const auto committed = [](int64_t returned, int64_t charged, int64_t remaining) {
    return [=](Core& core) {
      core.decision.remaining = remaining;
      core.decide_call(true);
      core.call.outcome = HoldOutcome::done;
      core.call.returned = returned;
      core.call.charged = charged;
    };
  };
  EXPECT_EQ(answer(commit, committed(28, 0, 60)), "[5] 1 0 28 0 60");
  EXPECT_EQ(answer(commit, committed(0, 10, -5)), "[5] 1 0 0 10 0");
  EXPECT_EQ(answer(commit,
                   [&](Core& core) {
                     committed(0, 12, 60)(core);
                     core.call.late = core.call.repeated = true;
                   }),
            "[5] 0 1 0 12 60");
  EXPECT_EQ(answer(commit, comes_to(HoldOutcome::done)), "[5] 1 0 0 0 (nil)");
}

// Of subjects that were charged, as the id was unknown: the limit that takes longest.
TEST(RespHoldAnswer, OfACommitThatIsACharge) {
  static const limit::Decision good{.allowed = true, .limit = 9, .remaining = 3},
      over{.allowed = true,
           .limit = 50,
           .remaining = -4,
           .reset_after = base::seconds(9),
           .retry_after = base::seconds(9)};
  for (const bool first : {true, false})
    EXPECT_EQ(answer("SLUICE.COMMIT " + id + " N 3 4 SUBJECT ip=a SUBJECT ip=b",
                     [&](Core& core) {
                       core.decide(true);
                       core.call.outcome = HoldOutcome::done;
                       core.call.late = true;
                       core.call.charged = 7;
                       core.verdicts[0].tightest = first ? &over : &good;
                       core.verdicts[1].tightest = first ? &good : &over;
                     }),
              "[5] 1 1 0 7 0");
}

TEST(RespHoldAnswer, OfARenewAndARelease) {
  EXPECT_EQ(answer("SLUICE.RENEW " + id, [](Core& core) { core.hold({40}); }), "59500");
  EXPECT_EQ(answer("SLUICE.RELEASE " + id,
                   [](Core& core) {
                     core.decide_call(true);
                     core.call.outcome = HoldOutcome::done;
                     core.call.returned = 40;
                   }),
            "40");
}

// ---- Errors ----

const std::vector<std::string> of_ids = {extend, commit, "SLUICE.RENEW " + id,
                                         "SLUICE.RELEASE " + id};

TEST(RespHoldAnswer, OfAnUnknownIdIsNoid) {
  const std::string sentence =
      "-NOID no reservation has this id: it was never made, it is of another user, or it ended so "
      "long ago that it is forgotten";
  for (const std::string& command : of_ids)
    EXPECT_EQ(answer(command, comes_to(HoldOutcome::unknown)),
              command == commit ? sentence +
                                      "; to charge what was used all the same, send its "
                                      "SUBJECT along"
                                : sentence);
}

TEST(RespHoldAnswer, OfACommittedOneIsSettledWithTheUnits) {
  const auto settled = [](std::vector<int64_t> used) {
    return [used](Core& core) {
      core.call.outcome = HoldOutcome::settled;
      core.call.used = used;
    };
  };
  for (const std::string& command : of_ids)
    EXPECT_EQ(answer(command, settled({12})),
              "-SETTLED the reservation is committed, with 12 units; nothing was changed");
  EXPECT_EQ(answer(commit, settled({12, 0})),
            "-SETTLED the reservation is committed, with 12 and 0 units; nothing was changed");
  EXPECT_EQ(answer(reserve + " ID " + id, settled({12})),
            "-SETTLED the reservation is committed, with 12 units; make a new id for another");
}

TEST(RespHoldAnswer, OfAnEndedOneIsEnded) {
  const Settle ended = comes_to(HoldOutcome::ended);
  for (const std::string& command : of_ids) {
    EXPECT_EQ(answer(command, ended),
              command == commit
                  ? "-ENDED the reservation has ended, and a rule of it ignores commits that come "
                    "late (`late_commit: ignore`); nothing was charged"
                  : "-ENDED the reservation has ended: it was released, or its ttl is over; end "
                    "the work, or make another reservation");
  }
  EXPECT_EQ(answer(reserve + " ID " + id, ended),
            "-IDINUSE the reservation with this id has ended: make a new id for another");
}

TEST(RespHoldAnswer, OfAnIdOfAnotherReservationIsIdinuse) {
  EXPECT_EQ(answer(reserve + " ID " + id, comes_to(HoldOutcome::in_use)),
            "-IDINUSE the id names another reservation: an id belongs to one reservation, which "
            "may be sent again unchanged");
}

TEST(RespHoldAnswer, OfUnitsThatAreNotOneForEachSubjectIsReported) {
  for (const std::string& command : {extend, commit}) {
    Door door;
    EXPECT_EQ(door.ask(command,
                       [](Core& core) {
                         core.call.outcome = HoldOutcome::wrong_number;
                         core.call.reserved = {40, 2};
                       }),
              "-ERR N must have one number for each subject of the reservation: 2\r\n");
    EXPECT_EQ(door.listener.codes, std::vector<std::string>{"malformed"});
  }
}

TEST(RespHoldAnswer, OfOneThatMaySucceedLaterSaysSo) {
  std::vector<std::string> all = of_ids;
  all.insert(all.end(), {reserve, mreserve});
  for (const std::string& command : all) {
    EXPECT_EQ(answer(command, comes_to(HoldOutcome::full)),
              "-BUSY there are as many reservations as the server keeps, try again later");
    EXPECT_EQ(
        answer(command, [](Core& core) { core.fail("the store is away", request::Error::store); }),
        "-TRYAGAIN the store is away");
    EXPECT_EQ(answer(command, [](Core& core) { core.fail("no room", request::Error::memory); }),
              "-OOM no room");
    EXPECT_TRUE(answer(command, [](Core& core) {
                  core.fail(request::not_permitted, request::Error::none);
                }).starts_with("-NOPERM "));
  }
  for (const std::string& command : of_ids)
    EXPECT_EQ(answer(command, comes_to(HoldOutcome::failed)),
              "-TRYAGAIN the store cannot decide it");
}

TEST(RespHoldAnswer, OfSubjectsWithoutARule) {
  const Settle one = comes_to(HoldOutcome::failed);
  const Settle several = [](Core& core) {
    core.fail(request::no_rule_applies, request::Error::none);
  };
  const std::string charge = commit + " SUBJECT ip=a";
  const std::string no_rule = "-NORULE no rule applies";
  EXPECT_EQ(answer(reserve, one), no_rule);
  EXPECT_EQ(answer(mreserve, several), no_rule);
  EXPECT_EQ(answer(charge, one), no_rule);
  EXPECT_EQ(answer("SLUICE.COMMIT " + id + " N 1 2 SUBJECT ip=a SUBJECT ip=b", several), no_rule);
  RespOptions options;
  options.unmatched = Unmatched::deny;
  EXPECT_EQ(answer(reserve, one, options), "[5] 0 (nil) (nil) (nil) -1");
  EXPECT_EQ(answer(mreserve, several, options), "[2] 0 (nil)");
  options.unmatched = Unmatched::allow;
  EXPECT_EQ(answer(reserve, comes_to(HoldOutcome::not_held), options), "[5] 1 (nil) (nil) (nil) 0");
  EXPECT_EQ(answer(
                reserve, [](Core& core) { core.hold({40}); }, options),
            "[5] 1 " + id + " (nil) (nil) 59500");
  EXPECT_EQ(answer(
                mreserve,
                [](Core& core) {
                  core.hold_allowed({40, 2});
                  core.verdicts[1] = {};
                },
                options),
            "[4] 1 " + id + " [2] 100 60 (nil)");
}

// ---- Without the core ----

TEST(RespHoldAnswer, TwoListsOfLimitsForOneKeyAreAnError) {
  const auto said = [](const std::string& one, const std::string& other) {
    return answer("SLUICE.MRESERVE 60 2 KEY " + one + " N 1 KEY " + other + " N 1", [](Core& core) {
      core.hold_allowed({1, 1});
    });
  };
  for (const char* other : {"k LIMIT 6 1m", "k LIMIT 5 1m OVER COUNT"})
    EXPECT_TRUE(said("k LIMIT 5 1m", other)
                    .starts_with("-ERR two subjects bring different limits for one key"))
        << other;
  EXPECT_TRUE(said("k LIMIT 5 1m", "k LIMIT 5 1m").starts_with("[4] 1 ")) << "one list";
  EXPECT_TRUE(said("k LIMIT 5 1m", "l LIMIT 6 1m").starts_with("[4] 1 "));
}

TEST(RespHoldAnswer, LimitsThatComeAlongMayBeSwitchedOff) {
  RespOptions options;
  options.inline_limits = false;
  for (const std::string command : {"SLUICE.RESERVE 60 KEY k LIMIT 9 1m N 1",
                                    "SLUICE.COMMIT hold-0000-0000-1 N 1 SUBJECT KEY k LIMIT 9 1m"})
    EXPECT_EQ(answer(command, never, options),
              "-ERR limits that come with a command are switched off (resp.inline_limits)");
}

}  // namespace
}  // namespace sluice::resp::hold_answers_test
