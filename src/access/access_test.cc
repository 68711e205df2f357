// The thread that checks passwords (access/access.h): bounds, turns of the sources, and the stop.
#include "access/access.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace sluice::access {
namespace {

// The hash of "secret", with the fewest rounds possible.
constexpr const char* hash_of_secret =
    "$5$rounds=1000$pepper$JROTJSt4tiA47bQ/K0e5W4RN/7VOstexNBFc.0mB6w9";

std::shared_ptr<const Users> list_of(const std::string& password) {
  return std::make_shared<const Users>(std::vector<User>{{"app", {Right::take}, "", password}});
}

// Keeps the thread busy until it is released, with a check of app's password `secret`.
class Held {
 public:
  explicit Held(Access& access) {
    EXPECT_TRUE(access.check("app", "secret", "a", [this, may_go = go_.get_future().share()](bool) {
      begun_.set_value();
      may_go.wait();
    }));
    begun_.get_future().wait();
  }
  void release() { go_.set_value(); }

 private:
  std::promise<void> begun_, go_;
};

bool check(Access& access, const std::string& name, const std::string& password) {
  std::promise<bool> told;
  EXPECT_TRUE(access.check(name, password, "a", [&](bool right) { told.set_value(right); }));
  return told.get_future().get();
}

TEST(Access, ChecksPasswordsOnItsOwnThread) {
  Access access(list_of("secret"));
  std::promise<std::thread::id> told;
  ASSERT_TRUE(access.check("app", "secret", "a", [&](bool right) {
    EXPECT_TRUE(right);
    told.set_value(std::this_thread::get_id());
  }));
  EXPECT_NE(told.get_future().get(), std::this_thread::get_id());
  EXPECT_FALSE(check(access, "app", "other"));
}

TEST(Access, UsesTheLiveListOfUsers) {
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

TEST(Access, BoundsTheQueuedPasswordChecks) {
  Access access(list_of("secret"));
  Held held(access);  // this check is running, not waiting
  size_t wrong = 0;
  for (size_t i = 0; i < Access::checks_of_source_max; ++i)
    ASSERT_TRUE(access.check("app", "other", "a", [&](bool its) { wrong += its ? 0 : 1; })) << i;
  EXPECT_FALSE(access.check("app", "other", "a", [](bool) { ADD_FAILURE(); }));
  std::promise<void> all;
  held.release();
  while (!access.check("app", "other", "a", [&](bool) { all.set_value(); }))
    std::this_thread::yield();
  all.get_future().wait();
  EXPECT_EQ(wrong, Access::checks_of_source_max);
}

// Many clients connect again while one guesses passwords.
TEST(Access, AnswersKnownPasswordsBeforeThoseItMustHash) {
  Access access(std::make_shared<const Users>(std::vector<User>{{"app", {}, hash_of_secret, ""}}));
  EXPECT_TRUE(check(access, "app", "secret"));
  Held held(access);
  std::vector<std::string> answered;
  std::promise<void> guessed;
  ASSERT_TRUE(access.check("app", "guess", "a", [&](bool right) {
    answered.emplace_back(right ? "guess is right" : "guess is wrong");
    guessed.set_value();
  }));
  for (size_t i = 1; i < Access::checks_of_source_max; ++i)
    ASSERT_TRUE(access.check("", "guess", "a", [](bool) {})) << i;
  ASSERT_FALSE(access.check("app", "guess", "a", [](bool) {}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(access.check("app", "secret", "a", [&](bool right) {
      answered.emplace_back(right ? "secret is right" : "secret is wrong");
    }));
  }
  held.release();
  guessed.get_future().wait();
  const std::vector<std::string> expected = {"secret is right", "secret is right",
                                             "guess is wrong"};
  EXPECT_EQ(answered, expected);
}

TEST(Access, ServesSourcesInTurn) {
  Access access(list_of("secret"));
  Held held(access);
  std::string order;
  std::promise<void> all;
  for (const char* source : {"b", "b", "b", "a", "c", "a"})
    ASSERT_TRUE(access.check("app", "other", source, [&order, source](bool) { order += source; }));
  // Fills the queue to the bound for all sources together.
  size_t others = 6;
  for (int source = 0; others < Access::checks_max; ++source) {
    const std::string name = "d" + std::to_string(source);
    for (size_t i = 0; i < Access::checks_of_source_max && others < Access::checks_max;
         ++i, ++others)
      ASSERT_TRUE(access.check("app", "other", name, [](bool) {}));
  }
  EXPECT_FALSE(access.check("app", "other", "e", [](bool) { ADD_FAILURE(); }));
  held.release();
  while (!access.check("app", "other", "b", [&](bool) { all.set_value(); }))
    std::this_thread::yield();
  all.get_future().wait();
  EXPECT_EQ(order, "abcabb");
}

TEST(Access, AnswersNothingAfterItsStop) {
  Access access(list_of("secret"));
  Held held(access);
  ASSERT_TRUE(access.check("app", "secret", "a", [](bool) { ADD_FAILURE() << "after the stop"; }));
  std::thread stopping([&] { access.stop(); });
  while (access.check("app", "secret", "a", [](bool) { ADD_FAILURE() << "after the stop"; }))
    std::this_thread::yield();
  held.release();
  stopping.join();
}

}  // namespace
}  // namespace sluice::access
