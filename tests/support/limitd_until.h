// An override of limitd's configuration file ends while requests wait under it: the expected
// result, for any store.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>

#include "base/rfc3339.h"
#include "tests/support/limitd_client.h"

namespace sluice::tests {

// One request waits for more units than the bucket has without the override, and one after it in
// the queue for fewer. When the override ends, the first can never be granted, and must not delay
// any other. `db`, `environment`: the server's; they name its store. `ready`: a text of its log
// that must appear before the first request.
inline void expect_an_end_wakes_what_waits(
    const std::string& db, const std::map<std::string, std::string>& environment = {},
    const std::string& ready = {}) {
  // On a busy machine a short override ends before the requests wait: try again with a longer one.
  for (int seconds = 2; seconds <= 32; seconds *= 2) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
    const std::string until = base::format_rfc3339({us + seconds * 1'000'000});
    LimitdServer server(
        "db: " + db + "\nbuckets:\n  ip: { size: 3, override: { vip: { size: 9, until: " + until +
            " } } }\n",
        {.environment = environment});
    if (!ready.empty()) {
      ASSERT_TRUE(server.process().says(ready));
    }
    LimitdClient client = server.client();
    if (client.take("ip", "vip", 2).limit != 9) continue;
    const auto large = client.send({LimitdMethod::wait, "ip", "vip", 8});
    EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");  // so `large` waits by now
    const auto small = client.send({LimitdMethod::wait, "ip", "vip", 1});
    const auto refused = client.take("ip", "vip", 1);
    if (refused.conformant || refused.limit != 9) continue;
    const auto reply = client.await(small);
    ASSERT_TRUE(reply);
    EXPECT_TRUE(reply->conformant && reply->delayed);
    EXPECT_EQ(reply->limit, 3);
    EXPECT_EQ(reply->remaining, 2);  // seven units were left, and three fit
    // The large request waits on, and delays no other.
    EXPECT_TRUE(client.take("ip", "vip", 2).conformant);
    EXPECT_EQ(client.ask({LimitdMethod::get, "ip", "vip"}).remaining, 0);
    EXPECT_EQ(client.unclaimed(), 0u);
    (void)large;
    return;
  }
  FAIL() << "the machine is too busy";
}

}  // namespace sluice::tests
