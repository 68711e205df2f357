#include "protocol/envoy/descriptor_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/bounds.h"
#include "base/units.h"
#include "limit/calendar.h"
#include "policy/text.h"
#include "protocol/envoy/map_reader.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {
namespace {

using limit::Algorithm;
using policy::in_ticks;
using Kind = GoValue::Kind;

constexpr std::array<std::string_view, 5> algorithm_words = {
    "sliding_window", "sliding_log", "token_bucket", "fixed_window", "aligned_window"};
constexpr std::array<std::string_view, 7> unit_words = {"second", "minute", "hour", "day",
                                                        "week",   "month",  "year"};

std::optional<Algorithm> algorithm_named(std::string_view word) {
  for (const Algorithm each :
       {Algorithm::sliding_window, Algorithm::sliding_log, Algorithm::token_bucket,
        Algorithm::fixed_window, Algorithm::aligned_window})
    if (name_of(each) == word) return each;
  return std::nullopt;
}

// Has check_words reported the value already?
bool has_been_told(YamlNode value) {
  const Kind kind = value.is_scalar() ? go_value(value).kind : Kind::null;
  return kind == Kind::number || kind == Kind::unreadable;
}

// ---- metadata ----

class MetadataReader {
 public:
  MetadataReader(size_t& values, size_t values_max, MapReader& reader)
      : values_(values), values_max_(values_max), reader_(reader) {}

  void add_members(YamlNode map, bool outermost, size_t depth, MetadataMap& to) {
    // An index of `to`: a search in it for each key would take quadratic time.
    std::unordered_map<std::string, size_t> places;
    for (size_t i = 0; i < to.size(); ++i) places.emplace(to[i].first, i);
    const auto members = reader_.members(map);
    failed_ = failed_ || !members;
    if (failed_) return;
    for (const auto& [key, value, merged_by] : *members) {
      if (key.is_list() || key.is_map()) {
        fail(key, "has a key that is not a single value", "write a word");
        return;
      }
      std::string text = outermost ? std::string(key.text()) : go_key_text(key);
      MetadataValue read = value_of(value, depth + 1);
      if (failed_) return;
      const auto [at, added] = places.emplace(text, to.size());
      if (!added) {
        to[at->second].second = std::move(read);
        continue;
      }
      to.emplace_back(std::move(text), std::move(read));
    }
  }

  bool failed() const { return failed_; }

 private:
  MetadataValue value_of(YamlNode node, size_t depth) {
    if (failed_ || !may_have(node, depth)) return {};
    if (node.is_map()) {
      MetadataMap map;
      add_members(node, false, depth, map);
      return map;
    }
    if (!node.is_list()) return scalar(node);
    MetadataList list;
    for (YamlNode item = node.first_child(); item && !failed_; item = item.next())
      list.push_back(value_of(item, depth + 1));
    return list;
  }

  MetadataValue scalar(YamlNode node) {
    const GoValue value = go_value(node);
    switch (value.kind) {
      case GoValue::Kind::null:
        return {};
      case GoValue::Kind::boolean:
        return value.boolean;
      case GoValue::Kind::whole:
      case GoValue::Kind::number:
        if (std::isfinite(value.number)) return value.number;
        fail(node, "has a number that messages cannot hold", "put it into quotes");
        return {};
      case GoValue::Kind::text:
        return std::string(node.text());
      case GoValue::Kind::unreadable:
        break;
    }
    fail(node, "has a value that is not what its tag says, or is binary", "take the tag out");
    return {};
  }

  bool may_have(YamlNode node, size_t depth) {
    if (depth > metadata_depth_max) {
      fail(node, "is nested deeper than " + std::to_string(metadata_depth_max) + " lists and maps",
           "write fewer levels, as clients read no more");
    } else if (values_ >= values_max_) {
      if (values_++ == values_max_)  // reported once
        fail(node, "there are " + std::to_string(values_max_) + " values of metadata, the most",
             "repeat less by alias");
      failed_ = true;
    } else {
      ++values_;
      failed_ = failed_ || !reader_.take(node);
    }
    return !failed_;
  }

  void fail(YamlNode node, std::string message, std::string remedy) {
    if (!failed_) reader_.error("metadata", node, std::move(message), std::move(remedy));
    failed_ = true;
  }

  size_t& values_;
  size_t values_max_;
  MapReader& reader_;
  bool failed_ = false;
};

// Merges the maps that are values of one descriptor's `metadata`, in order: each adds its keys and
// replaces those that exist. Keys of the outermost map are kept as they are written; keys of maps
// within it become the texts that Go makes of their YAML values. Null: there are no maps, or an
// error was reported. Adds the number of values to `values`; more than `values_max` is an error,
// which is reported once.
std::shared_ptr<const MetadataMap> read_metadata(std::span<const YamlNode> maps, size_t& values,
                                                 size_t values_max, MapReader& reader) {
  MetadataReader read(values, values_max, reader);
  MetadataMap all;
  for (const YamlNode map : maps) read.add_members(map, true, 0, all);
  if (read.failed() || all.empty()) return nullptr;
  return std::make_shared<const MetadataMap>(std::move(all));
}

}  // namespace

// The last value of each key; an empty node: the key is missing. `limit` is set after the first
// `rate_limit`: like the original, the reader merges several of them.
struct DescriptorReader::Fields {
  struct RateLimit {
    YamlNode map, unit, requests_per_unit, unlimited, name, replaces, window, algorithm, burst,
        over, overdraft;
    std::array<YamlNode, std::size(limit::calendar_keys)> calendar;  // in the keys' order
  };
  YamlNode key, value, descriptors, shadow_mode, quota_mode, detailed_metric, value_to_metric,
      share_threshold;
  std::optional<RateLimit> limit;
  std::vector<YamlNode> metadata;

  YamlNode* of_descriptor(std::string_view word) {
    return word == "key"               ? &key
           : word == "value"           ? &value
           : word == "descriptors"     ? &descriptors
           : word == "shadow_mode"     ? &shadow_mode
           : word == "quota_mode"      ? &quota_mode
           : word == "detailed_metric" ? &detailed_metric
           : word == "value_to_metric" ? &value_to_metric
           : word == "share_threshold" ? &share_threshold
                                       : nullptr;
  }
  YamlNode* of_limit(std::string_view word) {
    for (size_t i = 0; i < limit->calendar.size(); ++i)
      if (word == limit::calendar_keys[i]) return &limit->calendar[i];
    return word == "unit"                ? &limit->unit
           : word == "requests_per_unit" ? &limit->requests_per_unit
           : word == "unlimited"         ? &limit->unlimited
           : word == "name"              ? &limit->name
           : word == "replaces"          ? &limit->replaces
           : word == "window"            ? &limit->window
           : word == "algorithm"         ? &limit->algorithm
           : word == "burst"             ? &limit->burst
           : word == "over"              ? &limit->over
           : word == "overdraft"         ? &limit->overdraft
                                         : nullptr;
  }
};

// Reports a key that has a meaning only in other places. For a key that sluice has added it is an
// error: the original never accepted such a key, so no file in use has it there.
void DescriptorReader::doubt_place(const GoMember& member, MapKind place) {
  const std::string_view word = member.key.text();
  MapKind own = MapKind::file;
  bool known = false;
  for (const MapKind each :
       {MapKind::file, MapKind::descriptor, MapKind::rate_limit, MapKind::replaces}) {
    const auto words = words_of(each);
    if (known || std::find(words.begin(), words.end(), word) == words.end()) continue;
    own = each;
    known = true;
  }
  if (!known) return;  // check_words has reported it
  const std::string message = "means nothing in " + std::string(name_of(place));
  const std::string remedy = "move it into " + std::string(name_of(own)) + ", or take it out";
  if (is_added_word(word))
    maps_.error(word, member.key, message, remedy);
  else
    maps_.doubt(word, member.key, message, remedy);
}

std::optional<DescriptorReader::File> DescriptorReader::read_file(YamlNode root) {
  File file;
  if (!root.is_null()) {
    const auto members = maps_.members(root);
    if (!members) return std::nullopt;
    for (const GoMember& member : *members) {
      if (member.key.text() == "domain")
        file.domain_value = member.value;
      else if (member.key.text() == "descriptors")
        file.descriptors = member.value;
      else
        doubt_place(member, MapKind::file);
    }
  }
  const auto domain = text("domain", file.domain_value);
  file.domain = domain.value_or("");
  if (domain && domain->empty())
    maps_.error("domain", file.domain_value ? file.domain_value : root,
                file.domain_value ? "is empty" : "is missing",
                "write `domain: NAME`, as the filter of Envoy names it");
  return file;
}

void DescriptorReader::read_descriptors(YamlNode list, LimitSetBuilder& builder, uint32_t domain) {
  const std::string path = builder.set().path(domain);
  maps_.set_context(path);
  read_list(list, {builder, domain, 0, path});
  maps_.set_context("");
}

void DescriptorReader::read_list(YamlNode list, const Parent& parent) {
  if (!list || list.is_null()) return;
  if (!list.is_list()) {
    if (!has_been_told(list))
      maps_.error("descriptors", list, "must be a list, and is " + shown(list),
                  "write each descriptor as an item: `- key: ...`");
    return;
  }
  if (parent.level == levels_max)
    return maps_.error("descriptors", list,
                       "is nested deeper than " + std::to_string(levels_max) + " levels",
                       "use fewer entries for each descriptor");
  for (YamlNode item = list.first_child(); item; item = item.next()) {
    if (is_over_bound(item)) return;
    if (item.is_map()) read_descriptor(item, parent);
  }
}

bool DescriptorReader::is_over_bound(YamlNode item) {
  if (!maps_.take(item)) return true;
  const size_t most = so_far_.descriptors_max;
  if (so_far_.descriptors == most)  // reported once
    maps_.error("descriptors", item, "there are more than " + base::grouped(most) + " descriptors",
                "use patterns with `*`, or several servers");
  return ++so_far_.descriptors > most;
}

std::optional<DescriptorReader::Fields> DescriptorReader::fields_of(YamlNode item) {
  const auto members = maps_.members(item);
  if (!members) return std::nullopt;
  Fields fields;
  for (const GoMember& member : *members) {
    const std::string_view word = member.key.text();
    if (YamlNode* const field = fields.of_descriptor(word)) {
      *field = member.value;
    } else if (word == "rate_limit") {
      if (!add_rate_limit(member.value, fields)) return std::nullopt;
    } else if (word == "metadata") {
      if (member.value.is_null()) fields.metadata.clear();
      if (member.value.is_map())
        fields.metadata.push_back(member.value);
      else if (!member.value.is_null())
        maps_.error(word, member.value, "must be a map, and is " + shown(member.value),
                    "write `metadata: {key: value}`");
    } else {
      doubt_place(member, MapKind::descriptor);
    }
  }
  return fields;
}

// False: the map cannot be read, which was reported; the descriptor must be skipped.
bool DescriptorReader::add_rate_limit(YamlNode map, Fields& fields) {
  if (map.is_null()) {
    fields.limit.reset();
    return true;
  }
  if (!map.is_map()) {
    if (!has_been_told(map))
      maps_.error("rate_limit", map, "must be a map, and is " + shown(map),
                  "write `rate_limit: {unit: minute, requests_per_unit: 5}`");
    return true;
  }
  const auto members = maps_.members(map);
  if (!members) return false;
  if (!fields.limit) fields.limit.emplace();
  fields.limit->map = map;
  for (const GoMember& member : *members) {
    if (YamlNode* const field = fields.of_limit(member.key.text()))
      *field = member.value;
    else
      doubt_place(member, MapKind::rate_limit);
  }
  return true;
}

void DescriptorReader::read_descriptor(YamlNode item, const Parent& parent) {
  const auto read = fields_of(item);
  if (!read) return;
  const Fields& fields = *read;
  const auto key = text("key", fields.key);
  const auto value = text("value", fields.value);
  if (key && key->empty())
    maps_.error("key", fields.key ? fields.key : item,
                fields.key ? "is empty" : "is missing, which each descriptor has",
                "write `key: NAME`, as an entry of a request has it");
  std::string composite = key.value_or("");
  if (value && !value->empty()) (composite += '_') += *value;
  const std::string path = parent.path + '.' + composite;
  maps_.set_context(path);

  // A descriptor that cannot be added to the tree is read into a set that is dropped, so that its
  // other errors are reported as well.
  LimitSetBuilder aside;
  LimitSetBuilder* builder = &parent.builder;
  uint32_t above = parent.node;
  const uint32_t twin = builder->find(above, composite);
  if (!key || key->empty() || twin != absent) {
    if (twin != absent && key && !key->empty()) {
      const Node& first = builder->set().nodes()[twin];
      maps_.error(
          "", item,
          "has the composite key of the descriptor of " +
              (first.file == file_ ? "" : std::string(builder->set().file(first.file)) + ", ") +
              "line " + std::to_string(first.line),
          "put them together, or take one out");
    }
    builder = &aside;
    above = aside.add_domain("", file_, 0);
  }
  const auto line = static_cast<uint32_t>(item.line());
  const uint32_t node = builder->add(above, key.value_or(""), value.value_or(""), file_, line);
  const bool share_threshold = flag("share_threshold", fields.share_threshold).value_or(false);
  if (share_threshold && key && value && !builder->node(node).is_pattern)
    maps_.error("share_threshold", fields.share_threshold,
                "means nothing without a `*` in the key or the value",
                "write a pattern as the value, as in `value: files/*`, or take it out");
  builder->node(node).share_threshold = share_threshold;
  builder->node(node).value_to_metric =
      flag("value_to_metric", fields.value_to_metric).value_or(false);
  if (auto limit = read_limit(fields, item, *builder)) builder->add_limit(node, *std::move(limit));
  read_list(fields.descriptors, {*builder, node, parent.level + 1, path});
  maps_.set_context(parent.path);
}

std::optional<Limit> DescriptorReader::read_limit(const Fields& fields, YamlNode item,
                                                  LimitSetBuilder& builder) {
  Limit limit;
  const auto shadow = flag("shadow_mode", fields.shadow_mode);
  const auto quota = flag("quota_mode", fields.quota_mode);
  const auto detailed = flag("detailed_metric", fields.detailed_metric);
  limit.metadata =
      read_metadata(fields.metadata, so_far_.metadata_values, so_far_.metadata_values_max, maps_);
  if (!fields.limit) return std::nullopt;
  limit.shadow_mode = shadow.value_or(false);
  limit.quota_mode = quota.value_or(false);
  limit.detailed_metric = detailed.value_or(false);
  limit.file = file_;
  limit.line = static_cast<uint32_t>(item.line());
  const auto unlimited = flag("unlimited", fields.limit->unlimited);
  const auto requests = count("requests_per_unit", fields.limit->requests_per_unit);
  limit.unlimited = unlimited.value_or(false);
  limit.requests_per_unit = requests.value_or(0);
  const bool replaces = read_replaces(fields, builder, limit);
  const bool window = unlimited && read_window(fields, limit);
  const bool algorithm = unlimited && read_algorithm(fields, limit);
  const bool over =
      window && algorithm && read_over(fields, limit) && read_overdraft(fields, limit);
  if (!requests || !replaces || !over) return std::nullopt;
  return limit;
}

bool DescriptorReader::read_window(const Fields& fields, Limit& limit) {
  const Fields::RateLimit& from = *fields.limit;
  const auto word = text("unit", from.unit);
  const auto window = text("window", from.window);
  if (!word || !window) return false;
  const auto unit = unit_named(*word);
  if (limit.unlimited) {
    if (unit)
      maps_.error("unit", from.unit, "contradicts `unlimited: true`", "take one of them out");
    if (!window->empty())
      maps_.error("window", from.window, "contradicts `unlimited: true`", "take one of them out");
    return !unit && window->empty();
  }
  if (!window->empty() && !word->empty()) {
    maps_.error("window", from.window, "stands beside a unit, which it is in place of",
                "keep one of them");
    return false;
  }
  if (window->empty()) {
    if (!unit) {
      maps_.error("unit", from.unit ? from.unit : from.map,
                  word->empty() ? "is missing" : in_ticks(*word) + " is not a unit",
                  word->empty() ? "write `unit: second`, or minute, hour, day, week, month or year"
                                : policy::known_words(*word, unit_words));
      return false;
    }
    limit.unit = *unit;
    limit.window = length_of(*unit);
    return read_calendar(fields, std::nullopt, limit);
  }
  if (const auto its = limit::calendar_unit(*window)) return read_calendar(fields, *its, limit);
  if (!read_calendar(fields, std::nullopt, limit)) return false;
  const auto length = base::parse_duration(*window);
  if (!length || length->us == 0 || length->us > base::bounds::window_us_max) {
    maps_.error("window", from.window, in_ticks(*window) + " is not a length of a window",
                "write a whole number and us, ms, s, m, h or d, as in `30s`, up to 36600d, or a "
                "window of the calendar: `hour`, `day`, `week`, `month` or `year`");
    return false;
  }
  limit.window = *length;
  limit.unit = unit_of(*length);
  limit.extended = true;
  return true;
}

// The keys beside a window of the calendar; without a unit there must be none.
bool DescriptorReader::read_calendar(const Fields& fields,
                                     std::optional<limit::Calendar::Unit> unit, Limit& limit) {
  const auto& nodes = fields.limit->calendar;
  std::array<std::string, std::size(limit::calendar_keys)> texts;
  limit::CalendarWords words;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i] || nodes[i].is_null()) continue;
    auto word = text(limit::calendar_keys[i], nodes[i]);
    if (!word) return false;
    texts[i] = *std::move(word);
    *words.find(limit::calendar_keys[i]) = texts[i];
  }
  const auto fail = [&](const limit::CalendarProblem& problem) {
    YamlNode at = fields.limit->window;
    for (size_t i = 0; i < nodes.size(); ++i)
      if (nodes[i] && limit::calendar_keys[i] == problem.key) at = nodes[i];
    maps_.error(problem.key, at, problem.message, problem.remedy);
    return false;
  };
  if (!unit) {
    const auto problem = limit::beside_length(words);
    return !problem || fail(*problem);
  }
  limit::Calendar::Terms terms;
  if (const auto problem = limit::read_calendar(*unit, words, terms)) return fail(*problem);
  const limit::Calendar::Made its = limit::Calendar::of(terms);
  if (!its.calendar) return fail(limit::problem_of(its.fault, terms, true));
  limit.calendar = its.calendar;
  limit.window = limit::Calendar::nominal(*unit);
  limit.extended = true;
  return true;
}

bool DescriptorReader::read_algorithm(const Fields& fields, Limit& limit) {
  const Fields::RateLimit& from = *fields.limit;
  const auto word = text("algorithm", from.algorithm);
  const auto burst = count("burst", from.burst);
  if (!word || !burst) return false;
  const bool has_burst = from.burst && !from.burst.is_null();
  if (limit.unlimited) {
    if (!word->empty() || has_burst)
      maps_.error(has_burst ? "burst" : "algorithm", has_burst ? from.burst : from.algorithm,
                  "contradicts `unlimited: true`", "take one of them out");
    return word->empty() && !has_burst;
  }
  if (!word->empty()) {
    const auto named = algorithm_named(*word);
    // What is given back by hand, or at the end of a lease, has no `unit`.
    if (*word == name_of(Algorithm::concurrency) || *word == name_of(Algorithm::fixed_bucket)) {
      maps_.error("algorithm", from.algorithm,
                  in_ticks(*word) + " is for native rules alone, as it has no window",
                  "write it as one of the `rules` of sluice.yaml, with `domain` and the entries in "
                  "its `match`");
      return false;
    }
    if (!named) {
      maps_.error("algorithm", from.algorithm, in_ticks(*word) + " is not an algorithm",
                  policy::known_words(*word, algorithm_words));
      return false;
    }
    limit.algorithm = *named;
    limit.extended = true;
    if (limit.calendar && limit.algorithm != Algorithm::aligned_window) {
      maps_.error("algorithm", from.algorithm,
                  in_ticks(*word) + " cannot have windows of the calendar, which differ in length",
                  "take it out, or write a length of time as the window, as in `30d`");
      return false;
    }
  }
  const bool denies_all = limit.requests_per_unit == 0;
  if (denies_all && limit.algorithm != Algorithm::aligned_window &&
      limit.algorithm != Algorithm::token_bucket) {
    maps_.error("requests_per_unit", from.map,
                "is 0, and a " + std::string(name_of(limit.algorithm)) + " needs 1 or more",
                "take `algorithm` out to deny all, or write 1 or more");
    return false;
  }
  if (limit.algorithm != Algorithm::token_bucket) {
    if (has_burst)
      maps_.error(
          "burst", from.burst,
          "is a token bucket's, and the algorithm is " + std::string(name_of(limit.algorithm)),
          "take it out, or write `algorithm: token_bucket`");
    return !has_burst;
  }
  limit.burst = has_burst ? *burst : limit.requests_per_unit;
  const bool fills = limit.requests_per_unit > 0 && limit.burst > 0;
  if (!fills)
    maps_.error(limit.requests_per_unit == 0 ? "requests_per_unit" : "burst", from.map,
                "is 0, and a token bucket needs 1 or more",
                "take `algorithm` out to deny all, or write 1 or more");
  return fills;
}

// Reads `over`, after the keys that say whether the limit is the original's.
bool DescriptorReader::read_over(const Fields& fields, Limit& limit) {
  const Fields::RateLimit& from = *fields.limit;
  const auto word = text("over", from.over);
  if (!word) return false;
  limit.counts = !limit.extended && !limit.unlimited;
  if (word->empty()) return true;
  static constexpr std::array<std::string_view, 2> words = {"refuse", "count"};
  if (limit.unlimited) {
    maps_.error("over", from.over, "contradicts `unlimited: true`", "take one of them out");
    return false;
  }
  if (*word == "count") {
    limit.counts = true;
  } else if (*word != "refuse") {
    maps_.error("over", from.over, in_ticks(*word) + " is not a way to go on past the limit",
                policy::known_words(*word, words));
    return false;
  } else if (!limit.extended) {
    maps_.error("over", from.over,
                "is not possible for a limit by `unit`: it counts what it refuses, as Redis does "
                "for the original",
                "take it out, or write `window: " + base::spell_duration(limit.window) +
                    "` in place of the unit");
    return false;
  }
  return true;
}

bool DescriptorReader::read_overdraft(const Fields& fields, Limit& limit) {
  const YamlNode from = fields.limit->overdraft;
  if (!from || from.is_null()) return true;
  const auto units = count("overdraft", from);
  if (!units) return false;
  if (limit.unlimited)
    maps_.error("overdraft", from, "contradicts `unlimited: true`", "take one of them out");
  else if (!limit.extended)
    maps_.error("overdraft", from,
                "is not possible for a limit by `unit`: it counts as Redis does for the original, "
                "which knows no such bound",
                "take it out, or write `window: " + base::spell_duration(limit.window) +
                    "` and `over: count` in place of the unit");
  else if (!limit.counts)
    maps_.error("overdraft", from, "has no effect: without `over: count` nothing is owed",
                "add `over: count`, or take it out");
  else
    limit.overdraft = *units;
  return limit.overdraft < limit::Overdrafts::none;
}

bool DescriptorReader::read_replaces(const Fields& fields, LimitSetBuilder& builder, Limit& limit) {
  const Fields::RateLimit& from = *fields.limit;
  const auto own = text("name", from.name);
  if (own) limit.name = builder.name(*own);
  if (!from.replaces || from.replaces.is_null()) return own.has_value();
  if (!from.replaces.is_list()) {
    if (!has_been_told(from.replaces))
      maps_.error("replaces", from.replaces, "must be a list, and is " + shown(from.replaces),
                  "write `replaces: [{name: ...}]`");
    return false;
  }
  bool sound = own.has_value();
  for (YamlNode item = from.replaces.first_child(); item; item = item.next()) {
    if (!item.is_map()) {
      sound = false;  // check_words has reported it
      continue;
    }
    const auto members = maps_.take(item) ? maps_.members(item) : std::nullopt;
    if (!members) return false;
    YamlNode name;
    for (const GoMember& member : *members) {
      if (member.key.text() == "name")
        name = member.value;
      else
        doubt_place(member, MapKind::replaces);
    }
    const auto replaced = text("name", name);
    const bool is_own = own && replaced && *replaced == *own;
    if (replaced && replaced->empty())
      maps_.error("replaces", item, "has an item without a name", "write `- name: ...`");
    else if (is_own)
      maps_.error("replaces", item, "names " + in_ticks(*own) + ", the limit itself",
                  "name another limit, or take it out");
    sound = sound && replaced && !replaced->empty() && !is_own;
    if (!sound) continue;
    limit.replaces.push_back(builder.name(*replaced));
  }
  std::sort(limit.replaces.begin(), limit.replaces.end());
  limit.replaces.erase(std::unique(limit.replaces.begin(), limit.replaces.end()),
                       limit.replaces.end());
  return sound;
}

// A key without a value counts as missing: the text is empty. Nothing: the value is wrong, which
// was reported.
std::optional<std::string> DescriptorReader::text(std::string_view key, YamlNode value) {
  if (!value || value.is_null()) return "";
  if (!value.is_scalar()) {
    maps_.error(key, value, "must be a single value, and is " + shown(value), "write one word");
    return std::nullopt;
  }
  if (has_been_told(value)) return std::nullopt;
  if (go_value(value).kind == Kind::null) return "";
  return std::string(value.text());
}

std::optional<bool> DescriptorReader::flag(std::string_view key, YamlNode value) {
  if (!value || value.is_null()) return false;
  const GoValue read = value.is_scalar() ? go_value(value) : GoValue{.kind = Kind::text};
  if (read.kind == Kind::null) return false;
  if (read.kind == Kind::boolean) return read.boolean;
  if (!has_been_told(value))
    maps_.error(key, value, shown(value) + " is neither true nor false",
                value.is_scalar() && !value.is_plain() ? "write `true` or `false`, without quotes"
                                                       : "write `true` or `false`");
  return std::nullopt;
}

std::optional<uint32_t> DescriptorReader::count(std::string_view key, YamlNode value) {
  if (!value || value.is_null()) return 0;
  const GoValue read = value.is_scalar() ? go_value(value) : GoValue{.kind = Kind::text};
  if (read.kind == Kind::null) return 0;
  if (read.kind == Kind::whole && read.whole >= 0 && read.whole <= UINT32_MAX)
    return static_cast<uint32_t>(read.whole);
  if (has_been_told(value)) return std::nullopt;
  const bool quoted = value.is_scalar() && !value.is_plain();
  maps_.error(key, value,
              shown(value) + (quoted                     ? " is a text to YAML"
                              : read.kind == Kind::whole ? " is out of range"
                                                         : " is not a whole number"),
              quoted ? "take the quotes away" : "write a whole number, 0 to 4294967295");
  return std::nullopt;
}

}  // namespace sluice::envoy
