#include <cstdint>
#include <optional>
#include <utility>

#include "admin/admin_json.h"
#include "admin/routes.h"
#include "base/bounds.h"
#include "base/units.h"

namespace sluice::admin {

using wire::HttpResponse;

namespace {

constexpr size_t changes_page_default = 100;

HttpResponse list_changes(const wire::HttpRequest& request, const live::ChangeLog& changes) {
  const auto number = [&](const char* key, uint64_t otherwise) -> std::optional<uint64_t> {
    const auto text = wire::query_value(request.query, key);
    return text ? base::parse_count(*text) : otherwise;
  };
  const auto after = number("after", 0), limit = number("limit", changes_page_default);
  if (!after || !limit || *limit < 1 || *limit > base::bounds::admin_page_max)
    return problem_response(400, "`limit` must be 1 to " +
                                     std::to_string(base::bounds::admin_page_max) +
                                     ", `after` the number of a change");
  const live::ChangeLog::Page page = changes.page(*after, *limit);
  Items items;
  for (const live::Change& one : page.changes) {
    Json json{{"number", one.number}, {"at", to_text(one.at)}, {"what", one.what},  {"by", one.by},
              {"about", one.about},   {"before", one.before},  {"after", one.after}};
    if (!items.add(std::move(json))) break;
  }
  return json_response(
      200,
      {{"total", page.total}, {"kept_max", live::ChangeLog::kept_max}, {"changes", items.take()}});
}

}  // namespace

void add_changes(Admin& admin, const live::ChangeLog& changes) {
  admin.add({.method = "GET", .path = "/v1/changes", .handler = [&](const Admin::Call& call) {
               return list_changes(call.request, changes);
             }});
}

}  // namespace sluice::admin
