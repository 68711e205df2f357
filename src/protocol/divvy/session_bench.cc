// What one request costs the session: a batch of equal or of varied lines parsed, and one reply
// written.
#include <benchmark/benchmark.h>

#include <string>

#include "base/utf8.h"
#include "protocol/divvy/session.h"

namespace {

using namespace sluice;
using namespace sluice::divvy;

void parse(benchmark::State& state, const std::string& batch) {
  DivvySession session;
  request::Requests requests;
  base::Buffer out;
  size_t lines = 0;
  for (auto _ : state) {
    for (std::string_view rest = batch; !rest.empty();) {
      requests.clear();
      rest.remove_prefix(session.receive(rest, false, requests, out).consumed);
      benchmark::DoNotOptimize(requests.items().data());
      lines += requests.size();
    }
  }
  state.counters["per_line"] = benchmark::Counter(
      static_cast<double>(lines), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

std::string repeated(std::string_view line, size_t times) {
  std::string batch;
  while (times-- > 0) batch += line;
  return batch;
}

std::string varied() {
  std::string batch;
  for (size_t i = 0; i < 1024; ++i) {
    const size_t n = i * 2654435761u % 100003;
    batch += "HIT method=" + std::string(n % 3 == 0 ? "POST" : "GET") + " path=/" +
             std::string(n % 23, 'p') + " ip=" + std::to_string(n * n) +
             (n % 5 == 0 ? " \"user\"=\"a b\"\n" : "\n");
  }
  return batch;
}

void parse_alone(benchmark::State& state) {
  parse(state, "HIT method=GET path=/bench ip=12345\n");
}
void parse_batch(benchmark::State& state) {
  parse(state, repeated("HIT method=GET path=/bench ip=12345\n", 1024));
}
void parse_quoted(benchmark::State& state) {
  parse(state, repeated("HIT \"ip\"=\"12345\" \"method\"=\"GET\" \"path\"=\"/bench\"\n", 1024));
}
void parse_varied(benchmark::State& state) {
  parse(state, varied());
}
void parse_utf8(benchmark::State& state) {
  parse(state, repeated("HIT city=Zürich path=/日本語 ip=12345\n", 1024));
}
void parse_ill_formed(benchmark::State& state) {
  parse(state, repeated("HIT method=GET path=/\xFF ip=12345\n", 1024));
}

void reply(benchmark::State& state) {
  DivvySession session;
  base::Buffer out;
  limit::Decision decision{true, 1'000'000, 0, base::seconds(3'599), {}};
  request::Verdict verdict;
  verdict.matched = true;
  verdict.tightest = &decision;
  for (auto _ : state) {
    decision.remaining = (decision.remaining + 7'919) & 0xFFFFF;
    decision.allowed = (decision.remaining & 8) != 0;
    verdict.allowed = decision.allowed;
    session.reply({}, verdict, {}, out);
    if (out.size() > 4096) out.clear();
  }
}

BENCHMARK(parse_alone);
BENCHMARK(parse_batch);
BENCHMARK(parse_quoted);
BENCHMARK(parse_varied);
BENCHMARK(parse_utf8);
BENCHMARK(parse_ill_formed);
BENCHMARK(reply);

}  // namespace
