// The processor time that a request costs the client library, against the real server.
#include <gtest/gtest.h>
#include <sluice/client.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "tests/client/peers.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using namespace std::chrono_literals;

double processor_us() {
  timespec used{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e6 + static_cast<double>(used.tv_nsec) / 1e3;
}

// Processor time of this process for each request, in microseconds, with 50 requests under way on
// one connection: the best of three rounds.
double cost_us(const std::string& address, const client_request& request) {
  constexpr int rounds = 3, under_way = 50, requests = 100'000;
  client one(address);
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    int sent = 0, ended = 0, failed = 0;
    client_handler again = [&](client_result&& result) {
      ++ended;
      failed += result.error == client_errc::none ? 0 : 1;
      if (sent == requests) return;
      ++sent;
      one.submit(request, again);
    };
    const double begin = processor_us();
    for (; sent < under_way; ++sent) one.submit(request, again);
    while (ended < requests) one.poll(1s);
    best = std::min(best, (processor_us() - begin) / requests);
    EXPECT_EQ(failed, 0);
  }
  return best;
}

TEST(ClientCost, FiftyUnderWayCostAtMost1200NanosecondsEach) {
  SLUICE_HOLDS_TIMES();
  ServerOfAll server;
  client_request by_rules, by_key, by_type;
  by_rules.subject.entries = {{"ip", "10.0.0.7"}};
  by_key.subject.key = "user:17";
  by_key.subject.limits = {{1'000'000'000, 1h}};
  by_type.subject.type = "ip";
  by_type.subject.key = "10.0.0.7";
  const double line = cost_us(server.address("divvy"), by_rules);
  const double resp = cost_us(server.address("resp"), by_key);
  std::printf("client, us of processor time a request: divvy %.2f, resp %.2f (at most 1.2 each)\n",
              line, resp);
  std::printf("client, no bound: limitd %.2f, droplet %.2f, http %.2f\n",
              cost_us(server.address("limitd"), by_type),
              cost_us(server.address("droplet", "ws"), by_key),
              cost_us(server.address("http"), by_key));
  EXPECT_LE(line, 1.2);
  EXPECT_LE(resp, 1.2);
}

}  // namespace
}  // namespace sluice::tests
