#include "protocol/http/take_query.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "wire/http_session.h"

namespace sluice::http {
namespace {

// The most parameters of a query; more are refused. A head of 64 KiB has room for more.
constexpr size_t query_pairs_max = 256;

struct ReadQuery {
  std::vector<std::pair<std::string, std::string>> entries;
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
  read.entries.emplace_back(text.substr(0, cut), text.substr(cut + 1));
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
  std::string body;
  base::JsonWriter to(body, base::JsonForm::spaced);
  const auto put = [&](std::string_view name, const std::optional<std::string>& value) {
    if (!value) return;
    to.name(name);
    to.text(*value);
  };
  to.open_object();
  if (!read.entries.empty()) {
    to.name("entries");
    to.open_object();
    for (const auto& [name, value] : read.entries) put(name, value);
    to.close_object();
  }
  put("key", key);
  if (limit || window || algorithm || burst) {
    to.name("limits");
    to.open_list();
    to.open_object();
    put("quota", limit);
    put("window", window);
    put("algorithm", algorithm);
    put("burst", burst);
    to.close_object();
    to.close_list();
  }
  if (n) {
    const bool is_number = !n->empty() && std::all_of(n->begin(), n->end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
    if (!is_number) return base::Problem{"`n` must be a whole number"};
    to.name("n");
    to.raw(*n);
  }
  to.close_object();
  return TakeOfQuery{std::move(body), read.always_ok};
}

}  // namespace sluice::http
