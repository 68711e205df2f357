#include "protocol/envoy/metadata_file.h"

#include <cmath>
#include <string>
#include <unordered_map>
#include <utility>

namespace sluice::envoy {
namespace {

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

}  // namespace

std::shared_ptr<const MetadataMap> read_metadata(std::span<const YamlNode> maps, size_t& values,
                                                 size_t values_max, MapReader& reader) {
  MetadataReader read(values, values_max, reader);
  MetadataMap all;
  for (const YamlNode map : maps) read.add_members(map, true, 0, all);
  if (read.failed() || all.empty()) return nullptr;
  return std::make_shared<const MetadataMap>(std::move(all));
}

}  // namespace sluice::envoy
