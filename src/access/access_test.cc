#include "access/access.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::access {
namespace {

std::shared_ptr<const Users> list_of(const std::string& password) {
  return std::make_shared<const Users>(std::vector<User>{{"app", {Right::take}, "", password}});
}

bool check(Access& access, const std::string& name, const std::string& password) {
  std::promise<bool> told;
  EXPECT_TRUE(access.check(name, password, [&](bool right) { told.set_value(right); }));
  return told.get_future().get();
}

TEST(Access, ChecksOnAThreadOfItsOwn) {
  Access access(list_of("secret"));
  std::promise<std::thread::id> told;
  ASSERT_TRUE(access.check("app", "secret", [&](bool right) {
    EXPECT_TRUE(right);
    told.set_value(std::this_thread::get_id());
  }));
  EXPECT_NE(told.get_future().get(), std::this_thread::get_id());
  EXPECT_FALSE(check(access, "app", "other"));
}

TEST(Access, GoesByTheListThatIsLive) {
  Access access;
  EXPECT_TRUE(access.users()->empty());
  const uint64_t before = access.version();
  EXPECT_FALSE(check(access, "app", "secret"));
  access.set(list_of("secret"));
  EXPECT_GT(access.version(), before);
  EXPECT_TRUE(check(access, "app", "secret"));
  access.set(list_of("another"));
  EXPECT_FALSE(check(access, "app", "secret"));
  access.set(nullptr);
  EXPECT_TRUE(access.users()->empty());
}

TEST(Access, TakesNoMoreThanItsBound) {
  Access access(list_of("secret"));
  std::promise<void> begun, go;
  const auto may_go = go.get_future().share();
  ASSERT_TRUE(access.check("app", "secret", [&begun, may_go](bool) {
    begun.set_value();
    may_go.wait();
  }));
  begun.get_future().wait();  // that one does not wait any more
  size_t right = 0;
  for (size_t i = 0; i < Access::checks_max; ++i)
    ASSERT_TRUE(access.check("app", "secret", [&](bool its) { right += its ? 1 : 0; })) << i;
  EXPECT_FALSE(access.check("app", "secret", [](bool) { ADD_FAILURE(); }));
  std::promise<void> all;
  go.set_value();
  while (!access.check("app", "secret", [&](bool) { all.set_value(); })) std::this_thread::yield();
  all.get_future().wait();
  EXPECT_EQ(right, Access::checks_max);
}

TEST(Access, AnswersNothingOnceItIsStopped) {
  Access access(list_of("secret"));
  std::promise<void> begun, go;
  const auto may_go = go.get_future().share();
  ASSERT_TRUE(access.check("app", "secret", [&begun, may_go](bool) {
    begun.set_value();
    may_go.wait();
  }));
  begun.get_future().wait();
  ASSERT_TRUE(access.check("app", "secret", [](bool) { ADD_FAILURE() << "after the stop"; }));
  std::thread stopping([&] { access.stop(); });
  while (access.check("app", "secret", [](bool) { ADD_FAILURE() << "after the stop"; }))
    std::this_thread::yield();
  go.set_value();
  stopping.join();
}

}  // namespace
}  // namespace sluice::access
