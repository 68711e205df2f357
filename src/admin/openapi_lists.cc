#include <string>
#include <string_view>

#include "admin/admin.h"
#include "admin/admin_json.h"
#include "policy/dialect.h"
#include "protocol/protocol.h"

namespace sluice::admin {

namespace {

Json names_of(std::string_view list) {
  Json names = Json::array();
  if (list == "protocols") {
    for (const protocol::Description* one : protocol::all())
      names.push_back(std::string(one->name));
  } else {
    names.push_back(std::string(policy::native_dialect.name));
    for (const policy::Dialect* one : protocol::dialects()) names.push_back(std::string(one->name));
  }
  return names;
}

void fill_lists(Json& json) {
  if (json.is_object() && json.contains("x-sluice-list"))
    json["enum"] = names_of(json["x-sluice-list"].get<std::string>());
  for (Json& below : json)
    if (below.is_structured()) fill_lists(below);
}

}  // namespace

const std::string& openapi_of_program() {
  static const std::string text = [] {
    Json document = Json::parse(openapi_document);
    fill_lists(document);
    return document.dump(1);
  }();
  return text;
}

}  // namespace sluice::admin
