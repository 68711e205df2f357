// A list of counters over the admin port, in time: a million counters and ten thousand rules, and
// a worker that answers as if nobody asked for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/divvy_server.h"
#include "tests/support/http_client.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

double milliseconds(steady_clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

double quantile(std::vector<double> all, double q) {
  const auto at = static_cast<size_t>(static_cast<double>(all.size() - 1) * q);
  std::nth_element(all.begin(), all.begin() + static_cast<ptrdiff_t>(at), all.end());
  return all[at];
}

// Stretches of time in which pages are asked for all the time are held against ones in which none
// are, in turn, as other processes share the machine.
TEST(ListingInTime, AMillionCountersOfTenThousandRulesHoldUpNobody) {
  SLUICE_HOLDS_TIMES();
  constexpr int counters = 1'000'000, rules = 10'000, stretches = 10, block = 10'000;
  constexpr auto stretch = 400ms;
  constexpr double delay_max_ms = 1;
  std::string policy;
  for (int i = 0; i < rules; ++i)
    policy +=
        "[t=" + std::to_string(i) + "]\ncreditLimit = 10\nresetSeconds = 86400\nactorField = who\n";
  DivvyServer server("rules.ini",
                     policy +
                         "[default]\ncreditLimit = 1000000000\nresetSeconds = 86400\n"
                         "actorField = who\n",
                     {.arguments = {"--admin", "127.0.0.1:0", "--workers", "1"}});
  const uint16_t admin = await_listening(server.process(), "admin");
  auto asker = server.client();
  for (int i = 0; i < counters; i += block) {
    std::string lines;
    for (int n = i; n < i + block; ++n)
      lines += "HIT t=" + std::to_string(n % rules) + " who=" + std::to_string(n) + "\n";
    std::thread sender([&] { asker.send(lines); });
    for (int n = 0; n < block; ++n) ASSERT_TRUE(asker.read_line());
    sender.join();
  }
  std::vector<double> worst[2], all[2];
  std::vector<double> took;
  for (int i = 0; i < 2 * stretches; ++i) {
    const bool listing = i % 2 == 0;
    std::atomic<bool> stop{false};
    std::thread other;
    if (listing) {
      other = std::thread([&] {
        while (!stop) {
          const auto begin = steady_clock::now();
          const auto answer = http_get(admin, "/v1/counters?prefix=divvy:t&limit=1000");
          took.push_back(milliseconds(steady_clock::now() - begin));
          EXPECT_EQ(answer.status, 200);
          EXPECT_NE(answer.body.find("\"divvy:t=0:0:10:86400\""), std::string::npos);
          EXPECT_NE(answer.body.find("\"next\""), std::string::npos);
        }
      });
    }
    double longest = 0;
    const auto end = steady_clock::now() + stretch;
    for (int n = 0; steady_clock::now() < end; ++n) {
      const auto begin = steady_clock::now();
      asker.ask("HIT other=1 who=" + std::to_string(n));
      const double waited = milliseconds(steady_clock::now() - begin);
      all[listing].push_back(waited);
      longest = std::max(longest, waited);
    }
    worst[listing].push_back(longest);
    stop = true;
    if (other.joinable()) other.join();
  }
  size_t longer = 0;
  for (const double with : worst[1])
    for (const double without : worst[0]) longer += with > without + delay_max_ms ? 1 : 0;
  const double part = static_cast<double>(longer) / (stretches * stretches);
  const double with = quantile(all[1], 0.999), without = quantile(all[0], 0.999);
  std::cout << took.size() << " pages of 1000, median: " << quantile(took, 0.5)
            << " ms. Wait for a reply, median: " << quantile(all[1], 0.5) << " ms with lists, "
            << quantile(all[0], 0.5) << " ms without; p99.9: " << with << " and " << without
            << " ms; longest of a stretch, median: " << quantile(worst[1], 0.5) << " and "
            << quantile(worst[0], 0.5) << " ms; more than " << delay_max_ms << " ms apart in "
            << part * 100 << " % of all pairs\n";
  EXPECT_GE(took.size(), size_t{stretches});
  EXPECT_LE(with - without, delay_max_ms);
  EXPECT_LT(part, 0.9);
}

}  // namespace
}  // namespace sluice::tests
