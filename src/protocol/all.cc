// The list of protocols as the program sees it, made from protocol/list.def.
#include <algorithm>
#include <array>
#include <vector>

#include "base/check.h"
#include "protocol/protocol.h"

// Tests add protocols of their own behind those of the program.
#ifndef SLUICE_PROTOCOL_LIST
#define SLUICE_PROTOCOL_LIST "protocol/list.def"
#endif

#define SLUICE_PROTOCOL(name)                     \
  namespace sluice::name {                        \
  extern const protocol::Description description; \
  }
#include SLUICE_PROTOCOL_LIST
#undef SLUICE_PROTOCOL

namespace sluice::protocol {

namespace {

#define SLUICE_PROTOCOL(name) &name::description,
constexpr std::array list = {
#include SLUICE_PROTOCOL_LIST
};
#undef SLUICE_PROTOCOL
static_assert(list.size() <= protocols_max, "arrays by protocol have no room for so many");

using Numbers = std::array<Protocol, list.size()>;

constexpr Numbers count_up() {
  Numbers made{};
  for (size_t i = 0; i < made.size(); ++i) made[i] = static_cast<Protocol>(i);
  return made;
}

constexpr Numbers list_numbers = count_up();

}  // namespace

std::span<const Description* const> all() {
  return list;
}

std::span<const Protocol> numbers() {
  return list_numbers;
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

std::unique_ptr<request::Session> make_session(Protocol protocol, const request::Peer& peer) {
  return describe(protocol).make_session(peer);
}

const policy::Dialect* dialect_of(Protocol protocol) {
  return describe(protocol).dialect;
}

std::string joined_names(std::string_view before_last) {
  std::string names;
  for (size_t i = 0; i < list.size(); ++i) {
    if (i > 0) names += i + 1 == list.size() ? before_last : ", ";
    names += list[i]->name;
  }
  return names;
}

std::span<const policy::Dialect* const> dialects() {
  static const std::vector<const policy::Dialect*> all = [] {
    std::vector<const policy::Dialect*> made;
    for (const Description* one : list)
      if (one->dialect != nullptr) made.push_back(one->dialect);
    return made;
  }();
  return all;
}

std::string names_bringing_limits() {
  std::string names;
  for (const Description* one : list)
    if (one->dialect != nullptr && one->dialect->brings_limits())
      names.append(names.empty() ? "" : ", ").append(one->name);
  return names;
}

const policy::Dialect* find_dialect(std::string_view name) {
  if (name == policy::native_dialect.name) return &policy::native_dialect;
  const auto all = dialects();
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const policy::Dialect* one) { return one->name == name; });
  return at == all.end() ? nullptr : *at;
}

std::chrono::milliseconds linger_of(Protocol protocol) {
  return describe(protocol).linger;
}

std::string_view name_of(Protocol protocol) {
  return describe(protocol).name;
}

}  // namespace sluice::protocol
