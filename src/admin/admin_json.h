// What the admin port says, as JSON: rules, diagnostics, differences of two policies. Pure
// functions; any thread.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "admin/options.h"
#include "base/diagnostic.h"
#include "policy/rule_set.h"
#include "wire/http_session.h"
#include "wire/json.h"

namespace sluice::admin {

using wire::Json;

// Bytes that are not UTF-8 are replaced.
wire::HttpResponse json_response(unsigned status, const Json& json,
                                 std::string content_type = "application/json");

// An error as problem+json; `more` are fields beside those that each has.
wire::HttpResponse problem_response(unsigned status, const std::string& why,
                                    const Json& more = Json::object());

// "2026-01-02T03:04:05Z"
std::string to_text(std::chrono::system_clock::time_point at);

// The items of an answer's list, as far as base::bounds::admin_page_bytes_max goes; the first
// always.
class Items {
 public:
  // False: it was left out, as what is there is enough; so is all that comes.
  bool add(Json item);
  bool is_full() const { return full_; }
  size_t size() const { return list_.size(); }
  Json take() { return std::move(list_); }

 private:
  Json list_ = Json::array();
  size_t bytes_ = 0;
  bool full_ = false;
};

// What is left out is the last one's message.
Json to_json(const base::Diagnostics& all);

// What a check of a policy says of rules that settle over several slots, if there are any: `names`
// has a text for each group of them, and `json` gets `across_slots`.
void add_across_slots(const std::vector<std::string>& names, Json& json);

Json to_json(const policy::Rule& rule, const policy::Dialect& dialect);

// The rules of a candidate beside those of the live policy that it would replace, by their names
// and patterns; at most `listed_max` of each kind are listed, within the bytes of a page.
Json difference(const policy::RuleSet& live, const Candidate& candidate, size_t listed_max);

}  // namespace sluice::admin
