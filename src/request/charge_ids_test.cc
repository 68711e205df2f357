// The ids of charges: their form, what they stand for, how long they are known, and the bound of
// their memory; also with several threads.
#include "request/charge_ids.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::request::charge_ids_test {
namespace {

using Found = ChargeIds::Found;

constexpr std::string_view id = "charge-0000-0001", other_id = "charge-0000-0002";

std::string_view name_of(Found found) {
  constexpr std::string_view names[] = {"unknown",    "first",         "under way",
                                        "remembered", "other content", "full"};
  return names[static_cast<size_t>(found)];
}

// The ids with a clock that the test sets, and its results as texts.
struct Ids {
  explicit Ids(const ChargeIds::Bounds& bounds = {}) : ids(bounds) {}

  std::string claim(std::string_view user, std::string_view its_id, uint64_t content = 1) {
    ChargeIds::Claim one;
    const Found found = ids.claim(user, its_id, content, now, one);
    EXPECT_EQ(static_cast<bool>(one), found == Found::first);
    if (one) claims.push_back(std::move(one));
    return std::string(name_of(found));
  }
  void finish(std::string_view answer) {
    claims.back().finish(std::string(answer), now);
    claims.pop_back();
  }
  // Claims and finishes.
  void remember(std::string_view user, std::string_view its_id, std::string_view answer) {
    EXPECT_EQ(claim(user, its_id), "first");
    finish(answer);
  }
  std::string find(std::string_view user, std::string_view its_id, uint64_t content = 1) const {
    std::string answer;
    const Found found = ids.find(user, its_id, content, now, answer);
    return std::string(name_of(found)) + (answer.empty() ? "" : ": " + answer);
  }
  void pass(base::Duration length) { now.us += length.us; }

  ChargeIds ids;
  base::Time now{1'000'000'000};
  std::vector<ChargeIds::Claim> claims;
};

TEST(ChargeIds, AreSixteenToSixtyFourLettersDigitsUnderscoresAndHyphens) {
  EXPECT_TRUE(is_charge_id("0123456789abcdef"));
  EXPECT_TRUE(is_charge_id("azAZ09_-azAZ09_-"));
  EXPECT_TRUE(is_charge_id(std::string(64, 'x')));
  EXPECT_FALSE(is_charge_id(std::string(15, 'x')));
  EXPECT_FALSE(is_charge_id(std::string(65, 'x')));
  EXPECT_FALSE(is_charge_id(""));
  for (const char c : {' ', '.', '/', ':', '@', '[', '`', '{', '\0', '\n', '\x80'})
    EXPECT_FALSE(is_charge_id(std::string(16, 'x') + c)) << static_cast<int>(c);
}

TEST(ChargeIds, AChargeIsRememberedFromItsAnswerOn) {
  Ids ids;
  EXPECT_EQ(ids.find("", id), "unknown");
  EXPECT_EQ(ids.claim("", id), "first");
  EXPECT_EQ(ids.claim("", id), "under way");
  EXPECT_EQ(ids.find("", id), "under way");
  ids.finish("25 charged");
  EXPECT_EQ(ids.claim("", id), "remembered");
  EXPECT_EQ(ids.find("", id), "remembered: 25 charged");
  EXPECT_EQ(ids.claim("", other_id), "first");
}

TEST(ChargeIds, AnotherContentDiffersAlsoWhileTheFirstIsUnderWay) {
  Ids ids;
  EXPECT_EQ(ids.claim("", id, 7), "first");
  EXPECT_EQ(ids.claim("", id, 8), "other content");
  EXPECT_EQ(ids.find("", id, 8), "other content");
  ids.finish("x");
  EXPECT_EQ(ids.claim("", id, 8), "other content");
  EXPECT_EQ(ids.claim("", id, 7), "remembered");
}

TEST(ChargeIds, EachUserHasIdsOfItsOwn) {
  Ids ids;
  ids.remember("ann", id, "of ann");
  EXPECT_EQ(ids.find("bob", id), "unknown");
  EXPECT_EQ(ids.claim("bob", id, 2), "first");
  ids.finish("of bob");
  EXPECT_EQ(ids.find("ann", id), "remembered: of ann");
  EXPECT_EQ(ids.find("bob", id, 2), "remembered: of bob");
  EXPECT_EQ(ids.find("", id), "unknown");
}

TEST(ChargeIds, AreForgottenTenMinutesAfterTheAnswer) {
  Ids ids;
  EXPECT_EQ(ids.claim("", id), "first");
  ids.pass(base::seconds(3600));  // under way for as long as it takes
  EXPECT_EQ(ids.claim("", id), "under way");
  ids.finish("x");
  ids.pass({base::seconds(600).us - 1});
  EXPECT_EQ(ids.claim("", id), "remembered");
  EXPECT_EQ(ids.find("", id), "remembered: x");
  ids.pass({1});
  EXPECT_EQ(ids.find("", id), "unknown");
  EXPECT_EQ(ids.claim("", id, 9), "first");
}

TEST(ChargeIds, AFailedChargeMayBeSentAgainAtOnce) {
  Ids ids;
  EXPECT_EQ(ids.claim("", id), "first");
  ids.claims.clear();  // its claim is dropped
  EXPECT_EQ(ids.find("", id), "unknown");
  EXPECT_EQ(ids.claim("", id, 2), "first");
  EXPECT_EQ(ids.ids.figures().under_way, 1u);
}

TEST(ChargeIds, TheOldestAreForgottenAtTheBoundAndNoneUnderWay) {
  Ids ids({.bytes = 16'000});
  EXPECT_EQ(ids.claim("", "under-way-0000-0001"), "first");
  size_t count = 0;
  while (ids.ids.figures().forgotten == 0) {
    ids.remember("", "charge-" + std::to_string(1'000'000'000 + count), "x");
    ++count;
  }
  EXPECT_GE(count, 20u);
  EXPECT_EQ(ids.find("", "charge-1000000000"), "unknown");
  EXPECT_EQ(ids.find("", "charge-1000000001"), "remembered: x");
  for (int i = 0; i < 200; ++i)
    ids.remember("", "second-" + std::to_string(1'000'000'000 + i), "x");
  EXPECT_LE(ids.ids.figures().bytes, 16'000u);
  EXPECT_EQ(ids.claim("", "under-way-0000-0001"), "under way");
}

TEST(ChargeIds, AUserThatAddsManyLosesItsOwnAndNotThoseOfOthers) {
  Ids ids({.bytes = 64'000, .user_part = 8});
  ids.remember("ann", id, "of ann");
  for (int i = 0; i < 500; ++i)
    ids.remember("bob", "charge-" + std::to_string(1'000'000'000 + i), "x");
  EXPECT_EQ(ids.find("ann", id), "remembered: of ann");
  EXPECT_EQ(ids.find("bob", "charge-1000000000"), "unknown");
  EXPECT_EQ(ids.find("bob", "charge-1000000499"), "remembered: x");
  EXPECT_LE(ids.ids.figures().bytes, 10'000u);
}

TEST(ChargeIds, ANewIdIsRefusedIfThoseUnderWayTakeAllRoom) {
  Ids ids({.bytes = 4'000});
  int count = 0;
  while (ids.claim("", "charge-" + std::to_string(1'000'000'000 + count)) == "first") ++count;
  EXPECT_GE(count, 4);
  EXPECT_EQ(ids.claim("", id), "full");
  ids.claims.pop_back();
  EXPECT_EQ(ids.claim("", id), "first");
}

TEST(ChargeIds, OneOfManyThreadsClaimsAnIdAndTheOthersFindItsAnswer) {
  ChargeIds ids;
  constexpr int rounds = 200, threads = 4;
  std::atomic<int> firsts{0}, wrong{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&] {
      for (int i = 0; i < rounds; ++i) {
        const std::string name = "charge-" + std::to_string(1'000'000'000 + i);
        ChargeIds::Claim claim;
        const Found found = ids.claim("", name, 1, {i}, claim);
        if (found == Found::first) {
          ++firsts;
          claim.finish(name, {i});
          continue;
        }
        std::string answer;
        const Found again = ids.find("", name, 1, {i}, answer);
        if (again == Found::remembered ? answer != name : again != Found::under_way) ++wrong;
      }
    });
  for (std::thread& one : all) one.join();
  EXPECT_EQ(firsts, rounds);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(ids.figures().remembered, static_cast<size_t>(rounds));
}

// ---- Content ----

uint64_t digest_of(std::vector<Entry> entries, int64_t n = 1) {
  ChargeContent content;
  content.add_entries(std::move(entries), n);
  return content.digest();
}

uint64_t digest_of(const limit::Limit& limit, std::string_view key = "k", int64_t n = 1,
                   bool counts = false, int64_t overdraft = limit::Overdrafts::none) {
  ChargeContent content;
  content.add_key(key, n);
  content.add_limit(limit, counts, overdraft);
  return content.digest();
}

TEST(ChargeContent, IsTheSameInAnyOrderOfTheEntries) {
  EXPECT_EQ(digest_of({{"a", "1"}, {"b", "2"}}), digest_of({{"b", "2"}, {"a", "1"}}));
  EXPECT_NE(digest_of({{"a", "1"}, {"b", "2"}}), digest_of({{"a", "2"}, {"b", "1"}}));
  EXPECT_NE(digest_of({{"a", "1"}}), digest_of({{"a", "1"}}, 2));
  EXPECT_NE(digest_of({{"ab", "c"}}), digest_of({{"a", "bc"}}));
  EXPECT_NE(digest_of({{"a", "1"}}), digest_of({{"a", "1"}, {"a", "1"}}));
}

TEST(ChargeContent, HasEachNumberOfALimit) {
  const limit::Limit limit{limit::Algorithm::token_bucket, 5, base::seconds(60), 7};
  const uint64_t digest = digest_of(limit);
  EXPECT_EQ(digest_of(limit), digest);
  EXPECT_NE(digest_of(limit, "other"), digest);
  EXPECT_NE(digest_of(limit, "k", 2), digest);
  limit::Limit another = limit;
  another.algorithm = limit::Algorithm::fixed_window;
  EXPECT_NE(digest_of(another), digest);
  another = limit;
  another.quota = 6;
  EXPECT_NE(digest_of(another), digest);
  another = limit;
  another.window = base::seconds(61);
  EXPECT_NE(digest_of(another), digest);
  another = limit;
  another.burst = 8;
  EXPECT_NE(digest_of(another), digest);
  EXPECT_NE(digest_of(limit, "k", 1, true), digest);
  EXPECT_NE(digest_of(limit, "k", 1, false, 0), digest);
  EXPECT_NE(digest_of(limit, "k", 1, false, 5), digest_of(limit, "k", 1, false, 6));
}

TEST(ChargeContent, HasTheSubjectsInTheirOrder) {
  const auto both = [](std::string_view first, std::string_view second) {
    ChargeContent content;
    content.add_entries({{"a", first}}, 1);
    content.add_entries({{"a", second}}, 1);
    return content.digest();
  };
  EXPECT_EQ(both("1", "2"), both("1", "2"));
  EXPECT_NE(both("1", "2"), both("2", "1"));
}

}  // namespace
}  // namespace sluice::request::charge_ids_test
