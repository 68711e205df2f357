#include "wire/json.h"

#include <array>
#include <cstddef>

#include "base/bounds.h"

namespace sluice::wire {

bool is_bounded(std::string_view json) {
  // The members so far of each open object or list.
  std::array<size_t, base::bounds::admin_json_depth_max> members{};
  size_t depth = 0;
  bool in_text = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (depth == members.size()) return false;
      members[depth++] = 0;
    } else if (c == '}' || c == ']') {
      if (depth > 0) --depth;
    } else if (c == ':' && depth > 0) {
      if (++members[depth - 1] > base::bounds::admin_json_members_max) return false;
    }
  }
  return true;
}

}  // namespace sluice::wire
