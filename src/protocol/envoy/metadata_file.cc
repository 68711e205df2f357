#include "protocol/envoy/metadata_file.h"

#include <string>
#include <unordered_map>
#include <utility>

namespace sluice::envoy {
namespace {

using Kind = Metadata::Kind;

class MetadataReader {
 public:
  MetadataReader(size_t& values, size_t values_max, MapReader& reader)
      : values_(values), values_max_(values_max), reader_(reader) {}

  void add_members(YamlNode map, bool outermost, size_t depth, Metadata& to) {
    // Many keys are looked up, and Metadata compares them.
    std::unordered_map<std::string, size_t> places;
    for (size_t i = 0; i < to.keys.size(); ++i) places.emplace(to.keys[i], i);
    const auto members = reader_.members(map);
    failed_ = failed_ || !members;
    if (failed_) return;
    for (const auto& [key, value, merged_by] : *members) {
      if (key.is_list() || key.is_map()) {
        fail(key, "has a key that is not a single value", "write a word");
        return;
      }
      std::string text = outermost ? std::string(key.text()) : go_key_text(key);
      Metadata read = value_of(value, depth + 1);
      if (failed_) return;
      const auto [at, added] = places.emplace(text, to.keys.size());
      if (!added) {
        to.items[at->second] = std::move(read);
        continue;
      }
      to.keys.push_back(std::move(text));
      to.items.push_back(std::move(read));
    }
  }

  bool failed() const { return failed_; }

 private:
  Metadata value_of(YamlNode node, size_t depth) {
    Metadata value;
    if (failed_ || !may_have(node, depth)) return value;
    if (node.is_map()) {
      value.kind = Kind::map;
      add_members(node, false, depth, value);
      return value;
    }
    if (!node.is_list()) return scalar(node);
    value.kind = Kind::list;
    for (YamlNode item = node.first_child(); item && !failed_; item = item.next())
      value.items.push_back(value_of(item, depth + 1));
    return value;
  }

  Metadata scalar(YamlNode node) {
    const GoValue value = go_value(node);
    switch (value.kind) {
      case GoValue::Kind::null:
        return {};
      case GoValue::Kind::boolean:
        return {.kind = Kind::boolean, .boolean = value.boolean};
      case GoValue::Kind::whole:
      case GoValue::Kind::number:
        return {.kind = Kind::number, .number = value.number};
      case GoValue::Kind::text:
        return {.kind = Kind::text, .text = std::string(node.text())};
      case GoValue::Kind::unreadable:
        break;
    }
    fail(node, "has a value that is not what its tag says, or is binary", "take the tag out");
    return {};
  }

  bool may_have(YamlNode node, size_t depth) {
    if (depth > policy::yaml_depth_max) {
      fail(node,
           "is nested deeper than " + std::to_string(policy::yaml_depth_max) + " lists and maps",
           "name fewer levels by alias");
    } else if (values_ >= values_max_) {
      if (values_++ == values_max_)  // told once
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

std::shared_ptr<const Metadata> read_metadata(std::span<const YamlNode> maps, size_t& values,
                                              size_t values_max, MapReader& reader) {
  MetadataReader read(values, values_max, reader);
  Metadata all{.kind = Kind::map};
  for (const YamlNode map : maps) read.add_members(map, true, 0, all);
  if (read.failed() || all.keys.empty()) return nullptr;
  return std::make_shared<const Metadata>(std::move(all));
}

}  // namespace sluice::envoy
