// Paths of the protocol: what each is for, which methods it has, and who may ask. Constant.
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
  peek,
  put,
  reset,
  wait,
  batch,
  explain,
  later,  // what is not there yet: 501
  health,
  openapi,
  auth,
  throttle,     // throttlecrab's
  crab_health,  // as is this
};

struct Route {
  std::string_view path;
  Action action;
  std::string_view methods;              // as Allow has them
  std::optional<access::Right> right{};  // nothing: anybody may
  Wanted wanted{};                       // of a body
  bool takes_key = false;                // Idempotency-Key
};

// Of a path without its query; null: there is none. All that begins with /auth/ is one.
const Route* find_route(std::string_view path);

// Is `method` among those of the route? HEAD is where GET is.
bool has_method(const Route& route, std::string_view method);

}  // namespace sluice::http
