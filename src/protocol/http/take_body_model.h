// For tests and fuzz targets: a naive reader of bodies, written from the contract of take_body.h.
// It uses nlohmann's document, copies all texts, and computes with decimal numbers as texts. Also a
// writer of such bodies in all forms that JSON allows.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/units.h"
#include "limit/calendar.h"
#include "limit/decide.h"
#include "limit/limit.h"
#include "protocol/http/take_body.h"
#include "request/hold.h"
#include "testing/utf8_model.h"

namespace sluice::http::take_model {

using Json = nlohmann::ordered_json;
using limit::Algorithm;
using request::HoldAsk;

// The form of a body: as `wanted` says or, with `hold`, of one that asks about a hold.
struct Form {
  BodyForm wanted{};
  std::optional<HoldAsk> hold{};
};

inline Form form_of(HoldAsk ask) {
  return {{.has_n = ask != HoldAsk::commit}, ask};
}

inline bool read_by(TakeBodyReader& reader, std::string_view json, const Form& form,
                    TakeBody& body) {
  return form.hold ? reader.read_hold(json, *form.hold, body)
                   : reader.read(json, form.wanted, body);
}

struct NamedLimit {
  std::string name;
  limit::Limit limit;
  bool counts = false;
  int64_t overdraft = limit::Overdrafts::none;
  friend bool operator==(const NamedLimit&, const NamedLimit&) = default;
};

struct Subject {
  std::optional<std::string> key;  // of a subject with limits of its own
  std::vector<std::pair<std::string, std::string>> entries;
  std::vector<NamedLimit> limits;
  int64_t n = 1;
  bool all = false;
  friend bool operator==(const Subject&, const Subject&) = default;
};

struct Asked {
  bool has_takes = false, each = false, detail = false;
  std::optional<int64_t> timeout_us;
  std::vector<Subject> subjects;
  std::string id{};
  // Of holds.
  int64_t ttl_us = 0;
  std::string holder{};
  std::vector<int64_t> units{};
  bool has_units_list = false;
  friend bool operator==(const Asked&, const Asked&) = default;
};

inline Asked asked_of(const TakeBody& body, const Form& form) {
  Asked asked{body.has_takes, body.each, body.detail, {}, {}};
  if (body.timeout) asked.timeout_us = body.timeout->us;
  asked.id = body.id;
  if (form.hold) {
    asked.ttl_us = body.ttl.us;
    asked.holder = body.holder;
    asked.units = body.units;
    asked.has_units_list = body.has_units_list;
  }
  for (const TakeSubject& from : body.subjects) {
    Subject& subject = asked.subjects.emplace_back();
    if (from.is_inline) subject.key = std::string(from.key);
    for (const auto& [key, value] : body.entries_of(from)) subject.entries.emplace_back(key, value);
    for (const TakeBody::NamedLimit& one : body.limits_of(from))
      subject.limits.push_back({std::string(one.name), one.limit, one.counts, one.overdraft});
    subject.n = from.n;
    subject.all = from.all;
  }
  return asked;
}

// ---- Numbers ----

// The parts of a JSON number.
struct Decimal {
  bool negative = false;
  std::string digits, fraction;
  bool down = false;
  std::string exponent = "0";
};

inline std::optional<Decimal> decimal_of(std::string_view text) {
  Decimal all;
  const auto take = [&text](std::string_view one_of) {
    const bool there = !text.empty() && one_of.find(text.front()) != one_of.npos;
    if (there) text.remove_prefix(1);
    return there;
  };
  const auto take_digits = [&text](std::string& to) {
    to = std::string(text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size())));
    text.remove_prefix(to.size());
    return !to.empty();
  };
  all.negative = take("-");
  if (!take_digits(all.digits) || (all.digits.size() > 1 && all.digits[0] == '0')) return {};
  if (take(".") && !take_digits(all.fraction)) return {};
  if (take("eE")) {
    all.down = take("-");
    if (!all.down) take("+");
    if (!take_digits(all.exponent)) return {};
  }
  if (!text.empty()) return {};
  return all;
}

// The number `text` times 10^places; nothing if that is not an integer from 0 to `most`.
inline std::optional<int64_t> scaled(std::string_view text, size_t places, int64_t most) {
  Decimal all = *decimal_of(text);
  const std::string both = all.digits + all.fraction;
  if (both.find_first_not_of('0') == both.npos) return 0;
  if (all.negative) return {};
  const size_t first = std::min(all.exponent.find_first_not_of('0'), all.exponent.size());
  if (all.exponent.size() - first > 6) return {};  // too large, or too small to be an integer
  const size_t exponent = static_cast<size_t>(std::stol("0" + all.exponent));
  // A negative exponent moves the point to the left: the last `exponent` digits, with zeros before
  // them, become the first digits of the fraction.
  if (all.down) {
    all.digits.insert(0, exponent, '0');
    all.fraction.insert(0, all.digits.substr(all.digits.size() - exponent));
    all.digits.erase(all.digits.size() - exponent);
  }
  const size_t right = (all.down ? 0 : exponent) + places;
  if (all.fraction.size() < right) all.fraction.append(right - all.fraction.size(), '0');
  all.digits += all.fraction.substr(0, right);
  all.fraction.erase(0, right);
  if (all.fraction.find_first_not_of('0') != std::string::npos) return {};
  const size_t zeros = std::min(all.digits.find_first_not_of('0'), all.digits.size());
  all.digits.erase(0, zeros);
  if (all.digits.size() > 18) return {};
  const int64_t value = std::stoll("0" + all.digits);
  if (value > most) return {};
  return value;
}

// ---- Reader ----

// The same document with an `s` before each text and name, and each number as a text that begins
// with `n`, so that the library does not convert numbers. Nothing if a number is ill-formed.
inline std::optional<std::string> marked(const std::string& json) {
  std::string out;
  for (size_t i = 0; i < json.size();) {
    const char c = json[i];
    if (c == '"') {
      out += "\"s";
      for (++i; i < json.size() && json[i] != '"'; ++i) {
        out += json[i];
        if (json[i] == '\\' && i + 1 < json.size()) out += json[++i];
      }
      if (i < json.size()) out += json[i++];
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      const size_t end = std::min(json.find_first_not_of("0123456789+-.eE", i), json.size());
      const std::string number = json.substr(i, end - i);
      if (!decimal_of(number)) return {};
      out += "\"n" + number + "\"";
      i = end;
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

// The document; nothing if it is not JSON, or if an object has a member twice.
inline std::optional<Json> parsed(const std::string& json) {
  // The library skips a byte order mark and stops at a zero byte; both must be refused.
  if (json.starts_with("\xEF\xBB\xBF") || json.find('\0') != json.npos) return {};
  const auto text = marked(json);
  if (!text) return {};
  std::vector<std::set<std::string>> names;
  bool twice = false;
  const auto look = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(value.get<std::string>()).second)
      twice = true;
    return true;
  };
  Json document = Json::parse(*text, look, false);
  if (document.is_discarded() || twice) return {};
  return document;
}

struct Refused {};

// Reads a document; throws Refused.
class Reader {
 public:
  explicit Reader(const BodyForm& wanted) : wanted_(wanted) {}

  Asked read_hold(const Json& json, HoldAsk ask) const {
    static const std::map<HoldAsk, std::set<std::string>> allowed = {
        {HoldAsk::reserve,
         {"entries", "key", "limits", "takes", "n", "detail", "id", "ttl", "holder", "timeout"}},
        {HoldAsk::extend, {"id", "n", "ttl"}},
        {HoldAsk::renew, {"id", "ttl"}},
        {HoldAsk::commit, {"id", "n", "entries", "key", "limits", "takes"}},
        {HoldAsk::release, {"id"}},
    };
    check_members(json, allowed.at(ask));
    Asked asked;
    asked.has_takes = member(json, "takes") != nullptr;
    if (const Json* detail = member(json, "detail")) asked.detail = boolean(*detail);
    asked.id = id_of(json);
    require(ask == HoldAsk::reserve || !asked.id.empty());
    if (const Json* ttl = member(json, "ttl")) {
      asked.ttl_us = number(*ttl, 6, int64_t{86'400} * 1'000'000);
      require(asked.ttl_us > 0);
    }
    if (const Json* holder = member(json, "holder")) asked.holder = text(*holder);
    require(asked.holder.size() <= 255);
    if (const Json* timeout = member(json, "timeout"))
      asked.timeout_us = number(*timeout, 6, base::bounds::window_us_max);
    require(!asked.timeout_us || !asked.has_takes);
    if (ask == HoldAsk::extend || ask == HoldAsk::commit) read_units(json, asked);
    const bool has_subject = asked.has_takes || member(json, "entries") != nullptr ||
                             member(json, "key") != nullptr || member(json, "limits") != nullptr;
    if (ask == HoldAsk::reserve) read_subjects(json, n_of(json), {}, asked);
    if (ask != HoldAsk::commit || !has_subject) return asked;
    Json without_units = json;
    without_units.erase("sn");
    read_subjects(without_units, {}, {}, asked);
    require(asked.units.size() == asked.subjects.size());
    for (size_t i = 0; i < asked.units.size(); ++i) asked.subjects[i].n = asked.units[i];
    return asked;
  }

  Asked read(const Json& json) const {
    std::set<std::string> allowed = {"takes", "detail"};
    if (!wanted_.only_takes) {
      allowed = subject_members();
      if (wanted_.takes_max > 0) allowed.insert("takes");
      if (wanted_.has_mode) allowed.insert("mode");
      if (wanted_.has_timeout) allowed.insert("timeout");
      if (wanted_.has_id) allowed.insert("id");
      allowed.insert("detail");
    }
    if (!wanted_.has_detail) allowed.erase("detail");
    check_members(json, allowed);
    Asked asked;
    asked.has_takes = member(json, "takes") != nullptr;
    require(asked.has_takes || !wanted_.only_takes);
    if (const Json* mode = member(json, "mode")) {
      require(text(*mode) == "all" || text(*mode) == "each");
      asked.each = text(*mode) == "each";
    }
    if (const Json* detail = member(json, "detail")) asked.detail = boolean(*detail);
    asked.id = id_of(json);
    if (const Json* timeout = member(json, "timeout"))
      asked.timeout_us = number(*timeout, 6, base::bounds::window_us_max);
    const std::optional<int64_t> n = n_of(json);
    const std::optional<bool> all = all_of(json, n);
    read_subjects(json, n, all, asked);
    return asked;
  }

 private:
  static void require(bool holds) {
    if (!holds) throw Refused{};
  }

  void read_subjects(const Json& json, std::optional<int64_t> n, std::optional<bool> all,
                     Asked& asked) const {
    if (!asked.has_takes) {
      asked.subjects.push_back(subject(json, n, all));
      return;
    }
    for (const char* other : {"entries", "key", "limits"}) require(!member(json, other));
    const Json& list = *member(json, "takes");
    require(list.is_array() && !list.empty() && list.size() <= wanted_.takes_max);
    for (const Json& take : list) {
      check_members(take, subject_members());
      asked.subjects.push_back(subject(take, n, all));
    }
  }

  // Empty: there is none.
  static std::string id_of(const Json& json) {
    const Json* const found = member(json, "id");
    if (found == nullptr) return {};
    const std::string id = text(*found);
    require(id.size() >= 16 && id.size() <= 64 &&
            id.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                 "0123456789_-") == std::string::npos);
    return id;
  }

  static void read_units(const Json& json, Asked& asked) {
    const Json* const n = member(json, "n");
    require(n != nullptr);
    asked.has_units_list = n->is_array();
    require(!asked.has_units_list || (!n->empty() && n->size() <= takes_together_max));
    const Json all = asked.has_units_list ? *n : Json::array({*n});
    for (const Json& one : all) asked.units.push_back(number(one, 0, base::bounds::quota_max));
  }

  static const Json* member(const Json& object, const std::string& name) {
    const auto found = object.find("s" + name);
    return found == object.end() ? nullptr : &*found;
  }
  static void check_members(const Json& object, const std::set<std::string>& allowed) {
    require(object.is_object());
    for (const auto& [name, value] : object.items())
      require(name[0] == 's' && allowed.contains(name.substr(1)));
  }
  static bool is_marked(const Json& value, char mark) {
    return value.is_string() && value.get<std::string>()[0] == mark;
  }
  static std::string text(const Json& value) {
    require(is_marked(value, 's'));
    return value.get<std::string>().substr(1);
  }
  static bool boolean(const Json& value) {
    require(value.is_boolean());
    return value.get<bool>();
  }
  static int64_t number(const Json& value, size_t places, int64_t most) {
    require(is_marked(value, 'n'));
    const auto found = scaled(value.get<std::string>().substr(1), places, most);
    require(found.has_value());
    return *found;
  }

  std::set<std::string> subject_members() const {
    std::set<std::string> names = {"entries", "key", "limits"};
    if (wanted_.has_n) names.insert("n");
    if (wanted_.has_all) names.insert("all");
    return names;
  }
  std::optional<int64_t> n_of(const Json& json) const {
    const Json* n = member(json, "n");
    if (n == nullptr) return {};
    const int64_t value = number(*n, 0, base::bounds::quota_max);
    require(value > 0 || !wanted_.has_all);
    return value;
  }
  static std::optional<bool> all_of(const Json& json, const std::optional<int64_t>& n) {
    const Json* all = member(json, "all");
    if (all == nullptr) return {};
    require(!boolean(*all) || !n);
    return boolean(*all);
  }

  // `n` and `all`: those of the body, for subjects without their own.
  Subject subject(const Json& json, std::optional<int64_t> n, std::optional<bool> all) const {
    Subject subject;
    const Json* const entries = member(json, "entries");
    const Json* const key = member(json, "key");
    const Json* const limits = member(json, "limits");
    require((entries != nullptr) != (key != nullptr) && (key == nullptr) == (limits == nullptr));
    const std::optional<int64_t> own_n = n_of(json);
    const std::optional<bool> own_all = all_of(json, own_n);
    subject.n = own_n ? *own_n : own_all.value_or(false) ? 1 : n.value_or(1);
    subject.all = !own_n && own_all.value_or(all.value_or(false));
    if (entries != nullptr) {
      subject.entries = entries_of(*entries);
    } else {
      subject.key = text(*key);
      subject.limits = limits_of(*limits);
    }
    return subject;
  }

  static std::vector<std::pair<std::string, std::string>> entries_of(const Json& json) {
    std::vector<std::pair<std::string, std::string>> entries;
    require(json.is_object() && !json.empty() && json.size() <= takes_entries_max);
    for (const auto& [name, value] : json.items()) {
      require(name[0] == 's' && name.size() > 1);
      require(value.is_boolean() || value.is_string());
      entries.emplace_back(name.substr(1),
                           value.is_boolean() ? value.dump() : value.get<std::string>().substr(1));
    }
    return entries;
  }

  static std::vector<NamedLimit> limits_of(const Json& json) {
    std::vector<NamedLimit> limits;
    require(json.is_array() && !json.empty() && json.size() <= limit::slots_max);
    std::set<std::string> names;
    size_t cells = 0;
    for (const Json& one : json) {
      limits.push_back(limit_of(one));
      const std::string& name = limits.back().name;
      require(name.empty() || names.insert(name).second);
      cells += limit::cells(limits.back().limit);
    }
    require(cells <= limit::cells_max);
    return limits;
  }

  static NamedLimit limit_of(const Json& json) {
    check_members(json, {"name", "quota", "window", "algorithm", "burst", "over", "overdraft",
                         "time_zone", "week_starts", "month_day", "year_day", "starts_at"});
    NamedLimit named;
    limit::Limit& limit = named.limit;
    if (const Json* name = member(json, "name")) {
      named.name = text(*name);
      require(!named.name.empty() && named.name.size() <= 64);
      require(named.name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_-.:/") == std::string::npos);
    }
    limit.algorithm = Algorithm::token_bucket;
    if (const Json* algorithm = member(json, "algorithm"))
      limit.algorithm = algorithm_of(text(*algorithm));
    const Json* const quota = member(json, "quota");
    require(quota != nullptr);
    limit.quota = units(*quota);
    const Json* const window = member(json, "window");
    limit::CalendarWords words;
    std::array<std::string, std::size(limit::calendar_keys)> texts;
    for (size_t i = 0; i < texts.size(); ++i) {
      const Json* const one = member(json, std::string(limit::calendar_keys[i]));
      if (one == nullptr) continue;
      const bool is_number = limit::calendar_keys[i] == "month_day" && is_marked(*one, 'n');
      texts[i] = is_number ? one->get<std::string>().substr(1) : text(*one);
      *words.find(limit::calendar_keys[i]) = texts[i];
    }
    const auto unit = window != nullptr && is_marked(*window, 's')
                          ? limit::calendar_unit(text(*window))
                          : std::nullopt;
    if (!unit) require(words.first().empty());
    if (unit) {
      require(member(json, "burst") == nullptr);
      require(member(json, "algorithm") == nullptr || limit.algorithm == Algorithm::aligned_window);
      limit::Calendar::Terms terms;
      require(!limit::read_calendar(*unit, words, terms));
      limit.algorithm = Algorithm::aligned_window;
      limit.window = limit::Calendar::nominal(*unit);
      limit.calendar = limit::Calendar::of(terms).calendar;
      require(static_cast<bool>(limit.calendar));
    }
    require((window == nullptr) == (limit.algorithm == Algorithm::fixed_bucket));
    if (window != nullptr && !unit) limit.window = length(*window);
    const Json* const burst = member(json, "burst");
    require(burst == nullptr || limit.algorithm == Algorithm::token_bucket);
    if (burst != nullptr)
      limit.burst = units(*burst);
    else if (limit.algorithm == Algorithm::token_bucket ||
             limit.algorithm == Algorithm::fixed_bucket)
      limit.burst = limit.quota;
    if (const Json* over = member(json, "over")) {
      const std::string word = text(*over);
      require(word == "refuse" || word == "count");
      named.counts = word == "count";
    }
    if (const Json* overdraft = member(json, "overdraft")) named.overdraft = units(*overdraft, 0);
    return named;
  }
  static Algorithm algorithm_of(const std::string& name) {
    for (int i = 0; i < 16; ++i) {
      const auto algorithm = static_cast<Algorithm>(i);
      if (algorithm < Algorithm::fixed_window || algorithm > Algorithm::fixed_bucket) continue;
      if (limit::name_of(algorithm) == name) return algorithm;
    }
    throw Refused{};
  }
  static int64_t units(const Json& json, int64_t least = 1) {
    constexpr int64_t most = base::bounds::quota_max;
    if (is_marked(json, 'n')) {
      const int64_t value = number(json, 0, most);
      require(value >= least);
      return value;
    }
    const auto count = base::parse_count(text(json));
    require(count && *count >= static_cast<uint64_t>(least) && *count <= uint64_t{most});
    return static_cast<int64_t>(*count);
  }
  static base::Duration length(const Json& json) {
    base::Duration length;
    if (is_marked(json, 'n')) {
      length.us = number(json, 6, base::bounds::window_us_max);
    } else {
      const auto found = base::parse_duration(text(json));
      require(found.has_value());
      length = *found;
    }
    require(length.us > 0 && length.us <= base::bounds::window_us_max);
    return length;
  }

  const BodyForm& wanted_;
};

// What `json` is read as; nothing if it is refused.
inline std::optional<Asked> read(const std::string& json, const Form& form) {
  const auto document = parsed(json);
  if (!document) return {};
  try {
    const Reader reader(form.wanted);
    return form.hold ? reader.read_hold(*document, *form.hold) : reader.read(*document);
  } catch (const Refused&) {
    return {};
  }
}

// ---- Writer ----

// Writes a body in one of its many forms; `choose(n)` chooses, and returns 0 to n - 1.
template <class Choose>
class Writer {
 public:
  explicit Writer(Choose& choose) : choose_(choose) {}

  std::string write(const Asked& asked, const Form& form) {
    if (form.hold) return write_hold(asked, form);
    const BodyForm& wanted = form.wanted;
    std::vector<std::string> members;
    if (asked.each || (wanted.has_mode && choose_(4) == 0))
      members.push_back(member("mode", text(asked.each ? "each" : "all")));
    if (asked.detail || (wanted.has_detail && choose_(4) == 0))
      members.push_back(member("detail", asked.detail ? "true" : "false"));
    if (!asked.id.empty()) members.push_back(member("id", text(asked.id)));
    if (asked.timeout_us) members.push_back(member("timeout", number(*asked.timeout_us, 6)));
    return write_subjects(asked, wanted, members);
  }

 private:
  std::string write_hold(const Asked& asked, const Form& form) {
    std::vector<std::string> members;
    if (asked.detail || (form.hold == HoldAsk::reserve && choose_(4) == 0))
      members.push_back(member("detail", asked.detail ? "true" : "false"));
    if (!asked.id.empty()) members.push_back(member("id", text(asked.id)));
    if (asked.ttl_us > 0) members.push_back(member("ttl", number(asked.ttl_us, 6)));
    if (!asked.holder.empty() || (form.hold == HoldAsk::reserve && choose_(4) == 0))
      members.push_back(member("holder", text(asked.holder)));
    if (asked.timeout_us) members.push_back(member("timeout", number(*asked.timeout_us, 6)));
    std::vector<std::string> units;
    for (const int64_t one : asked.units) units.push_back(number(one, 0));
    if (!units.empty())
      members.push_back(member("n", asked.has_units_list ? list(units) : units[0]));
    if (asked.subjects.empty()) return blanks() + object(members) + blanks();
    return write_subjects(asked, form.wanted, members);
  }

  std::string write_subjects(const Asked& asked, const BodyForm& wanted,
                             std::vector<std::string>& members) {
    if (!asked.has_takes) {
      append_subject(members, asked.subjects[0], wanted, wanted.has_n ? 1 : asked.subjects[0].n);
      return blanks() + object(members) + blanks();
    }
    // The body may have an `n` for the subjects that have none of their own.
    int64_t n_of_body = 1;
    if (wanted.has_n && !wanted.only_takes && choose_(2) == 0) {
      n_of_body = asked.subjects[choose_(asked.subjects.size())].n;
      members.push_back(member("n", number(n_of_body, 0)));
    }
    std::vector<std::string> takes;
    for (const Subject& subject : asked.subjects) {
      std::vector<std::string> its;
      append_subject(its, subject, wanted, wanted.has_n ? n_of_body : subject.n);
      takes.push_back(object(its));
    }
    members.push_back(member("takes", list(takes)));
    return blanks() + object(members) + blanks();
  }

  void append_subject(std::vector<std::string>& members, const Subject& subject,
                      const BodyForm& wanted, int64_t n_by_default) {
    if (subject.all)
      members.push_back(member("all", "true"));
    else if (wanted.has_all && choose_(4) == 0)
      members.push_back(member("all", "false"));
    if (!subject.all && (subject.n != n_by_default || (wanted.has_n && choose_(4) == 0)))
      members.push_back(member("n", number(subject.n, 0)));
    if (!subject.key) {
      std::vector<std::string> entries;
      for (const auto& [key, value] : subject.entries) entries.push_back(member(key, entry(value)));
      members.push_back(member("entries", object(entries, false)));
      return;
    }
    members.push_back(member("key", text(*subject.key)));
    std::vector<std::string> limits;
    for (const NamedLimit& one : subject.limits) limits.push_back(limit(one));
    members.push_back(member("limits", list(limits)));
  }

  std::string limit(const NamedLimit& named) {
    const limit::Limit& one = named.limit;
    const bool is_bucket = one.algorithm == Algorithm::token_bucket;
    std::vector<std::string> members = {member("quota", units(one.quota))};
    if (!named.name.empty()) members.push_back(member("name", text(named.name)));
    if (one.calendar) {
      members.push_back(member("window", text(name_of(one.calendar.unit()))));
      for (const auto& [key, value] : one.calendar.members())
        members.push_back(member(std::string(key), text(value)));
    } else if (one.window.us != 0) {
      const bool as_text = choose_(2) == 0;
      members.push_back(member(
          "window", as_text ? text(base::spell_duration(one.window)) : number(one.window.us, 6)));
    }
    if ((!is_bucket && !one.calendar) || choose_(2) == 0)
      members.push_back(member("algorithm", text(limit::name_of(one.algorithm))));
    if (is_bucket && (one.burst != one.quota || choose_(2) == 0))
      members.push_back(member("burst", units(one.burst)));
    if (named.counts || choose_(4) == 0)
      members.push_back(member("over", text(named.counts ? "count" : "refuse")));
    if (named.overdraft < limit::Overdrafts::none || choose_(4) == 0)
      members.push_back(member("overdraft", units(named.overdraft)));
    return object(members);
  }
  std::string units(int64_t n) {
    if (choose_(2) == 0) return number(n, 0);
    if (n % 1'000'000 == 0) return text(std::to_string(n / 1'000'000) + "M");
    return text(n % 1000 == 0 ? std::to_string(n / 1000) + "k" : std::to_string(n));
  }

  // A value that reads as a number, true or false is sometimes written as that, else as a text.
  std::string entry(const std::string& value) {
    const bool is_word = value == "true" || value == "false" || decimal_of(value);
    return is_word && choose_(2) == 0 ? value : text(value);
  }

  // The number n / 10^places.
  std::string number(int64_t n, size_t places) {
    if (n == 0) return std::vector<std::string>{"0", "-0", "0.0", "0e9", "-0.00E-5"}[choose_(5)];
    std::string digits = std::to_string(n);
    if (choose_(3) == 0) return digits + (choose_(2) == 0 ? "e-" : "E-0") + std::to_string(places);
    if (digits.size() <= places) digits.insert(0, places + 1 - digits.size(), '0');
    const std::string fraction = digits.substr(digits.size() - places) + zeros();
    digits.erase(digits.size() - places);
    const bool is_whole = fraction.find_first_not_of('0') == std::string::npos;
    if (is_whole && choose_(2) == 0) return digits;
    // The same number with the point one place further left.
    if (digits.size() > 1 && choose_(3) == 0)
      return digits.substr(0, digits.size() - 1) + "." + digits.back() + fraction + "e+1";
    return fraction.empty() ? digits : digits + "." + fraction;
  }
  std::string zeros() { return std::string(choose_(3), '0'); }

  std::string member(std::string_view name, const std::string& value) {
    return blanks() + text(name) + blanks() + ":" + blanks() + value + blanks();
  }
  std::string object(std::vector<std::string> members, bool in_any_order = true) {
    for (size_t i = members.size(); in_any_order && i > 1; --i)
      std::swap(members[i - 1], members[choose_(i)]);
    return "{" + joined(members) + "}";
  }
  std::string list(const std::vector<std::string>& items) {
    return "[" + blanks() + joined(items) + blanks() + "]";
  }
  static std::string joined(const std::vector<std::string>& parts) {
    std::string all;
    for (const std::string& part : parts) (all += all.empty() ? "" : ",") += part;
    return all;
  }
  std::string blanks() {
    return std::vector<std::string>{"", "", "", " ", "\n", "\t\r ", "  "}[choose_(7)];
  }

  std::string text(std::string_view bytes) {
    constexpr char hex[] = "0123456789abcdef0123456789ABCDEF";
    const std::string shorts = "\"\\/\b\f\n\r\t", names = "\"\\/bfnrt";
    const bool is_plain = choose_(2) == 0;
    std::string out = "\"";
    const std::u16string units = base::utf8::model::decode(bytes);
    for (size_t i = 0; i < units.size(); ++i) {
      const bool is_pair = (units[i] & 0xFC00) == 0xD800;
      const std::u16string one = units.substr(i, is_pair ? 2 : 1);
      const std::string character = base::utf8::model::encode(one);
      const size_t which = units[i] < 0x80 ? shorts.find(character) : shorts.npos;
      const bool needs_escape = units[i] < 0x20 || units[i] == '"' || units[i] == '\\';
      if (!needs_escape && (is_plain || choose_(2) == 0)) {
        out += character;
      } else if (which != shorts.npos && choose_(2) == 0) {
        (out += '\\') += names[which];
      } else {
        const size_t upper = choose_(2) * 16;
        for (const char16_t unit : one) {
          out += "\\u";
          for (int shift = 12; shift >= 0; shift -= 4) out += hex[upper + (unit >> shift & 15)];
        }
      }
      if (is_pair) ++i;
    }
    return out + "\"";
  }

  Choose& choose_;
};

}  // namespace sluice::http::take_model
