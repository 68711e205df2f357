// A naive writer of SLUICE.* commands: the parser of sluice_command.h must read what was written.
// For tests and fuzz targets only.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "limit/limit.h"
#include "protocol/resp/sluice_command.h"
#include "testing/some_calendar.h"

namespace sluice::resp::sluice_model {

struct Subject {
  std::optional<std::string> key;  // of a subject with limits of its own (KEY, LIMIT)
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<limit::Limit> limits;
  limit::LimitMask counts = 0;
  std::vector<int64_t> overdrafts;  // of `limits`
  friend bool operator==(const Subject&, const Subject&) = default;
};

struct Asked {
  SluiceVerb verb = SluiceVerb::info;
  std::vector<Subject> subjects;
  int64_t n = 1, timeout_us = 0, ttl_us = 0;
  bool all = false, each = false, with_name = false, with_units = false, closes = false;
  std::optional<int64_t> now_ms;
  std::string id, holder;
  std::vector<int64_t> units;
  friend bool operator==(const Asked&, const Asked&) = default;
};

using Written = std::vector<std::string>;

inline Asked asked_of(const SluiceCommand& command) {
  Asked asked;
  asked.verb = command.verb;
  asked.n = command.n;
  asked.timeout_us = command.timeout.us;
  asked.ttl_us = command.ttl.us;
  asked.all = command.all;
  asked.each = command.each;
  asked.with_name = command.with_name;
  asked.with_units = command.with_units;
  asked.closes = command.closes;
  asked.id = command.id;
  asked.holder = command.holder;
  asked.units = command.units;
  if (command.now) asked.now_ms = command.now->us / 1000;
  for (const SluiceSubject& from : command.subjects) {
    Subject& subject = asked.subjects.emplace_back();
    if (from.is_inline) subject.key = std::string(from.key);
    for (const auto& [key, value] : command.entries_of(from))
      subject.entries.emplace_back(key, value);
    for (const limit::Limit& limit : command.limits_of(from)) subject.limits.push_back(limit);
    subject.counts = from.counts;
    const limit::Overdrafts overdrafts = command.overdrafts_of(from);
    subject.overdrafts.assign(overdrafts.most.begin(), overdrafts.most.begin() + overdrafts.count);
  }
  return asked;
}

inline std::string name_of(SluiceVerb verb) {
  const char* const names[] = {"TAKE",    "PEEK",    "PUT",    "RESET",   "WAIT",    "MTAKE",
                               "CHARGE",  "EXPLAIN", "INFO",   "HELP",    "RESERVE", "MRESERVE",
                               "ACQUIRE", "EXTEND",  "COMMIT", "RELEASE", "RENEW"};
  return std::string("SLUICE.") + names[static_cast<size_t>(verb)];
}

// Writes a command in one of its many forms; `choose(n)` chooses, and returns 0 to n - 1.
template <class Choose>
class Writer {
 public:
  explicit Writer(Choose& choose) : choose_(choose) {}

  Written write(const Asked& asked) {
    Written words = {any_case(name_of(asked.verb))};
    if (asked.verb >= SluiceVerb::reserve) return write_of_hold(asked, words);
    const bool many = asked.verb == SluiceVerb::mtake;
    if (many) words.push_back(std::to_string(asked.subjects.size()));
    if (asked.verb == SluiceVerb::wait) words.push_back(seconds(asked.timeout_us));
    for (const Subject& subject : asked.subjects) append(words, written(subject, many));
    std::vector<Written> options;
    if (asked.all) options.push_back({any_case("ALL")});
    if (asked.each) options.push_back({any_case("EACH")});
    if (asked.with_name) options.push_back({any_case("WITHNAME")});
    if (!asked.id.empty()) options.push_back({any_case("ID"), asked.id});
    const bool has_n = asked.verb <= SluiceVerb::charge && asked.verb != SluiceVerb::reset;
    if (asked.n != 1 || (has_n && !asked.all && choose_(2) == 1))
      options.push_back({any_case("N"), std::to_string(asked.n)});
    if (asked.now_ms) options.push_back({any_case("NOW"), std::to_string(*asked.now_ms)});
    append_shuffled(words, options);
    return words;
  }

 private:
  Written write_of_hold(const Asked& asked, Written words) {
    using enum SluiceVerb;
    const SluiceVerb verb = asked.verb;
    const bool reserves = verb == reserve || verb == mreserve || verb == acquire;
    std::vector<Written> options;
    if (reserves) {
      words.push_back(seconds(asked.ttl_us));
      if (verb == mreserve) words.push_back(std::to_string(asked.subjects.size()));
      for (size_t i = 0; i < asked.subjects.size(); ++i) {
        append(words, written(asked.subjects[i], false));
        const Written units = {any_case("N"), std::to_string(asked.units.at(i))};
        if (verb == mreserve)
          append(words, units);
        else if (verb == reserve || asked.units.at(i) != 1 || choose_(2) == 1)
          options.push_back(units);
      }
      if (!asked.id.empty()) options.push_back({any_case("ID"), asked.id});
      if (asked.timeout_us > 0 || choose_(4) == 1)
        options.push_back({any_case("WAIT"), seconds(asked.timeout_us)});
      if (!asked.holder.empty() || choose_(4) == 1)
        options.push_back({any_case("HOLDER"), asked.holder});
      if (asked.closes) options.push_back({any_case("CLOSE")});
    } else {
      words.push_back(asked.id);
      if (!asked.units.empty()) {
        Written& units = options.emplace_back(Written{any_case("N")});
        for (const int64_t one : asked.units) units.push_back(std::to_string(one));
      }
      const bool has_ttl = asked.ttl_us > 0 || choose_(4) == 1;
      if (verb == renew && has_ttl) words.push_back(seconds(asked.ttl_us));
      if (verb == extend && has_ttl) options.push_back({any_case("TTL"), seconds(asked.ttl_us)});
      // The subjects keep their order, whatever comes between them.
      Written subjects;
      for (const Subject& subject : asked.subjects) {
        subjects.push_back(any_case("SUBJECT"));
        append(subjects, written(subject, false));
      }
      options.push_back(subjects);
    }
    if (asked.with_units) options.push_back({any_case("WITHUNITS")});
    append_shuffled(words, options);
    return words;
  }

  static void append(Written& to, const Written& from) {
    to.insert(to.end(), from.begin(), from.end());
  }

  void append_shuffled(Written& to, std::vector<Written> parts) {
    for (size_t left = parts.size(); left > 0; --left) {
      std::swap(parts[left - 1], parts[choose_(left)]);
      append(to, parts[left - 1]);
    }
  }

  static std::string upper(std::string_view word) {
    std::string all(word);
    for (char& c : all) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    return all;
  }
  static std::string word_of(std::string_view key) {
    return key == "time_zone"     ? "ZONE"
           : key == "week_starts" ? "WEEKSTARTS"
           : key == "month_day"   ? "MONTHDAY"
           : key == "year_day"    ? "YEARDAY"
                                  : "STARTSAT";
  }
  std::string any_case(std::string word) {
    for (char& c : word)
      if (choose_(2) == 1) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return word;
  }

  Written written(const Subject& subject, bool many) {
    Written words;
    if (subject.key) {
      words = {any_case("KEY"), *subject.key};
      for (size_t i = 0; i < subject.limits.size(); ++i)
        append(words,
               written(subject.limits[i], limit::has(subject.counts, i), subject.overdrafts[i]));
      return words;
    }
    if (many || choose_(2) == 1)
      words = {any_case("ENTRIES"), std::to_string(subject.entries.size())};
    for (const auto& [key, value] : subject.entries) words.push_back(key + "=" + value);
    return words;
  }

  Written written(const limit::Limit& limit, bool counts, int64_t overdraft) {
    const limit::Calendar calendar = limit.calendar;
    Written words = {
        any_case("LIMIT"), units(limit.quota),
        calendar ? any_case(upper(name_of(calendar.unit()))) : window(limit.window.us)};
    std::vector<Written> options;
    if (calendar)
      for (const auto& [key, value] : calendar.members())
        options.push_back(
            {any_case(word_of(key)), key == "week_starts" ? any_case(upper(value)) : value});
    const bool is_default = limit.algorithm == limit::Algorithm::token_bucket;
    if ((!is_default && !calendar) || choose_(2) == 1)
      options.push_back({any_case("ALGORITHM"), any_case(upper(limit::name_of(limit.algorithm)))});
    if (is_default && (limit.burst != limit.quota || choose_(2) == 1))
      options.push_back({any_case("BURST"), units(limit.burst)});
    if (limit.algorithm == limit::Algorithm::concurrency &&
        (limit.burst != limit.window.us || choose_(2) == 1))
      options.push_back({any_case("MAXLEASE"), window(limit.burst)});
    if (counts)
      options.push_back({any_case("OVER"), any_case("COUNT")});
    else if (choose_(4) == 1)
      options.push_back({any_case("OVER"), any_case("REFUSE")});
    if (overdraft < limit::Overdrafts::none || choose_(4) == 1)
      options.push_back({any_case("OVERDRAFT"), units(overdraft)});
    append_shuffled(words, options);
    return words;
  }

  std::string units(int64_t n) {
    const size_t way = choose_(3);
    if (way == 1 && n % 1'000'000 == 0) return std::to_string(n / 1'000'000) + "M";
    if (way == 2 && n % 1'000 == 0) return std::to_string(n / 1'000) + "k";
    return std::to_string(n);
  }

  std::string window(int64_t us) {
    const std::pair<int64_t, std::string> all[] = {
        {1, "us"},         {1'000, "ms"},        {1'000'000, "s"},
        {60'000'000, "m"}, {3'600'000'000, "h"}, {86'400'000'000, "d"}};
    const auto& [length, name] = all[choose_(std::size(all))];
    if (us % length != 0 || choose_(3) == 1) return seconds(us);
    return std::to_string(us / length) + name;
  }

  // Seconds with as many decimal places as necessary, sometimes more.
  std::string seconds(int64_t us) {
    std::string places = std::to_string(1'000'000 + us % 1'000'000).substr(1);
    for (size_t more = choose_(10); more > 0; --more) places += '0';
    while (choose_(3) != 1 && places.ends_with('0')) places.pop_back();
    return std::to_string(us / 1'000'000) + (places.empty() ? "" : "." + places);
  }

  Choose& choose_;
};

// Makes random valid commands, often with the least or the largest number allowed. `dice(n)`
// returns 0 to n - 1, of n's type.
template <class Dice>
class AnyCommand {
 public:
  explicit AnyCommand(Dice& dice) : dice_(dice) {}

  Asked make() {
    Asked asked;
    asked.verb = static_cast<SluiceVerb>(dice_(17));
    using enum SluiceVerb;
    const SluiceVerb verb = asked.verb;
    if (verb >= reserve) return of_hold(asked);
    const bool has_n = verb <= charge && verb != reset;
    size_t subjects = verb == info || verb == help ? 0 : 1;
    if (verb == mtake) subjects += dice_(dice_(4) == 0 ? sluice_subjects_max : size_t{3});
    while (asked.subjects.size() < subjects) asked.subjects.push_back(subject());
    if (has_n) asked.n = number(verb == put ? 1 : 0, base::bounds::quota_max);
    if (verb == put && dice_(2) == 0) {
      asked.all = true;
      asked.n = 1;
    }
    if (verb == wait) asked.timeout_us = number(0, (int64_t{1} << 62) - 1);
    if (verb == mtake) asked.each = dice_(2) == 0;
    if (verb == take || verb == peek || verb == charge) asked.with_name = dice_(2) == 0;
    if (verb == charge && dice_(2) == 0) asked.id = any_id();
    if (verb == take && dice_(2) == 0) asked.now_ms = number(0, INT64_MAX / 1000);
    return asked;
  }

 private:
  Asked of_hold(Asked asked) {
    using enum SluiceVerb;
    const SluiceVerb verb = asked.verb;
    const bool reserves = verb == reserve || verb == mreserve || verb == acquire;
    size_t count = verb == reserve || verb == acquire ? 1 : 0;
    if (verb == mreserve || verb == commit || (verb == extend && dice_(3) > 0))
      count = 1 + dice_(dice_(4) == 0 ? sluice_subjects_max : size_t{3});
    for (; count > 0; --count) asked.units.push_back(number(0, base::bounds::quota_max));
    if (reserves || (verb == commit && dice_(2) == 0))
      while (asked.subjects.size() < asked.units.size()) asked.subjects.push_back(subject());
    if (!reserves || dice_(2) == 0) asked.id = any_id();
    if (verb != commit && verb != release) asked.ttl_us = number(0, sluice_ttl_max.us);
    if (reserves && dice_(2) == 0) asked.timeout_us = number(0, (int64_t{1} << 62) - 1);
    if (reserves && dice_(2) == 0) asked.holder = text(0);
    asked.closes = verb == acquire && dice_(2) == 0;
    asked.with_units = (reserves || verb == extend) && dice_(2) == 0;
    return asked;
  }

  int64_t number(int64_t least, int64_t most) {
    const int64_t range = dice_(2) == 0 ? std::min<int64_t>(most - least, 5000) : most - least;
    const int64_t n = dice_(range + 1);
    const size_t way = dice_(size_t{8});
    return way == 0 ? least : way == 1 ? most : way == 2 ? least + n / 1000 * 1000 : least + n;
  }

  std::string text(size_t least) {
    // Any bytes, or words that have a meaning elsewhere in a command.
    static const std::string words[] = {"KEY", "LIMIT", "N", "ENTRIES",
                                        "1",   "ALL",   "a", "WITHNAME"};
    if (dice_(2) == 0) return words[dice_(std::size(words))];
    std::string bytes;
    for (size_t n = least + dice_(size_t{4}); n > 0; --n) bytes += static_cast<char>(dice_(256));
    return bytes;
  }

  std::string any_id() {
    constexpr std::string_view letters =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    std::string id;
    for (size_t n = 16 + dice_(size_t{49}); n > 0; --n) id += letters[dice_(letters.size())];
    return id;
  }

  Subject subject() {
    Subject subject;
    if (dice_(2) == 0) {
      for (size_t n = 1 + dice_(dice_(8) == 0 ? sluice_entries_max : size_t{4}); n > 0; --n) {
        std::string key = text(1);
        std::replace(key.begin(), key.end(), '=', ':');
        subject.entries.emplace_back(key, text(0));
      }
      return subject;
    }
    subject.key = text(0);
    for (size_t n = 1 + dice_(limit::slots_max); n > 0; --n) {
      subject.limits.push_back(limit());
      if (limit::cells(subject.limits) > limit::cells_max) subject.limits.pop_back();
    }
    subject.counts = static_cast<limit::LimitMask>(limit::all_of(subject.limits) & dice_(256));
    for (size_t n = subject.limits.size(); n > 0; --n)
      subject.overdrafts.push_back(dice_(2) == 0 ? limit::Overdrafts::none
                                                 : number(0, limit::Overdrafts::none));
    return subject;
  }

  limit::Limit limit() {
    using limit::Algorithm;
    if (dice_(8) == 0)
      return tests::calendar_limit(dice_(size_t{7}), number(1, base::bounds::quota_max));
    limit::Limit limit{.algorithm = static_cast<Algorithm>(2 + dice_(7)),
                       .quota = number(1, base::bounds::quota_max)};
    if (limit.algorithm != Algorithm::fixed_bucket)
      limit.window.us = number(1, base::bounds::window_us_max);
    if (limit.algorithm == Algorithm::fixed_bucket) limit.burst = limit.quota;
    if (limit.algorithm == Algorithm::token_bucket)
      limit.burst = dice_(2) == 0 ? limit.quota : number(1, base::bounds::quota_max);
    if (limit.algorithm == Algorithm::concurrency)
      limit.burst =
          dice_(2) == 0 ? limit.window.us : number(limit.window.us, base::bounds::window_us_max);
    return limit;
  }

  Dice& dice_;
};

}  // namespace sluice::resp::sluice_model
