// A program with libsluice-durable, which durable_test.py builds and runs: `durable DIRECTORY
// COMMAND`. Prints one result a line; an error as its number and message.
#include <sluice/durable.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

constexpr int64_t quota = 1'000'000'000;

int report(const sluice::error& why) {
  std::printf("%d %s\n", static_cast<int>(why.code), why.message.c_str());
  return 1;
}

// Takes one unit of each of 100 keys in turn, without end, and commits after every 100 takes.
// Prints how many takes are committed.
int load(sluice::durable& kept, const sluice::handle& by) {
  for (long long taken = 0;;) {
    for (int i = 0; i < 100; ++i, ++taken)
      if (!kept->take(by, std::to_string(i), 1)) return 2;
    if (const auto done = kept.commit(); !done) return report(done.why());
    std::printf("%lld\n", taken);
    std::fflush(stdout);
  }
}

// Prints the units that are used, over all keys.
int sum(sluice::durable& kept, const sluice::handle& by) {
  long long used = 0;
  for (int i = 0; i < 100; ++i)
    used += quota - kept->peek(by, std::to_string(i), kept->now()).remaining;
  return std::printf("%lld\n", used) < 0;
}

// The child of a fork can take in memory, but not commit; and its end leaves the parent's store as
// it is.
int forked(sluice::durable kept, const sluice::handle& by) {
  if (!kept->take(by, "0", 5) || !kept.commit()) return 2;
  const pid_t child = fork();
  if (child == 0) {
    if (!kept->take(by, "0", 100)) _exit(3);
    const auto done = kept.commit();
    if (done || done.why().code != sluice::errc::storage) _exit(4);
    { const sluice::durable gone = std::move(kept); }
    _exit(0);
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) return 5;
  if (!kept->take(by, "0", 2)) return 6;
  const auto done = kept.commit();
  return done ? 0 : report(done.why());
}

// Takes from new keys until a commit fails. Then a take in memory must still work; prints the
// commit's error.
int fill(sluice::durable& kept, const sluice::handle& by) {
  for (int i = 0; i < 1'000'000; ++i) {
    for (int k = 0; k < 100; ++k)
      if (!kept->take(by, std::to_string(i) + std::string(400, 'x') + std::to_string(k), 1))
        return 2;
    const auto done = kept.commit();
    if (done) continue;
    if (!kept->take(by, "0", 1)) return 3;
    std::printf("%d\n", static_cast<int>(done.why().code));
    return 0;
  }
  return 4;
}

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  const std::string command = words[2];
  sluice::durable_options where;
  where.directory = words[1];
  if (command == "every") where.commit_every = 1ms;
  auto kept = sluice::durable::open(where);
  if (!kept) return report(kept.why());
  const auto by = (*kept)->limits("x", {{quota, 0us, sluice::algorithm::fixed_bucket}});
  if (!by) return report(by.why());
  if (command == "load") return load(*kept, *by);
  if (command == "sum") return sum(*kept, *by);
  if (command == "fork") return forked(*std::move(kept), *by);
  if (command == "fill") return fill(*kept, *by);
  if (command == "take") return (*kept)->take(*by, "7", 3) ? 0 : 2;  // closing commits it
  if (command == "hold" || command == "every") {
    if (!(*kept)->take(*by, "7", 3)) return 2;
    std::puts("open");
    std::fflush(stdout);
    char ignored = 0;
    return std::fread(&ignored, 1, 1, stdin) == 0 ? 0 : 2;
  }
  return 2;
}
