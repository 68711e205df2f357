#include "load_protocol.h"

#define SLUICE_PROTOCOL(name)       \
  namespace sluice::name {          \
  extern const protocol::Load load; \
  }
#include "protocol/list.def"
#undef SLUICE_PROTOCOL

namespace sluice::tools {
namespace {

struct Named {
  std::string_view name;
  const protocol::Load* load;
};

#define SLUICE_PROTOCOL(name) {#name, &name::load},
constexpr Named list[] = {
#include "protocol/list.def"
};
#undef SLUICE_PROTOCOL

}  // namespace

const protocol::Load* find_load(std::string_view name) {
  for (const Named& one : list)
    if (one.name == name) return one.load;
  return nullptr;
}

std::string load_names(std::string_view separator) {
  std::string names;
  for (const Named& one : list) {
    if (!names.empty()) names += separator;
    names += one.name;
  }
  return names;
}

std::string_view first_load_name() {
  return list[0].name;
}

}  // namespace sluice::tools
