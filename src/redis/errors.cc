#include "redis/errors.h"

#include <algorithm>
#include <array>

namespace sluice::redis {

using request::Error;

namespace {

struct Known {
  std::string_view head;
  Error error;
};
constexpr std::array known{
    Known{"WRONGTYPE", Error::wrong_type},
    Known{"FOREIGN", Error::wrong_type},
    Known{"NONUMBER", Error::no_number},
    Known{"ERR value is not an integer", Error::wrong_type},
    Known{"ERR increment or decrement would overflow", Error::wrong_type},
    Known{"OOM", Error::no_space},
    Known{"READONLY", Error::read_only},
    Known{"MASTERDOWN", Error::read_only},  // a replica that has lost its primary
    Known{"NOREPLICAS", Error::read_only},  // a primary that has lost its replicas
    Known{"NOAUTH", Error::auth_failed},
    Known{"NOPERM", Error::auth_failed},
    Known{"WRONGPASS", Error::auth_failed},
    Known{"DENIED", Error::auth_failed},
    Known{"ERR AUTH", Error::auth_failed},
    Known{"ERR Client sent AUTH", Error::auth_failed},
    Known{"ERR invalid password", Error::auth_failed},
    // The user may not run a command of the script: the texts of Redis 7.0, and from 7.2 on.
    Known{"ERR The user executing the script", Error::auth_failed},
    Known{"ERR ACL failure in script", Error::auth_failed},
};

// Redis 5 to 6.2 wrap the error of a script's command, with or without a `-` before it: ERR Error
// running script (call to f_...): @user_script:4: @user_script: 4: -READONLY ...
std::string_view unwrapped(std::string_view text) {
  constexpr std::string_view place = "@user_script";
  if (!text.starts_with("ERR Error running script")) return text;
  const size_t at = text.rfind(place);
  if (at == std::string_view::npos) return text;
  text.remove_prefix(at + place.size());
  text.remove_prefix(std::min(text.find_first_not_of(": 0123456789-"), text.size()));
  return text;
}

}  // namespace

Error error_of(std::string_view text) {
  text = unwrapped(text);
  for (const auto& [head, error] : known)
    if (text.starts_with(head)) return error;
  return Error::store;
}

bool is_of_cluster(std::string_view text) {
  constexpr std::array<std::string_view, 6> signs{"CROSSSLOT ",
                                                  "CLUSTERDOWN ",
                                                  "ERR SELECT is not allowed in cluster mode",
                                                  "it says ERR SELECT is not allowed in cluster",
                                                  "ERR Script attempted to access a non local key",
                                                  "ERR Script attempted to access keys that do"};
  text = unwrapped(text);
  if (std::any_of(signs.begin(), signs.end(), [&](auto sign) { return text.starts_with(sign); }))
    return true;
  // "MOVED 3999 127.0.0.1:6381"
  constexpr std::string_view moved = "MOVED ";
  return text.starts_with(moved) && text.size() > moved.size() && text[moved.size()] >= '0' &&
         text[moved.size()] <= '9';
}

std::string remedy_of(std::string_view text, std::string_view account) {
  if (error_of(text) != Error::auth_failed) return {};
  text = unwrapped(text);
  if (text.starts_with("NOPERM") || text.find("script") != std::string_view::npos)
    return "; give its user the rights that docs/redis.md names";
  return "; see " + std::string(account);
}

std::string problem_of(const net::Stream& stream, int error) {
  const char* remedy = "";
  if (stream.fault() == net::TlsFault::wrong_host)
    remedy = "; name the node in store.redis.nodes as its certificate does";
  if (stream.fault() == net::TlsFault::untrusted)
    remedy = "; name its authority by tls_ca of store.redis, REDIS_TLS_CACERT or SSL_CERT_FILE";
  return stream.problem(error) + remedy;
}

}  // namespace sluice::redis
