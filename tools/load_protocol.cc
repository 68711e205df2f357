#include "load_protocol.h"

#include <algorithm>
#include <iterator>

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
  const std::string_view protocol = name.substr(0, name.find('/'));
  const auto* const found = std::ranges::find(list, protocol, &Named::name);
  if (found == std::end(list)) return nullptr;
  if (protocol.size() == name.size()) return found->load;
  const auto variants = found->load->variants;
  const auto variant =
      std::ranges::find(variants, name.substr(protocol.size() + 1), &protocol::LoadVariant::name);
  return variant == variants.end() ? nullptr : &variant->load;
}

std::string load_names(std::string_view separator) {
  std::string names;
  for (const Named& one : list) {
    if (!names.empty()) names += separator;
    names += one.name;
    for (const protocol::LoadVariant& variant : one.load->variants)
      names.append(separator).append(one.name).append("/").append(variant.name);
  }
  return names;
}

std::string_view first_load_name() {
  return list[0].name;
}

}  // namespace sluice::tools
