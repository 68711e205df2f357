#include "protocol/resp/import.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>

#include "base/clock.h"
#include "base/hash.h"
#include "base/printable.h"
#include "config/address.h"
#include "limit/gcra.h"
#include "protocol/resp/client.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace {

constexpr std::string_view keys_of_a_page = "1000";  // about
// What is asked of Redis in one go at most.
constexpr size_t asked_keys_max = 1000, asked_bytes_max = size_t{1} << 20;
constexpr size_t first_names = 3;
constexpr size_t key_bytes_max = wire::RespBounds().word_bytes;
constexpr size_t told_bytes_max = 256;

// A pass over the keys of one Redis.
class CellReader {
 public:
  CellReader(const CellSource& source, const VisitCell& visit, CellReport& report,
             std::string& problem)
      : source_(source), visit_(visit), report_(report), problem_(problem) {}

  bool read() {
    auto client = RespClient::connect(source_.host, source_.port, source_.patience, problem_);
    if (!client) return fail(problem_);
    client_ = &*client;
    if (!greet()) return false;
    std::string cursor = "0";
    do {
      std::vector<std::string> page;
      if (!scan(cursor, page) || !read_page(page)) return false;
    } while (cursor != "0");
    return true;
  }

 private:
  using Names = std::span<const std::string>;

  bool fail(const std::string& why) {
    problem_ = "Redis at " + config::format_address(source_.host, source_.port) + ": " + why;
    return false;
  }

  // The replies to what was added. An error is a failure, but for a key that has another type by
  // now.
  bool exchange() {
    if (!client_->exchange(replies_, problem_)) return fail(problem_);
    for (const RespValue& reply : replies_)
      if (reply.is_error() && !reply.text.starts_with("WRONGTYPE"))
        return fail("it refuses: " + base::printable(reply.text, told_bytes_max));
    return true;
  }

  bool greet() {
    if (!source_.user.empty())
      client_->add({"AUTH", source_.user, source_.password});
    else if (!source_.password.empty())
      client_->add({"AUTH", source_.password});
    if (source_.database != 0) client_->add({"SELECT", std::to_string(source_.database)});
    return exchange();
  }

  bool scan(std::string& cursor, std::vector<std::string>& page) {
    client_->add({"SCAN", cursor, "MATCH", source_.pattern, "COUNT", keys_of_a_page});
    if (!exchange()) return false;
    RespValue& reply = replies_.front();
    if (!reply.is_list() || reply.items.size() != 2 || !reply.items[0].is_text() ||
        !reply.items[1].is_list())
      return fail("its answer to SCAN is none");
    cursor = reply.items[0].text;
    for (RespValue& key : reply.items[1].items) page.push_back(std::move(key.text));
    return true;
  }

  // In parts of a bounded size.
  bool read_page(Names page) {
    while (!page.empty()) {
      size_t count = 0;
      for (size_t bytes = 0; count < page.size() && count < asked_keys_max; ++count) {
        bytes += page[count].size();
        if (count > 0 && bytes > asked_bytes_max) break;
      }
      if (!read_part(page.first(count))) return false;
      page = page.subspan(count);
    }
    return true;
  }

  bool read_part(Names part) {
    std::vector<std::string_view> keys;
    for (const std::string& key : part) {
      if (key.size() > key_bytes_max)
        note(key, {.skip = CellSkip::long_key});
      else
        keys.push_back(key);
    }
    return find_strings(keys) && read_strings(keys);
  }

  // Leaves those that are strings.
  bool find_strings(std::vector<std::string_view>& keys) {
    for (const std::string_view key : keys) client_->add({"TYPE", key});
    if (!exchange()) return false;
    size_t left = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string& type = replies_[i].text;
      if (type == "string")
        keys[left++] = keys[i];
      else
        note(keys[i], {.skip = type == "none" ? CellSkip::expired : CellSkip::other_type});
    }
    keys.resize(left);
    return true;
  }

  bool read_strings(std::span<const std::string_view> keys) {
    // A byte more than the longest number.
    for (const std::string_view key : keys) {
      client_->add({"PTTL", key});
      client_->add({"GETRANGE", key, "0", "20"});
    }
    const base::Time before = clock_.now();
    if (!exchange()) return false;
    const base::Time after = clock_.now();
    for (size_t i = 0; i < keys.size(); ++i) {
      const RespValue &life = replies_[2 * i], &text = replies_[2 * i + 1];
      if (text.is_error()) {
        note(keys[i], {.skip = CellSkip::other_type});
      } else if (!life.is_integer() || !text.is_text()) {
        return fail("its answer to PTTL or GETRANGE is none");
      } else if (!note(keys[i], read_cell_key(text.text, life.number, before, after))) {
        return false;
      }
    }
    return true;
  }

  bool note(std::string_view key, const CellKey& read) {
    const bool again = !seen_.insert(base::digest(key)).second;
    if (!again) ++report_.keys;
    if (!read.skip) {
      if (!again) ++report_.cells;
      return visit_(key, read.tat, again, problem_);
    }
    if (again) return true;
    CellReport::Skipped& skipped = report_.skipped[static_cast<size_t>(*read.skip)];
    ++skipped.keys;
    if (skipped.first.size() < first_names) skipped.first.emplace_back(key);
    return true;
  }

  const CellSource& source_;
  const VisitCell& visit_;
  CellReport& report_;
  std::string& problem_;
  RespClient* client_ = nullptr;
  std::vector<RespValue> replies_;
  base::Clock clock_;
  std::unordered_set<uint64_t> seen_;  // digests of the keys
};

}  // namespace

std::string_view name_of(CellSkip why) {
  static constexpr std::string_view names[] = {"other_type", "no_number", "no_life",
                                               "other_life", "expired",   "long_key"};
  static_assert(std::size(names) == cell_skips);
  return names[static_cast<size_t>(why)];
}

limit::State cell_state(int64_t tat) {
  return limit::gcra::state_of(limit::gcra::without_numbers(limit::Algorithm::gcra_cell), tat);
}

CellKey read_cell_key(std::string_view text, int64_t life_ms, base::Time before, base::Time after) {
  int64_t tat = 0;
  const char* const end = text.data() + text.size();
  if (text.size() < 18 || text.size() > 20 || text.front() == '-') return {0, CellSkip::no_number};
  const auto read = std::from_chars(text.data(), end, tat);
  if (read.ec != std::errc() || read.ptr != end) return {0, CellSkip::no_number};
  if (life_ms == -1) return {tat, CellSkip::no_life};
  if (life_ms < 0) return {tat, CellSkip::expired};
  const int64_t tolerance_ms = cell_life_tolerance.us / 1'000;
  const int64_t least_ms = (tat / 1'000 - after.us) / 1'000 - tolerance_ms,
                most_ms = (tat / 1'000 - before.us) / 1'000 + tolerance_ms;
  if (life_ms < least_ms || life_ms > most_ms) return {tat, CellSkip::other_life};
  if (cell_state(tat).fresh_at_us <= after.us) return {tat, CellSkip::expired};
  return {tat, {}};
}

bool read_cells(const CellSource& source, const VisitCell& visit, CellReport& report,
                std::string& problem) {
  return CellReader(source, visit, report, problem).read();
}

}  // namespace sluice::resp
