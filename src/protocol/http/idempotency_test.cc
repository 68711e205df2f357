// The memory of answers by idempotency keys, also against a naive model and with several threads;
// and reading the field Idempotency-Key.
#include "protocol/http/idempotency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/time.h"
#include "tests/support/dice.h"

namespace sluice::http::idempotency_test {
namespace {

using Found = IdempotencyMemory::Found;
using Result = IdempotencyMemory::Result;
using Ticket = IdempotencyMemory::Ticket;
using Request = std::array<std::string_view, 3>;

constexpr Request take = {"POST", "/v1/take", R"({"key":"a"})"};
constexpr Request other_take = {"POST", "/v1/take", R"({"key":"b"})"};

constexpr base::Time at(base::Duration since) {
  return {since.us};
}

constexpr std::string_view name_of(Found found) {
  constexpr std::string_view names[] = {"begun", "kept", "under way", "reused", "full"};
  return names[static_cast<size_t>(found)];
}

// An IdempotencyMemory with a clock that the test sets, and its results as texts.
struct Memory {
  IdempotencyMemory memory;
  base::Time now = at(base::seconds(1000));
  std::string answer{};
  Result last{};

  explicit Memory(const IdempotencyMemory::Bounds& bounds = {}) : memory(bounds) {}

  // What was found, with the answer if one is kept.
  std::string begin(std::string_view user, std::string_view key, const Request& request = take) {
    answer = "none";
    last = memory.begin(user, key, request, now, answer);
    EXPECT_EQ(last.ticket != 0, last.found == Found::begun);
    EXPECT_EQ(last.retry_after > base::Duration{}, last.found == Found::full);
    return std::string(name_of(last.found)) + (last.found == Found::kept ? ": " + answer : "");
  }
  // Begins and finishes.
  void keep(std::string_view user, std::string_view key, std::string_view text) {
    EXPECT_EQ(begin(user, key), "begun");
    memory.finish(last.ticket, text, now);
  }
  void pass(base::Duration length) { now.us += length.us; }
  std::string held() const {
    const IdempotencyMemory::Held all = memory.held();
    return std::to_string(all.entries) + " of " + std::to_string(all.bytes);
  }
};

std::string held(size_t entries, size_t answers, size_t begun = 0) {
  return std::to_string(entries + begun) + " of " +
         std::to_string(entries * idempotent_entry_bytes + answers +
                        begun * idempotent_begun_bytes);
}

TEST(IdempotencyMemory, KeepsALongerAnswerIfThereIsRoom) {
  const auto kept_answer = [](size_t bytes) {
    IdempotencyMemory memory({.ttl = base::seconds(60), .bytes = bytes, .user_part = 1});
    std::string answer;
    const auto begun = memory.begin("u", "k", {"POST", "/", "x"}, {}, answer);
    EXPECT_EQ(begun.found, IdempotencyMemory::Found::begun);
    memory.finish(begun.ticket, std::string(3 * idempotent_answer_bytes_max, 'x'), {});
    EXPECT_LE(memory.held().bytes, bytes);
    EXPECT_EQ(memory.begin("u", "k", {"POST", "/", "x"}, {}, answer).found,
              IdempotencyMemory::Found::kept);
    return answer.size();
  };
  constexpr size_t needed = idempotent_entry_bytes + 3 * idempotent_answer_bytes_max;
  EXPECT_EQ(kept_answer(needed), 3 * idempotent_answer_bytes_max);
  EXPECT_EQ(kept_answer(needed - 1), 0u);
}

TEST(IdempotencyMemory, RepeatsAKeptAnswer) {
  Memory memory;
  EXPECT_EQ(memory.begin("ann", "k1"), "begun");
  EXPECT_EQ(memory.held(), held(0, 0, 1));
  EXPECT_EQ(memory.begin("ann", "k1"), "under way");
  memory.memory.finish(1, "200 {}", memory.now);
  EXPECT_EQ(memory.held(), held(1, 6));
  EXPECT_EQ(memory.begin("ann", "k1"), "kept: 200 {}");
  EXPECT_EQ(memory.begin("ann", "k1"), "kept: 200 {}");
  EXPECT_EQ(memory.begin("ann", "k2"), "begun");
  EXPECT_EQ(memory.held(), held(1, 6, 1));
}

TEST(IdempotencyMemory, DetectsAnotherRequestUnderTheSameKey) {
  Memory memory;
  EXPECT_EQ(memory.begin("ann", "k"), "begun");
  EXPECT_EQ(memory.begin("ann", "k", other_take), "reused");
  memory.memory.finish(memory.last.ticket, "never begun", memory.now);
  memory.memory.finish(1, "x", memory.now);
  EXPECT_EQ(memory.begin("ann", "k"), "kept: x");
  for (const Request& request : {
           other_take,
           Request{"PUT", "/v1/take", R"({"key":"a"})"},
           Request{"POST", "/v1/put", R"({"key":"a"})"},
           Request{"POST", "/v1/take", ""},
           Request{"POST", R"(/v1/take{"key":"a"})", ""},
           Request{"POST/v1/take", "", R"({"key":"a"})"},
           Request{"", "POST/v1/take", R"({"key":"a"})"},
           Request{"", "", R"(POST/v1/take{"key":"a"})"},
       })
    EXPECT_EQ(memory.begin("ann", "k", request), "reused");
  EXPECT_EQ(memory.held(), held(1, 1));
}

TEST(IdempotencyMemory, UsersAndKeysAreApart) {
  Memory memory;
  memory.keep("ann", "k", "of ann");
  memory.keep("bob", "k", "of bob");
  memory.keep("", "annk", "of no user");
  memory.keep("annk", "", "of annk");
  EXPECT_EQ(memory.begin("ann", "k"), "kept: of ann");
  EXPECT_EQ(memory.begin("bob", "k"), "kept: of bob");
  EXPECT_EQ(memory.begin("", "annk"), "kept: of no user");
  EXPECT_EQ(memory.begin("annk", ""), "kept: of annk");
}

TEST(IdempotencyMemory, AForgottenKeyIsNewAgain) {
  Memory memory;
  EXPECT_EQ(memory.begin("ann", "k"), "begun");
  memory.memory.forget(memory.last.ticket);
  memory.memory.forget(memory.last.ticket);
  memory.memory.finish(1, "too late", memory.now);
  EXPECT_EQ(memory.held(), held(0, 0));
  EXPECT_EQ(memory.begin("ann", "k", other_take), "begun");
  memory.memory.finish(memory.last.ticket, "x", memory.now);
  memory.memory.forget(memory.last.ticket);
  EXPECT_EQ(memory.begin("ann", "k", other_take), "kept: x");
}

TEST(IdempotencyMemory, RepeatedAnswersDoNotExtendTheTimeToLive) {
  Memory memory({base::seconds(60), size_t{1} << 20, 1});
  EXPECT_EQ(memory.begin("ann", "k"), "begun");
  memory.pass(base::seconds(3600));  // a request that is under way does not expire
  EXPECT_EQ(memory.begin("ann", "k"), "under way");
  memory.memory.finish(1, "x", memory.now);
  memory.pass(base::seconds(40));
  EXPECT_EQ(memory.begin("ann", "k"), "kept: x");
  memory.pass({base::seconds(20).us - 1});
  EXPECT_EQ(memory.begin("ann", "k"), "kept: x");
  memory.pass({1});
  EXPECT_EQ(memory.held(), held(1, 1));
  EXPECT_EQ(memory.begin("ann", "other"), "begun");
  EXPECT_EQ(memory.held(), held(0, 0, 1));
  EXPECT_EQ(memory.begin("ann", "k", other_take), "begun");
}

TEST(IdempotencyMemory, KeepsForItsTimeWhereThreadsFinishOutOfOrder) {
  Memory memory;
  for (const char* const key : {"a", "b"}) EXPECT_EQ(memory.begin("ann", key), "begun");
  memory.memory.finish(1, "a", memory.now);
  memory.memory.finish(2, "b", {memory.now.us - 1000});
  memory.pass({base::seconds(60).us - 1});
  EXPECT_EQ(memory.begin("ann", "a"), "kept: a");
  EXPECT_EQ(memory.begin("ann", "b"), "kept: b");
  memory.pass({1});
  EXPECT_EQ(memory.begin("ann", "b"), "begun");
  EXPECT_EQ(memory.held(), held(0, 0, 1));
}

TEST(IdempotencyMemory, AnAnswerMayUseItsWholeReservation) {
  Memory memory({base::seconds(60), idempotent_begun_bytes, 1});
  const std::string most(idempotent_answer_bytes_max, 'x');
  memory.keep("ann", "k", most);
  EXPECT_EQ(memory.begin("ann", "k"), "kept: " + most);
  EXPECT_EQ(memory.begin("ann", "l"), "full");
  memory.pass(base::seconds(60));
  memory.keep("ann", "l", "");
  EXPECT_EQ(memory.begin("ann", "l"), "kept: ");
  EXPECT_EQ(memory.held(), held(1, 0));
}

TEST(IdempotencyMemory, RefusesOnlyNewKeysWhenFull) {
  Memory memory({base::seconds(60), 3 * idempotent_begun_bytes, 1});
  const std::string most(idempotent_answer_bytes_max, 'x');
  memory.keep("ann", "a", most);
  memory.pass(base::seconds(10));
  EXPECT_EQ(memory.begin("bob", "b"), "begun");
  memory.keep("cat", "c", most);
  for (const char* const user : {"ann", "bob", "cat", "dan"}) {
    EXPECT_EQ(memory.begin(user, "new"), "full");
    EXPECT_EQ(memory.last.retry_after, base::seconds(50));
  }
  EXPECT_EQ(memory.begin("ann", "a"), "kept: " + most);
  EXPECT_EQ(memory.begin("bob", "b"), "under way");
  EXPECT_EQ(memory.begin("cat", "c", other_take), "reused");
  memory.pass({base::seconds(50).us - 1});
  EXPECT_EQ(memory.begin("dan", "new"), "full");
  EXPECT_EQ(memory.last.retry_after, base::milliseconds(1));
  memory.pass({1});
  EXPECT_EQ(memory.begin("dan", "new"), "begun");
  EXPECT_EQ(memory.begin("ann", "a"), "full");
  EXPECT_EQ(memory.last.retry_after, base::seconds(10));
}

TEST(IdempotencyMemory, RetryAfterWaitsForEnoughExpiredAnswers) {
  Memory memory({base::seconds(60), 2 * idempotent_begun_bytes, 1});
  const size_t fit = idempotent_begun_bytes / idempotent_entry_bytes + 1;
  for (size_t i = 0; i < fit; ++i) {
    memory.keep("ann", std::to_string(i), "");
    memory.pass(base::seconds(1));
  }
  const size_t used = fit * idempotent_entry_bytes, most = idempotent_begun_bytes;
  ASSERT_GT(used, most);  // no room for one more
  EXPECT_EQ(memory.begin("ann", "new"), "full");
  // There is room as soon as the first one expires.
  EXPECT_EQ(memory.last.retry_after.us, base::seconds(60).us - base::seconds(1).us * int64_t(fit));
  EXPECT_EQ(memory.begin("ann", "0"), "kept: ");
}

TEST(IdempotencyMemory, RetryAfterIsOneSecondBehindUnfinishedRequests) {
  Memory memory({base::seconds(60), idempotent_begun_bytes, 1});
  EXPECT_EQ(memory.begin("ann", "a"), "begun");
  EXPECT_EQ(memory.begin("ann", "b"), "full");
  EXPECT_EQ(memory.last.retry_after, base::seconds(1));
  memory.memory.forget(1);
  EXPECT_EQ(memory.begin("ann", "b"), "begun");
}

TEST(IdempotencyMemory, AcceptsNoKeyIfTheBoundIsBelowOneEntry) {
  Memory nothing({base::seconds(60), idempotent_begun_bytes - 1, 1});
  EXPECT_EQ(nothing.begin("ann", "a"), "full");
  Memory small_part({base::seconds(60), 8 * idempotent_begun_bytes - 1, 8});
  EXPECT_EQ(small_part.begin("ann", "a"), "full");
  EXPECT_EQ(small_part.last.retry_after, base::seconds(1));
  EXPECT_EQ(small_part.held(), held(0, 0));
  Memory no_part({base::seconds(60), idempotent_begun_bytes, 0});
  EXPECT_EQ(no_part.begin("ann", "a"), "begun");
}

TEST(IdempotencyMemory, KeepsAPartOfTheMemoryForOtherUsers) {
  Memory memory({base::seconds(60), 8 * idempotent_begun_bytes, 4});
  for (const char* const user : {"ann", "bob"}) {
    EXPECT_EQ(memory.begin(user, "a"), "begun");
    EXPECT_EQ(memory.begin(user, "b"), "begun");
    EXPECT_EQ(memory.begin(user, "c"), "full");
    EXPECT_EQ(memory.begin(user, "a"), "under way");
  }
  memory.memory.forget(1);
  EXPECT_EQ(memory.begin("bob", "c"), "full");
  EXPECT_EQ(memory.begin("ann", "c"), "begun");
}

// Without users, no room is reserved for other users.
TEST(IdempotencyMemory, WithoutUsersOneClientMayUseAllMemory) {
  Memory memory({base::seconds(60), 4 * idempotent_begun_bytes, 4});
  for (const char* const key : {"a", "b", "c", "d"}) EXPECT_EQ(memory.begin("", key), "begun");
  EXPECT_EQ(memory.begin("", "e"), "full");
}

TEST(IdempotencyMemory, ManyExpiredKeysDoNotDelayOneRequest) {
  const size_t count = 1000;
  Memory memory({base::seconds(60), (count + 50) * idempotent_entry_bytes, 1});
  for (size_t i = 0; i < count; ++i) memory.keep("ann", std::to_string(i), "");
  memory.pass(base::seconds(60));
  EXPECT_EQ(memory.begin("ann", "999", other_take), "begun");  // the key that was kept last
  const size_t left = memory.memory.held().entries;
  EXPECT_LT(left, count);
  EXPECT_GT(left, count / 2);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_EQ(memory.begin("ann", "next " + std::to_string(i)), "begun");
    memory.memory.forget(memory.last.ticket);
  }
  EXPECT_EQ(memory.held(), held(0, 0, 1));
}

// A naive model of the memory: a list that is searched from its front to its end.
class Model {
 public:
  explicit Model(const IdempotencyMemory::Bounds& bounds) : bounds_(bounds) {}

  struct Entry {
    std::string user, key, body, answer{};
    bool is_kept = false;
    base::Time expires{};
    size_t number = 0;

    size_t bytes() const {
      return idempotent_entry_bytes + (is_kept ? answer.size() : idempotent_answer_bytes_max);
    }
  };

  Result begin(const std::string& user, const std::string& key, const std::string& body,
               base::Time now, std::string& answer) {
    std::erase_if(entries_, [&](const Entry& e) { return e.is_kept && e.expires <= now; });
    for (const Entry& entry : entries_) {
      if (entry.user != user || entry.key != key) continue;
      if (entry.body != body) return {Found::reused, 0, {}};
      if (!entry.is_kept) return {Found::under_way, 0, {}};
      answer = entry.answer;
      return {Found::kept, 0, {}};
    }
    const base::Duration wait = std::max(until_room(user, bounds_.bytes / bounds_.user_part, now),
                                         until_room({}, bounds_.bytes, now));
    if (wait > base::Duration{}) return {Found::full, 0, wait};
    entries_.push_back({user, key, body});
    entries_.back().number = ++count_;
    return {Found::begun, count_, {}};
  }

  // A random entry that is under way; nothing if there is none.
  std::optional<size_t> pick(tests::Dice& dice) const {
    std::vector<size_t> all;
    for (const Entry& entry : entries_)
      if (!entry.is_kept) all.push_back(entry.number);
    if (all.empty()) return {};
    return all[dice(all.size())];
  }
  void finish(size_t number, const std::string& answer, base::Time now) {
    for (Entry& entry : entries_) {
      if (entry.number != number) continue;
      entry.is_kept = true;
      entry.answer = answer;
      entry.expires = {now.us + bounds_.ttl.us};
    }
  }
  void forget(size_t number) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.number == number; });
  }
  size_t entries() const { return entries_.size(); }
  size_t users() const {
    std::set<std::string> all;
    for (const Entry& entry : entries_) all.insert(entry.user);
    return all.size();
  }
  size_t bytes() const { return bytes_of({}); }

 private:
  size_t bytes_of(const std::optional<std::string>& user) const {
    size_t sum = 0;
    for (const Entry& entry : entries_)
      if (!user || entry.user == *user) sum += entry.bytes();
    return sum;
  }
  base::Duration until_room(const std::optional<std::string>& user, size_t most,
                            base::Time now) const {
    Model then = *this;
    for (base::Duration wait{}; wait <= bounds_.ttl; wait.us += base::milliseconds(1).us) {
      std::erase_if(then.entries_,
                    [&](const Entry& e) { return e.is_kept && e.expires.us <= now.us + wait.us; });
      if (then.bytes_of(user) + idempotent_begun_bytes <= most) return wait;
    }
    return base::seconds(1);
  }

  const IdempotencyMemory::Bounds bounds_;
  std::vector<Entry> entries_;
  size_t count_ = 0;
};

// Compares random sequences; counts in `found` what was found. Times are whole milliseconds,
// because the model tries each millisecond.
void compare_with_model(uint32_t seed, std::array<size_t, 5>& found) {
  tests::Dice dice(seed);
  const IdempotencyMemory::Bounds bounds = {base::milliseconds(1 + dice(50)),
                                            dice(6 * idempotent_begun_bytes), 1 + dice(size_t{4})};
  IdempotencyMemory memory(bounds);
  Model model(bounds);
  base::Time now{};
  std::map<size_t, Ticket> tickets;
  const auto one_of = [&](std::string_view of) { return std::string(1, of[dice(of.size())]); };
  for (int step = 0; step < 150; ++step) {
    if (dice(3) == 0) now.us += base::milliseconds(dice(20)).us;
    const std::optional<size_t> begun = model.pick(dice);
    const int what = dice(10);
    if (what < 6 || !begun) {
      const std::string user = one_of("ab"), key = one_of("klmnop"), body = one_of("xxxxy");
      std::string answer, expected_answer;
      const Result expected = model.begin(user, key, body, now, expected_answer);
      const Result result = memory.begin(user, key, {"POST", "/", body}, now, answer);
      ASSERT_EQ(name_of(result.found), name_of(expected.found)) << "seed " << seed;
      ASSERT_EQ(answer, expected_answer) << "seed " << seed;
      ASSERT_EQ(result.retry_after, expected.retry_after) << "seed " << seed;
      ++found[static_cast<size_t>(result.found)];
      if (result.ticket != 0) tickets[expected.ticket] = result.ticket;
    } else if (what < 9) {
      const std::string answer(dice(3) == 0 ? idempotent_answer_bytes_max : dice(size_t{1000}),
                               "pqrs"[dice(4)]);
      model.finish(*begun, answer, now);
      memory.finish(tickets[*begun], answer, now);
    } else {
      model.forget(*begun);
      memory.forget(tickets[*begun]);
    }
    ASSERT_EQ(memory.held().entries, model.entries()) << "seed " << seed;
    ASSERT_EQ(memory.held().bytes, model.bytes()) << "seed " << seed;
    ASSERT_EQ(memory.held().users, model.users()) << "seed " << seed;
    ASSERT_LE(memory.held().bytes, bounds.bytes) << "seed " << seed;
  }
}

TEST(IdempotencyMemory, RandomSequencesMatchTheModel) {
  std::array<size_t, 5> found{};
  for (uint32_t seed = 1; seed <= 400 && !testing::Test::HasFatalFailure(); ++seed)
    compare_with_model(seed, found);
  for (const size_t count : found) EXPECT_GT(count, 500u);
}

// Eight threads use the same keys. Each key is executed once, all replays have its answer, and the
// counts add up.
TEST(IdempotencyMemory, ThreadsFindAnswersOfOtherThreads) {
  constexpr size_t threads = 8, keys = 40, rounds = 4'000;
  IdempotencyMemory memory({base::seconds(60), size_t{1} << 20, 2});
  std::array<std::atomic<size_t>, keys> executed{};
  std::atomic<size_t> begun = 0, replayed = 0, others = 0, forgotten = 0;
  std::vector<std::thread> all;
  for (size_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      tests::Dice dice(static_cast<uint32_t>(i));
      std::string answer;
      for (size_t round = 0; round < rounds; ++round) {
        const size_t number = dice(keys);
        const std::string key = std::to_string(number), user = number % 2 == 0 ? "ann" : "bob";
        const Result result = memory.begin(user, key, take, at(base::seconds(1)), answer);
        if (result.found == Found::begun && dice(2) == 0) {
          ++forgotten;
          memory.forget(result.ticket);
        } else if (result.found == Found::begun) {
          ++begun;
          ++executed[number];
          memory.finish(result.ticket, "answer " + key, at(base::seconds(1)));
        } else if (result.found == Found::kept) {
          ++replayed;
          EXPECT_EQ(answer, "answer " + key);
        } else {
          EXPECT_EQ(result.found, Found::under_way);
          ++others;
        }
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const std::atomic<size_t>& count : executed) EXPECT_EQ(count, 1u);
  EXPECT_EQ(begun, keys);
  EXPECT_EQ(begun + replayed + others + forgotten, threads * rounds);
  EXPECT_EQ(memory.held().entries, keys);
}

// Entries expire all the time, and the memory is sometimes full.
TEST(IdempotencyMemory, CountsReturnToZeroAfterConcurrentUse) {
  constexpr size_t threads = 8, rounds = 4'000;
  IdempotencyMemory memory({base::milliseconds(1), 20 * idempotent_begun_bytes, 2});
  std::atomic<int64_t> now_us = 0;
  std::atomic<size_t> full = 0;
  std::barrier half(threads);
  std::vector<std::thread> all;
  for (size_t i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      tests::Dice dice(static_cast<uint32_t>(i));
      std::string answer;
      std::vector<Ticket> mine;
      for (size_t round = 0; round < rounds; ++round) {
        const base::Time now{now_us += dice(100)};
        const Result result =
            memory.begin(std::to_string(dice(3)), std::to_string(dice(1000)), take, now, answer);
        if (result.found == Found::begun) mine.push_back(result.ticket);
        full += result.found == Found::full;
        if (round == rounds / 2) {
          // Each holds three at once, more than fit, even if the threads run one after the other.
          for (size_t more = 0; mine.size() < 3; ++more) {
            const Result one = memory.begin(
                std::to_string(i % 3), std::to_string(2000 + i * 100 + more), take, now, answer);
            if (one.found == Found::full) ++full;
            if (one.found != Found::begun) break;
            mine.push_back(one.ticket);
          }
          half.arrive_and_wait();
        }
        if (mine.size() < 3) continue;
        if (dice(4) > 0)
          memory.finish(mine.back(), std::string(dice(size_t{4096}), 'x'), now);
        else
          memory.forget(mine.back());
        mine.pop_back();
      }
      for (const Ticket ticket : mine) memory.forget(ticket);
    });
  }
  for (std::thread& thread : all) thread.join();
  EXPECT_GT(full, 0u);
  std::string answer;
  const base::Time end{now_us + base::seconds(1).us};
  const Result last = memory.begin("x", "x", take, end, answer);
  EXPECT_EQ(last.found, Found::begun);
  memory.forget(last.ticket);
  EXPECT_EQ(memory.held().entries, 0u);
  EXPECT_EQ(memory.held().bytes, 0u);
  EXPECT_EQ(memory.held().users, 0u);
}

// The key in a field's value, in `<>`; or "none".
std::string key_of(std::string_view value) {
  std::string to = "from before";
  return parse_idempotency_key(value, to) ? "<" + to + ">" : "none";
}

TEST(IdempotencyKey, IsAStringOfStructuredFields) {
  EXPECT_EQ(key_of(R"("8e03978e-40d5-43dd-bc93-6894a57f9324")"),
            "<8e03978e-40d5-43dd-bc93-6894a57f9324>");
  EXPECT_EQ(key_of(R"(  "a b"  )"), "<a b>");
  EXPECT_EQ(key_of(R"("a\"b\\c")"), R"(<a"b\c>)");
  EXPECT_EQ(key_of(R"("abc";a=1)"), "<abc>");
  EXPECT_EQ(key_of(R"("abc";a; b="c;d")"), "<abc>");
  EXPECT_EQ(key_of(R"(" ")"), "< >");
}

TEST(IdempotencyKey, IsTakenWithoutQuotesAsWell) {
  EXPECT_EQ(key_of("8e03978e-40d5"), "<8e03978e-40d5>");
  EXPECT_EQ(key_of(" abc "), "<abc>");
  EXPECT_EQ(key_of("a b"), "<a b>");
  EXPECT_EQ(key_of("abc;a=1"), "<abc;a=1>");
  EXPECT_EQ(key_of(R"(a"b\c)"), R"(<a"b\c>)");
  EXPECT_EQ(key_of("~"), "<~>");
}

TEST(IdempotencyKey, RejectsOtherTexts) {
  using namespace std::string_view_literals;
  for (const std::string_view value :
       {""sv, " "sv, R"("")"sv, R"("abc)"sv, R"("abc\)"sv, R"("a\bc")"sv, R"("abc" "def")"sv,
        R"("abc", "def")"sv, R"("abc"def)"sv, R"("abc";)"sv, R"("abc";A=1)"sv, "\"a\tb\""sv,
        "a\tb"sv, "a\0b"sv, "\"a\0b\""sv, "a\x7F"sv, "f\xC3\xBC"sv, "\"f\xC3\xBC\""sv, "a\r\nb"sv})
    EXPECT_EQ(key_of(value), "none") << value;
}

TEST(IdempotencyKey, Has255CharactersAtMost) {
  const std::string most(255, 'x'), more(256, 'x');
  EXPECT_EQ(key_of(most), "<" + most + ">");
  EXPECT_EQ(key_of(more), "none");
  EXPECT_EQ(key_of('"' + most + '"'), "<" + most + ">");
  EXPECT_EQ(key_of('"' + more + '"'), "none");
  // The bound is on the characters of the key, not on those of the field.
  std::string escaped;
  for (int i = 0; i < 255; ++i) escaped += "\\\"";
  EXPECT_EQ(key_of('"' + escaped + '"'), "<" + std::string(255, '"') + ">");
  EXPECT_EQ(key_of('"' + escaped + "x\""), "none");
}

}  // namespace
}  // namespace sluice::http::idempotency_test
