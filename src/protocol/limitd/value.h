// Resolves the scalars of limitd's YAML as limitd's reader does (js-yaml 3), and reads the texts
// within them. Pure functions; views point into the document.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "policy/pattern.h"
#include "policy/read/yaml_tree.h"

namespace sluice::limitd {

struct LimitdValue {
  enum class Kind : uint8_t { null, boolean, integer, number, time, text, regex, unknown };
  Kind kind = Kind::null;
  bool boolean = false;
  int64_t integer = 0;    // also set for a number that is whole
  base::Time time{};      // of a valid time
  std::string_view text;  // as written
};

// The value of a scalar or a null node; unknown for a list, a map or an unsupported tag.
LimitdValue limitd_value(policy::YamlNode node);

// Reads 2099-01-01, 2099-01-01T10:00:00.5Z, 2099-01-01 10:00:00 +02:00; without a zone it is UTC.
// Empty: it is not a time.
std::optional<base::Time> limitd_time(std::string_view text);

// Reads /expression/flags, or an expression alone. `tagged`: it has the tag !!js/regexp. A problem
// continues a sentence about the text: "is empty ...".
base::Result<policy::Pattern> limitd_expression(std::string_view text, bool tagged);

// The number of a property name that JavaScript orders before others ("42"); empty: it is not one.
std::optional<uint32_t> javascript_index(std::string_view name);

}  // namespace sluice::limitd
