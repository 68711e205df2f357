// One limit of a native rule: from its YAML to its numbers. Internal to the reading of native
// policy.
#pragma once

#include "limit/limit.h"
#include "policy/read/yaml_tree_reader.h"

namespace sluice::policy {

// Reads `{ quota, window, burst, algorithm }`. What is wrong is reported; the limit is then of no
// use.
limit::Limit read_limit(YamlNode node, YamlReader& reader);

}  // namespace sluice::policy
