#include "disk/record.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"

namespace sluice::disk {

namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

// Of a record without its key, its cells and their count.
constexpr size_t record_bytes_max = 8 * varint_bytes_max;
constexpr size_t cell_bytes_max = 2 * varint_bytes_max;

template <class Integer>
char* put_fixed(char* at, Integer n) {
  for (size_t i = 0; i < sizeof n; ++i) *at++ = static_cast<char>(n >> (8 * i));
  return at;
}

void append_varint(std::string& out, uint64_t n) {
  char bytes[varint_bytes_max];
  out.append(bytes, put_varint(bytes, n));
}

void append_text(std::string& out, std::string_view text) {
  append_varint(out, text.size());
  out += text;
}

// A number of the dictionary, or nothing that it could be.
bool small(Input& input, uint32_t& n) {
  uint64_t wide;
  if (!input.varint(wide) || wide > UINT32_MAX) return false;
  n = static_cast<uint32_t>(wide);
  return true;
}

bool parse_forget(Input& input, int64_t base_us, uint32_t& limits, int64_t& forget_us) {
  uint64_t head;
  if (!input.varint(head) || head >> 1 > UINT32_MAX) return false;
  limits = static_cast<uint32_t>(head >> 1);
  forget_us = INT64_MAX;
  if ((head & 1) != 0) return true;
  int64_t after;
  if (!input.number(after)) return false;
  forget_us = wrapped_plus(base_us, after);
  return forget_us != INT64_MAX;
}

bool parse_state(std::string_view bytes, int64_t base_us, StoredCounter& counter) {
  Input input(bytes);
  if (!parse_forget(input, base_us, counter.limits, counter.forget_us)) return false;
  uint64_t cells;
  if (!input.varint(cells) || cells < 1 || cells > limit::counter_cells_max) return false;
  counter.cell_count = cells;
  int64_t last_us = counter.forget_us == INT64_MAX ? base_us : counter.forget_us;
  for (size_t i = 0; i < cells; ++i) {
    int64_t after, units;
    if (!input.number(after) || !input.number(units)) return false;
    last_us = wrapped_plus(last_us, after);
    counter.cells[i] = {last_us, units};
  }
  return input.done();
}

// Algorithms as they are stored, which no change of the enumeration's order may touch.
constexpr std::array stored_algorithms = {
    Algorithm::unlimited,      Algorithm::deny,         Algorithm::fixed_window,
    Algorithm::aligned_window, Algorithm::token_bucket, Algorithm::sliding_window,
    Algorithm::sliding_log,    Algorithm::fixed_bucket, Algorithm::gcra_cell,
    Algorithm::gcra_crab,      Algorithm::gcra_redis};

// As the algorithms take it for granted.
bool is_usable(const Limit& limit) {
  if (!limit::has_counter(limit.algorithm)) return true;
  if (limit.algorithm == Algorithm::fixed_bucket) return limit.burst >= 1;
  return limit.quota >= 1 && limit.window.us >= 1 &&
         (limit.algorithm != Algorithm::token_bucket || limit.burst >= 1);
}

}  // namespace

void BlockWriter::clear() {
  used_ = block_head_bytes;
  count_ = 0;
}

void BlockWriter::add(uint32_t space, uint32_t limits, std::string_view key,
                      std::span<const State> cells, int64_t forget_us) {
  SLUICE_CHECK(cells.size() <= limit::counter_cells_max);
  const size_t most = used_ + record_bytes_max + key.size() + cells.size() * cell_bytes_max;
  if (most > text_.size()) text_.resize(std::max(most, text_.size() * 2));
  if (count_++ == 0) {
    const int64_t fresh_at_us = cells.empty() ? 0 : cells[0].fresh_at_us;
    base_us_ = forget_us == INT64_MAX ? fresh_at_us : forget_us;
  }

  char* at = text_.data() + used_;
  at = put_varint(at, space);
  at = put_varint(at, key.size());
  at = std::copy(key.begin(), key.end(), at);
  if (cells.empty()) {
    at = put_varint(at, 0);
  } else {
    // The length comes first. It takes one byte but for states of many cells.
    char* const length = at++;
    const bool never = forget_us == INT64_MAX;
    at = put_varint(at, uint64_t{limits} << 1 | uint64_t{never});
    if (!never) at = put_varint(at, zigzag(wrapped_minus(forget_us, base_us_)));
    at = put_varint(at, cells.size());
    int64_t last_us = never ? base_us_ : forget_us;
    for (const State& cell : cells) {
      at = put_varint(at, zigzag(wrapped_minus(cell.fresh_at_us, last_us)));
      at = put_varint(at, zigzag(cell.units));
      last_us = cell.fresh_at_us;
    }
    const auto bytes = static_cast<size_t>(at - length) - 1;
    if (bytes >= 0x80) {
      char coded[varint_bytes_max];
      const auto more = put_varint(coded, bytes) - coded - 1;
      std::copy_backward(length + 1, at, at + more);
      at += more;
    }
    put_varint(length, bytes);
  }
  used_ = static_cast<size_t>(at - text_.data());
}

std::string BlockWriter::take() {
  SLUICE_CHECK(count_ > 0);
  char* at = text_.data();
  *at++ = static_cast<char>(block_format);
  at = put_fixed(at, count_);
  put_fixed(at, static_cast<uint64_t>(base_us_));
  std::string block;
  if (used_ >= text_.size() / 2) {
    text_.resize(used_);
    block.swap(text_);
  } else {
    block.assign(text_, 0, used_);
  }
  clear();
  return block;
}

void BlockWriter::give(std::string spare) {
  if (used_ > block_head_bytes || spare.size() <= text_.size()) return;
  text_.swap(spare);
}

BlockReader::BlockReader(std::string_view block) : input_(block) {
  uint8_t format;
  uint64_t base;
  sound_ = input_.byte(format) && format == block_format && input_.fixed32(count_) &&
           input_.fixed64(base) && count_ > 0;
  if (sound_) base_us_ = static_cast<int64_t>(base);
}

bool BlockReader::next(PackedCounter& counter) {
  if (!sound_ || input_.done()) return false;
  uint64_t key, state;
  sound_ = small(input_, counter.space) && counter.space > 0 && input_.varint(key) &&
           input_.text(key, counter.key) && input_.varint(state) &&
           input_.text(state, counter.state) && ++read_ <= count_;
  return sound_;
}

bool BlockReader::next(StoredCounter& counter) {
  PackedCounter packed;
  if (!next(packed)) return false;
  counter.space = packed.space;
  counter.key = packed.key;
  if (packed.state.empty()) {
    counter.limits = 0;
    counter.cell_count = 0;
    counter.forget_us = INT64_MAX;
  } else {
    sound_ = parse_state(packed.state, base_us_, counter);
  }
  return sound_;
}

void append_key(std::string& out, uint32_t space, std::string_view key) {
  append_varint(out, space);
  out += key;
}

bool parse_key(std::string_view bytes, uint32_t& space, std::string_view& key) {
  Input input(bytes);
  return small(input, space) && space > 0 && input.text(input.left(), key);
}

void append_value(std::string& out, int64_t base_us, std::string_view state) {
  char base[8];
  put_fixed(base, static_cast<uint64_t>(base_us));
  out.append(base, sizeof base);
  out += state;
}

bool parse_value(std::string_view bytes, StoredCounter& counter) {
  Input input(bytes);
  uint64_t base;
  if (!input.fixed64(base)) return false;
  return parse_state(bytes.substr(sizeof base), static_cast<int64_t>(base), counter);
}

int64_t forget_us_of(std::string_view value) {
  Input input(value);
  uint64_t base;
  uint32_t limits;
  int64_t forget_us;
  if (!input.fixed64(base) || !parse_forget(input, static_cast<int64_t>(base), limits, forget_us))
    return INT64_MAX;
  return forget_us;
}

void append_space(std::string& out, const request::Space& space) {
  append_text(out, space.prefix);
  append_text(out, space.suffix);
  append_varint(out, space.carry == limit::CarryOver::left ? 1 : 0);
  append_varint(out, zigzag(space.keep_fresh_for.us));
  append_varint(out, space.windows.size());
  for (const limit::Duration window : space.windows) append_varint(out, zigzag(window.us));
}

bool parse_space(std::string_view bytes, request::Space& space) {
  Input input(bytes);
  uint64_t size, carry, windows;
  std::string_view text;
  if (!input.varint(size) || !input.text(size, text)) return false;
  space.prefix = text;
  if (!input.varint(size) || !input.text(size, text)) return false;
  space.suffix = text;
  if (!input.varint(carry) || carry > 1) return false;
  space.carry = carry == 1 ? limit::CarryOver::left : limit::CarryOver::used;
  if (!input.number(space.keep_fresh_for.us) || space.keep_fresh_for.us < 0) return false;
  if (!input.varint(windows) || windows > limit::slots_max) return false;
  space.windows.clear();
  for (size_t i = 0; i < windows; ++i) {
    limit::Duration window;
    if (!input.number(window.us) || window.us < 1 || window.us > base::bounds::window_us_max ||
        (i > 0 && window <= space.windows.back()))
      return false;
    space.windows.push_back(window);
  }
  return input.done();
}

void append_limits(std::string& out, std::span<const Limit> limits) {
  append_varint(out, limits.size());
  for (const Limit& limit : limits) {
    const auto* const at =
        std::find(stored_algorithms.begin(), stored_algorithms.end(), limit.algorithm);
    SLUICE_CHECK(at != stored_algorithms.end());
    append_varint(out, static_cast<uint64_t>(at - stored_algorithms.begin()));
    append_varint(out, zigzag(limit.quota));
    append_varint(out, zigzag(limit.window.us));
    append_varint(out, zigzag(limit.burst));
  }
}

bool parse_limits(std::string_view bytes, std::vector<Limit>& limits) {
  Input input(bytes);
  uint64_t count, algorithm;
  if (!input.varint(count) || count < 1 || count > limit::slots_max) return false;
  limits.clear();
  for (size_t i = 0; i < count; ++i) {
    Limit limit;
    if (!input.varint(algorithm) || algorithm >= stored_algorithms.size()) return false;
    limit.algorithm = stored_algorithms[algorithm];
    const auto is_count = [](int64_t n) { return n >= 0 && n <= base::bounds::quota_max; };
    if (!input.number(limit.quota) || !input.number(limit.window.us) ||
        !input.number(limit.burst) || !is_count(limit.quota) || !is_count(limit.burst) ||
        limit.window.us < 0 || limit.window.us > base::bounds::window_us_max || !is_usable(limit))
      return false;
    limits.push_back(limit);
  }
  return input.done();
}

}  // namespace sluice::disk
