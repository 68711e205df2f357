#include "protocol/resp/import.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "base/printable.h"
#include "cli/asked_server.h"
#include "config/address.h"
#include "limit/gcra.h"
#include "protocol/resp/reply_value.h"
#include "wire/resp.h"

namespace sluice::resp {
namespace {

constexpr std::string_view keys_of_a_page = "1000";  // SCAN's COUNT; Redis may return more or fewer
// The most keys and bytes that one exchange with Redis asks for.
constexpr size_t asked_keys_max = 1000, asked_bytes_max = size_t{1} << 20;
constexpr size_t first_names = 3;
constexpr size_t key_bytes_max = wire::RespBounds().word_bytes;
constexpr size_t told_bytes_max = 256;

// A pass over the keys of one Redis.
class CellReader {
 public:
  CellReader(const CellSource& source, const VisitCell& visit)
      : source_(source),
        visit_(visit),
        redis_("redis", {{source.host, source.port}, source.patience},
               {source.user, source.password}) {}

  base::Result<CellReport> read() {
    base::Done done = select();
    std::string cursor = "0";
    do {
      std::vector<std::string> page;
      if (done) done = scan(cursor, page);
      if (done) done = read_page(page);
      if (!done) return std::move(done).problem();
    } while (cursor != "0");
    return std::move(report_);
  }

 private:
  using Names = std::span<const std::string>;

  base::Problem fail(const std::string& why) const {
    return {"Redis at " + config::format_address(source_.host, source_.port) + ": " + why};
  }

  // Adds a command to the next exchange. The words must live until then.
  void add(std::initializer_list<std::string_view> words) {
    client_request& command = commands_.emplace_back();
    command.verb = client_verb::command;
    command.words = words;
  }

  // Sends the added commands and receives their replies. An error ends the pass, except if a key
  // has another type by now. A connection that was lost between two exchanges ends it as well,
  // because a new connection would be in another database.
  base::Done exchange() {
    const std::vector<client_request> commands = std::exchange(commands_, {});
    if (redis_.was_lost()) return fail("the connection was lost");
    replies_.clear();
    for (const client_result& result : redis_.call_all(commands)) {
      if (result.error != client_errc::none) return fail(result.text);
      auto reply = resp_value(result.reply);
      if (!reply) return fail(resp_too_deep);
      if (reply->is_error() && !reply->text.starts_with("WRONGTYPE"))
        return fail("it refuses: " + base::printable(reply->text, told_bytes_max));
      replies_.push_back(*std::move(reply));
    }
    return {};
  }

  base::Done select() {
    if (source_.database == 0) return {};
    const std::string database = std::to_string(source_.database);
    add({"SELECT", database});
    return exchange();
  }

  base::Done scan(std::string& cursor, std::vector<std::string>& page) {
    add({"SCAN", cursor, "MATCH", source_.pattern, "COUNT", keys_of_a_page});
    if (base::Done done = exchange(); !done) return done;
    RespValue& reply = replies_.front();
    if (!reply.is_list() || reply.items.size() != 2 || !reply.items[0].is_text() ||
        !reply.items[1].is_list())
      return fail("its answer to SCAN is none");
    cursor = reply.items[0].text;
    for (RespValue& key : reply.items[1].items) page.push_back(std::move(key.text));
    return {};
  }

  // Reads the page in parts of bounded size.
  base::Done read_page(Names page) {
    while (!page.empty()) {
      size_t count = 0;
      for (size_t bytes = 0; count < page.size() && count < asked_keys_max; ++count) {
        bytes += page[count].size();
        if (count > 0 && bytes > asked_bytes_max) break;
      }
      if (base::Done done = read_part(page.first(count)); !done) return done;
      page = page.subspan(count);
    }
    return {};
  }

  base::Done read_part(Names part) {
    std::vector<std::string_view> keys;
    for (const std::string& key : part) {
      if (key.size() > key_bytes_max)
        skip(key, CellSkip::long_key);
      else
        keys.push_back(key);
    }
    base::Done done = find_strings(keys);
    if (done) done = read_strings(keys);
    return done;
  }

  // Keeps only the keys that are strings.
  base::Done find_strings(std::vector<std::string_view>& keys) {
    for (const std::string_view key : keys) add({"TYPE", key});
    if (base::Done done = exchange(); !done) return done;
    size_t left = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
      const std::string& type = replies_[i].text;
      if (type == "string")
        keys[left++] = keys[i];
      else
        skip(keys[i], type == "none" ? CellSkip::expired : CellSkip::other_type);
    }
    keys.resize(left);
    return {};
  }

  base::Done read_strings(std::span<const std::string_view> keys) {
    // One byte more than the longest number, so that a longer value is recognized.
    for (const std::string_view key : keys) {
      add({"PTTL", key});
      add({"GETRANGE", key, "0", "20"});
    }
    const base::Time before = clock_.now();
    if (base::Done done = exchange(); !done) return done;
    const base::Time after = clock_.now();
    for (size_t i = 0; i < keys.size(); ++i) {
      const RespValue &life = replies_[2 * i], &text = replies_[2 * i + 1];
      if (text.is_error()) {
        skip(keys[i], CellSkip::other_type);
      } else if (!life.is_integer() || !text.is_text()) {
        return fail("its answer to PTTL or GETRANGE is none");
      } else {
        const CellKey read = read_cell_key(text.text, life.number, before, after);
        if (read.skip)
          skip(keys[i], *read.skip);
        else if (base::Done done = visit(keys[i], read.tat); !done)
          return done;
      }
    }
    return {};
  }

  // Was the key listed before?
  bool is_again(std::string_view key) {
    const bool again = !seen_.insert(base::digest(key)).second;
    if (!again) ++report_.keys;
    return again;
  }

  base::Done visit(std::string_view key, int64_t tat) {
    const bool again = is_again(key);
    if (!again) ++report_.cells;
    return visit_(key, tat, again);
  }

  void skip(std::string_view key, CellSkip why) {
    if (is_again(key)) return;
    CellReport::Skipped& skipped = report_.skipped[static_cast<size_t>(why)];
    ++skipped.keys;
    if (skipped.first.size() < first_names) skipped.first.emplace_back(key);
  }

  const CellSource& source_;
  const VisitCell& visit_;
  CellReport report_;
  cli::AskedServer redis_;
  std::vector<client_request> commands_;
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

base::Result<CellReport> read_cells(const CellSource& source, const VisitCell& visit) {
  return CellReader(source, visit).read();
}

}  // namespace sluice::resp
