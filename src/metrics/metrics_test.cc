// Cells, histograms, names, pages, rings and lines for statsd (metrics/).
#include <gtest/gtest.h>
#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "metrics/cells.h"
#include "metrics/page.h"
#include "metrics/process.h"
#include "metrics/statsd.h"
#include "metrics/top.h"

namespace sluice::metrics {
namespace {

constexpr std::array<uint64_t, 3> bounds{1, 5, 10};

TEST(Cells, CountWhatTheirOwnerAddsWhileOthersRead) {
  constexpr uint64_t rounds = 200'000;
  Cell cell;
  std::atomic<bool> done{false};
  std::thread reader([&] {
    for (uint64_t last = 0; !done;) {
      const uint64_t seen = cell.read();
      EXPECT_GE(seen, last);
      last = seen;
    }
  });
  for (uint64_t i = 0; i < rounds; ++i) cell.add(3);
  done = true;
  reader.join();
  EXPECT_EQ(cell.read(), 3 * rounds);
}

TEST(Histograms, PutEachValueIntoTheBucketThatANaiveSearchFinds) {
  std::mt19937 dice(7);
  Histogram histogram(bounds);
  std::array<uint64_t, 4> naive{};
  uint64_t sum = 0;
  for (int i = 0; i < 2'000; ++i) {
    const uint64_t value = dice() % 13, times = dice() % 4;
    size_t bucket = 0;
    while (bucket < bounds.size() && value > bounds[bucket]) ++bucket;
    naive[bucket] += times;
    sum += value * times;
    histogram.observe(value, times);
  }
  Distribution<3> all;
  histogram.add_to(all);
  EXPECT_EQ(all.counts, naive);
  EXPECT_EQ(all.sum, sum);
  histogram.add_to(all);  // as of a second worker
  EXPECT_EQ(all.sum, 2 * sum);
}

TEST(NamesOfMetrics, AreOnePerPairOfTextsAndBounded) {
  Names names(2);
  EXPECT_EQ(names.at(Names::others).name, "(others)");
  const auto a = names.intern("a", "x");
  EXPECT_EQ(names.intern("a", "x"), a);
  const auto b = names.intern("a", "y");
  EXPECT_NE(a, b);
  EXPECT_EQ(names.at(b).label, "y");
  EXPECT_EQ(names.refused(), 0U);
  EXPECT_EQ(names.intern("c", ""), Names::others);
  EXPECT_EQ(names.intern("d", ""), Names::others);
  EXPECT_EQ(names.intern("a", "x"), a);
  EXPECT_EQ(names.size(), 3U);
  EXPECT_EQ(names.refused(), 2U);
}

TEST(NamesOfMetrics, AreWellFormedAndCut) {
  Names names(10);
  EXPECT_EQ(names.at(names.intern("a\xff", "")).name, "a\xEF\xBF\xBD");
  const auto cut = names.at(names.intern(std::string(1000, 'x'), "")).name;
  EXPECT_EQ(cut, std::string(Names::bytes_max, 'x') + "...");
}

TEST(Pages, AreInPrometheusTextFormat) {
  Page page;
  page.counter("a_total", "Of a.", 3, {{"k", "say \"x\\y\"\n"}});
  page.gauge("b", "Of b.", 0.5);
  page.counter("a_total", "Of a.", 4, {{"k", "z"}});
  const std::array<uint64_t, 4> counts{1, 0, 2, 1};
  page.histogram("c_seconds", "Of c.", bounds, counts, 40, 1e3);
  EXPECT_EQ(page.text(),
            "# HELP a_total Of a.\n"
            "# TYPE a_total counter\n"
            "a_total{k=\"say \\\"x\\\\y\\\"\\n\"} 3\n"
            "a_total{k=\"z\"} 4\n"
            "# HELP b Of b.\n"
            "# TYPE b gauge\n"
            "b 0.5\n"
            "# HELP c_seconds Of c.\n"
            "# TYPE c_seconds histogram\n"
            "c_seconds_count 4\n"
            "c_seconds_sum 0.04\n"
            "c_seconds_bucket{le=\"0.001\"} 1\n"
            "c_seconds_bucket{le=\"0.005\"} 1\n"
            "c_seconds_bucket{le=\"0.01\"} 3\n"
            "c_seconds_bucket{le=\"+Inf\"} 4\n");
}

TEST(Pages, WriteBucketBoundsInShortForm) {
  std::vector<uint64_t> powers;
  std::string expected;
  for (const char* bound : {"1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1", "10"}) {
    powers.push_back(powers.empty() ? 1 : powers.back() * 10);
    expected += "s_bucket{le=\"" + std::string(bound) + "\"} 0\n";
  }
  Page page;
  page.histogram("s", "Of s.", powers, std::vector<uint64_t>(powers.size() + 1), 0, 1e6);
  EXPECT_NE(page.text().find(expected), std::string::npos) << page.text();
}

// The library of Prometheus for C++ is the judge of random pages.
TEST(Pages, AreAsPrometheusOwnLibraryWritesThem) {
  std::mt19937 dice(38);
  const auto text = [&dice] {
    std::string out;
    for (size_t n = dice() % 6; n > 0; --n) out += "ab\\\"\n\xC3\xA9 {}="[dice() % 11];
    return out;
  };
  const auto number = [&dice]() -> double {
    const auto whole = static_cast<double>(dice());
    switch (dice() % 6) {
      case 0:
        return whole;
      case 1:
        return whole * 4294967296.0;
      case 2:
        return -whole / 1e6;
      case 3:
        return whole / 7e12;
      case 4:
        return std::ldexp(whole, static_cast<int>(dice() % 1800) - 900);
      default:
        return dice() % 2 == 0 ? 0 : std::numeric_limits<double>::infinity();
    }
  };
  for (int round = 0; round < 500; ++round) {
    Page page;
    std::vector<prometheus::MetricFamily> families;
    for (size_t f = 0, count = 1 + dice() % 3; f < count; ++f) {
      const std::string name = "family_" + std::to_string(f);
      const auto type = dice() % 3;
      auto& family = families.emplace_back();
      family.name = name;
      family.help = "About " + name + ".";
      family.type = type == 0   ? prometheus::MetricType::Counter
                    : type == 1 ? prometheus::MetricType::Gauge
                                : prometheus::MetricType::Histogram;
      for (size_t n = 1 + dice() % 3; n > 0; --n) {
        auto& sample = family.metric.emplace_back();
        Labels labels;
        for (size_t l = dice() % 3; l > 0; --l)
          labels.emplace_back("label_" + std::to_string(l), text());
        for (const auto& [label, value] : labels) sample.label.push_back({label, value});
        if (type != 2) {
          const double value = number();
          (type == 0 ? sample.counter.value : sample.gauge.value) = value;
          type == 0 ? page.counter(name, family.help, value, labels)
                    : page.gauge(name, family.help, value, labels);
          continue;
        }
        std::vector<uint64_t> counts(bounds.size() + 1);
        for (uint64_t& one : counts) one = dice();
        const uint64_t sum = dice();
        const double per_unit = dice() % 2 == 0 ? 1e6 : 1;
        page.histogram(name, family.help, bounds, counts, sum, per_unit, labels);
        uint64_t all = 0;
        for (size_t i = 0; i < counts.size(); ++i)
          sample.histogram.bucket.push_back(
              {all += counts[i], i < bounds.size() ? static_cast<double>(bounds[i]) / per_unit
                                                   : std::numeric_limits<double>::infinity()});
        sample.histogram.sample_count = all;
        sample.histogram.sample_sum = static_cast<double>(sum) / per_unit;
      }
    }
    EXPECT_EQ(page.text(), prometheus::TextSerializer().Serialize(families));
  }
}

TEST(SourcesOfAPage, AreReadUntilTheyAreRemoved) {
  struct One final : Source {
    void collect(Page& page) const override { page.gauge("one", "One.", 1); }
  } one;
  const ProcessSource process;
  Sources sources;
  sources.add(one);
  sources.add(process);
  const std::string text = sources.text();
  EXPECT_NE(text.find("\none 1\n"), text.npos);
  for (const char* family : {"process_cpu_seconds_total", "process_open_fds", "process_threads",
                             "process_resident_memory_bytes", "process_start_time_seconds"}) {
    const size_t at = text.find("\n" + std::string(family) + " ");
    ASSERT_NE(at, text.npos) << family;
    if (std::string_view(family) != "process_cpu_seconds_total") {
      EXPECT_GT(std::stod(text.substr(text.find(' ', at + 1))), 0) << family;
    }
  }
  sources.remove(one);
  EXPECT_EQ(sources.text().find("\none 1\n"), std::string::npos);
}

TEST(Rings, KeepOrderAndCountLostItems) {
  Ring<int> ring(8);
  std::vector<int> taken;
  const auto drain = [&] { ring.drain([&](int n) { taken.push_back(n); }); };
  for (int i = 0; i < 3; ++i) ring.put(i);
  drain();
  EXPECT_TRUE(taken.empty());  // not published yet
  ring.each_unpublished([](int& n) { n += 10; });
  EXPECT_FALSE(ring.publish());
  ring.put(3);
  EXPECT_TRUE(ring.publish());  // half full
  drain();
  EXPECT_EQ(taken, (std::vector<int>{10, 11, 12, 3}));
  for (int i = 0; i < 10; ++i) ring.put(i);
  ring.publish();
  EXPECT_EQ(ring.lost(), 2U);
  taken.clear();
  drain();
  EXPECT_EQ(taken, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7}));
}

TEST(Rings, LoseNothingUncountedBetweenTwoThreads) {
  constexpr uint64_t count = 300'000;
  Ring<uint64_t> ring(64);
  std::atomic<bool> done{false};
  uint64_t taken = 0, last = 0;
  std::thread taker([&] {
    for (bool end = false; !end;) {
      end = done;
      ring.drain([&](uint64_t n) {
        EXPECT_GT(n, last);
        last = n;
        ++taken;
      });
    }
  });
  for (uint64_t i = 1; i <= count; ++i) {
    ring.put(i);
    ring.publish();
  }
  done = true;
  taker.join();
  EXPECT_EQ(taken + ring.lost(), count);
}

TEST(StatsdBatches, HoldLinesUpToTheBytesOfADatagram) {
  StatsdBatch batch;
  EXPECT_TRUE(batch.empty());
  ASSERT_TRUE(batch.add("a:1|c"));
  ASSERT_TRUE(batch.add("b:1|c"));
  EXPECT_EQ(batch.text(), "a:1|c\nb:1|c");
  const size_t left = StatsdBatch::bytes_max - batch.text().size() - 1;
  EXPECT_FALSE(batch.add(std::string(left + 1, 'x')));
  EXPECT_EQ(batch.lines(), 2U);
  EXPECT_TRUE(batch.add(std::string(left, 'x')));
  EXPECT_EQ(batch.text().size(), StatsdBatch::bytes_max);
  EXPECT_FALSE(batch.add(""));
  batch.clear();
  EXPECT_TRUE(batch.add(std::string(2 * StatsdBatch::bytes_max, 'x')));  // goes alone
}

}  // namespace
}  // namespace sluice::metrics
