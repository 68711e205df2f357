// What a program does with a limiter of its own: the status and the fields of an HTTP answer, a
// worker that waits for its turn, and a batch job that puts back what it did not use.
#include <sluice/limiter.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace std::chrono_literals;

constexpr auto policy = R"(
rules:
  - name: per-client
    match: { ip: "*" }
    actor: ip
    limit: { quota: 3, window: 1m, algorithm: fixed_window }
)";

struct answer {
  int status;
  std::vector<std::string> fields;
};

std::string seconds(sluice::duration length) {  // rounded up
  return std::to_string((length.count() + 999'999) / 1'000'000);
}

// 429 with when to come again. A failure of the limiter, and a request that no rule matches, are errors: otherwise a mistake
// in a rule would be no limit.
answer handle(sluice::limiter& limiter, const std::string& ip, sluice::time_point now) {
  const sluice::decision d = limiter.take({{"ip", ip}}, 1, now);
  if (d.error != sluice::errc::ok || !d.matched) return {500, {}};
  answer its{d.allowed ? 200 : 429,
             {"RateLimit: \"per-client\";r=" + std::to_string(d.remaining) +
              ";t=" + seconds(d.reset_after)}};
  if (!d.allowed) its.fields.push_back("Retry-After: " + seconds(d.retry_after));
  return its;
}

// A worker does three jobs, two of them at a time at most: the third waits until one is done.
int pool(sluice::limiter& limiter, sluice::time_point now) {
  const auto places =
      limiter.limits("places", {{2, 0s, sluice::algorithm::fixed_bucket}});
  if (!places) return 0;
  int begun = 0;
  const auto begin = [&](sluice::wait_id, const sluice::decision& d) { begun += d.allowed; };
  for (int job = 0; job < 3; ++job) {
    const sluice::waiting w = limiter.wait(*places, "pool", 1, now + 10s, begin, now);
    begun += w.id == 0 && w.now.allowed;
  }
  limiter.put(*places, "pool", 1, now);  // a job is done
  limiter.run_due(now);
  return begun;
}

// Takes for 100 records, finds 40 of them done already, and puts these back.
std::int64_t batch_job(sluice::limiter& limiter, sluice::time_point now) {
  const auto quota = limiter.limits("records", {{1000, 24h, sluice::algorithm::aligned_window}});
  if (!quota || !limiter.take(*quota, "import", 100, now)) return -1;
  return limiter.put(*quota, "import", 40, now).remaining;
}

int main() {
  auto limiter = sluice::limiter::from_policy_text(policy);
  if (!limiter) {
    std::fprintf(stderr, "%s\n", limiter.why().message.c_str());
    return 1;
  }
  const sluice::time_point now = limiter->now();
  for (int i = 0; i < 4; ++i) {
    const answer its = handle(*limiter, "10.0.0.7", now);
    std::printf("%d", its.status);
    for (const std::string& field : its.fields) std::printf(" %s", field.c_str());
    std::printf("\n");
  }
  std::printf("%d jobs begun\n", pool(*limiter, now));
  std::printf("%lld records left\n", static_cast<long long>(batch_job(*limiter, now)));
  return 0;
}
