// What a worker notes of its refusals (engine/denials.h): sums, and which notes stay past the
// bound.
#include "engine/denials.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace sluice::engine::denials_test {
namespace {

constexpr base::Time noon{int64_t{1'800'000'000} * 1'000'000};
const limit::Limit per_minute{limit::Algorithm::fixed_window, 5, base::seconds(60)};
const limit::Limit per_hour{limit::Algorithm::fixed_window, 50, base::seconds(3600)};

Refusal refusal_of(std::string_view actor, uint16_t rule = 1,
                   const limit::Limit& limit = per_minute, bool shadow = false) {
  static const base::Hash hash(1);
  return {.hash = hash(rule, actor),
          .family = nullptr,
          .key = actor,
          .rule = rule,
          .shadow = shadow,
          .limit = limit};
}

base::Time at(int64_t seconds) {
  return {noon.us + seconds * 1'000'000};
}

// The notes of a worker, by actor and rule; each is there once.
std::map<std::pair<std::string, uint16_t>, Denial> notes_of(const DenialTable& table) {
  std::map<std::pair<std::string, uint16_t>, Denial> notes;
  table.each([&](const Denial& note) {
    EXPECT_TRUE(notes.emplace(std::pair(std::string(note.key()), note.rule), note).second);
  });
  return notes;
}

std::unique_ptr<DenialTable> empty() {
  return std::make_unique<DenialTable>();
}

uint64_t noted(const DenialTable& table) {
  uint64_t sum = table.dropped();
  table.each([&](const Denial& note) { sum += note.count; });
  return sum;
}

TEST(Denials, CountTheRefusalsOfAnActorByALimit) {
  Denials denials;
  denials.add(refusal_of("acme"), at(0));
  denials.add(refusal_of("acme"), at(5));
  denials.add(refusal_of("acme"), at(3));  // by a clock that was set back
  denials.add(refusal_of("bolt", 2), at(4));
  const auto table = denials.take(empty());
  const auto notes = notes_of(*table);
  ASSERT_EQ(notes.size(), 2u);
  const Denial& acme = notes.at({"acme", 1});
  EXPECT_EQ(acme.count, 3u);
  EXPECT_EQ(acme.first, at(0));
  EXPECT_EQ(acme.last, at(5));
  EXPECT_EQ(acme.limit, per_minute);
  EXPECT_FALSE(acme.cut);
  EXPECT_EQ(table->dropped(), 0u);
}

TEST(Denials, HaveANoteForEachLimitRuleAndMode) {
  Denials denials;
  for (const Refusal& one : {refusal_of("acme"), refusal_of("acme", 1, per_hour),
                             refusal_of("acme", 2), refusal_of("acme", 1, per_minute, true)})
    denials.add(one, noon);
  size_t count = 0;
  denials.take(empty())->each([&](const Denial& note) { count += note.count; });
  EXPECT_EQ(count, 4u);
}

TEST(Denials, BeginAgainAfterTheyWereTaken) {
  Denials denials;
  auto spare = empty();
  DenialTable* const kept = spare.get();
  spare = denials.take(std::move(spare));
  EXPECT_EQ(spare.get(), kept) << "nothing was refused: the empty table is returned";
  denials.add(refusal_of("acme"), noon);
  auto taken = denials.take(std::move(spare));
  EXPECT_EQ(noted(*taken), 1u);
  taken->clear();
  EXPECT_TRUE(taken->is_empty());
  denials.add(refusal_of("acme"), noon);
  EXPECT_EQ(noted(*denials.take(std::move(taken))), 1u);
}

TEST(Denials, KeepTheBeginningOfALongKey) {
  Denials denials;
  const std::string longest(Denial::key_bytes_max, 'k');
  denials.add(refusal_of(longest), noon);
  denials.add(refusal_of(longest + "x"), noon);
  size_t cut = 0;
  denials.take(empty())->each([&](const Denial& note) {
    EXPECT_EQ(note.key(), longest);
    cut += note.cut ? 1u : 0u;
  });
  EXPECT_EQ(cut, 1u);
}

TEST(Denials, AFloodOfOneRulePushesOutNoActorOfAnother) {
  Denials denials;
  for (uint16_t rule = 2; rule < 6; ++rule) denials.add(refusal_of("acme", rule), at(0));
  for (int i = 0; i < 1'000'000; ++i) denials.add(refusal_of(std::to_string(i)), at(1));
  denials.add(refusal_of("late", 7), at(2));
  for (int i = 0; i < 100'000; ++i) denials.add(refusal_of(std::to_string(-i)), at(3));
  const auto table = denials.take(empty());
  const auto notes = notes_of(*table);
  EXPECT_LE(notes.size(), DenialTable::size);
  for (uint16_t rule = 2; rule < 6; ++rule) EXPECT_TRUE(notes.contains({"acme", rule})) << rule;
  EXPECT_TRUE(notes.contains({"late", 7}));
  EXPECT_EQ(noted(*table), 1'100'005u) << "each refusal is in a note, or dropped";
}

TEST(Denials, AFloodPushesOutNoActorOfItsRuleThatIsRefusedAgainAndAgain) {
  Denials denials;
  for (int i = 0; i < 3; ++i) denials.add(refusal_of("before"), at(0));
  for (int i = 0; i < 100'000; ++i) denials.add(refusal_of(std::to_string(i)), at(0));
  for (int i = 0; i < 100; ++i) denials.add(refusal_of("acme"), at(1));
  for (int i = 100'000; i < 1'000'000; ++i) denials.add(refusal_of(std::to_string(i)), at(2));
  const auto table = denials.take(empty());
  const auto notes = notes_of(*table);
  ASSERT_TRUE(notes.contains({"acme", 1}));
  EXPECT_GE(notes.at({"acme", 1}).count, 80u) << "one of sixteen new ones gets a note";
  EXPECT_EQ(notes.at({"before", 1}).count, 3u);
  EXPECT_EQ(noted(*table), 1'000'103u) << "each refusal is in a note, or dropped";
}

}  // namespace
}  // namespace sluice::engine::denials_test
