// Reads the descriptors of a file of limits from YAML into the nodes and limits of a set. Internal
// to the reading of Envoy's files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "limit/calendar.h"
#include "protocol/envoy/limits.h"
#include "protocol/envoy/map_reader.h"
#include "protocol/envoy/words.h"

namespace sluice::envoy {

// The counts over all files of a set, for the bounds.
struct ReadSoFar {
  const size_t descriptors_max, metadata_values_max;
  size_t descriptors = 0;
  size_t metadata_values = 0;
};

class DescriptorReader {
 public:
  DescriptorReader(uint32_t file, MapReader& maps, ReadSoFar& so_far)
      : file_(file), maps_(maps), so_far_(so_far) {}

  // The keys of the file's map. Errors are reported.
  struct File {
    std::string domain;  // empty: it is missing, which was reported
    YamlNode domain_value, descriptors;
  };
  // Empty: the map cannot be read.
  std::optional<File> read_file(YamlNode root);

  // Reads the list's descriptors into children of the node of their domain.
  void read_descriptors(YamlNode list, LimitSetBuilder& builder, uint32_t domain);

 private:
  struct Fields;  // of a descriptor
  // The node below which descriptors are read.
  struct Parent {
    LimitSetBuilder& builder;
    uint32_t node;
    size_t level;
    const std::string& path;
  };

  void read_list(YamlNode list, const Parent& parent);
  void read_descriptor(YamlNode item, const Parent& parent);
  std::optional<Fields> fields_of(YamlNode item);
  bool add_rate_limit(YamlNode map, Fields& fields);
  std::optional<Limit> read_limit(const Fields& fields, YamlNode item, LimitSetBuilder& builder);
  bool read_window(const Fields& fields, Limit& limit);
  bool read_calendar(const Fields& fields, std::optional<limit::Calendar::Unit> unit, Limit& limit);
  bool read_algorithm(const Fields& fields, Limit& limit);
  bool read_over(const Fields& fields, Limit& limit);
  bool read_overdraft(const Fields& fields, Limit& limit);
  bool read_replaces(const Fields& fields, LimitSetBuilder& builder, Limit& limit);

  std::optional<std::string> text(std::string_view key, YamlNode value);
  std::optional<bool> flag(std::string_view key, YamlNode value);
  std::optional<uint32_t> count(std::string_view key, YamlNode value);
  void doubt_place(const GoMember& member, MapKind place);
  bool is_over_bound(YamlNode item);

  uint32_t file_;
  MapReader& maps_;
  ReadSoFar& so_far_;
};

}  // namespace sluice::envoy
