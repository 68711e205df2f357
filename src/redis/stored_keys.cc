#include "redis/stored_keys.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "limit/limit.h"
#include "redis/slots.h"

namespace sluice::redis {

namespace {

using Ending = KeyFamily::Ending;
using request::KeyEncoding;

// Clocks of servers that share windows, and of Redis, may differ by so much.
constexpr int64_t tolerance_ms = 5'000;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<int64_t> number_of(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (text.empty() || read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

bool names_algorithms(std::string_view text) {
  constexpr auto last = static_cast<int>(limit::Algorithm::fixed_bucket);
  for (;;) {
    const size_t end = std::min(text.find(','), text.size());
    bool known = false;
    for (int i = 0; i <= last && !known; ++i)
      known = limit::name_of(static_cast<limit::Algorithm>(i)) == text.substr(0, end);
    if (!known) return false;
    if (end == text.size()) return true;
    text.remove_prefix(end + 1);
  }
}

// `:Q:S`
bool ends_with_numbers(std::string_view text) {
  const size_t seconds = text.rfind(':');
  if (seconds == std::string_view::npos || seconds == 0) return false;
  const size_t quota = text.rfind(':', seconds - 1);
  return quota != std::string_view::npos && is_digits(text.substr(seconds + 1)) &&
         is_digits(text.substr(quota + 1, seconds - quota - 1));
}

bool any_begins(const std::vector<std::string>& prefixes, std::string_view name) {
  return std::ranges::any_of(prefixes, [&](const auto& one) { return name.starts_with(one); });
}

// As redis-cell has it: nanoseconds, and a life until then.
bool is_tat(const StoredValue& value) {
  if (value.text.size() < 18 || value.text.size() > 19 || !is_digits(value.text)) return false;
  const auto tat = number_of(value.text);
  return tat && value.expires_ms != no_end &&
         std::abs(*tat / 1'000'000 - value.expires_ms) <= tolerance_ms;
}

}  // namespace

StoredKeys::StoredKeys(std::span<const KeyFamily> families, std::string key_prefix)
    : key_prefix_(std::move(key_prefix)) {
  std::vector<const request::Space*> own, remaining;
  for (const KeyFamily& family : families) {
    const request::Space& space = *family.space;
    switch (space.encoding) {
      case KeyEncoding::own:
        own.push_back(&space);
        if (family.ending == Ending::algorithms) by_request_.push_back(space.prefix);
        break;
      case KeyEncoding::remaining_text:
        remaining.push_back(&space);
        if (family.ending == Ending::numbers) by_numbers_.push_back(space.prefix);
        break;
      case KeyEncoding::tat_text:
        shares_tats_ = true;
        break;
      case KeyEncoding::window_text:
        // Limits of another kind have a name of ours.
        own.push_back(&space);
        windows_.push_back(space.prefix.substr(space.private_bytes));
        break;
    }
  }
  own_ = request::SpaceIndex(own);
  remaining_ = request::SpaceIndex(remaining);
}

bool StoredKeys::may_be_counter(std::string_view name) const {
  if (shares_tats_) return true;
  if (name.starts_with(key_prefix_) && own_.find(name.substr(key_prefix_.size()))) return true;
  return is_remaining(name) || any_begins(windows_, name);
}

std::optional<StoredKeys::Counter> StoredKeys::find(std::string_view name, const StoredValue& value,
                                                    base::Time now) const {
  if (name.starts_with(key_prefix_))
    if (auto own = find_own(name.substr(key_prefix_.size()), value.text)) return own;
  const auto number = number_of(value.text);
  if (!number) return std::nullopt;
  const auto shared = [&](ValueForm form) { return Counter{form, std::string(name)}; };
  if (is_remaining(name)) return shared(ValueForm::remaining);
  if (shares_tats_ && is_tat(value)) return shared(ValueForm::tat);
  if (is_window(name, value, now)) return shared(ValueForm::window);
  return std::nullopt;
}

std::optional<StoredKeys::Counter> StoredKeys::find_own(std::string_view name,
                                                        std::string_view text) const {
  if (!text.starts_with("s1;")) return std::nullopt;
  const auto found = own_.find(name);
  if (!found) return std::nullopt;
  std::string_view key = found->key;
  if (std::ranges::find(by_request_, found->space->prefix) != by_request_.end() &&
      found->space->suffix.empty()) {
    const size_t colon = key.rfind(':');
    if (colon == std::string_view::npos || !names_algorithms(key.substr(colon + 1)))
      return std::nullopt;
    key = key.substr(0, colon);
  }
  Counter counter{ValueForm::own, key_prefix_};
  append_tag(counter.name, key);
  counter.name += name;
  return counter;
}

bool StoredKeys::is_remaining(std::string_view name) const {
  return remaining_.find(name) || (any_begins(by_numbers_, name) && ends_with_numbers(name));
}

// The second in which the window began is not later than now, and the key ends after it.
bool StoredKeys::is_window(std::string_view name, const StoredValue& value, base::Time now) const {
  if (!any_begins(windows_, name)) return false;
  const size_t line = name.rfind('_');
  if (line == std::string_view::npos || line == 0 || !is_digits(name.substr(line + 1)))
    return false;
  const auto begins_s = number_of(name.substr(line + 1));
  if (!begins_s || *begins_s > (now.us / 1'000 + tolerance_ms) / 1'000) return false;
  return value.expires_ms == no_end || value.expires_ms > *begins_s * 1'000;
}

namespace {

using Numbers = std::vector<int64_t>;

// Numbers apart by blanks; `-` has none.
std::optional<Numbers> numbers_of(std::string_view text) {
  Numbers numbers;
  if (text == "-") return numbers;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const auto number = number_of(text.substr(0, end));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return numbers;
}

// `s1;LIMITS STATE;STATE`
struct OwnValue {
  std::string_view name;
  std::vector<std::string_view> texts;
  std::vector<Numbers> states;
};

std::optional<OwnValue> read_own(std::string_view text) {
  OwnValue value;
  const size_t blank = text.find(' ');
  if (blank == std::string_view::npos) return std::nullopt;
  value.name = text.substr(0, blank);
  for (std::string_view rest = text.substr(blank + 1);;) {
    const size_t end = std::min(rest.find(';'), rest.size());
    auto state = numbers_of(rest.substr(0, end));
    if (!state) return std::nullopt;
    value.texts.push_back(rest.substr(0, end));
    value.states.push_back(*std::move(state));
    if (end == rest.size()) return value;
    rest.remove_prefix(end + 1);
  }
}

int64_t end_of(const OwnValue& value) {
  int64_t end = 0;
  for (const Numbers& state : value.states)
    if (!state.empty()) end = std::max(end, state.front());
  return end;
}

// droplet's: a mask, then time, limit, units and parts of each window. What was written later has
// all that was taken; of one moment it is what has less left.
bool has_more_used(const Numbers& stored, const Numbers& other) {
  if (stored.size() < 5 || other.size() < 5) return other.size() > stored.size();
  return std::pair(other[1], -other[3]) > std::pair(stored[1], -stored[3]);
}

std::optional<std::string> more_used_own(const std::string& stored, const std::string& other) {
  const auto a = read_own(stored), b = read_own(other);
  if (!a || !b) return std::nullopt;
  if (a->name != b->name || a->states.size() != b->states.size())
    return end_of(*b) > end_of(*a) ? std::optional(other) : std::nullopt;
  if (a->name == "s1;k")
    return has_more_used(a->states.front(), b->states.front()) ? std::optional(other)
                                                               : std::nullopt;
  std::string merged(a->name);
  for (size_t i = 0; i < a->states.size(); ++i) {
    merged += i == 0 ? ' ' : ';';
    // By marks and units in their order; a fresh one has none.
    merged += b->states[i] > a->states[i] ? b->texts[i] : a->texts[i];
  }
  return merged == stored ? std::nullopt : std::optional(std::move(merged));
}

std::optional<std::string> more_used_text(ValueForm form, const std::string& stored,
                                          const std::string& other) {
  if (form == ValueForm::own) return more_used_own(stored, other);
  const auto a = number_of(stored), b = number_of(other);
  if (!a || !b) return std::nullopt;
  const bool more = form == ValueForm::remaining ? *b < *a : *b > *a;
  return more ? std::optional(other) : std::nullopt;
}

}  // namespace

std::optional<StoredValue> more_used(ValueForm form, const StoredValue& stored,
                                     const StoredValue& other) {
  auto text = more_used_text(form, stored.text, other.text);
  if (!text) return std::nullopt;
  const bool endless = stored.expires_ms == no_end || other.expires_ms == no_end;
  return StoredValue{*std::move(text),
                     endless ? no_end : std::max(stored.expires_ms, other.expires_ms)};
}

}  // namespace sluice::redis
