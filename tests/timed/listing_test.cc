// Lists of counters over the admin port do not delay the requests of the real program, with one
// worker: not even with a million counters of ten thousand rules.
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

// A server with `counters` counters of `rules` rules, whose names begin with `divvy:t`. Other
// requests match its default rule.
class Listed {
 public:
  Listed(int counters, int rules)
      : server_("rules.ini", policy(rules),
                {.arguments = {"--admin", "127.0.0.1:0", "--workers", "1"}}),
        admin_(await_listening(server_.process(), "admin")),
        asker_(server_.client()) {
    constexpr int block = 10'000;
    for (int i = 0; i < counters; i += block) {
      std::string lines;
      for (int n = i; n < i + block; ++n)
        lines += "HIT t=" + std::to_string(n % rules) + " who=" + std::to_string(n) + "\n";
      std::thread sender([&] { asker_.send(lines); });
      int answered = 0;
      while (answered < block && asker_.read_line()) ++answered;
      sender.join();
      EXPECT_EQ(answered, block);
    }
  }

  void expect_page(size_t limit) const {
    const auto answer =
        http_get(admin_, "/v1/counters?prefix=divvy:t&limit=" + std::to_string(limit));
    EXPECT_EQ(answer.status, 200);
    EXPECT_NE(answer.body.find("\"divvy:t=0:0:10:86400\""), std::string::npos);
    EXPECT_NE(answer.body.find("\"next\""), std::string::npos);
  }
  std::string ask_another(int n) { return asker_.ask("HIT other=1 who=" + std::to_string(n)); }

 private:
  static std::string policy(int rules) {
    std::string text;
    for (int i = 0; i < rules; ++i)
      text += "[t=" + std::to_string(i) +
              "]\ncreditLimit = 10\nresetSeconds = 86400\nactorField = who\n";
    return text + "[default]\ncreditLimit = 1000000000\nresetSeconds = 86400\nactorField = who\n";
  }

  DivvyServer server_;
  uint16_t admin_;
  TcpClient asker_;
};

TEST(Listing, RequestsAreAnsweredDuringAListing) {
  constexpr int pages = 5;
  Listed listed(10'000, 100);
  std::atomic<bool> listing{true};
  std::thread other([&] {
    for (int i = 0; i < pages; ++i) listed.expect_page(100);
    listing = false;
  });
  int n = 0;
  do {
    const std::string answer = listed.ask_another(n++);
    EXPECT_TRUE(answer.starts_with("OK true 999999999 ")) << answer;
  } while (listing);
  other.join();
}

// Stretches of time with one page after the other alternate with stretches without pages, and are
// compared with them, because other processes use the machine too.
TEST(ListingInTime, AMillionCountersOfTenThousandRulesDelayNoRequest) {
  SLUICE_HOLDS_TIMES();
  constexpr int stretches = 10;
  constexpr auto stretch = 400ms;
  constexpr double delay_max_ms = 1;
  Listed listed(1'000'000, 10'000);
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
          listed.expect_page(1000);
          took.push_back(milliseconds(steady_clock::now() - begin));
        }
      });
    }
    double longest = 0;
    const auto end = steady_clock::now() + stretch;
    for (int n = 0; steady_clock::now() < end; ++n) {
      const auto begin = steady_clock::now();
      listed.ask_another(n);
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
