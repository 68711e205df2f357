// docs/openapi.json against the protocols, dialects and routes that the program has.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "admin/admin.h"
#include "protocol/protocol.h"
#include "wire/json.h"

namespace sluice::admin {
namespace {

using wire::Json;

// The lists below `json` that name protocols, and how many lists are marked as of each kind.
struct Lists {
  std::vector<std::string> unmarked;
  size_t protocols = 0, dialects = 0;
};

void collect(const Json& json, const std::vector<std::string>& protocols, Lists& found) {
  if (json.is_object() && json.contains("enum")) {
    const std::string kind = json.value("x-sluice-list", "");
    found.protocols += kind == "protocols" ? 1u : 0u;
    found.dialects += kind == "dialects" ? 1u : 0u;
    const Json& names = json["enum"];
    // Lists of file formats, some of which are named like protocols.
    const bool is_of_files = std::find(names.begin(), names.end(), "sluice") != names.end();
    const bool is_ours = std::any_of(names.begin(), names.end(), [&](const Json& name) {
      return name.is_string() && std::find(protocols.begin(), protocols.end(),
                                           name.get<std::string>()) != protocols.end();
    });
    if (is_ours && !is_of_files && kind.empty()) found.unmarked.push_back(names.dump());
  }
  for (const Json& below : json)
    if (below.is_structured()) collect(below, protocols, found);
}

TEST(OpenApi, EnumeratesEveryProtocolAndDialect) {
  std::vector<std::string> protocols;
  for (const protocol::Description* one : protocol::all()) protocols.emplace_back(one->name);
  Lists lists;
  collect(Json::parse(openapi_document), protocols, lists);
  EXPECT_EQ(lists.unmarked, std::vector<std::string>());
  EXPECT_EQ(lists.protocols, 1u);
  EXPECT_EQ(lists.dialects, 7u);
  EXPECT_EQ(Json::parse(openapi_of_program()), Json::parse(openapi_document))
      << "docs/openapi.json must list each protocol, algorithm and store";
}

}  // namespace
}  // namespace sluice::admin
