// A descriptor's `metadata` from YAML. Internal to the reading of Envoy's files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "protocol/envoy/map_reader.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// Merges the maps that are values of one descriptor's `metadata`, in order: each adds its keys and
// replaces those that exist. Keys of the outermost map are kept as they are written; keys of maps
// within it become the texts that Go makes of their YAML values. Null: there are no maps, or an
// error was reported. Adds the number of values to `values`; more than `values_max` is an error,
// which is reported once.
std::shared_ptr<const MetadataMap> read_metadata(std::span<const YamlNode> maps, size_t& values,
                                                 size_t values_max, MapReader& reader);

}  // namespace sluice::envoy
