// The list of protocols as the program sees it, made from protocol/list.def.
#include <algorithm>
#include <array>

#include "base/check.h"
#include "protocol/protocol.h"

#define SLUICE_PROTOCOL(name)                     \
  namespace sluice::name {                        \
  extern const protocol::Description description; \
  }
#include "protocol/list.def"
#undef SLUICE_PROTOCOL

namespace sluice::protocol {

namespace {

#define SLUICE_PROTOCOL(name) &name::description,
constexpr std::array list = {
#include "protocol/list.def"
};
#undef SLUICE_PROTOCOL
static_assert(list.size() <= protocols_max, "arrays by protocol have no room for so many");

}  // namespace

std::span<const Description* const> all() {
  return list;
}

const Description& describe(Protocol protocol) {
  const auto number = static_cast<size_t>(protocol);
  SLUICE_CHECK(number < list.size());
  return *list[number];
}

std::optional<Protocol> find(std::string_view name) {
  const auto at = std::find_if(list.begin(), list.end(),
                               [&](const Description* one) { return one->name == name; });
  if (at == list.end()) return std::nullopt;
  return static_cast<Protocol>(at - list.begin());
}

Protocol number_of(const Description& description) {
  const auto at = std::find(list.begin(), list.end(), &description);
  SLUICE_CHECK(at != list.end());
  return static_cast<Protocol>(at - list.begin());
}

std::unique_ptr<request::Session> make_session(Protocol protocol) {
  return describe(protocol).make_session();
}

policy::Dialect dialect_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::divvy:
      return policy::Dialect::divvy;
    case Protocol::limitd:
      return policy::Dialect::limitd;
    case Protocol::droplet:
      return policy::Dialect::droplet;
    case Protocol::admin:
    case Protocol::divvy_metrics:
      break;
  }
  SLUICE_CHECK(false);
  return {};
}

std::chrono::milliseconds linger_of(Protocol protocol) {
  return describe(protocol).linger;
}

const char* name_of(Protocol protocol) {
  switch (protocol) {
    case Protocol::admin:
      return "admin";
    case Protocol::divvy_metrics:
      return "divvy-metrics";
    default:
      return describe(protocol).name.data();
  }
}

}  // namespace sluice::protocol
