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
  EXPECT_EQ(world.say("EXISTS x\nTTL x\nDEL x\nEXISTS x\n"), ":1\r\n:-1\r\n:1\r\n:0\r\n")
      << "the bucket is left out, and a part of the counter";
}

// Of limits that come with requests, whatever these are.
TEST(Keys, AreCountersUnderAnyLimits) {
  World world;
  world.say("SLUICE.TAKE KEY u LIMIT 5 1h\n");
  for (const char* look : {"SLUICE.PEEK", "SLUICE.EXPLAIN", "SLUICE.PUT", "SLUICE.RESET"})
    world.say(look + std::string(" KEY other LIMIT 3 1m ALGORITHM sliding_log\n"));
  EXPECT_EQ(world.say("EXISTS u other\nTTL u\n"), ":1\r\n:720\r\n");
  world.say("SLUICE.TAKE KEY u LIMIT 3 1m ALGORITHM sliding_log LIMIT 1 1s\n");
  EXPECT_EQ(world.say("EXISTS u\nTTL u\n"), ":1\r\n:720\r\n") << "the first limit is kept";
  EXPECT_EQ(world.say("DEL u\nEXISTS u\nTTL u\n"), ":1\r\n:0\r\n:-2\r\n");
  EXPECT_EQ(world.numbers("SLUICE.TAKE KEY u LIMIT 5 1h"), "1 5 4 0 720000");
  now_us += 720 * second;
  EXPECT_EQ(world.say("EXISTS u\nTTL u\nDEL u\n"), ":0\r\n:-2\r\n:0\r\n");
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
