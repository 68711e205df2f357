#include "base/epoch_reclaimer.h"

#include <gtest/gtest.h>

namespace sluice::base {
namespace {

struct Counted {
  explicit Counted(int& its_alive) : alive(its_alive) { ++alive; }
  ~Counted() { --alive; }
  int& alive;
};

TEST(Grace, frees_at_once_where_nobody_reads) {
  int alive = 0;
  Grace grace;
  grace.retire(std::make_unique<Counted>(alive));
  EXPECT_EQ(alive, 1);
  grace.reclaim();
  EXPECT_EQ(alive, 0);
}

TEST(Grace, frees_once_every_reader_has_passed) {
  int alive = 0;
  Grace grace;
  auto a = std::make_unique<Grace::Reader>(grace), b = std::make_unique<Grace::Reader>(grace);
  grace.retire(std::make_unique<Counted>(alive));
  grace.reclaim();
  EXPECT_EQ(alive, 1);
  a->pass();
  grace.reclaim();
  EXPECT_EQ(alive, 1);
  b->pass();
  grace.retire(std::make_unique<Counted>(alive));
  grace.reclaim();
  EXPECT_EQ(alive, 1);  // the first one went
  a->pass();
  b.reset();  // who is gone reads nothing
  grace.reclaim();
  EXPECT_EQ(alive, 0);
}

TEST(Grace, who_comes_later_holds_nothing_older) {
  int alive = 0;
  Grace grace;
  grace.retire(std::make_unique<Counted>(alive));
  const Grace::Reader late(grace);
  grace.reclaim();
  EXPECT_EQ(alive, 0);
}

TEST(Grace, frees_what_is_left_at_its_end) {
  int alive = 0;
  {
    Grace grace;
    const Grace::Reader reader(grace);
    grace.retire(std::make_unique<Counted>(alive));
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace sluice::base
