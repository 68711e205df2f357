// Reads a bucket type of limitd with its overrides, from a file or the environment, and makes rules
// of it. Not called by workers.
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

// The numbers of a type or an override.
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
  std::optional<policy::Pattern> expression;  // empty: the override's name is the key
  limit::Time until{INT64_MAX};
};

struct LimitdType {
  std::string name, purpose;
  std::string file;  // with `line` its place; "environment" and 0 for the environment
  size_t line = 0;
  LimitdNumbers numbers;
  std::vector<LimitdOverride> overrides;
};

// Errors are reported; the result then lacks the part with the error.
LimitdType read_limitd_type(policy::YamlNode key, policy::YamlNode value, std::string_view file,
                            policy::YamlReader& reader);

// Adds the rules of the overrides, those whose names are whole numbers first, then the type's own.
void add_limitd_rules(const LimitdType& type, request::Spaces& spaces, policy::RuleSet& rules);

}  // namespace sluice::limitd
