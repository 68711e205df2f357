// Lists and pages of stored names by SCAN (redis/redis_store.h), from a peer that answers what the
// test wants.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/hash.h"
#include "redis/peer_test.h"
#include "redis/redis_store.h"
#include "redis/shared.h"
#include "request/space.h"

namespace sluice::redis {
namespace {

struct ScanTest : testing::Test {
  ScanTest() {
    peer.listen();
    options.nodes = {
        {"127.0.0.1", ntohs(reinterpret_cast<const sockaddr_in&>(peer.address.storage).sin_port)}};
  }
  // The keys that a list, or with `stored` a page of names, returns if each step has the same
  // answer.
  std::vector<std::string> list(const std::string& answer, bool stored = false) {
    auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
    Shared shared(options, spaces, std::move(table), nullptr, nullptr);
    shared.resolve();
    shared.first.await(std::chrono::seconds(20));
    std::thread redis([&] {
      if (!peer.accept()) return;
      while (!done && !peer.heard("SCAN").empty()) {
        ++steps;
        if (steps == ends_at) shared.ending = true;
        peer.say(answer);
      }
    });
    const request::Space* const all[] = {&space};
    const auto found = stored ? read_scan_page(shared, request::SpaceIndex(all), "", "", 100).keys
                              : listed(shared);
    done = true;
    redis.join();
    return found;
  }

  std::vector<std::string> listed(Shared& shared) {
    store::ListPass pass({100, SIZE_MAX});
    pass.add(space, "");
    scan(shared, pass);
    return pass.take(0);
  }

  Peer peer;
  Options options;
  request::Spaces spaces;
  const request::Space& space = *spaces.intern("s:", "");
  std::atomic<bool> done{false};
  int steps = 0, ends_at = 0;
};

TEST_F(ScanTest, AListIsOverWhenTheServerStops) {
  ends_at = 3;
  // The answer's cursor never becomes 0.
  const auto found = list("*2\r\n$1\r\n5\r\n*1\r\n$10\r\nsluice:s:k\r\n");
  EXPECT_EQ(found, std::vector<std::string>{"k"});
  EXPECT_EQ(steps, 3);
}

// One pass with the prefix that all lists have in common; each list gets its own keys.
TEST_F(ScanTest, ManyListsAreOnePass) {
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
  Shared shared(options, spaces, std::move(table), nullptr, nullptr);
  shared.resolve();
  shared.first.await(std::chrono::seconds(20));
  const request::Space& other = *spaces.intern("s2:", ":end");
  std::vector<std::string> heard;
  std::thread redis([&] {
    if (!peer.accept()) return;
    for (std::string one; !done && !(one = peer.heard("SCAN")).empty();) {
      heard.push_back(one);
      std::string keys;
      for (const std::string key :
           {"sluice:s:ab", "sluice:s:b", "sluice:s2:ab:end", "sluice:s2:ab"})
        keys += "$" + std::to_string(key.size()) + "\r\n" + key + "\r\n";
      peer.say("*2\r\n$1\r\n0\r\n*4\r\n" + keys);
    }
  });
  store::ListPass pass({100, SIZE_MAX});
  pass.add(space, "");
  pass.add(space, "a");
  pass.add(other, "a");
  pass.add(other, "b");
  scan(shared, pass);
  done = true;
  redis.join();
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_NE(heard[0].find("\r\nsluice:s*\r\n"), std::string::npos) << heard[0];
  EXPECT_EQ(pass.take(0), (std::vector<std::string>{"ab", "b"}));
  EXPECT_EQ(pass.take(1), std::vector<std::string>{"ab"});
  EXPECT_EQ(pass.take(2), std::vector<std::string>{"ab"});
  EXPECT_EQ(pass.take(3), std::vector<std::string>{});
  EXPECT_FALSE(pass.failed(0));
}

TEST_F(ScanTest, AnInvalidAnswerEndsAList) {
  for (const std::string answer : {"-NOPERM no\r\n", "+OK\r\n", "*2\r\n$1\r\n5\r\n:1\r\n",
                                   "*1\r\n$1\r\n5\r\n", "*2\r\n:5\r\n*0\r\n", "HTTP/1.1 400\r\n"}) {
    steps = 0;
    done = false;
    EXPECT_TRUE(list(answer).empty()) << answer;
    EXPECT_EQ(steps, 1) << answer;
    peer.hang_up();
  }
  done = false;
  EXPECT_TRUE(list("*2\r\n$1\r\n0\r\n*2\r\n:1\r\n*-1\r\n").empty());
}

// A page that did not cover all says where the next one must continue.
TEST_F(ScanTest, ASearchContinuesWhereTheLastOneEnded) {
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
  Shared shared(options, spaces, std::move(table), nullptr, nullptr);
  shared.resolve();
  shared.first.await(std::chrono::seconds(20));
  request::Space like;
  like.encoding = request::KeyEncoding::remaining_text;
  const request::Space* const all[] = {&space, spaces.intern("d:", "", like)};
  const request::SpaceIndex index(all);
  std::vector<std::string> asked;
  std::thread redis([&] {
    // Names of one form take three steps, those of the other two.
    const char* const cursors[] = {"5", "9", "0", "7", "0"};
    const char* const keys[] = {"sluice:s:b", "sluice:s:a", "sluice:s:c", "d:x", "d:y"};
    for (size_t i = 0; i < std::size(keys);) {
      if (!peer.accept()) return;
      for (std::string heard; i < std::size(keys) && !(heard = peer.heard("SCAN")).empty(); ++i) {
        const size_t at = heard.find("SCAN\r\n");
        asked.push_back(heard.substr(at + 6, 5));
        const std::string key = keys[i];
        peer.say(std::string("*2\r\n$1\r\n") + cursors[i] + "\r\n*1\r\n$" +
                 std::to_string(key.size()) + "\r\n" + key + "\r\n");
      }
      peer.hang_up();
    }
  });
  std::vector<std::vector<std::string>> found;
  std::vector<std::string> rests;
  std::string from;
  do {
    const auto stored = read_scan_page(shared, index, "", "", 100, from, {.keys = 2000});
    EXPECT_FALSE(stored.failed);
    found.push_back(stored.keys);
    rests.push_back(from = stored.rest);
  } while (!from.empty() && rests.size() < 9);
  redis.join();
  EXPECT_EQ(rests, (std::vector<std::string>{"09", "17", ""}));
  EXPECT_EQ(found,
            (std::vector<std::vector<std::string>>{{"s:a", "s:b"}, {"d:x", "s:c"}, {"d:y"}}));
  EXPECT_EQ(asked,
            (std::vector<std::string>{"$1\r\n0", "$1\r\n5", "$1\r\n9", "$1\r\n0", "$1\r\n7"}));
}

// A page whose time is up ends, and says where. Another page of the part that was scanned returns
// nothing of what follows it, however much time it has.
TEST_F(ScanTest, ASearchEndsWhenItsTimeIsUp) {
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
  Shared shared(options, spaces, std::move(table), nullptr, nullptr);
  shared.resolve();
  shared.first.await(std::chrono::seconds(20));
  const request::Space* const all[] = {&space};
  const request::SpaceIndex index(all);
  std::thread redis([&] {
    while (!done) {
      if (!peer.accept()) return;
      std::string heard;
      while (!(heard = peer.heard("SCAN")).empty()) {
        ++steps;
        const bool first = heard.find("SCAN\r\n$1\r\n0") != heard.npos;
        peer.say(first ? "*2\r\n$1\r\n5\r\n*2\r\n$10\r\nsluice:s:c\r\n$10\r\nsluice:s:d\r\n"
                       : "*2\r\n$1\r\n0\r\n*2\r\n$10\r\nsluice:s:a\r\n$10\r\nsluice:s:b\r\n");
      }
      peer.hang_up();
    }
  });
  const Reach none{.time = std::chrono::milliseconds(0)}, enough{.time = std::chrono::hours(1)};
  const auto first = read_scan_page(shared, index, "", "", 1, "", none);
  EXPECT_EQ(first.keys, std::vector<std::string>{"s:c"});
  EXPECT_EQ(first.rest, "05");
  EXPECT_EQ(steps, 1);
  const auto same = read_scan_page(shared, index, "", "s:c", 1, first.again, enough);
  EXPECT_EQ(same.keys, std::vector<std::string>{"s:d"});
  EXPECT_EQ(same.rest, "05");
  EXPECT_EQ(same.again, first.again);
  EXPECT_EQ(steps, 2);
  const auto second = read_scan_page(shared, index, "", "", 1, same.rest, none);
  EXPECT_EQ(second.keys, std::vector<std::string>{"s:a"});
  EXPECT_EQ(second.rest, "");
  const auto last = read_scan_page(shared, index, "", "s:a", 1, second.again, none);
  EXPECT_EQ(last.keys, std::vector<std::string>{"s:b"});
  EXPECT_EQ(steps, 4);
  done = true;
  redis.join();
}

TEST_F(ScanTest, RejectsAnInvalidStartOfASearch) {
  auto table = store::EmbeddedStore::open(options.local_bytes, base::Hash(1), spaces);
  Shared shared(options, spaces, std::move(table), nullptr, nullptr);
  const request::Space* const all[] = {&space};
  for (const char* from : {"0", "0x", "0-1", "21", "0\r\n", "05.", "05.0", ".5", "05.1.1", "05k",
                           "018446744073709551616", "05.18446744073709551616"}) {
    const auto stored = read_scan_page(shared, request::SpaceIndex(all), "", "", 1, from);
    EXPECT_TRUE(stored.unknown) << from;
    EXPECT_FALSE(stored.failed) << from;
  }
  EXPECT_FALSE(
      read_scan_page(shared, request::SpaceIndex(all), "", "", 1, "018446744073709551615.1")
          .unknown);
}

// The server ignores the pattern of SCAN, so the keys are filtered here.
TEST_F(ScanTest, SkipsKeysOutsideThePattern) {
  for (const bool stored : {false, true}) {
    done = false;
    const auto found = list(
        "*2\r\n$1\r\n0\r\n*4\r\n$1\r\nx\r\n$0\r\n\r\n$12\r\nsomething:s:\r\n$11\r\nsluice:s:ok\r\n",
        stored);
    EXPECT_EQ(found, std::vector<std::string>{stored ? "s:ok" : "ok"});
    peer.hang_up();
  }
}

}  // namespace
}  // namespace sluice::redis
