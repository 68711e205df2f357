#include "protocol/envoy/words.h"

#include <algorithm>
#include <string>
#include <vector>

#include "policy/text.h"
#include "protocol/envoy/map_reader.h"

namespace sluice::envoy {
namespace {

using policy::in_ticks;
using Kind = GoValue::Kind;

constexpr std::string_view of_file[] = {"domain", "descriptors"};
constexpr std::string_view of_descriptor[] = {
    "key",        "value",           "rate_limit",      "descriptors",     "shadow_mode",
    "quota_mode", "detailed_metric", "value_to_metric", "share_threshold", "metadata"};
constexpr std::string_view of_rate_limit[] = {
    "unit",   "requests_per_unit", "unlimited", "name", "replaces",
    "window", "algorithm",         "burst",     "over"};
constexpr std::string_view of_replaces[] = {"name"};
constexpr std::string_view added[] = {"window", "algorithm", "burst", "over"};

constexpr Place places[] = {Place::file, Place::descriptor, Place::rate_limit, Place::replaces};

bool holds(std::span<const std::string_view> words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string_view> all_words() {
  std::vector<std::string_view> all;
  for (const Place place : places)
    for (const std::string_view word : words_of(place))
      if (!holds(all, word)) all.push_back(word);
  return all;
}

// The remedy for an unknown key: what its author may have meant.
std::string remedy_for(std::string_view key) {
  if (key == "unit_multiplier") return "write `window: 5m` in place of the unit";
  if (key == "calendar" || key == "time_zone")
    return "windows of the calendar are not there yet; a unit of month has 30 days, one of year "
           "365";
  return policy::known_words(key, all_words());
}

class WordCheck {
 public:
  WordCheck(size_t nodes, policy::YamlReader& told) : told_(told), checked_(nodes) {}

  void check_map(YamlNode map, size_t depth) {
    if (told_.is_over()) return;
    if (depth > policy::yaml_depth_max)
      return told_.error(
          "", map,
          "is nested deeper than " + std::to_string(policy::yaml_depth_max) + " lists and maps",
          "name fewer levels by alias");
    for (YamlNode key = map.first_child(), value; key; key = value.next()) {
      value = key.next();
      if (is_merged(key, value, depth)) continue;
      if (!check_key(key)) continue;
      if (key.text() != "metadata" && is_first(value)) check_value(key.text(), value, depth + 1);
    }
  }

 private:
  bool is_first(YamlNode node) {
    if (node.is_null()) return false;
    const bool first = !checked_[node.id()];
    checked_[node.id()] = true;
    return first;
  }

  // Merged maps are checked here, unless they were checked before at another place.
  bool is_merged(YamlNode key, YamlNode value, size_t depth) {
    if (!key.is_scalar() || !key.is_plain() || key.text() != "<<") return false;
    if (value.is_map() && is_first(value)) check_map(value, depth + 1);
    if (!value.is_list()) return true;
    for (YamlNode item = value.first_child(); item; item = item.next())
      if (item.is_map() && is_first(item)) check_map(item, depth + 1);
    return true;
  }

  bool check_key(YamlNode key) {
    const Kind kind = go_value(key).kind;
    if (!key.is_scalar() || kind != Kind::text) {
      const std::string_view what = kind == Kind::boolean ? "true or false"
                                    : kind == Kind::whole || kind == Kind::number
                                        ? "a number"
                                        : "something that is not a word";
      told_.error(key.is_scalar() ? key.text() : "", key,
                  "is not a key: YAML reads it as " + std::string(what), "take it out");
      return false;
    }
    static const std::vector<std::string_view> known = all_words();
    if (holds(known, key.text())) return true;
    told_.error(key.text(), key, "is not a key of Envoy's limits", remedy_for(key.text()));
    return false;
  }

  void check_value(std::string_view key, YamlNode value, size_t depth) {
    if (value.is_map()) return check_map(value, depth);
    if (!value.is_list()) return check_scalar(key, value);
    for (YamlNode item = value.first_child(); item; item = item.next()) {
      if (!item.is_map())
        told_.error(key, item, "must be a list of maps, and has " + shown(item) + " in it",
                    "write each item as a map: `- key: ...`, of replaces `- name: ...`");
      else if (is_first(item))
        check_map(item, depth + 1);
    }
  }

  void check_scalar(std::string_view key, YamlNode value) {
    const Kind kind = go_value(value).kind;
    if (kind == Kind::unreadable)
      told_.error(key, value, in_ticks(value.text()) + " is not what its tag says, or is binary",
                  "take the tag out");
    if (kind != Kind::number) return;
    const bool count = key == "requests_per_unit" || key == "burst";
    told_.error(
        key, value,
        in_ticks(value.text()) +
            " is a number with a fraction or an exponent, or is above 64 bits, as YAML reads it",
        count ? "write a whole number, 0 to 4294967295"
              : "put it in quotes: `\"" + policy::shortened(value.text(), 64) + "\"`");
  }

  policy::YamlReader& told_;
  std::vector<bool> checked_;
};

}  // namespace

std::string_view name_of(Place place) {
  switch (place) {
    case Place::file:
      return "the file";
    case Place::descriptor:
      return "a descriptor";
    case Place::rate_limit:
      return "a rate_limit";
    case Place::replaces:
      break;
  }
  return "an item of replaces";
}

std::span<const std::string_view> words_of(Place place) {
  switch (place) {
    case Place::file:
      return of_file;
    case Place::descriptor:
      return of_descriptor;
    case Place::rate_limit:
      return of_rate_limit;
    case Place::replaces:
      break;
  }
  return of_replaces;
}

bool is_added_word(std::string_view key) {
  return holds(added, key);
}

void check_words(YamlNode root, const policy::YamlDocument& document, policy::YamlReader& told) {
  WordCheck(document.size(), told).check_map(root, 1);
}

}  // namespace sluice::envoy
