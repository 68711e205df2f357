// A start of the store on disk reads its metadata, the texts beside the counters: all of them, and
// a million in less than a second of processor time.
#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/result_test.h"
#include "request/space.h"
#include "store/log/journal.h"
#include "tests/support/divvy_server.h"
#include "tests/support/patience.h"

namespace sluice::tests {
namespace {

using std::chrono::steady_clock;

// Where times are not asserted, the test only checks what is read.
const uint64_t texts = holds_times() ? 1'000'000 : 10'000;
constexpr uint64_t at_once = 1000;

// Of this thread: other processes may have the processors, and the disk may be slow.
double processor_seconds() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double seconds_since(steady_clock::time_point then) {
  return std::chrono::duration<double>(steady_clock::now() - then).count();
}

class Opened {
 public:
  explicit Opened(const std::string& path) {
    std::string problem;
    EXPECT_TRUE(
        succeeds(disk::Journal::open({.path = path, .now = [] { return base::Time{}; }}, spaces),
                 journal, problem))
        << problem;
  }
  request::Spaces spaces;
  std::unique_ptr<disk::Journal> journal;
};

TEST(KeptTexts, AreAllReadAndAMillionInASecond) {
  const Folder folder;
  {
    const Opened opened(folder.path());
    const auto began = steady_clock::now();
    std::mt19937_64 random(1);
    for (uint64_t i = 0; i < texts; i += at_once) {
      std::vector<std::pair<std::string, std::string>> batch;
      for (uint64_t k = 0; k < at_once; ++k) {
        char name[32];
        std::snprintf(name, sizeof name, "o-%016llx", static_cast<unsigned long long>(random()));
        batch.emplace_back(name, std::to_string(i + k) + std::string(144, 'x'));
      }
      std::vector<store::MetadataStore::Change> changes;
      for (const auto& [name, text] : batch) changes.push_back({name, text});
      const auto written = opened.journal->metadata()->write(changes);
      ASSERT_TRUE(written) << written.problem.text;
    }
    std::printf("%llu texts written in %.2f s\n", static_cast<unsigned long long>(texts),
                seconds_since(began));
  }
  uintmax_t bytes = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder.path()))
    if (file.is_regular_file()) bytes += file.file_size();

  const auto began = steady_clock::now();
  const double processor_began = processor_seconds();
  const Opened opened(folder.path());
  const double open_s = seconds_since(began);
  uint64_t seen = 0, length = 0;
  const base::Done read =
      opened.journal->metadata()->read([&](std::string_view name, std::string_view text) {
        ++seen;
        length += name.size() + text.size();
      });
  ASSERT_TRUE(read) << read.problem().text;
  const double all_s = seconds_since(began), processor_s = processor_seconds() - processor_began;
  std::printf(
      "opened in %.3f s, read in another %.3f s, %.3f s of processor time; %llu MiB of files "
      "for %llu MiB\n",
      open_s, all_s - open_s, processor_s, static_cast<unsigned long long>(bytes >> 20),
      static_cast<unsigned long long>(length >> 20));
  EXPECT_EQ(seen, texts);
  if (holds_times()) {
    EXPECT_LT(processor_s, 1.0);
  }
}

}  // namespace
}  // namespace sluice::tests
