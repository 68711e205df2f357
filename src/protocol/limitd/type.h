// One bucket type of limitd with its overrides: what a file or the environment says of it, and the
// rules that it becomes. Called off the workers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/pattern.h"
#include "policy/read/yaml_tree_reader.h"
#include "policy/rule_set.h"
#include "request/space.h"

namespace sluice::limitd {

// What a type or an override says about its bucket.
struct LimitdNumbers {
  struct Rate {
    int64_t units = 0;
    limit::Duration window{};
  };
  std::optional<int64_t> size;
  std::optional<Rate> rate;
  std::optional<bool> unlimited;
};

struct LimitdOverride {
  std::string name;
  size_t line = 0;
  LimitdNumbers numbers;
  std::optional<policy::Pattern> expression;  // none: its name is the key
  limit::Time until{INT64_MAX};
};

struct LimitdType {
  std::string name, purpose;
  std::string file;  // and line: where it is written; of the environment "environment" and 0
  size_t line = 0;
  LimitdNumbers numbers;
  std::vector<LimitdOverride> overrides;
};

// Everything wrong is reported; the result then lacks it.
LimitdType read_limitd_type(policy::YamlNode key, policy::YamlNode value, std::string_view file,
                            policy::YamlReader& reader);

// The overrides' rules, names that are whole numbers first, then the type's own.
void add_limitd_rules(const LimitdType& type, request::Spaces& spaces, policy::RuleSet& rules);

}  // namespace sluice::limitd
