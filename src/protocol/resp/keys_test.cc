// DEL, EXISTS, TTL and the other commands about keys: which counters are those of a key. A session
// is served by an engine with the store in memory.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>

#include "protocol/resp/commands_world_test.h"

namespace sluice::resp::commands_test {
namespace {

TEST(Keys, AreTheCountersOfTheCommandsThatThrottle) {
  World world;
  EXPECT_EQ(world.say("TTL k\nPTTL k\nEXISTS k\nDEL k\n"), ":-2\r\n:-2\r\n:0\r\n:0\r\n");
  world.say("CL.THROTTLE k 4 1 60\n");
  now_us += 500'000;
  EXPECT_EQ(world.say("TTL k\nPTTL k\nEXISTS k nothing k\n"), ":60\r\n:59500\r\n:2\r\n");
  world.say("THROTTLE k 4 1 600\n");
  EXPECT_EQ(world.say("TTL k\nEXISTS k\n"), ":600\r\n:2\r\n");
  EXPECT_EQ(world.say("SELECT 1\nEXISTS k\nSELECT 0\nDEL k nothing\nEXISTS k\nTTL k\n"),
            "+OK\r\n:0\r\n+OK\r\n:2\r\n:0\r\n:-2\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE k 4 1 60"), "0 5 4 -1 60");
}

// The counter of a policy's rule is not a key's counter, whether all keys share it or it decides in
// place of the key's.
TEST(Keys, AreNotTheCountersOfAPolicysRules) {
  World world({},
              "- { match: { command: throttle }, limit: { quota: 3, window: 1h, algorithm: "
              "fixed_window }, then: continue }\n");
  for (const char* key : {"a", "b", "c"})
    EXPECT_EQ(world.numbers("THROTTLE " + std::string(key) + " 9 1 60").substr(0, 1), "1");
  EXPECT_EQ(world.say("EXISTS never\nTTL never\nDEL never\n"), ":0\r\n:-2\r\n:0\r\n");
  EXPECT_EQ(world.numbers("THROTTLE d 9 1 60"), "0 3 0 3600 3600") << "the rule's counter is full";
  EXPECT_EQ(world.say("EXISTS a\nDEL a\nEXISTS a\n"), ":1\r\n:1\r\n:0\r\n");
  EXPECT_EQ(world.numbers("THROTTLE d 9 1 60").substr(0, 1), "0");
  // For `vip*` a rule of the policy decides, so the key has no counter.
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60 2"), "0 2 0 -1 10");
  EXPECT_EQ(world.say("EXISTS vip1\nDEL vip1\n"), ":0\r\n:0\r\n");
  EXPECT_EQ(world.numbers("CL.THROTTLE vip1 99 1 60"), "1 2 0 10 10");
}

TEST(Keys, AFixedBucketExistsWhileItLacksUnits) {
  World world;
  const std::string bucket = "KEY x LIMIT 5 0 ALGORITHM fixed_bucket";
  const std::string all = "EXISTS x\nTTL x\nPTTL x\n";
  world.say("SLUICE.TAKE KEY other LIMIT 5 0 ALGORITHM fixed_bucket\n");
  EXPECT_EQ(world.numbers("SLUICE.PEEK " + bucket), "1 5 4 0 -1");
  EXPECT_EQ(world.say(all + "DEL x\n"), ":0\r\n:-2\r\n:-2\r\n:0\r\n");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + bucket), "0");
  EXPECT_EQ(world.numbers("SLUICE.TAKE " + bucket), "1 5 4 0 -1");
  EXPECT_EQ(world.say(all), ":1\r\n:-1\r\n:-1\r\n");
  EXPECT_EQ(world.numbers("SLUICE.PUT " + bucket), "5 5");
  EXPECT_EQ(world.say(all), ":0\r\n:-2\r\n:-2\r\n");
  world.numbers("SLUICE.TAKE " + bucket);
  EXPECT_EQ(world.numbers("SLUICE.RESET " + bucket), "1");
  EXPECT_EQ(world.numbers("SLUICE.RESET " + bucket), "0");
  world.numbers("SLUICE.TAKE " + bucket);
  world.numbers("SLUICE.TAKE KEY x LIMIT 5 1m");
  EXPECT_EQ(world.say("EXISTS x\nTTL x\nDEL x\nEXISTS x\n"), ":2\r\n:-1\r\n:2\r\n:0\r\n");
}

// The SLUICE command for `key`, `count` times, each with another list of algorithms.
std::string lists_of(const std::string& command, const std::string& key, size_t count) {
  static constexpr const char* algorithms[] = {"aligned_window", "fixed_window", "sliding_log",
                                               "token_bucket"};
  std::string all;
  for (size_t i = 0; i < count; ++i) {
    all += command + " KEY " + key;
    for (size_t at = 0, rest = i; at < 3; ++at, rest /= 4)
      all += std::string(" LIMIT 5 1h ALGORITHM ") + algorithms[rest % 4];
    all += '\n';
  }
  return all;
}

TEST(Keys, AreFoundWhateverOtherLimitsWerePeeked) {
  World world;
  world.say("SLUICE.TAKE KEY u LIMIT 5 1h\n");
  for (const char* look : {"SLUICE.PEEK", "SLUICE.EXPLAIN", "SLUICE.PUT", "SLUICE.RESET"})
    world.say(lists_of(look, "other", 40));
  EXPECT_EQ(world.inline_lists.all().size(), 1u);
  EXPECT_EQ(world.say("EXISTS u\nTTL u\nDEL u\nEXISTS u\n"), ":1\r\n:720\r\n:1\r\n:0\r\n");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY u LIMIT 5 1h"), "1 5 4 0 720000");
}

TEST(Keys, AreFoundByTheFirstListsThatWereCharged) {
  World world;
  constexpr size_t most = base::bounds::inline_lists_max;
  world.say(lists_of("SLUICE.TAKE", "u", most + 5));
  EXPECT_EQ(world.inline_lists.all().size(), most);
  EXPECT_EQ(world.numbers("EXISTS u"), std::to_string(most));
  EXPECT_EQ(world.numbers("DEL u"), std::to_string(most));
  EXPECT_EQ(world.numbers("EXISTS u"), "0");
  // The other counters can still be reset by commands with their lists of algorithms.
  size_t left = 0;
  const std::string resets = world.say(lists_of("SLUICE.RESET", "u", most + 5));
  for (size_t at = resets.find(":1"); at != resets.npos; at = resets.find(":1", at + 1)) ++left;
  EXPECT_EQ(left, 5u);
}

TEST(Keys, AreBoundedInACommand) {
  World world;
  const auto command = [](const std::string& name, size_t keys) {
    std::string text = name;
    for (size_t i = 0; i < keys; ++i) text += " k" + std::to_string(i);
    return text + "\n";
  };
  world.say("CL.THROTTLE k127 0 1 60\n");
  EXPECT_EQ(world.say(command("EXISTS", 128)), ":1\r\n");
  for (const char* name : {"EXISTS", "DEL", "UNLINK"})
    EXPECT_EQ(world.say(command(name, 129)), "-ERR a command takes at most 128 keys\r\n");
  EXPECT_EQ(world.say(command("DEL", 128)), ":1\r\n");
  EXPECT_EQ(world.say("EXISTS k127\n"), ":0\r\n");
}

}  // namespace
}  // namespace sluice::resp::commands_test
