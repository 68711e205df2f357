#include "redis/scan.h"

#include <hiredis/hiredis.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "base/bounds.h"
#include "base/printable.h"
#include "base/units.h"
#include "redis/blocking_connection.h"
#include "redis/slots.h"
#include "redis/topology.h"
#include "store/first_names.h"

namespace sluice::redis {

namespace {

std::string why_bad(const BlockingConnection& line, const Answer& answer) {
  if (!answer) return line.problem();
  if (!is_error(answer)) return "SCAN is answered as Redis does not";
  return base::printable(text_of(*answer), 256);
}

// The text as a pattern of SCAN that matches nothing else.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^') out += '\\';
    out += c;
  }
  return out;
}

// What stands before a counter's stored name in its key: keys that are shared with Divvy have no
// prefix of ours.
std::string_view prefix_of(const Shared& shared, request::KeyEncoding encoding) {
  return encoding == request::KeyEncoding::own ? std::string_view(shared.options.key_prefix)
                                               : std::string_view();
}

// Connects to each primary, in the order of their slots. Empty: one of them could not be reached,
// which is logged, or none is known.
std::vector<std::unique_ptr<BlockingConnection>> connected(Shared& shared) {
  std::vector<std::unique_ptr<BlockingConnection>> lines;
  for (const auto& endpoint : shared.first.primaries()) {
    auto connected = connect_to(*endpoint, shared.first.tls(), &shared.ending);
    if (!connected) {
      shared.tell(shared.first, false, "a list is empty: " + connected.problem().text);
      return {};
    }
    lines.push_back(*std::move(connected));
  }
  if (lines.empty())
    shared.tell(shared.first, false, "a list is empty: primaries are not found yet");
  return lines;
}

enum class Passed : uint8_t { all, cut, failed };

// The keys that are searched for: `head`, a tag, `prefix`, any text, `suffix`.
struct Wanted {
  std::string_view head, prefix, suffix = {};
  bool tagged = false;
};

// Do keys of that encoding have a tag (redis/slots.h)?
bool is_tagged(const Shared& shared, request::KeyEncoding encoding) {
  return shared.first.has_slots() && encoding == request::KeyEncoding::own;
}

using Clock = std::chrono::steady_clock;

// The position of a pass, how many more keys it may look at, and its deadline.
struct Place {
  size_t left = base::bounds::redis_scanned_max;
  Clock::time_point due = Clock::time_point::max();
  const store::ListPass* lists = nullptr;  // it ends when none of these is needed; null: searched
                                           // for something else
  std::string cursor = "0";
};

// Where a search begins: "09" is the cursor 9 of the first encoding, "09.5000" that for 5000 keys,
// "09.5000.2" that at the third primary; there a cursor may stand with "0" keys, which are all.
struct Start {
  size_t encoding = 0;
  std::string cursor = "0";
  size_t keys = base::bounds::redis_scanned_max;
  size_t primary = 0;
};

std::optional<Start> start_of(const Shared& shared, std::string_view from) {
  if (from.empty()) return Start{};
  if (from.find_first_not_of("0123456789.") != from.npos) return std::nullopt;
  Start start;
  const size_t dot = std::min(from.find('.'), from.size());
  const size_t second_dot =
      dot == from.size() ? dot : std::min(from.find('.', dot + 1), from.size());
  const auto encoding = base::parse_count(from.substr(0, 1));
  const auto cursor = base::parse_count(from.substr(0, dot).substr(std::min<size_t>(dot, 1)));
  const bool has_primary = second_dot < from.size();
  if (has_primary && !shared.first.has_slots()) return std::nullopt;
  const auto keys = dot == from.size()
                        ? start.keys
                        : base::parse_count(from.substr(dot + 1, second_dot - dot - 1));
  const auto primary = has_primary ? base::parse_count(from.substr(second_dot + 1)) : 0;
  if (!encoding || *encoding > 1 || !cursor || !keys || !primary) return std::nullopt;
  if (*keys == 0 && !has_primary) return std::nullopt;
  start.encoding = *encoding;
  start.cursor = std::to_string(*cursor);
  if (*keys > 0) start.keys = *keys;
  start.primary = *primary;
  return start;
}

// The key without its head and tag. None: it does not match, which is checked as the peer might not
// be a Redis.
std::optional<std::string_view> without_head(std::string_view key, const Wanted& wanted) {
  if (!key.starts_with(wanted.head)) return std::nullopt;
  key.remove_prefix(wanted.head.size());
  if (wanted.tagged) {
    const std::string_view rest = without_tag(key);
    if (rest.size() == key.size()) return std::nullopt;
    key = rest;
  }
  if (key.size() < wanted.prefix.size() + wanted.suffix.size() || !key.starts_with(wanted.prefix) ||
      !key.ends_with(wanted.suffix))
    return std::nullopt;
  return key;
}

// Calls `visit(key)` for the keys found, without their head; for some of them more than once.
template <class Visit>
Passed pass(Shared& shared, BlockingConnection& line, const Wanted& wanted, Place& place,
            Visit&& visit) {
  constexpr size_t step = 1000;
  const std::string pattern = escaped(wanted.head) + (wanted.tagged ? "{????????}" : "") +
                              escaped(wanted.prefix) + "*" + escaped(wanted.suffix);
  std::string& cursor = place.cursor;
  do {
    const bool wanted_still = place.lists == nullptr || place.lists->is_wanted();
    if (place.left == 0 || !wanted_still || shared.ending.load(std::memory_order_relaxed))
      return Passed::cut;
    const size_t count = std::min(step, place.left);
    const Answer answer =
        line.ask({"SCAN", cursor, "MATCH", pattern, "COUNT", std::to_string(count)});
    if (is_error(answer) || answer->type != REDIS_REPLY_ARRAY || answer->elements != 2 ||
        answer->element[0]->type != REDIS_REPLY_STRING ||
        answer->element[1]->type != REDIS_REPLY_ARRAY) {
      shared.tell(shared.first, false, "a list is cut short: " + why_bad(line, answer));
      return Passed::failed;
    }
    cursor.assign(answer->element[0]->str, static_cast<size_t>(answer->element[0]->len));
    const redisReply& keys = *answer->element[1];
    for (size_t i = 0; i < keys.elements; ++i) {
      if (const auto key = without_head(text_of(*keys.element[i]), wanted)) visit(*key);
    }
    place.left -= count;
    if (cursor == "0") return Passed::all;
  } while (Clock::now() < place.due);
  return Passed::cut;
}

}  // namespace

void scan(Shared& shared, store::ListPass& lists) {
  const auto lines = connected(shared);
  for (const request::KeyEncoding encoding :
       {request::KeyEncoding::own, request::KeyEncoding::remaining_text}) {
    const std::string_view head = prefix_of(shared, encoding);
    store::PrefixIndex index;
    std::string_view suffix;
    size_t count = 0;
    for (size_t i = 0; i < lists.size(); ++i) {
      const request::Space& space = lists.space(i);
      if (space.encoding != encoding) continue;
      index.add(0, space.prefix + std::string(lists.prefix(i)), i);
      suffix = ++count == 1 ? std::string_view(space.suffix) : std::string_view();
    }
    if (count == 0) continue;
    index.close();
    const auto visit = [&](std::string_view key) {
      index.each(0, key, [&](size_t number) {
        const request::Space& space = lists.space(number);
        const size_t front = space.prefix.size();
        if (key.size() < front + lists.prefix(number).size() + space.suffix.size() ||
            !key.ends_with(space.suffix))
          return;
        lists.offer(number, key.substr(front, key.size() - front - space.suffix.size()));
      });
    };
    Place place{.lists = &lists};
    // SCAN searches for the text that all lists begin with; the keys are given to their lists here.
    const Wanted wanted{head, index.common(), suffix, is_tagged(shared, encoding)};
    Passed passed = lines.empty() ? Passed::failed : Passed::all;
    for (size_t i = 0; i < lines.size() && passed == Passed::all; ++i) {
      place.cursor = "0";
      passed = pass(shared, *lines[i], wanted, place, visit);
    }
    if (passed != Passed::failed) continue;
    for (size_t i = 0; i < lists.size(); ++i)
      if (lists.space(i).encoding == encoding) lists.fail(i);
  }
}

namespace {

// The part of a continuation that names a primary; empty for the first.
std::string at_primary(const char* head, size_t primary) {
  return primary == 0 ? "" : head + ("." + std::to_string(primary));
}

}  // namespace

// Makes two passes over each primary, one for each encoding of keys.
store::ScanPage read_scan_page(Shared& shared, const request::SpaceIndex& spaces,
                               std::string_view prefix, std::string_view after, size_t max,
                               std::string_view from, const Reach& reach) {
  store::ScanPage stored;
  const auto start = start_of(shared, from);
  if (!start) {
    stored.unknown = true;
    return stored;
  }
  const auto lines = connected(shared);
  if (lines.empty()) stored.failed = true;
  store::FirstNames first(max, base::bounds::listed_names_bytes_max);
  const size_t keys_max = std::min(reach.keys, start->keys);
  Place place{.left = keys_max, .due = Clock::now() + reach.time};
  stored.again = from;
  constexpr request::KeyEncoding encodings[] = {request::KeyEncoding::own,
                                                request::KeyEncoding::remaining_text};
  for (size_t i = start->encoding;
       i < std::size(encodings) && stored.rest.empty() && !stored.failed; ++i) {
    const request::KeyEncoding encoding = encodings[i];
    const auto wanted = spaces.by_id();
    const bool any = std::any_of(wanted.begin(), wanted.end(), [&](const request::Space* space) {
      return space != nullptr && space->encoding == encoding;
    });
    if (!any || max == 0) continue;
    const Wanted sought{prefix_of(shared, encoding), prefix, {}, is_tagged(shared, encoding)};
    const auto visit = [&](std::string_view key) {
      if (key <= after || (first.end() != nullptr && key >= *first.end())) return;
      const auto found = spaces.find(key);
      if (!found || found->space->encoding != encoding) return;
      first.add(std::string(key));
    };
    for (size_t n = i == start->encoding ? start->primary : 0;
         n < lines.size() && stored.rest.empty() && !stored.failed; ++n) {
      const bool is_start = i == start->encoding && n == start->primary;
      place.cursor = is_start ? start->cursor : "0";
      const Passed passed = pass(shared, *lines[n], sought, place, visit);
      if (passed == Passed::cut) {
        stored.rest = std::to_string(i) + place.cursor + at_primary(".0", n);
        stored.again = std::to_string(start->encoding) + start->cursor + "." +
                       std::to_string(keys_max - place.left) + at_primary("", start->primary);
      }
      stored.failed = passed == Passed::failed;
    }
  }
  first.move_to(stored);
  return stored;
}

}  // namespace sluice::redis
