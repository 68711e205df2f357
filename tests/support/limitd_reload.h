// A reload while requests wait for units: the expected result, for any store.
#pragma once

#include <gtest/gtest.h>

#include <csignal>
#include <map>
#include <string>

#include "tests/support/limitd_client.h"

namespace sluice::tests {

// Waiting requests are decided again by the new types. `environment`: the server's; it names the
// store.
inline void expect_reload_asks_what_waits_again(
    const std::map<std::string, std::string>& environment) {
  const auto config = [](const std::string& buckets) {
    return "db: { inMemory: true }\nbuckets:\n" + buckets;
  };
  LimitdServer server(config("  ip: { size: 3 }\n  gone: { size: 3 }\n  same: { size: 3 }\n"),
                      {.environment = environment});
  LimitdClient client = server.client();
  for (const char* type : {"ip", "gone", "same"}) EXPECT_TRUE(client.take(type, "k", 3).conformant);
  const auto too_large = client.send({LimitdMethod::wait, "ip", "k", 5});
  const auto gone = client.send({LimitdMethod::wait, "gone", "k", 1});
  const auto same = client.send({LimitdMethod::wait, "same", "k", 2});
  EXPECT_EQ(client.ask({LimitdMethod::ping, "", ""}).kind, "pong");
  server.folder().write("config.yml", config("  ip: { size: 10 }\n  same: { size: 3 }\n"));
  server.process().signal(SIGHUP);
  const auto refused = client.await(gone);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->kind, "error");
  // With size 10, the 5 units can be granted once they are available.
  client.ask({LimitdMethod::put, "ip", "k", 6});
  const auto granted = client.await(too_large);
  ASSERT_TRUE(granted);
  EXPECT_TRUE(granted->conformant && granted->delayed);
  EXPECT_EQ(granted->remaining, 1);
  EXPECT_EQ(granted->limit, 10);
  EXPECT_EQ(client.unclaimed(), 0u);
  client.ask({LimitdMethod::put, "same", "k", 2});
  EXPECT_TRUE(client.await(same).value().conformant);
}

}  // namespace sluice::tests
