// The cost of reading a command and writing its reply: CL.THROTTLE in pipelines of 16, as they
// arrive from a client.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/arena.h"
#include "base/buffer.h"
#include "wire/resp.h"

namespace {

using namespace sluice;

void read_pipeline(benchmark::State& state) {
  base::Buffer in;
  for (int i = 0; i < 16; ++i) {
    const std::string key = "user:" + std::to_string(10'000 + i);
    const std::string_view words[] = {"CL.THROTTLE", key, "15", "30", "60", "1"};
    wire::append_resp_command(words, in);
  }
  wire::RespCommandReader reader;
  base::Arena texts;
  size_t commands = 0;
  for (auto _ : state) {
    for (std::string_view rest = in.view(); !rest.empty(); ++commands) {
      const auto result = reader.next(rest, texts);
      benchmark::DoNotOptimize(reader.words().data());
      rest.remove_prefix(result.consumed);
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(commands));
}
BENCHMARK(read_pipeline);

void write_replies(benchmark::State& state) {
  base::Buffer out;
  wire::RespWriter writer(out, wire::RespVersion::resp2);
  const int64_t five[] = {0, 16, 15, -1, 2};
  for (auto _ : state) {
    out.clear();
    for (int i = 0; i < 16; ++i) writer.integers(five);
    benchmark::DoNotOptimize(out.view().data());
  }
  state.SetItemsProcessed(state.iterations() * 16);
}
BENCHMARK(write_replies);

}  // namespace
