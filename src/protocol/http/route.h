// The paths of the protocol: purpose, methods, and the right that a user needs. Constant.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "access/users.h"
#include "protocol/http/take_body.h"
#include "request/charge.h"

namespace sluice::http {

enum class Action : uint8_t {
  take,
  charge,
  peek,
  put,
  reset,
  wait,
  batch,
  explain,
  later,  // not implemented yet: 501
  health,
  openapi,
  auth,
  throttle,     // throttlecrab's
  crab_health,  // throttlecrab's
};

struct Route {
  std::string_view path;
  Action action;
  std::string_view methods;              // in the form of Allow
  std::optional<access::Right> right{};  // empty: no right is needed
  Wanted wanted{};                       // what the body may have
};

// The route of a path without its query; null: there is none. All paths below /auth/ have one
// route.
const Route* find_route(std::string_view path);

// Whether the route has the method. HEAD counts as GET.
bool has_method(const Route& route, std::string_view method);

}  // namespace sluice::http
