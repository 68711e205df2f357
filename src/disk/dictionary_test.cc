// The dictionary of a store (disk/dictionary.h): against a model that notes for each record under
// which space and limits it was written, over many rounds and openings.
#include "disk/dictionary.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/result_test.h"
#include "request/space.h"

namespace sluice::disk {
namespace {

using limit::Limit;

Limit window(int64_t quota) {
  return {limit::Algorithm::fixed_window, quota, base::seconds(60), 0};
}

// The entries and records of a store by their numbers, as on a disk, and the model: the prefix and
// the quota that each record was written under.
struct Disk {
  std::map<uint32_t, std::string> spaces, lists;
  struct Record {
    uint32_t space, limits;
    std::string prefix;
    int64_t quota;
  };
  std::map<std::string, Record> records;  // by the counter's name
  std::map<std::string, Record> begun;    // the records at the beginning of the round

  void take(Dictionary& dictionary) {
    for (const auto& entry : dictionary.fresh())
      (entry.is_space ? spaces : lists)[entry.number] = entry.value;
    dictionary.all_are_committed();
  }
  void open(Dictionary& dictionary) const {
    std::string problem;
    for (const auto& [number, value] : spaces)
      ASSERT_TRUE(succeeds(dictionary.load_space(number, value), problem)) << problem;
    for (const auto& [number, value] : lists)
      ASSERT_TRUE(succeeds(dictionary.load_limits(number, value), problem)) << problem;
  }
  static StoredCounter stored(const Record& record) {
    StoredCounter counter;
    counter.space = record.space;
    counter.key = "k";
    counter.limits = record.limits;
    counter.cell_count = 1;
    return counter;
  }
  // Resolves each record and compares it with the model. `dictionary` was opened from this disk.
  void check(const Dictionary& dictionary, const request::Spaces& spaces_here) const {
    for (const auto& [name, record] : records) {
      const StoredCounter counter = stored(record);
      request::CounterRecord read;
      ASSERT_TRUE(dictionary.resolve(counter, read)) << name;
      ASSERT_EQ(read.space->prefix, record.prefix);
      ASSERT_EQ(spaces_here.limits(read.limits_id).front().quota, record.quota);
    }
  }
  void begin_round(Dictionary& dictionary) {
    dictionary.begin_round();
    begun = records;
  }
  // Reports the records of the round's beginning. Records that were committed since then have their
  // numbers marked by number_of.
  void meet(Dictionary& dictionary) const {
    for (const auto& [name, record] : begun) ASSERT_TRUE(dictionary.is_known(stored(record)));
    dictionary.all_are_met();
  }
};

// New spaces and limits all the time, rounds at random times, and several openings of one store.
TEST(Dictionary, ReusesOnlyNumbersThatNoRecordNames) {
  std::mt19937 dice(7);
  Disk disk;
  int64_t generation = 0;
  size_t most = 0;
  for (int life = 0; life < 10; ++life) {
    request::Spaces spaces;
    Dictionary dictionary(spaces, 16);
    ASSERT_NO_FATAL_FAILURE(disk.open(dictionary));
    ASSERT_NO_FATAL_FAILURE(disk.check(dictionary, spaces));
    dictionary.all_are_met();
    dictionary.all_is_loaded();
    const request::Marks marks = spaces.begin_round();
    spaces.end_round(marks);
    EXPECT_EQ(spaces.known(), 0u) << "what was loaded is not held";
    bool meeting = false;
    for (int i = 0; i < 1'000; ++i) {
      ++generation;
      // One of ten counters is written, mostly under new limits, else under earlier ones.
      const int64_t which =
          dice() % 4 == 0 ? std::max<int64_t>(1, generation - static_cast<int64_t>(dice() % 40))
                          : generation;
      const std::string prefix = "s" + std::to_string(which / 3);
      const Limit limit = window(which);
      const auto space = spaces.hold(prefix, "");
      const auto list = spaces.hold_limits({&limit, 1});
      const std::string counter = "c" + std::to_string(dice() % 10);
      disk.records[counter] = {dictionary.number_of(*space.get()),
                               dictionary.number_of_limits(list.id()), prefix, which};
      disk.take(dictionary);
      if (dice() % 8 == 0) disk.records.erase(disk.records.begin());
      if (meeting && dice() % 4 == 0) {
        ASSERT_NO_FATAL_FAILURE(disk.meet(dictionary));
        meeting = false;
      } else if (!meeting && dictionary.wants_round()) {
        disk.begin_round(dictionary);
        meeting = true;
      }
      // The process's own round, which forgets spaces and lists, runs at times of its own.
      if (dice() % 16 == 0) spaces.end_round(spaces.begin_round());
      most = std::max(most, dictionary.spaces() + dictionary.lists());
    }
    request::Spaces others;
    Dictionary reader(others);
    ASSERT_NO_FATAL_FAILURE(disk.open(reader));
    ASSERT_NO_FATAL_FAILURE(disk.check(reader, others));
  }
  // The records name 20 numbers at most at a time; 10,000 were used in all.
  EXPECT_LE(most, 200u);
}

// A counter's key on the disk begins with its space's number: a space with two numbers would have
// two counters.
TEST(Dictionary, AReturningSpaceKeepsItsNumber) {
  request::Spaces spaces;
  Dictionary dictionary(spaces, 1);
  Disk disk;
  const auto a = spaces.hold("a", ""), b = spaces.hold("b", ""), c = spaces.hold("c", "");
  const uint32_t number = dictionary.number_of(*a.get());
  dictionary.number_of(*b.get());
  disk.take(dictionary);
  dictionary.all_is_loaded();
  dictionary.begin_round();
  dictionary.all_are_met();
  ASSERT_EQ(dictionary.used(), 2u);
  dictionary.wants_round();
  EXPECT_EQ(dictionary.used(), 0u);
  EXPECT_EQ(dictionary.number_of(*a.get()), number);
  EXPECT_TRUE(dictionary.fresh().empty());
  // The other free number goes to the other space.
  EXPECT_NE(dictionary.number_of(*c.get()), number);
  disk.take(dictionary);
  EXPECT_EQ(dictionary.spaces(), 2u);
  const uint32_t third = dictionary.number_of(*b.get());
  disk.take(dictionary);
  EXPECT_EQ(third, 3u);
  EXPECT_EQ(disk.spaces.size(), 3u);
}

}  // namespace
}  // namespace sluice::disk
