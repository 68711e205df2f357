// What one request costs the session: a batch of masked frames to requests, and one response to
// bytes.
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "protocol/droplet/session.h"
#include "protocol/droplet/session_model.h"

namespace {

using namespace sluice;
using namespace sluice::droplet;
using droplet::model::bytes_field;
using droplet::model::frame;
using droplet::model::number_field;

// As droplet's client writes a take with two limits.
const std::string take = bytes_field(1, "bucket:12345") + bytes_field(2, "1234567890") +
                         number_field(5, 1'000'000) + number_field(6, 50'000'000);

std::string repeated(std::string_view text, size_t times) {
  std::string batch;
  while (times-- > 0) batch += text;
  return batch;
}

void read(benchmark::State& state, const std::string& batch) {
  DropletSession session;
  request::Requests requests;
  base::Buffer out;
  session.receive(droplet::model::handshake, false, requests, out);
  size_t messages = 0;
  for (auto _ : state) {
    for (std::string_view rest = batch; !rest.empty();) {
      requests.clear();
      rest.remove_prefix(session.receive(rest, false, requests, out).consumed);
      benchmark::DoNotOptimize(requests.items().data());
      messages += requests.size();
    }
  }
  state.counters["per_message"] = benchmark::Counter(
      static_cast<double>(messages), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void droplet_alone(benchmark::State& state) {
  read(state, frame(2, take));
}
void droplet_sixteen(benchmark::State& state) {
  read(state, repeated(frame(2, take), 16));
}
void droplet_batch(benchmark::State& state) {
  read(state, repeated(frame(2, take), 1000));
}
void droplet_fragmented(benchmark::State& state) {
  read(state,
       repeated(frame(2, take.substr(0, 20), {.final = false}) + frame(0, take.substr(20)), 16));
}
void droplet_large(benchmark::State& state) {
  read(state, frame(2, bytes_field(1, std::string(100'000, 'x')) + bytes_field(2, "")));
}
void droplet_message(benchmark::State& state) {
  DropletRequest request;
  for (auto _ : state) {
    benchmark::DoNotOptimize(read_droplet_request(take, request));
    benchmark::DoNotOptimize(request);
  }
}

void droplet_reply(benchmark::State& state) {
  DropletSession session;
  base::Buffer out;
  std::vector<limit::Decision> slots = {{true, 1'000'000, 0, {}, {}},
                                        {true, 50'000'000, 0, {}, {}}};
  request::Verdict verdict;
  request::Charge bucket;
  bucket.keeps_limits = true;
  bucket.slot_mask = 0b11;
  verdict.charges = {&bucket, 1};
  verdict.decisions = slots.data();
  const request::Request request;
  int64_t n = 0;
  for (auto _ : state) {
    n = (n + 7'919) & 0xFFFFF;
    slots[0].remaining = n;
    slots[1].remaining = n * 40;
    verdict.allowed = (n & 8) != 0;
    session.reply(request, verdict, {}, out);
    if (out.size() > 4096) out.clear();
  }
}

BENCHMARK(droplet_alone);
BENCHMARK(droplet_sixteen);
BENCHMARK(droplet_batch);
BENCHMARK(droplet_fragmented);
BENCHMARK(droplet_large);
BENCHMARK(droplet_message);
BENCHMARK(droplet_reply);

}  // namespace
