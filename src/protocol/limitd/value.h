// The scalars of limitd's YAML as its reader, js-yaml 3, resolves them, and the texts within them.
// Pure functions; views are into the document.
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
  int64_t integer = 0;    // also of a number that is whole
  base::Time time{};      // of a time that there is
  std::string_view text;  // as it is written
};

// Of a scalar or a null; of a list, a map or a tag of no use here: unknown.
LimitdValue limitd_value(policy::YamlNode node);

// 2099-01-01, 2099-01-01T10:00:00.5Z, 2099-01-01 10:00:00 +02:00; without a zone it is UTC.
// Nothing: it is not a time.
std::optional<base::Time> limitd_time(std::string_view text);

// /expression/flags, or an expression alone; `tagged`: as !!js/regexp. A problem goes
// on from the text: "is empty ...".
base::Result<policy::Pattern> limitd_expression(std::string_view text, bool tagged);

// Does JavaScript put a property of that name in front of others, by its number? ("42")
std::optional<uint32_t> javascript_index(std::string_view name);

}  // namespace sluice::limitd
