// Any bytes as each part of the stored format: they are refused, or what is read is written back as
// the very same bytes. The first byte says which part.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "disk/record.h"

namespace {

using namespace sluice::disk;

void require(bool holds) {
  if (!holds) std::abort();
}

void block(std::string_view bytes) {
  BlockReader reader(bytes), packed(bytes);
  BlockWriter again;
  static StoredCounter stored;
  PackedCounter skipped;
  bool first = true, same_base = true;
  while (reader.next(stored)) {
    require(packed.next(skipped) && skipped.space == stored.space && skipped.key == stored.key &&
            skipped.state.empty() == (stored.cell_count == 0));
    std::string key, value;
    append_key(key, stored.space, stored.key);
    uint32_t space;
    std::string_view rest;
    require(parse_key(key, space, rest) && space == stored.space && rest == stored.key);
    if (!skipped.state.empty()) {
      append_value(value, packed.base_us(), skipped.state);
      static StoredCounter folded;
      require(parse_value(value, folded) && folded.cell_count == stored.cell_count &&
              folded.limits == stored.limits && folded.forget_us == stored.forget_us);
      for (size_t i = 0; i < folded.cell_count; ++i) require(folded.cells[i] == stored.cells[i]);
      require(forget_us_of(value) == stored.forget_us);
    }
    if (first) {
      // The writer counts from the first record's time; any other base is as good, but not its own.
      const int64_t fresh_at_us = stored.cell_count > 0 ? stored.cells[0].fresh_at_us : 0;
      same_base =
          reader.base_us() == (stored.forget_us == INT64_MAX ? fresh_at_us : stored.forget_us);
      first = false;
    }
    again.add(stored.space, stored.limits, stored.key, stored.state(), stored.forget_us);
  }
  if (reader.sound() && same_base) require(again.take() == bytes);
}

void value(std::string_view bytes) {
  static StoredCounter stored;
  const int64_t forget_us = forget_us_of(bytes);
  if (parse_value(bytes, stored)) require(stored.forget_us == forget_us);
}

void space(std::string_view bytes) {
  sluice::request::Space read;
  std::string again;
  if (!parse_space(bytes, read)) return;
  append_space(again, read);
  require(again == bytes);
}

void limits(std::string_view bytes) {
  std::vector<sluice::limit::Limit> read;
  std::string again;
  if (!parse_limits(bytes, read)) return;
  append_limits(again, read);
  require(again == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      block(bytes);
      break;
    case 1:
      value(bytes);
      break;
    case 2:
      space(bytes);
      break;
    default:
      limits(bytes);
  }
  return 0;
}
