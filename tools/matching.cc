// What matching a request costs, in processor time: for each named rule set, 10 rules and 10,000 in
// turns, so that a busy machine disturbs both alike, the last rule hit. Exit status 1: 10,000 rules
// take more than twice as long as 10 and more than 150 ns.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "policy/read/native.h"
#include "policy/rule_set.h"
#include "request/space.h"
#include "tests/support/named_rules.h"

namespace sluice::tools {
namespace {

constexpr size_t few = 10, many = 10'000;
constexpr double ratio_max = 2.0, ns_max = 150.0;
constexpr size_t rounds = 301, batches = 100, batch_size = 16;

double thread_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

class Subject {
 public:
  Subject(const tests::NamedRules& set, size_t count) : last_(set.last(count)) {
    base::Diagnostics diagnostics;
    policy::read_native(text_of(set, count), set.name, spaces_, rules_, diagnostics);
    for (const auto& [key, value] : last_) request_.push_back({key, value});
  }

  // Of one request, within batches.
  double match_ns() {
    const double begin = thread_ns();
    for (size_t i = 0; i < batches; ++i) {
      plan_.clear();
      for (size_t n = 0; n < batch_size; ++n)
        rules_.match(nullptr, {.descriptor = request_}, plan_);
    }
    return (thread_ns() - begin) / static_cast<double>(batches * batch_size);
  }
  bool hits_last() {
    const auto steps = plan_.steps(plan_.parts().back());
    return steps.size() == 1 && steps.front().rule == &rules_.native_rules().back();
  }

 private:
  request::Spaces spaces_;
  policy::RuleSet rules_;
  tests::Pairs last_;
  std::vector<request::Entry> request_;
  policy::Plan plan_;
};

double median(std::vector<double> all) {
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / 2);
  std::nth_element(all.begin(), middle, all.end());
  return *middle;
}

bool measure(const tests::NamedRules& set) {
  Subject small(set, few), large(set, many);
  std::vector<double> small_ns, large_ns, ratios;
  for (size_t i = 0; i < rounds; ++i) {
    small_ns.push_back(small.match_ns());
    large_ns.push_back(large.match_ns());
    ratios.push_back(large_ns.back() / small_ns.back());
  }
  if (!small.hits_last() || !large.hits_last()) {
    std::printf("%s: the last rule is not hit\n", set.name);
    return false;
  }
  const double ratio = median(ratios), ns = median(large_ns);
  const bool kept = ratio <= ratio_max || ns <= ns_max;
  std::printf(
      "%-26s %zu rules %6.1f ns, %zu rules %6.1f ns, ratio %.2f; at most %.0f or %.0f ns: %s\n",
      set.name, few, median(small_ns), many, ns, ratio, ratio_max, ns_max, kept ? "met" : "MISSED");
  return kept;
}

}  // namespace
}  // namespace sluice::tools

int main() {
  bool kept = true;
  for (const auto& set : sluice::tests::named_rules) kept &= sluice::tools::measure(set);
  return kept ? 0 : 1;
}
