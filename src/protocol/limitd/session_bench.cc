// What one request costs the session: a batch of TAKEs read, one reply written, and both together.
#include <benchmark/benchmark.h>

#include <string>

#include "protocol/limitd/session.h"
#include "protocol/limitd/session_model.h"

namespace {

using namespace sluice;
using namespace sluice::limitd;
using limitd::model::number, limitd::model::text;

constexpr base::Time now{1'425'920'267'000'000};

// As the official client writes them, `times` keys in turn.
std::string takes(size_t times, bool numeric) {
  std::string batch;
  for (size_t i = 0; i < times; ++i) {
    const std::string id = numeric ? number(20, 1'000 + i) : text(1, std::to_string(1'000 + i));
    batch += limitd::model::frame(id + text(2, "bench") +
                                  text(3, "10.0." + std::to_string(i * 2654435761u % 65'536)) +
                                  number(4, 0) + number(5, 1) + number(6, 0) + number(7, 0));
  }
  return batch;
}

template <bool replies>
void serve(benchmark::State& state, const std::string& batch) {
  LimitdSession session;
  request::Requests requests;
  base::Buffer out;
  limit::Decision decision{true, 1'000, 0, base::milliseconds(200), {}};
  request::Verdict verdict;
  verdict.allowed = true;
  verdict.tightest = &decision;
  verdict.matched = true;
  size_t served = 0;
  for (auto _ : state) {
    for (std::string_view rest = batch; !rest.empty();) {
      requests.clear();
      rest.remove_prefix(session.receive(rest, false, requests, out).consumed);
      benchmark::DoNotOptimize(requests.items().data());
      served += requests.size();
      if (!replies) continue;
      out.clear();
      for (const request::Request& request : requests.items()) {
        decision.remaining = (decision.remaining + 7) % 1'000;
        session.reply(request, verdict, now, out);
      }
      benchmark::DoNotOptimize(out.view().data());
    }
  }
  state.counters["per_request"] = benchmark::Counter(
      static_cast<double>(served), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void limitd_read(benchmark::State& state) {
  serve<false>(state, takes(1'024, false));
}
void limitd_read_alone(benchmark::State& state) {
  serve<false>(state, takes(1, false));
}
void limitd_both(benchmark::State& state) {
  serve<true>(state, takes(1'024, false));
}
void limitd_both_numeric(benchmark::State& state) {
  serve<true>(state, takes(1'024, true));
}

BENCHMARK(limitd_read);
BENCHMARK(limitd_read_alone);
BENCHMARK(limitd_both);
BENCHMARK(limitd_both_numeric);

}  // namespace
