// Profiles of forward-auth: what a proxy's request to /auth/PROFILE is read as. All of it comes
// from the configuration, nothing from the request. Constant once made; any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/http/client_address.h"
#include "request/charge.h"
#include "wire/http_field.h"

namespace sluice::http {

// Whose family of header fields is read. The order is that of the names.
enum class Proxy : uint8_t { nginx, haproxy, traefik, caddy, apisix, ingress_nginx, custom };
inline constexpr std::array<std::string_view, 7> proxy_names = {
    "nginx", "haproxy", "traefik", "caddy", "apisix", "ingress-nginx", "custom"};

// From which fields a request is put together, in lower case; empty: from none.
struct ProxyFields {
  std::string method, uri, host, scheme, ip;
  bool uri_is_absolute = false;     // it has scheme and host too
  bool host_may_be_own = false;     // without that field: Host
  bool scheme_is_optional = false;  // without that field there is no `scheme`
  bool ip_is_list = false;          // X-Forwarded-For
  bool ip_is_forwarded = false;     // Forwarded (RFC 7239)
};

// The field in which a proxy of a profile that asks for one says its secret.
inline constexpr std::string_view auth_secret_field = "x-sluice-secret";

// Names of `headers` and of `cookies` of a profile, at most. Past it: refused when it is read.
inline constexpr size_t auth_headers_max = 32, auth_cookies_max = 32;

// Names of header fields, each with a number, that a field's name is looked up in.
class FieldNames {
 public:
  static constexpr size_t names_max = 64;
  static constexpr uint8_t none = 0xff;

  FieldNames() { first_.fill(none); }
  // The number of a name in lower case; a new one is added.
  uint8_t add(std::string_view lower_name);
  // Of a name in whatever case; `none`: it is not among them.
  uint8_t find(std::string_view name) const {
    uint8_t at = first_[std::min(name.size(), first_.size() - 1)];
    while (at != none && !wire::is_http_name(name, names_[at].text)) at = names_[at].next;
    return at;
  }
  const std::string& operator[](size_t number) const { return names_[number].text; }

 private:
  struct Name {
    std::string text;
    uint8_t next;  // of the same size, or `none`
  };

  std::vector<Name> names_;
  std::array<uint8_t, 64> first_;  // by size; longer ones are with the last
};

// What read_auth_request goes by, made of a profile once.
struct AuthPlan {
  struct Header {
    std::string key;  // of the entry
    uint8_t name;
    bool is_secret;  // never shown, whatever its length
  };
  struct Cookie {
    std::string key, name;
  };

  bool is_made = false;
  FieldNames names;     // of all fields that are read
  uint64_t single = 0;  // those of them, as bits, that come once at most
  // Numbers of their names; FieldNames::none: they are not read.
  uint8_t method = FieldNames::none, uri = FieldNames::none, host = FieldNames::none,
          scheme = FieldNames::none, ip = FieldNames::none, secret = FieldNames::none,
          cookie = FieldNames::none;
  // Entries that the request gives. What `entries` of the profile has it does not.
  bool gives_method = true, gives_path = true, gives_query = true, gives_host = true,
       gives_scheme = true, gives_ip = true;
  std::vector<Header> headers;
  std::vector<Cookie> cookies;
};

struct AuthProfile {
  std::string name;
  Proxy proxy = Proxy::custom;
  ProxyFields fields;
  uint16_t deny = 429, ok = 200;
  int64_t n = 1;
  // Go before all others: of a key that is here the request's own is not read.
  std::vector<std::pair<std::string, std::string>> entries;
  request::OnError on_store_error = request::OnError::error;  // error, deny or allow
  std::vector<std::string> headers;  // that become `header.NAME`, in lower case
  std::vector<std::string> cookies;  // that become `cookie.NAME`
  unsigned ip_depth = 0;
  unsigned ipv6_prefix = 128;
  bool normalize_path = false;
  bool untrusted_direct =
      false;           // of a peer that is not trusted: the entries of the request itself
  std::string secret;  // that X-Sluice-Secret must have; empty: none is asked for

  AuthPlan plan;
  // Makes `plan`: once, after all of the above is set, and before a request is read.
  void prepare();
};

struct AuthOptions {
  TrustedProxies trusted = TrustedProxies::loopback();
  std::map<std::string, AuthProfile, std::less<>> profiles;

  // Null: there is none. `name` empty: the profile `default`.
  const AuthProfile* find(std::string_view name) const;
};

// The fields of that proxy's family; of `custom` none.
ProxyFields fields_of(Proxy proxy);

// For messages: a field's name as people write it, and what to do so that the profile's proxy sends
// that field. `name`: in lower case.
std::string_view shown_field(std::string_view name);
std::string how_to_send(const AuthProfile& profile, std::string_view name);

}  // namespace sluice::http
