// What docs/openapi.json lists against what the program has.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "admin/admin.h"
#include "policy/dialect.h"
#include "protocol/protocol.h"
#include "wire/json.h"

namespace sluice::admin {
namespace {

using wire::Json;

// Every `enum` of texts below `json`.
void collect_enumerations(const Json& json, std::vector<std::vector<std::string>>& found) {
  for (const auto& [key, value] : json.items()) {
    if (key != "enum" || !json.is_object()) {
      if (value.is_structured()) collect_enumerations(value, found);
      continue;
    }
    std::vector<std::string> names;
    for (const Json& name : value)
      if (name.is_string()) names.push_back(name.get<std::string>());
    found.push_back(std::move(names));
  }
}

TEST(OpenApi, EnumeratesEveryProtocolAndDialect) {
  std::vector<std::string> protocols, dialects{std::string(policy::native_dialect.name)};
  for (const protocol::Description* one : protocol::all()) protocols.emplace_back(one->name);
  for (const policy::Dialect* one : protocol::dialects()) dialects.emplace_back(one->name);

  std::vector<std::vector<std::string>> enumerations;
  collect_enumerations(Json::parse(openapi_document), enumerations);
  size_t of_protocols = 0, of_dialects = 0;
  for (const std::vector<std::string>& names : enumerations) {
    // Kinds of files, of which some are called like protocols.
    if (std::find(names.begin(), names.end(), "sluice") != names.end()) continue;
    const bool is_ours = std::find_first_of(names.begin(), names.end(), protocols.begin(),
                                            protocols.end()) != names.end();
    if (!is_ours) continue;
    if (names.front() == dialects.front()) {
      EXPECT_EQ(names, dialects);
      ++of_dialects;
    } else {
      EXPECT_EQ(names, protocols);
      ++of_protocols;
    }
  }
  EXPECT_EQ(of_protocols, 1u);
  EXPECT_EQ(of_dialects, 6u);
}

}  // namespace
}  // namespace sluice::admin
