// What decisions of the library cost in processor time, each beside its target, with a dependent
// load of memory measured in the same run: by a handle over few keys and over many, in batches, by
// a policy, and by two threads. Each figure is the best of some runs, as others may use the machine
// too. Exit status 1: a target was missed.
//
//   limiter_speed [REPETITIONS]
#include <sluice/limiter.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr size_t few = 1'000, many = 1'000'000, key_bytes = 16, batch = 16;
constexpr sluice::time_point start{sluice::duration(1'700'000'000'000'000)};

int repetitions = 9;
int missed = 0;

// Processor time of this thread: what others use does not count.
double thread_ns() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// Nanoseconds for each of `count`, the best of the repetitions.
template <class Run>
double best(size_t count, Run&& run) {
  double least = 1e18;
  // Short runs are repeated more often: some of them are not disturbed.
  const int times = count < many ? 8 * repetitions : repetitions;
  for (int i = 0; i < times; ++i) {
    const double begin = thread_ns();
    run();
    least = std::min(least, (thread_ns() - begin) / static_cast<double>(count));
  }
  return least;
}

void tell(const char* what, double ns, double target) {
  const bool met = ns <= target;
  missed += !met;
  std::printf("%-58s %7.1f ns, at most %6.1f: %s\n", what, ns, target, met ? "met" : "MISSED");
  std::fflush(stdout);
}

void tell(const char* what, double ns) {
  std::printf("%-58s %7.1f ns\n", what, ns);
  std::fflush(stdout);
}

// Keys of 16 bytes, side by side in the order in which they are asked for.
class Keys {
 public:
  explicit Keys(size_t count) {
    std::vector<uint32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937_64(7));
    bytes_.reserve(count * key_bytes + 1);
    for (const uint32_t i : order) {
      char text[key_bytes + 1];
      std::snprintf(text, sizeof text, "key-%012u", i);
      bytes_.append(text, key_bytes);
    }
  }
  std::string_view operator[](size_t i) const { return {&bytes_[i * key_bytes], key_bytes}; }
  size_t size() const { return bytes_.size() / key_bytes; }

 private:
  std::string bytes_;
};

// One load after the other, each from where the one before says, through as much memory as a table
// of that many counters has.
double probe(size_t nodes) {
  struct alignas(64) Node {
    uint32_t next;
  };
  const size_t bytes = nodes * sizeof(Node);
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) std::abort();
  madvise(at, bytes, MADV_HUGEPAGE);
  Node* const all = static_cast<Node*>(at);
  std::vector<uint32_t> order(nodes);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(11));
  for (size_t i = 0; i < nodes; ++i) all[order[i]].next = order[(i + 1) % nodes];
  uint32_t node = 0;
  const double ns = best(nodes, [&] {
    for (size_t i = 0; i < nodes; ++i) node = all[node].next;
  });
  if (node == UINT32_MAX) std::abort();
  munmap(at, bytes);
  return ns;
}

sluice::limiter made(const char* policy = nullptr) {
  sluice::options how;
  how.memory_bytes = size_t{256} << 20;
  auto limiter = policy == nullptr ? sluice::limiter::create(how)
                                   : sluice::limiter::from_policy_text(policy, how);
  if (!limiter) {
    std::fprintf(stderr, "limiter_speed: %s\n", limiter.why().message.c_str());
    std::exit(2);
  }
  return std::move(*limiter);
}

sluice::handle limits_of(sluice::limiter& limiter) {
  return *limiter.limits("bench", {{.quota = sluice::quota_max / 2, .window = 1h}});
}

// Each key once, `rounds` times.
double one_by_one(sluice::limiter& limiter, const sluice::handle& by, const Keys& keys,
                  size_t rounds) {
  size_t refused = 0;
  sluice::time_point now = start;
  const double ns = best(keys.size() * rounds, [&] {
    for (size_t round = 0; round < rounds; ++round)
      for (size_t i = 0; i < keys.size(); ++i)
        refused += !limiter.take(by, keys[i], 1, now += 1us).allowed;
  });
  if (refused > 0) std::exit(3);
  return ns;
}

double in_batches(sluice::limiter& limiter, const sluice::handle& by, const Keys& keys) {
  std::array<sluice::charge, batch> charges;
  std::array<sluice::decision, batch> each;
  size_t refused = 0;
  sluice::time_point now = start;
  const double ns = best(keys.size(), [&] {
    for (size_t i = 0; i + batch <= keys.size(); i += batch) {
      for (size_t j = 0; j < batch; ++j) charges[j] = {&by, keys[i + j], 1};
      limiter.take_many(charges, each.data(), now += 1us);
      for (const sluice::decision& one : each) refused += !one.allowed;
    }
  });
  if (refused > 0) std::exit(3);
  return ns;
}

void few_keys() {
  sluice::limiter limiter = made();
  const sluice::handle by = limits_of(limiter);
  const Keys keys(few);
  tell("take by a handle, 1,000 keys", one_by_one(limiter, by, keys, 100), 80);
  tell("the clock, read for each", best(few * 100, [&] {
         int64_t sum = 0;
         for (size_t i = 0; i < few * 100; ++i) sum += limiter.now().time_since_epoch().count();
         if (sum == 0) std::abort();
       }));
}

void many_keys() {
  const double load = probe(many);
  tell("memory probe: a dependent load", load);
  sluice::limiter limiter = made();
  const sluice::handle by = limits_of(limiter);
  const Keys keys(many);
  tell("take by a handle, 1,000,000 keys in random order", one_by_one(limiter, by, keys, 1),
       60 + 2.2 * load);
  tell("the same by take_many of 16", in_batches(limiter, by, keys), load);
}

void policies() {
  std::string rules = "rules:\n";
  for (int i = 0; i < 10; ++i)
    rules += "- { name: r" + std::to_string(i) + ", match: { service: s" + std::to_string(i) +
             ", ip: \"*\" }, actor: ip, limit: { quota: 1000000000000, window: 1h } }\n";
  sluice::limiter limiter = made(rules.c_str());
  const Keys keys(few);
  const sluice::handle by = *limiter.find("r9");
  const double direct = one_by_one(limiter, by, keys, 100);
  tell("take by a rule's handle, 1,000 keys", direct);
  size_t refused = 0;
  sluice::time_point now = start;
  const double matched = best(few * 100, [&] {
    for (size_t round = 0; round < 100; ++round)
      for (size_t i = 0; i < few; ++i) {
        const sluice::entry descriptor[] = {{"service", "s9"}, {"ip", keys[i]}};
        refused += !limiter.take({descriptor, 2}, 1, now += 1us).allowed;
      }
  });
  if (refused > 0) std::exit(3);
  tell("take by a policy of ten rules, beyond that", matched - direct, 150);
}

// Decisions of two threads at once, by the processor time of the slower one, beside one alone; the
// best of five of each.
void two_threads() {
  sluice::limiter limiter = made();
  const sluice::handle by = limits_of(limiter);
  const Keys keys(100'000);
  const auto round = [&] {
    for (size_t i = 0; i < keys.size(); ++i)
      limiter.take(by, keys[i], 1, start + sluice::duration(i));
  };
  const auto rounds = [&] {
    const double begin = thread_ns();
    for (int i = 0; i < 10; ++i) round();
    return thread_ns() - begin;
  };
  round();
  double alone = 1e18, both = 1e18;
  for (int i = 0; i < 5; ++i) {
    alone = std::min(alone, rounds());
    double others = 0;
    std::thread other([&] { others = rounds(); });
    const double own = rounds();
    other.join();
    both = std::min(both, std::max(own, others));
  }
  const double ratio = 2 * alone / both;
  const bool met = ratio >= 1.6;
  missed += !met;
  std::printf("two threads decide %.2f times as much as one, at least 1.60: %s\n", ratio,
              met ? "met" : "MISSED");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) repetitions = std::max(1, std::atoi(argv[1]));
  few_keys();
  many_keys();
  policies();
  two_threads();
  return missed > 0 ? 1 : 0;
}
