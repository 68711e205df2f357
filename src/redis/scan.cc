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
#include "store/first_names.h"

namespace sluice::redis {

namespace {

std::string why_bad(const BlockingConnection& line, const Answer& answer) {
  if (!answer) return line.problem();
  if (!is_error(answer)) return "SCAN is answered as Redis does not";
  return base::printable(text_of(*answer), 256);
}

// As a pattern of SCAN that fits it alone.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '?' || c == '[' || c == ']' || c == '\\' || c == '^') out += '\\';
    out += c;
  }
  return out;
}

// The key as a counter's stored name; what Divvy shares has no prefix of ours.
std::string_view prefix_of(const Shared& shared, request::KeyEncoding encoding) {
  return encoding == request::KeyEncoding::own ? std::string_view(shared.options.key_prefix)
                                               : std::string_view();
}

// Asks node after node until one lets us in.
std::unique_ptr<BlockingConnection> connected(Shared& shared) {
  for (const net::Address& address : shared.resolver.addresses()) {
    auto line = std::make_unique<BlockingConnection>(&shared.ending);
    if (line->open(shared.options, shared.tls.get(), address)) return line;
  }
  shared.tell(false, "a list is empty: no connection for it comes about");
  return nullptr;
}

enum class Passed : uint8_t { all, cut, failed };

// Which keys are wanted: `head`, `prefix`, anything, `suffix`.
struct Wanted {
  std::string_view head, prefix, suffix = {};
};

using Clock = std::chrono::steady_clock;

// Where a pass is, how many more keys it may look at, and until when.
struct Place {
  size_t left = base::bounds::redis_scanned_max;
  Clock::time_point due = Clock::time_point::max();
  const store::ListPass* lists = nullptr;  // it ends when none of these is wanted; null: searched
                                           // for something else
  std::string cursor = "0";
};

// Where a search begins: "09" is the cursor 9 of the first encoding, "09.5000" that for 5000 keys.
struct Start {
  size_t encoding = 0;
  std::string cursor = "0";
  size_t keys = base::bounds::redis_scanned_max;
};

std::optional<Start> start_of(std::string_view from) {
  if (from.empty()) return Start{};
  if (from.find_first_not_of("0123456789.") != from.npos) return std::nullopt;
  const size_t dot = std::min(from.find('.'), from.size());
  const auto encoding = base::parse_count(from.substr(0, 1));
  const auto cursor = base::parse_count(from.substr(0, dot).substr(std::min<size_t>(dot, 1)));
  const auto keys = dot == from.size() ? base::bounds::redis_scanned_max
                                       : base::parse_count(from.substr(dot + 1));
  if (!encoding || *encoding > 1 || !cursor || !keys || *keys == 0) return std::nullopt;
  return Start{*encoding, std::to_string(*cursor), *keys};
}

// Calls `visit(key)` for these without their head, for some of them more than once.
template <class Visit>
Passed pass(Shared& shared, BlockingConnection& line, const Wanted& wanted, Place& place,
            Visit&& visit) {
  constexpr size_t step = 1000;
  const std::string begin = std::string(wanted.head) + std::string(wanted.prefix);
  const std::string pattern = escaped(begin) + "*" + escaped(wanted.suffix);
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
      shared.tell(false, "a list is cut short: " + why_bad(line, answer));
      return Passed::failed;
    }
    cursor.assign(answer->element[0]->str, static_cast<size_t>(answer->element[0]->len));
    const redisReply& keys = *answer->element[1];
    for (size_t i = 0; i < keys.elements; ++i) {
      std::string_view key = text_of(*keys.element[i]);
      // It might be no Redis that answers.
      if (key.size() < begin.size() + wanted.suffix.size() || !key.starts_with(begin) ||
          !key.ends_with(wanted.suffix))
        continue;
      key.remove_prefix(wanted.head.size());
      visit(key);
    }
    place.left -= count;
    if (cursor == "0") return Passed::all;
  } while (Clock::now() < place.due);
  return Passed::cut;
}

}  // namespace

void scan(Shared& shared, store::ListPass& lists) {
  const std::unique_ptr<BlockingConnection> line = connected(shared);
  for (const request::KeyEncoding encoding :
       {request::KeyEncoding::own, request::KeyEncoding::remaining_text}) {
    const std::string_view head = prefix_of(shared, encoding);
    store::PrefixIndex index;
    std::string_view suffix;
    size_t count = 0;
    for (size_t i = 0; i < lists.size(); ++i) {
      const request::Space& space = lists.space(i);
      if (space.encoding != encoding) continue;
      index.add(0, std::string(head) + space.prefix + lists.prefix(i), i);
      suffix = ++count == 1 ? std::string_view(space.suffix) : std::string_view();
    }
    if (count == 0) continue;
    index.close();
    const auto visit = [&](std::string_view key) {
      index.each(0, key, [&](size_t number) {
        const request::Space& space = lists.space(number);
        const size_t front = head.size() + space.prefix.size();
        if (key.size() < front + lists.prefix(number).size() + space.suffix.size() ||
            !key.ends_with(space.suffix))
          return;
        lists.offer(number, key.substr(front, key.size() - front - space.suffix.size()));
      });
    };
    Place place{.lists = &lists};
    // The search fits what all of them begin with; what is each one's is picked out here.
    const Passed passed = line == nullptr
                              ? Passed::failed
                              : pass(shared, *line, {{}, index.common(), suffix}, place, visit);
    if (passed != Passed::failed) continue;
    for (size_t i = 0; i < lists.size(); ++i)
      if (lists.space(i).encoding == encoding) lists.fail(i);
  }
}

// Two passes, one for each encoding.
store::ScanPage read_scan_page(Shared& shared, const request::SpaceIndex& spaces,
                               std::string_view prefix, std::string_view after, size_t max,
                               std::string_view from, const Reach& reach) {
  store::ScanPage stored;
  const auto start = start_of(from);
  if (!start) {
    stored.unknown = true;
    return stored;
  }
  const std::unique_ptr<BlockingConnection> line = connected(shared);
  if (!line) stored.failed = true;
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
    place.cursor = i == start->encoding ? start->cursor : "0";
    const std::string_view head = prefix_of(shared, encoding);
    const Passed passed = pass(shared, *line, {head, prefix}, place, [&](std::string_view key) {
      if (key <= after || (first.end() != nullptr && key >= *first.end())) return;
      const auto found = spaces.find(key);
      if (!found || found->space->encoding != encoding) return;
      first.add(std::string(key));
    });
    if (passed == Passed::cut) {
      stored.rest = std::to_string(i) + place.cursor;
      stored.again = std::to_string(start->encoding) + start->cursor + "." +
                     std::to_string(keys_max - place.left);
    }
    stored.failed = passed == Passed::failed;
  }
  first.move_to(stored);
  return stored;
}

}  // namespace sluice::redis
