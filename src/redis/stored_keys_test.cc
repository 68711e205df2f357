// Keys of a single Redis and their names in a cluster (redis/stored_keys.h): which keys are
// counters, and which of two values stays.
#include "redis/stored_keys.h"

#include <gtest/gtest.h>

#include "redis/slots.h"
#include "request/space.h"

namespace sluice::redis::stored_keys_test {
namespace {

using Ending = KeyFamily::Ending;
using request::KeyEncoding;

constexpr int64_t now_ms = 1'800'000'000'000;
constexpr base::Time now{now_ms * 1'000};
const std::string own_value = "s1;f3,3600000000,0 1800000060000000 1";

// Rules with every encoding of keys.
class Rules {
 public:
  explicit Rules(bool tats = false) {
    add("native:api:", ":r:fixed_window");
    add("bucket:fixed:", "");
    add("inline:", "", Ending::algorithms);
    add("shared:a=b:", ":10:60", Ending::numbers, KeyEncoding::remaining_text);
    request::Space window;
    window.encoding = KeyEncoding::window_text;
    window.private_bytes = 9;
    families_.push_back({spaces_.intern("hourly60:pre_", "", window)});
    if (tats) add("", "", Ending::suffix, KeyEncoding::tat_text);
  }
  StoredKeys keys(const std::string& prefix = "sluice:") const { return {families_, prefix}; }

 private:
  void add(const char* prefix, const char* suffix, Ending ending = Ending::suffix,
           KeyEncoding encoding = KeyEncoding::own) {
    request::Space like;
    like.encoding = encoding;
    families_.push_back({spaces_.intern(prefix, suffix, like), ending});
  }
  request::Spaces spaces_;
  std::vector<KeyFamily> families_;
};

// The counter's name in a cluster; empty: the key is not a counter.
std::string name_of(const StoredKeys& keys, const std::string& name, const std::string& text,
                    int64_t expires_ms = now_ms + 60'000) {
  const auto found = keys.find(name, {text, expires_ms}, now);
  EXPECT_TRUE(!found || keys.may_be_counter(name)) << name;
  return found ? found->name : "";
}

std::string tagged(const std::string& actor, const std::string& rest) {
  std::string name = "sluice:";
  append_tag(name, actor);
  return name + rest;
}

TEST(StoredKeys, OwnKeysGetTheTagOfTheirActor) {
  const Rules rules;
  const StoredKeys keys = rules.keys();
  EXPECT_EQ(name_of(keys, "sluice:native:api:a:{b}:r:fixed_window", own_value),
            tagged("a:{b}", "native:api:a:{b}:r:fixed_window"));
  EXPECT_EQ(name_of(keys, "sluice:bucket:fixed:k", own_value), tagged("k", "bucket:fixed:k"));
  EXPECT_EQ(name_of(keys, "sluice:inline:k:x:fixed_window,token_bucket", own_value),
            tagged("k:x", "inline:k:x:fixed_window,token_bucket"));
  // Names with limits of other kinds than windows.
  EXPECT_EQ(name_of(keys, "sluice:hourly60:pre_d_k", own_value), tagged("d_k", "hourly60:pre_d_k"));
  EXPECT_EQ(name_of(keys, "sluice:inline:k:other", own_value), "");
  EXPECT_EQ(name_of(keys, "sluice:native:other:a:r:fixed_window", own_value), "");
  EXPECT_EQ(name_of(keys, "sluice:bucket:fixed:k", "17"), "");
  EXPECT_EQ(name_of(keys, "other:bucket:fixed:k", own_value), "");
  EXPECT_EQ(name_of(rules.keys("other:"), "sluice:bucket:fixed:k", own_value), "");
  EXPECT_FALSE(keys.may_be_counter("order_1"));
}

TEST(StoredKeys, SharedKeysKeepTheirNames) {
  const Rules rules;
  const StoredKeys keys = rules.keys();
  for (const char* name : {"shared:a=b:x:10:60", "shared:a=b:x:20:30", "pre_d_k_v_1799999940"})
    EXPECT_EQ(name_of(keys, name, "7"), name);
  EXPECT_EQ(name_of(keys, "shared:a=b:x:10:60", "seven"), "");
  EXPECT_EQ(name_of(keys, "shared:a=b:x:10:y", "7"), "");
  EXPECT_EQ(name_of(keys, "shared:c=d:x:10:60", "7"), "");
  // The window begins later, or the key expires before the window begins; or there is no window.
  EXPECT_EQ(name_of(keys, "pre_d_k_v_1800000060", "7"), "");
  EXPECT_EQ(name_of(keys, "pre_d_k_v_1799999940", "7", 1'799'999'900'000), "");
  EXPECT_EQ(name_of(keys, "pre_d_k_v", "7"), "");
}

TEST(StoredKeys, ASharedKeyMustExpireAtItsArrivalTime) {
  const std::string tat = "1800000060000000000";
  EXPECT_EQ(name_of(Rules(true).keys(), "user:1", tat), "user:1");
  EXPECT_EQ(name_of(Rules(true).keys(), "user:1", tat, now_ms + 90'000), "");
  EXPECT_EQ(name_of(Rules(true).keys(), "user:1", tat, no_end), "");
  EXPECT_EQ(name_of(Rules(true).keys(), "user:1", "17"), "");
  EXPECT_EQ(name_of(Rules().keys(), "user:1", tat), "");
}

// The value that replaces `stored` when it meets `other`; "=": it stays.
std::string merged(const std::string& stored, const std::string& other,
                   ValueForm form = ValueForm::own) {
  const auto more = more_used(form, {stored, 100}, {other, 50});
  EXPECT_TRUE(!more || more->expires_ms == 100);
  return more ? more->text : "=";
}

TEST(StoredKeys, TheValueWithMoreUsedStays) {
  const std::string head = "s1;f9,60000000,0;t9,60000000,9 ";
  EXPECT_EQ(merged(head + "100 3;200 5", head + "100 4;-"), head + "100 4;200 5");
  EXPECT_EQ(merged(head + "100 3;200 5", head + "100 3;200 5"), "=");
  EXPECT_EQ(merged(head + "-;200 5", head + "100 1;201 0"), head + "100 1;201 0");
  EXPECT_EQ(merged(head + "100 4;200 5", head + "100 3;200 4"), "=");
  EXPECT_EQ(merged("s1;b9,0,9 0 3", "s1;b9,0,9 0 4"), "s1;b9,0,9 0 4");
  // With other limits one of the values is taken as a whole.
  EXPECT_EQ(merged("s1;f9,60000000,0 100 3", "s1;f8,60000000,0 101 1"), "s1;f8,60000000,0 101 1");
  EXPECT_EQ(merged("s1;f9,60000000,0 100 3", "s1;f8,60000000,0 100 7"), "=");
  EXPECT_EQ(merged("s1;k 1 100 9 5 0", "s1;k 1 100 9 4 0"), "s1;k 1 100 9 4 0");
  EXPECT_EQ(merged("s1;k 1 100 9 5 0", "s1;k 1 101 9 6 0"), "s1;k 1 101 9 6 0");
  EXPECT_EQ(merged("s1;k 1 101 9 6 0", "s1;k 1 100 9 5 0"), "=");
  EXPECT_EQ(merged("hello", head + "100 3;200 5"), "=");
  EXPECT_EQ(merged("7", "6", ValueForm::remaining), "6");
  EXPECT_EQ(merged("6", "7", ValueForm::remaining), "=");
  EXPECT_EQ(merged("6", "7", ValueForm::window), "7");
  EXPECT_EQ(merged("7", "6", ValueForm::tat), "=");
  EXPECT_EQ(merged("x", "6", ValueForm::window), "=");
  EXPECT_EQ(more_used(ValueForm::window, {"6", 100}, {"7", no_end})->expires_ms, no_end);
}

}  // namespace
}  // namespace sluice::redis::stored_keys_test
