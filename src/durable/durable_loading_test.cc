// Groups whose counters cannot be fetched while the store is still loading: parked ones, several of
// one batch, and those whose time is over.
#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <vector>

#include "durable/durable_life_test.h"

namespace sluice::durable::loading_test {
namespace {

using namespace durable::tests;
using request::Error;
using request::OnError;

constexpr request::Ticket waits{7, 0}, first{1, 0}, second{2, 0};

// Loading, with nine units of "k" taken; scans end only with it.
struct Loading {
  Loading() {
    {
      Life before(disk, Durability::interval);
      before.ask({{"k", 9, one.limits}});
    }
    disk.fold();
    disk.set(&Disk::holds_scans, true);
    life = std::make_unique<Life>(disk, Durability::interval);
  }
  ~Loading() { disk.set(&Disk::holds_scans, false); }

  void wait_for(const Part& part) {
    parked = life->world.prepare({part});
    parked.group.may_wait = true;
    parked.group.ticket = waits;
    life->settle(parked, start);
    ASSERT_TRUE(parked.group.parked);
  }
  // The parked request, matched by another policy: it is charged to a counter that cannot be read.
  Asked ask_again_for(const Part& part, OnError on_error) {
    Asked again = life->world.prepare({part});
    again.group.may_wait = true;
    again.group.ticket = waits;
    again.group.arrival = parked.group.arrival;
    again.group.on_error = on_error;
    disk.set(&Disk::fails_to_read, true);
    life->settle(again, start);
    return again;
  }
  std::vector<store::Settled> settled() const {
    std::vector<store::Settled> all;
    life->completions.drain(all);
    return all;
  }

  Disk disk;
  std::unique_ptr<Life> life;
  Asked parked;
};

TEST(DurableLoading, AParkedGroupThatFailsLeavesItsQueue) {
  for (const OnError on_error : {OnError::error, OnError::deny, OnError::allow}) {
    Loading loading;
    loading.wait_for({"k", 2, one.limits});
    const Asked again = loading.ask_again_for({"other", 1, one.limits}, on_error);
    EXPECT_EQ(again.group.error, on_error == OnError::error ? Error::store : Error::none);
    EXPECT_EQ(again.allowed(), on_error == OnError::allow);
    EXPECT_FALSE(again.group.parked);
    EXPECT_EQ(loading.life->store->stats().waiting, 0u);
    // So nothing is granted to it any more.
    loading.life->put_all({"k", 0, one.limits});
    EXPECT_TRUE(loading.settled().empty());
    EXPECT_EQ(loading.life->ask({one}, start, request::Verb::peek)[0].remaining, 10);
  }
}

TEST(DurableLoading, AParkedGroupThatHasItsAnswerKeepsIt) {
  Loading loading;
  loading.wait_for({"k", 2, one.limits});
  loading.life->put_all({"k", 0, one.limits});
  const Asked again = loading.ask_again_for({"other", 1, one.limits}, OnError::deny);
  EXPECT_TRUE(again.group.answered);
  EXPECT_EQ(again.group.error, Error::none);
  const auto answers = loading.settled();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].ticket, waits);
  EXPECT_EQ(loading.life->ask({one}, start, request::Verb::peek)[0].remaining, 8);
}

// The failure of one group's counters, which others then had fetched, is not the next group's.
TEST(DurableLoading, AFailedReadFailsOnlyTheGroupThatNeedsTheCounter) {
  Loading loading;
  Life& life = *loading.life;
  Asked both = life.world.prepare({{"k", 1, one.limits}, {"other", 1, one.limits}});
  std::vector<request::Group> groups(2);
  groups[0].charge_count = groups[1].charge_count = 1;
  groups[1].charge_first = 1;
  const auto apply = [&](size_t from) {
    const auto left = std::span(groups).subspan(from);
    return life.store->apply({left, both.charges, both.decisions}, start, &life.completions, {},
                             first);
  };
  loading.disk.set(&Disk::fails_to_read, true);
  EXPECT_TRUE(apply(0).later);
  eventually([&] { return life.named(first); });
  loading.disk.set(&Disk::fails_to_read, false);
  Asked other = life.world.prepare({{"k", 0, one.limits}});
  EXPECT_TRUE(life.apply(other, start, second).later);
  eventually([&] { return life.named(second); });
  store::Applied applied = apply(0);
  EXPECT_EQ(applied.settled, 1u);
  ASSERT_TRUE(applied.later);
  eventually([&] { return life.named(first); });
  EXPECT_EQ(apply(1).settled, 1u);
  for (const request::Group& group : groups) {
    EXPECT_EQ(group.error, Error::none);
    EXPECT_TRUE(group.allowed);
  }
}

TEST(DurableLoading, AGroupPastItsDeadlineFailsWithDeadline) {
  Loading loading;
  loading.disk.set(&Disk::fails_to_read, true);
  for (const OnError on_error : {OnError::error, OnError::deny, OnError::allow}) {
    Asked late = loading.life->world.prepare({one}), timely = loading.life->world.prepare({one});
    late.group.on_error = timely.group.on_error = on_error;
    late.group.answer_by = start;
    timely.group.answer_by = {start.us + 1};
    loading.life->settle(late, start);
    EXPECT_EQ(late.group.error, Error::deadline);
    EXPECT_FALSE(late.allowed());
    loading.life->settle(timely, start);
    EXPECT_NE(timely.group.error, Error::deadline);
  }
}

}  // namespace
}  // namespace sluice::durable::loading_test
