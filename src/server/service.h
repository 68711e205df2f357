// What a port serves: a protocol, or HTTP for the server's operators. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/metrics.h"
#include "protocol/protocol.h"

namespace sluice::server {

struct Service {
  enum class Kind : uint8_t {
    requests,  // in the protocol
    page,      // HTTP: the protocol's own page of metrics, at `path`
    admin,     // HTTP: the admin port
  };
  Kind kind = Kind::requests;
  protocol::Protocol protocol{};
  std::string path{};

  Service(protocol::Protocol its_protocol) : protocol(its_protocol) {}
  static Service admin() { return Service(Kind::admin, {}, {}); }
  // The page of a protocol that has metrics of its own.
  static Service page(protocol::Protocol its_protocol, std::string its_path) {
    return Service(Kind::page, its_protocol, std::move(its_path));
  }

  bool is_http() const { return kind != Kind::requests; }
  bool serves(protocol::Protocol other) const {
    return kind == Kind::requests && protocol == other;
  }
  std::string_view name() const {
    if (kind == Kind::admin) return "admin";
    const protocol::Description& its = protocol::describe(protocol);
    return kind == Kind::page ? its.metrics->page_name : its.name;
  }

 private:
  Service(Kind its_kind, protocol::Protocol its_protocol, std::string its_path)
      : kind(its_kind), protocol(its_protocol), path(std::move(its_path)) {}
};

}  // namespace sluice::server
