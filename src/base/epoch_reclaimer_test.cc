// When removed objects are freed (base/epoch_reclaimer.h).
#include "base/epoch_reclaimer.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

struct Counted {
  explicit Counted(int& its_alive) : alive(its_alive) { ++alive; }
  ~Counted() { --alive; }
  int& alive;
};

TEST(EpochReclaimer, FreesAtOnceWithoutReaders) {
  int alive = 0;
  EpochReclaimer reclaimer;
  reclaimer.retire(std::make_unique<Counted>(alive));
  EXPECT_EQ(alive, 1);
  reclaimer.reclaim();
  EXPECT_EQ(alive, 0);
}

TEST(EpochReclaimer, FreesOnceEveryReaderWasQuiescent) {
  int alive = 0;
  EpochReclaimer reclaimer;
  auto a = std::make_unique<EpochReclaimer::Reader>(reclaimer),
       b = std::make_unique<EpochReclaimer::Reader>(reclaimer);
  reclaimer.retire(std::make_unique<Counted>(alive));
  reclaimer.reclaim();
  EXPECT_EQ(alive, 1);
  a->quiesce();
  reclaimer.reclaim();
  EXPECT_EQ(alive, 1);
  b->quiesce();
  reclaimer.retire(std::make_unique<Counted>(alive));
  reclaimer.reclaim();
  EXPECT_EQ(alive, 1);  // the first one was freed
  a->quiesce();
  b.reset();  // a reader that has left delays nothing
  reclaimer.reclaim();
  EXPECT_EQ(alive, 0);
}

TEST(EpochReclaimer, ALaterReaderDoesNotHoldOlderObjects) {
  int alive = 0;
  EpochReclaimer reclaimer;
  reclaimer.retire(std::make_unique<Counted>(alive));
  const EpochReclaimer::Reader late(reclaimer);
  reclaimer.reclaim();
  EXPECT_EQ(alive, 0);
}

TEST(EpochReclaimer, FreesRemainingObjectsInItsDestructor) {
  int alive = 0;
  {
    EpochReclaimer reclaimer;
    const EpochReclaimer::Reader reader(reclaimer);
    reclaimer.retire(std::make_unique<Counted>(alive));
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace sluice::base
