// Reads one limit of a native rule from its YAML. Internal to the reader of native policy.
#pragma once

#include "limit/limit.h"
#include "policy/read/yaml_tree_reader.h"

namespace sluice::policy {

// Reads `{ quota, window, burst, algorithm, over }`. `counts`: is it `over: count`? Null: such a
// limit has no `over`. After an error, which is reported, the limit must not be used.
limit::Limit read_limit(YamlNode node, YamlReader& reader, bool* counts = nullptr);

}  // namespace sluice::policy
