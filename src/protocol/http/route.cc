#include "protocol/http/route.h"

#include <algorithm>
#include <cstddef>

namespace sluice::http {
namespace {

using access::Right;

constexpr std::string_view post = "POST, OPTIONS", get = "GET, HEAD, OPTIONS";

constexpr Wanted take_wanted{.has_mode = true};
constexpr Wanted charge_wanted{.has_id = true};
constexpr Wanted put_wanted{.has_all = true};
constexpr Wanted reset_wanted{.has_n = false};
constexpr Wanted wait_wanted{.takes_max = 0, .has_timeout = true};
constexpr Wanted batch_wanted{.takes_max = batch_takes_max, .only_takes = true};
constexpr Wanted explain_wanted{.takes_max = 0, .has_detail = false};

// Searched in order, so the most frequent ones are first.
constexpr Route routes[] = {
    {"/v1/take", Action::take, post, Right::take, take_wanted},
    {"/v1/batch", Action::batch, post, Right::take, batch_wanted},
    {"/v1/charge", Action::charge, post, Right::take, charge_wanted},
    {"/v1/peek", Action::peek, post, Right::look, take_wanted},
    {"/v1/put", Action::put, post, Right::put, put_wanted},
    {"/v1/wait", Action::wait, post, Right::take, wait_wanted},
    {"/v1/reset", Action::reset, post, Right::put, reset_wanted},
    {"/v1/explain", Action::explain, post, Right::admin, explain_wanted},
    {"/v1/health", Action::health, get},
    {"/v1/openapi.json", Action::openapi, get},
    {"/v1/reserve", Action::later, post, Right::take},
    {"/v1/commit", Action::later, post, Right::take},
    {"/v1/cancel", Action::later, post, Right::take},
    {"/v1/acquire", Action::later, post, Right::take},
    {"/v1/renew", Action::later, post, Right::take},
    {"/v1/release", Action::later, post, Right::take},
    {"*", Action::later, "GET, HEAD, POST, OPTIONS"},  // for OPTIONS only (RFC 9110, 9.3.7)
    {"/throttle", Action::throttle, post, Right::take},
    {"/health", Action::crab_health, get},
};
// Any method: a proxy may ask with the method of the client's request.
constexpr Route auth_route{"/auth", Action::auth, {}};

}  // namespace

const Route* find_route(std::string_view path) {
  if (path.starts_with("/auth") && (path.size() == 5 || path[5] == '/')) return &auth_route;
  const auto* const found = std::find_if(
      std::begin(routes), std::end(routes),
      [&](const Route& route) { return route.path.size() == path.size() && route.path == path; });
  return found == std::end(routes) ? nullptr : found;
}

bool has_method(const Route& route, std::string_view method) {
  if (route.methods.empty()) return true;
  if (method == "POST" && route.methods.starts_with("POST,")) return true;
  std::string_view rest = route.methods;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(", "), rest.size());
    if (rest.substr(0, end) == method) return true;
    rest.remove_prefix(std::min(end + 2, rest.size()));
  }
  return false;
}

}  // namespace sluice::http
