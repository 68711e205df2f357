// A descriptor's `metadata` from YAML. Internal to the reading of Envoy's files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "protocol/envoy/map_reader.h"
#include "protocol/envoy/metadata_value.h"

namespace sluice::envoy {

// The maps that one descriptor's `metadata` has had, in order: each adds its keys, and replaces
// those that are there. Keys of the outermost map are the texts that stand there, of maps within it
// those that Go makes of what YAML takes them for. Null: there is none, or something is wrong,
// which is reported. `values` grows by those of the result, which are at most `values_max`; more is
// reported once.
std::shared_ptr<const MetadataMap> read_metadata(std::span<const YamlNode> maps, size_t& values,
                                                 size_t values_max, MapReader& reader);

}  // namespace sluice::envoy
