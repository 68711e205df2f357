#include "protocol/http/take_query.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>

#include "base/buffer.h"
#include "protocol/http/json_text.h"
#include "wire/http_session.h"

namespace sluice::http {
namespace {

// The most parameters of a query; more are refused. A head of 64 KiB has room for more.
constexpr size_t query_pairs_max = 256;

struct ReadQuery {
  base::Buffer entries;
  // The values of query_names, as texts: of the limit that comes with the request, and of the take.
  std::array<std::optional<std::string>, 6> values;
  bool always_ok = false;
};

constexpr std::array<std::string_view, 6> query_names = {"key",       "limit", "window",
                                                         "algorithm", "burst", "n"};

std::string unknown_parameter(std::string_view name) {
  return "the query has an unknown parameter `" + std::string(name.substr(0, 64)) +
         "`; it takes entry, key, limit, window, algorithm, burst, n and status=200";
}

base::Done add_entry(const std::string& text, ReadQuery& read) {
  const size_t cut = text.find('=');
  if (cut == std::string::npos || cut == 0) return base::Problem{"`entry` must be KEY=VALUE"};
  read.entries.append(read.entries.empty() ? "" : ", ");
  append_json_text(std::string_view(text).substr(0, cut), read.entries);
  read.entries.append(": ");
  append_json_text(std::string_view(text).substr(cut + 1), read.entries);
  return {};
}

base::Done add_pair(std::string_view pair, ReadQuery& read) {
  const size_t cut = std::min(pair.find('='), pair.size());
  const auto name = wire::percent_decoded(pair.substr(0, cut), true);
  const auto value = wire::percent_decoded(pair.substr(std::min(cut + 1, pair.size())), true);
  if (!name || !value) return base::Problem{"the query is not percent-encoded well"};
  if (*name == "entry") return add_entry(*value, read);
  if (*name == "status" && *value == "200") {
    read.always_ok = true;
    return {};
  }
  const auto at = std::find(query_names.begin(), query_names.end(), *name);
  if (at == query_names.end()) return base::Problem{unknown_parameter(*name)};
  auto& to = read.values[static_cast<size_t>(at - query_names.begin())];
  if (to) return base::Problem{"the query has `" + *name + "` twice"};
  to = *value;
  return {};
}

void append_member(std::string_view name, const std::optional<std::string>& value,
                   base::Buffer& out) {
  if (!value) return;
  out.append(out.view().ends_with('{') ? "" : ", ");
  append_json_text(name, out);
  out.append(": ");
  append_json_text(*value, out);
}

}  // namespace

base::Result<TakeOfQuery> body_of_query(std::string_view query) {
  ReadQuery read;
  for (size_t pairs = 0; !query.empty(); ++pairs) {
    if (pairs == query_pairs_max) return base::Problem{"the query has more than 256 parameters"};
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    if (base::Done added = add_pair(pair, read); !added) return std::move(added).problem();
  }
  const auto& [key, limit, window, algorithm, burst, n] = read.values;
  base::Buffer body;
  body.append('{');
  if (!read.entries.empty()) {
    body.append("\"entries\": {");
    body.append(read.entries.view());
    body.append('}');
  }
  append_member("key", key, body);
  if (limit || window || algorithm || burst) {
    body.append(body.view().ends_with('{') ? "\"limits\": [{" : ", \"limits\": [{");
    append_member("quota", limit, body);
    append_member("window", window, body);
    append_member("algorithm", algorithm, body);
    append_member("burst", burst, body);
    body.append("}]");
  }
  if (n) {
    const bool is_number = !n->empty() && std::all_of(n->begin(), n->end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return base::Problem{"`n` must be a whole number"};
    body.append(body.view().ends_with('{') ? "\"n\": " : ", \"n\": ");
    body.append(*n);
  }
  body.append('}');
  return TakeOfQuery{std::string(body.view()), read.always_ok};
}

}  // namespace sluice::http
