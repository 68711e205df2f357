// What an error of Redis means (redis/errors.h): to the request's reply, to a script, to a node of
// a cluster.
#include "redis/errors.h"

#include <gtest/gtest.h>

namespace sluice::redis {
namespace {

using request::Error;

TEST(Errors, AreClassifiedByTheirFirstWords) {
  EXPECT_EQ(error_of("WRONGTYPE Operation against a key holding the wrong kind of value script: x"),
            Error::wrong_type);
  EXPECT_EQ(error_of("ERR value is not an integer or out of range script: x"), Error::wrong_type);
  EXPECT_EQ(error_of("NONUMBER the value of k is not a number"), Error::no_number);
  EXPECT_EQ(error_of("OOM command not allowed when used memory > 'maxmemory'."), Error::no_space);
  EXPECT_EQ(error_of("READONLY You can't write against a read only replica."), Error::read_only);
  EXPECT_EQ(error_of("MASTERDOWN AsyncConnection with MASTER is down"), Error::read_only);
  EXPECT_EQ(error_of("NOREPLICAS Not enough good replicas to write."), Error::read_only);
  EXPECT_EQ(error_of("NOAUTH Authentication required."), Error::auth_failed);
  EXPECT_EQ(error_of("WRONGPASS invalid username-password pair or user is disabled."),
            Error::auth_failed);
  EXPECT_EQ(error_of("DENIED Redis is running in protected mode"), Error::auth_failed);
  EXPECT_EQ(error_of("ERR AUTH <password> called without any password configured"),
            Error::auth_failed);
  for (const char* other :
       {"", "ERR", "ERR max number of clients reached", "LOADING", "MOVED 1 a:2",
        "ERR DB index is out of range", "BUSY Redis is busy running a script"})
    EXPECT_EQ(error_of(other), Error::store) << other;
}

TEST(Errors, LoginErrorsNameTheirSettings) {
  EXPECT_EQ(remedy_of("WRONGPASS invalid username-password pair", redis_account),
            "; see store.redis.username and password");
  EXPECT_EQ(remedy_of("NOAUTH Authentication required.", "--from-user"), "; see --from-user");
  EXPECT_EQ(remedy_of("NOPERM User app has no permissions to run the 'time' command", ""),
            "; give its user the rights that docs/redis.md names");
  for (const char* other : {"", "LOADING", "ERR DB index is out of range"})
    EXPECT_EQ(remedy_of(other, redis_account), "") << other;
}

TEST(Errors, ErrorsInsideScriptsAreUnwrapped) {
  const std::string head =
      "ERR Error running script (call to f_0a9a51ee96320953ec7bde8e63f3f060b9dac00c): ";
  EXPECT_EQ(error_of(head + "@user_script:41: @user_script: 41: -OOM command not allowed"),
            Error::no_space);
  EXPECT_EQ(error_of(head + "@user_script:4: @user_script: 4: -READONLY You can't write"),
            Error::read_only);
  EXPECT_EQ(error_of(head + "@user_script:3: WRONGTYPE Operation against a key"),
            Error::wrong_type);
  EXPECT_EQ(error_of(head + "@user_script:8: @user_script: 8: -NOPERM The user executing"),
            Error::auth_failed);
  EXPECT_EQ(error_of(head + "@user_script:5: attempt to compare number with nil"), Error::store);
  EXPECT_EQ(error_of(head), Error::store);
  EXPECT_EQ(error_of(head + "@user_script"), Error::store);
  // A key in the text may have any words.
  EXPECT_EQ(error_of("ERR no such thing as @user_script: 1: -READONLY"), Error::store);
}

TEST(Errors, RecognizesErrorsOfClusterNodes) {
  for (const char* text :
       {"MOVED 3999 127.0.0.1:6381", "CROSSSLOT Keys in request don't hash to the same slot",
        "CLUSTERDOWN Hash slot not served", "ERR SELECT is not allowed in cluster mode",
        "ERR Script attempted to access a non local key in a cluster node",
        "ERR Error running script (call to f_0a9a): @user_script:4: @user_script: 4: -CROSSSLOT "
        "Keys in request"})
    EXPECT_TRUE(is_of_cluster(text)) << text;
  // A key in the text may have any words.
  for (const char* text : {"", "MOVED ", "MOVED away", "WRONGTYPE key MOVED 1 a:2",
                           "FOREIGN; key CROSSSLOT ", "ERR cluster support disabled"})
    EXPECT_FALSE(is_of_cluster(text)) << text;
}

}  // namespace
}  // namespace sluice::redis
