#include "store/log/format.h"

#include <algorithm>

#include "base/bounds.h"
#include "base/check.h"
#include "base/hash.h"
#include "limit/calendar.h"

#if defined(__aarch64__)
#include <arm_acle.h>
#include <sys/auxv.h>
#endif

namespace sluice::disk {

namespace {

using limit::Algorithm;
using limit::Limit;
using limit::State;

// Of a record without its key and its cells.
constexpr size_t record_bytes_max = 8 * varint_bytes_max;
constexpr size_t cell_bytes_max = 2 * varint_bytes_max;

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82F63B78 : 0);
    table[i] = crc;
  }
  return table;
}();

// From here on `crc` is the register, without the inversions at both ends.
uint32_t by_table(uint32_t crc, std::string_view bytes) {
  for (const char byte : bytes)
    crc = crc >> 8 ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return crc;
}

uint64_t word_at(const char* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)
bool has_crc() {
  return __builtin_cpu_supports("sse4.2") != 0;
}
__attribute__((target("sse4.2"))) uint32_t by_processor(uint32_t crc, std::string_view bytes) {
  uint64_t wide = crc;
  const size_t words = bytes.size() / 8;
  for (size_t i = 0; i < words; ++i)
    wide = __builtin_ia32_crc32di(wide, word_at(bytes.data() + 8 * i));
  crc = static_cast<uint32_t>(wide);
  for (const char byte : bytes.substr(8 * words))
    crc = __builtin_ia32_crc32qi(crc, static_cast<unsigned char>(byte));
  return crc;
}
#elif defined(__aarch64__)
bool has_crc() {
  return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}
__attribute__((target("+crc"))) uint32_t by_processor(uint32_t crc, std::string_view bytes) {
  const size_t words = bytes.size() / 8;
  for (size_t i = 0; i < words; ++i) crc = __crc32cd(crc, word_at(bytes.data() + 8 * i));
  for (const char byte : bytes.substr(8 * words)) crc = __crc32cb(crc, static_cast<uint8_t>(byte));
  return crc;
}
#else
bool has_crc() {
  return false;
}
uint32_t by_processor(uint32_t crc, std::string_view bytes) {
  return by_table(crc, bytes);
}
#endif

template <class Integer>
char* put_fixed(char* at, Integer n) {
  for (size_t i = 0; i < sizeof n; ++i) *at++ = static_cast<char>(n >> (8 * i));
  return at;
}

// Algorithms as they are stored, which no change of the enumeration's order may touch.
constexpr std::array stored_algorithms = {
    Algorithm::unlimited,      Algorithm::deny,         Algorithm::fixed_window,
    Algorithm::aligned_window, Algorithm::token_bucket, Algorithm::sliding_window,
    Algorithm::sliding_log,    Algorithm::fixed_bucket, Algorithm::gcra_cell,
    Algorithm::gcra_crab,      Algorithm::gcra_redis};
// In place of an algorithm's: an aligned_window of a calendar, whose text stands in place of the
// window and the burst; and what came after it.
constexpr uint64_t stored_calendar = stored_algorithms.size(), stored_concurrency = 12;
static_assert(stored_calendar == 11);

// The same.
constexpr std::array stored_carries = {limit::CarryOver::used, limit::CarryOver::left,
                                       limit::CarryOver::apart};
uint64_t stored_carry(limit::CarryOver carry) {
  return static_cast<uint64_t>(std::find(stored_carries.begin(), stored_carries.end(), carry) -
                               stored_carries.begin());
}

// As the algorithms take it for granted.
bool is_usable(const Limit& limit) {
  if (!limit::has_counter(limit.algorithm)) return true;
  if (limit.algorithm == Algorithm::fixed_bucket) return limit.burst >= 1;
  const int64_t least = limit.algorithm == Algorithm::aligned_window ? 0 : 1;
  if (limit.algorithm == Algorithm::concurrency && limit.burst < limit.window.us) return false;
  return limit.quota >= least && limit.window.us >= 1 &&
         (limit.algorithm != Algorithm::token_bucket || limit.burst >= 1);
}

}  // namespace

uint32_t crc32c_by_table(uint32_t crc, std::string_view bytes) {
  return ~by_table(~crc, bytes);
}

uint32_t crc32c(uint32_t crc, std::string_view bytes) {
  static const bool has = has_crc();
  return has ? ~by_processor(~crc, bytes) : crc32c_by_table(crc, bytes);
}

void put_head(char* to, const BlockHead& head, std::string_view body, std::string_view rest) {
  char* at = put_fixed(to + 4, head.length);
  at = put_fixed(at, head.file);
  at = put_fixed(at, head.synced);
  put_fixed(at, head.type);
  const uint32_t crc = crc32c(0, {to + 4, block_head_bytes - 4});
  put_fixed(to, crc32c(crc32c(crc, body), rest));
}

BlockHead head_of(const char* bytes, uint32_t& crc) {
  Input input({bytes, block_head_bytes});
  BlockHead head;
  input.fixed32(crc);
  input.fixed32(head.length);
  input.fixed64(head.file);
  input.fixed64(head.synced);
  input.fixed32(head.type);
  return head;
}

bool checks(uint32_t crc, std::string_view head, std::string_view body) {
  return crc32c(crc32c(0, head), body) == crc;
}

void append_varint(std::string& out, uint64_t n) {
  char bytes[varint_bytes_max];
  out.append(bytes, put_varint(bytes, n));
}

void append_text(std::string& out, std::string_view text) {
  append_varint(out, text.size());
  out += text;
}

void append_fixed64(std::string& out, uint64_t n) {
  char bytes[sizeof n];
  out.append(bytes, put_fixed(bytes, n));
}

bool Input::long_varint(uint64_t& n) {
  n = 0;
  for (unsigned shift = 0; shift < 64 && at_ < end_; shift += 7) {
    const auto bits = static_cast<unsigned char>(*at_++);
    n |= static_cast<uint64_t>(bits & 0x7f) << shift;
    if (bits < 0x80) return bits != 0 && (shift < 63 || bits == 1);
  }
  return false;
}

void WrittenBlock::seal(uint64_t file, uint64_t synced, bool more) {
  const BlockHead head{.length = static_cast<uint32_t>(bytes() - block_head_bytes),
                       .file = file,
                       .synced = synced,
                       .type = static_cast<uint32_t>(type) | (more ? more_follow : 0)};
  put_head(body.data(), head, std::string_view(body).substr(block_head_bytes), rest);
}

template <class Append>
uint32_t CountersWriter::Places::of(uint32_t id, uint32_t serial, std::string& texts,
                                    const Append& append) {
  if (slots_.size() < 2 * (size_t{count_} + 1)) {
    std::vector<Slot> before(std::max<size_t>(16, slots_.size() * 2));
    before.swap(slots_);
    for (const Slot& slot : before) {
      if (slot.round != round_) continue;
      size_t at = slot.id & (slots_.size() - 1);
      while (slots_[at].round == round_) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = slot;
    }
  }
  for (size_t at = id & (slots_.size() - 1);; at = (at + 1) & (slots_.size() - 1)) {
    Slot& slot = slots_[at];
    if (slot.round != round_) {
      std::string text;
      append(text);
      const size_t before = texts.size();
      try {
        append_text(texts, text);
      } catch (...) {
        texts.resize(before);
        throw;
      }
      slot = {id, serial, count_++, round_};
    }
    if (slot.id == id && slot.serial == serial) return slot.place;
  }
}

void CountersWriter::Places::clear() {
  count_ = 0;
  if (++round_ != 0) return;
  slots_.clear();
  round_ = 1;
}

void CountersWriter::add(const request::CounterRecord& record) {
  const auto cells = record.cells;
  SLUICE_CHECK(cells.size() <= limit::counter_cells_max);
  const size_t most = used_ + record_bytes_max + record.key.size() + cells.size() * cell_bytes_max;
  if (most > records_.size()) records_.resize(std::max(most, records_.size() * 2));
  const uint32_t space =
      space_places_.of(record.space->id, record.space->serial, spaces_text_,
                       [&](std::string& text) { append_space(text, *record.space); });
  uint32_t limits = 0;
  if (record.limits_id != 0 && !cells.empty())
    limits = 1 + list_places_.of(record.limits_id, spaces_->serial_of_limits(record.limits_id),
                                 lists_text_, [&](std::string& text) {
                                   append_limits(text, spaces_->limits(record.limits_id));
                                 });
  // From here on nothing can fail.
  if (count_++ == 0) {
    const int64_t fresh_at_us = cells.empty() ? 0 : cells[0].fresh_at_us;
    base_us_ = record.forget_us == INT64_MAX ? fresh_at_us : record.forget_us;
  }

  char* at = records_.data() + used_;
  at = put_varint(at, space);
  at = put_varint(at, record.key.size());
  at = std::copy(record.key.begin(), record.key.end(), at);
  at = put_varint(at, cells.size());
  if (!cells.empty()) {
    const bool never = record.forget_us == INT64_MAX;
    at = put_varint(at, uint64_t{limits} << 1 | uint64_t{never});
    if (!never) at = put_varint(at, zigzag(wrapped_minus(record.forget_us, base_us_)));
    int64_t last_us = never ? base_us_ : record.forget_us;
    for (const State& cell : cells) {
      at = put_varint(at, zigzag(wrapped_minus(cell.fresh_at_us, last_us)));
      at = put_varint(at, zigzag(cell.units));
      last_us = cell.fresh_at_us;
    }
  }
  used_ = static_cast<size_t>(at - records_.data());
}

WrittenBlock CountersWriter::take() {
  WrittenBlock block(BlockType::counters);
  append_fixed64(block.body, static_cast<uint64_t>(base_us_));
  append_varint(block.body, space_places_.count());
  block.body += spaces_text_;
  append_varint(block.body, list_places_.count());
  block.body += lists_text_;
  append_varint(block.body, count_);
  // A large one is handed over, a small one copied.
  if (used_ >= records_.size() / 2) {
    records_.resize(used_);
    block.rest.swap(records_);
  } else {
    block.rest.assign(records_, 0, used_);
  }
  used_ = count_ = 0;
  spaces_text_.clear();
  lists_text_.clear();
  space_places_.clear();
  list_places_.clear();
  return block;
}

bool CountersReader::define(std::vector<std::string_view>& all) {
  all.clear();
  uint64_t count;
  if (!input_.varint(count) || count > input_.left()) return false;
  all.resize(static_cast<size_t>(count));
  return std::all_of(all.begin(), all.end(),
                     [this](std::string_view& one) { return input_.text(one); });
}

bool CountersReader::open(std::string_view body) {
  input_ = Input(body);
  uint64_t base = 0;
  read_ = count_ = 0;
  sound_ = input_.fixed64(base) && define(spaces_) && define(lists_) && input_.varint(count_) &&
           count_ > 0;
  base_us_ = static_cast<int64_t>(base);
  return sound_;
}

bool CountersReader::next(StoredCounter& counter) {
  if (!sound_ || read_ == count_) return false;
  uint64_t space = 0, cells = 0;
  sound_ = input_.varint(space) && space < spaces_.size() && input_.text(counter.key) &&
           input_.varint(cells) && cells <= limit::counter_cells_max;
  if (!sound_) return false;
  ++read_;
  counter.space = static_cast<uint32_t>(space);
  counter.cell_count = static_cast<size_t>(cells);
  counter.limits = 0;
  counter.forget_us = INT64_MAX;
  if (cells > 0) sound_ = read_state(counter);
  return sound_;
}

bool CountersReader::read_state(StoredCounter& counter) {
  uint64_t head;
  if (!input_.varint(head) || head >> 1 > lists_.size()) return false;
  counter.limits = static_cast<uint32_t>(head >> 1);
  int64_t last_us = base_us_;
  if ((head & 1) == 0) {
    int64_t after;
    if (!input_.number(after)) return false;
    last_us = counter.forget_us = wrapped_plus(base_us_, after);
    if (last_us == INT64_MAX) return false;
  }
  for (size_t i = 0; i < counter.cell_count; ++i) {
    int64_t after, units;
    if (!input_.number(after) || !input_.number(units)) return false;
    last_us = wrapped_plus(last_us, after);
    counter.cells[i] = {last_us, units};
  }
  return true;
}

void append_space(std::string& out, const request::Space& space) {
  append_text(out, space.prefix);
  append_text(out, space.suffix);
  append_varint(out, stored_carry(space.carry));
  append_varint(out, zigzag(space.keep_fresh_for.us));
  append_varint(out, space.windows.size());
  for (const limit::Duration window : space.windows) append_varint(out, zigzag(window.us));
}

bool parse_space(std::string_view bytes, request::Space& space) {
  Input input(bytes);
  uint64_t carry, windows;
  std::string_view prefix, suffix;
  if (!input.text(prefix) || !input.text(suffix) || !input.varint(carry) ||
      carry >= stored_carries.size())
    return false;
  space.prefix = prefix;
  space.suffix = suffix;
  space.carry = stored_carries[carry];
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
    if (limit.calendar) {
      append_varint(out, stored_calendar);
      append_varint(out, zigzag(limit.quota));
      append_text(out, limit.calendar.text());
      continue;
    }
    const auto* const at =
        std::find(stored_algorithms.begin(), stored_algorithms.end(), limit.algorithm);
    const bool is_places = limit.algorithm == Algorithm::concurrency;
    SLUICE_CHECK(is_places || at != stored_algorithms.end());
    append_varint(out, is_places ? stored_concurrency
                                 : static_cast<uint64_t>(at - stored_algorithms.begin()));
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
    if (!input.varint(algorithm) || algorithm > stored_concurrency) return false;
    const auto is_count = [](int64_t n) { return n >= 0 && n <= base::bounds::quota_max; };
    if (algorithm == stored_calendar) {
      std::string_view text;
      if (!input.number(limit.quota) || !input.text(text) || !is_count(limit.quota)) return false;
      const auto terms = limit::parse_calendar(text);
      if (!terms) return false;
      limit.algorithm = Algorithm::aligned_window;
      limit.window = limit::Calendar::nominal(terms->unit);
      limit.calendar = limit::Calendar::of_kept(*terms);
      if (!limit.calendar) return false;
      limits.push_back(limit);
      continue;
    }
    limit.algorithm =
        algorithm == stored_concurrency ? Algorithm::concurrency : stored_algorithms[algorithm];
    if (!input.number(limit.quota) || !input.number(limit.window.us) ||
        !input.number(limit.burst) || !is_count(limit.quota) || !is_count(limit.burst) ||
        limit.window.us < 0 || limit.window.us > base::bounds::window_us_max || !is_usable(limit))
      return false;
    limits.push_back(limit);
  }
  return input.done();
}

void append_list(std::string& out, const request::Space& space,
                 std::span<const limit::Limit> limits) {
  std::string its;
  append_space(its, space);
  append_text(out, its);
  append_limits(out, limits);
}

bool parse_list(std::string_view bytes, request::Space& space, std::vector<limit::Limit>& limits) {
  Input input(bytes);
  std::string_view its, rest;
  return input.text(its) && input.bytes(input.left(), rest) && parse_space(its, space) &&
         parse_limits(rest, limits);
}

void append_change(std::string& out, std::string_view name, const std::string_view* text) {
  append_text(out, name);
  append_varint(out, text != nullptr ? 1 : 0);
  if (text != nullptr) append_text(out, *text);
}

bool next_change(Input& input, std::string_view& name, bool& has_text, std::string_view& text) {
  uint64_t has;
  if (input.done() || !input.text(name) || !input.varint(has) || has > 1) return false;
  has_text = has == 1;
  return !has_text || input.text(text);
}

std::string text_of(const FileBegin& begin) {
  std::string text;
  append_fixed64(text, begin.store);
  append_fixed64(text, begin.previous);
  append_fixed64(text, begin.position);
  return text;
}

bool parse_begin(std::string_view bytes, FileBegin& begin) {
  Input input(bytes);
  return input.fixed64(begin.store) && input.fixed64(begin.previous) &&
         input.fixed64(begin.position) && input.done();
}

uint64_t hash_of(const request::Space& space) {
  return hash_of(base::digest(space.prefix) * 3, base::digest(space.suffix));
}

}  // namespace sluice::disk
