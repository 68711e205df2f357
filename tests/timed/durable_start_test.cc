// A server on a store of ten million counters answers within a second of its start: it fetches a
// counter that is not loaded yet when a request needs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>

#include "base/clock.h"
#include "limit/limit.h"
#include "request/charge.h"
#include "request/space.h"
#include "store/log/tools.h"
#include "tests/support/divvy_server.h"
#include "tests/support/environment.h"
#include "tests/support/patience.h"
#include "tests/support/process_stats.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr Milliseconds first_reply_max = 1s;
constexpr int64_t quota = 100;
constexpr base::Duration window = base::seconds(1'000'000);

// Where times are not asserted, the test only checks the answers, with fewer counters.
uint64_t counters() {
  return number_from_environment<uint64_t>("SLUICE_START_COUNTERS",
                                           holds_times() ? 10'000'000 : 20'000);
}

std::string key_of(uint64_t number) {
  return "user-" + std::to_string(number);
}

// Every counter was used just now: one unit, or all units if its number ends in 7.
void fill(const std::string& path, const std::string& space_of_rule, uint64_t count) {
  request::Spaces spaces;
  base::Clock clock;
  const size_t cut = space_of_rule.find('|');
  const request::Space* const space =
      spaces.intern(space_of_rule.substr(0, cut), space_of_rule.substr(cut + 1));
  const std::array limits{
      limit::Limit{.algorithm = limit::Algorithm::fixed_window, .quota = quota, .window = window}};
  const uint32_t limits_id = spaces.intern_limits(limits);
  const int64_t now_us = clock.now().us;
  auto importer = disk::Importer::open(path, clock.now(), spaces);
  ASSERT_TRUE(importer) << importer.problem().text;
  for (uint64_t i = 0; i < count; ++i) {
    const limit::State cell{now_us + window.us, i % 10 == 7 ? quota : 1};
    ASSERT_TRUE((*importer)->add(*space, limits_id, key_of(i), cell));
  }
  const base::Done finished = (*importer)->finish();
  ASSERT_TRUE(finished) << finished.problem().text;
}

class DurableStart : public testing::Test {
 protected:
  Process::Options options() const {
    return {.arguments = {"divvy", rules_, "--data", folder_.path() + "/data", "--memory", "4GiB"},
            .environment = {{"PORT", "0"}, {"SLUICE_LOG_LEVEL", "info"}}};
  }

  // Starts the server and sends it three requests at once: for a counter that is used up, for one
  // that is not, and for a new one. Then it is killed, or, with `whole`, waits until all counters
  // are loaded, and is stopped.
  void start(const char* after, uint64_t count, bool whole) {
    const auto began = steady_clock::now();
    Process process(options());
    const uint16_t port = await_listening(process);
    auto client = TcpClient::connect(port);
    ASSERT_TRUE(client);
    const uint64_t last = count - count % 10;
    const std::string used_up = client->ask("HIT k=v who=" + key_of(last - 3));
    const auto first = std::chrono::duration_cast<Milliseconds>(steady_clock::now() - began);
    EXPECT_TRUE(used_up.starts_with("OK false 0 ")) << used_up;
    const std::string other =
        client->ask("HIT k=v who=" + key_of(last - 4 - uint64_t{10} * started_));
    EXPECT_TRUE(other.starts_with("OK true 98 ")) << other;
    const std::string fresh = client->ask("HIT k=v who=new-" + std::to_string(started_++));
    EXPECT_TRUE(fresh.starts_with("OK true 99 ")) << fresh;
    const auto third = std::chrono::duration_cast<Milliseconds>(steady_clock::now() - began);
    if (holds_times()) {
      EXPECT_LT(first, first_reply_max);
      EXPECT_LT(third, first_reply_max);
    }
    std::printf(
        "start after %s: first reply after %lld ms, three after %lld ms (%lld ms of processor "
        "time)\n",
        after, static_cast<long long>(first.count()), static_cast<long long>(third.count()),
        static_cast<long long>(processor_time(process.pid()).count()));
    // With fewer, all counters are in the log, which is read before the server listens.
    if (whole && count >= 5'000'000) {
      ASSERT_TRUE(process.says(" counters loaded in ", within(120s))) << process.err();
      const std::string said = process.err();
      const size_t at = said.find(" counters loaded in ");
      std::printf("all %s; %lld MiB resident\n",
                  said.substr(said.rfind(' ', at - 1) + 1, said.find('\n', at) - at + 12).c_str(),
                  static_cast<long long>(resident_bytes(process.pid()) >> 20));
    }
    // SIGKILL mostly hits it while it loads.
    process.signal(whole ? SIGTERM : SIGKILL);
    EXPECT_EQ(process.wait(within(60s)), whole ? 0 : 128 + SIGKILL);
  }

  Folder folder_;
  const std::string rules_ = folder_.write(
      "rules.ini",
      "[k=v who=*]\ncreditLimit = 100\nresetSeconds = 1000000\nactorField = who\n\n[default]\n"
      "creditLimit = 0\n");
  unsigned started_ = 0;
};

TEST_F(DurableStart, TheFirstRequestsAreAnsweredWithinASecond) {
  const uint64_t count = counters();
  const auto began = steady_clock::now();
  // The rule's name, as `sluice explain` prints it: divvy:PATTERN:ACTOR:QUOTA:WINDOW.
  fill(folder_.path() + "/data", "divvy:k=v who=*:|:100:1000000", count);
  if (HasFatalFailure()) return;
  uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path()))
    if (file.is_regular_file()) bytes += file.file_size();
  std::printf("%llu counters written in %.1f s, %llu MiB of files\n",
              static_cast<unsigned long long>(count),
              std::chrono::duration<double>(steady_clock::now() - began).count(),
              static_cast<unsigned long long>(bytes >> 20));
  start("a clean stop", count, false);
  start("kill -9", count, true);
  start("a clean stop of the server", count, false);
  start("kill -9 while it loaded", count, false);
}

}  // namespace
}  // namespace sluice::tests
