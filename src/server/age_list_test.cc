// Connections in the order in which they joined (server/age_list.h), against a vector.
#include "server/age_list.h"

#include <gtest/gtest.h>

#include <deque>
#include <list>
#include <vector>

#include "tests/support/dice.h"

namespace sluice::server {
namespace {

using namespace std::chrono_literals;

struct Owner {
  explicit Owner(int its_number) : number(its_number) {}
  int number;
  AgeList<Owner>::Member member{*this};
};

using Ages = AgeList<Owner>;

std::vector<int> numbers(const Ages& ages) {
  std::vector<int> all;
  for (auto* at = ages.oldest(); at != nullptr; at = at->younger())
    all.push_back(at->owner().number);
  return all;
}

TEST(AgeList, MatchesANaiveListInRandomSequences) {
  Ages ages(std::chrono::seconds(10));
  std::deque<Owner> owners;
  for (int i = 0; i < 8; ++i) owners.emplace_back(i);
  std::vector<int> model;
  tests::Dice dice(1);
  for (int step = 0; step < 5'000; ++step) {
    Owner& owner = owners[dice(owners.size())];
    std::erase(model, owner.number);
    if (dice(2u) == 0) {
      owner.member.leave();
    } else {
      owner.member.join(ages, Ages::Time(std::chrono::seconds(step)));
      model.push_back(owner.number);
    }
    ASSERT_EQ(numbers(ages), model);
    EXPECT_EQ(ages.size(), model.size());
    EXPECT_EQ(owner.member.is_member(), !model.empty() && model.back() == owner.number);
    EXPECT_EQ(ages.due().has_value(), !model.empty());
  }
}

TEST(AgeList, IsDueWhenItsOldestHasStayedTooLong) {
  Ages ages(std::chrono::seconds(10)), for_ever;
  Owner one(1);
  {
    Owner two(2);
    two.member.join(ages, Ages::Time(3s));
    one.member.join(ages, Ages::Time(5s));
    EXPECT_EQ(ages.due(), Ages::Time(13s));
    two.member.join(ages, Ages::Time(7s));
    EXPECT_EQ(ages.due(), Ages::Time(15s)) << "a connection that joins again is the youngest";
    one.member.join(for_ever, Ages::Time(8s));
    EXPECT_EQ(ages.due(), Ages::Time(17s)) << "it has left the other list";
  }
  EXPECT_EQ(ages.due(), std::nullopt) << "what goes leaves";
  EXPECT_EQ(for_ever.due(), std::nullopt);
  one.member.leave();
}

}  // namespace
}  // namespace sluice::server
