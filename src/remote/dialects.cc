// What the client can speak, made from protocol/list.def.
#include <algorithm>
#include <array>
#include <vector>

#include "client/dialect.h"

#define SLUICE_PROTOCOL(name)                 \
  namespace sluice::name {                    \
  extern const calls::Dialect client_dialect; \
  }
#include "protocol/list.def"
#undef SLUICE_PROTOCOL

namespace sluice::calls {

std::span<const Dialect* const> all_dialects() {
#define SLUICE_PROTOCOL(name) &name::client_dialect,
  static constexpr std::array list = {
#include "protocol/list.def"
  };
#undef SLUICE_PROTOCOL
  return list;
}

const Dialect* find_dialect(std::string_view scheme) {
  for (const Dialect* dialect : all_dialects())
    if (std::find(dialect->schemes.begin(), dialect->schemes.end(), scheme) !=
        dialect->schemes.end())
      return dialect;
  return nullptr;
}

}  // namespace sluice::calls
