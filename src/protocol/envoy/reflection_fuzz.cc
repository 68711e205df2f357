// Answers any bytes as a reflection request, twice: the answers must be equal. An answer must have
// the request, which has the same answer, and the response as its fields, or be empty.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "protocol/envoy/reflection.h"
#include "wire/protobuf.h"

namespace {

using namespace sluice;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_answer(std::string_view answer) {
  using Reader = wire::ProtobufReader<uint64_t, wire::ProtobufKeys::valid>;
  uint32_t key = 0, last = 0;
  bool has_request = false;
  for (Reader in(answer); !in.at_end(); last = key >> 3) {
    std::string_view text;
    require(in.read_key(key) && (key & 7) == wire::bytes && key >> 3 > last && in.read_text(text));
    if (key >> 3 != 2) continue;
    base::Buffer again;
    require(envoy::answer_reflection(text, again) == envoy::ReadProblem::none &&
            again.view() == answer);
    has_request = true;
  }
  require(has_request && last >= 4 && last <= 7);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  base::Buffer first, again;
  const envoy::ReadProblem problem = envoy::answer_reflection(input, first);
  require(envoy::answer_reflection(input, again) == problem && first.view() == again.view());
  if (problem == envoy::ReadProblem::none)
    check_answer(first.view());
  else
    require(first.size() == 0);
  return 0;
}
