// Profiles of forward-auth: how a proxy's request to /auth/PROFILE is read. Everything comes from
// the configuration, nothing from the request. Constant once made; any thread.
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

// The proxy whose header fields are read. In the order of the names.
enum class Proxy : uint8_t { nginx, haproxy, traefik, caddy, apisix, ingress_nginx, custom };
inline constexpr std::array<std::string_view, 7> proxy_names = {
    "nginx", "haproxy", "traefik", "caddy", "apisix", "ingress-nginx", "custom"};

// The names of the fields that describe the original request, in lower case; empty: not used.
struct ProxyFields {
  std::string method, uri, host, scheme, ip;
  bool uri_is_absolute = false;     // the URI has scheme and host as well
  bool host_may_be_own = false;     // if the field is missing, Host counts
  bool scheme_is_optional = false;  // if the field is missing, there is no `scheme`
  bool ip_is_list = false;          // X-Forwarded-For
  bool ip_is_forwarded = false;     // Forwarded (RFC 7239)
};

// The field with the proxy's secret, for profiles that require one.
inline constexpr std::string_view auth_secret_field = "x-sluice-secret";

// The most names in `headers` and in `cookies` of a profile. More are refused by the reader.
inline constexpr size_t auth_headers_max = 32, auth_cookies_max = 32;

// A table of names of header fields, each with a number.
class FieldNames {
 public:
  static constexpr size_t names_max = 64;
  static constexpr uint8_t none = 0xff;

  FieldNames() { first_.fill(none); }
  // The number of a name in lower case; a new name is added.
  uint8_t add(std::string_view lower_name);
  // The number of a name in any case; `none`: the table does not have it.
  uint8_t find(std::string_view name) const {
    uint8_t at = first_[std::min(name.size(), first_.size() - 1)];
    while (at != none && !wire::is_http_name(name, names_[at].text)) at = names_[at].next;
    return at;
  }
  const std::string& operator[](size_t number) const { return names_[number].text; }

 private:
  struct Name {
    std::string text;
    uint8_t next;  // the next name of the same size, or `none`
  };

  std::vector<Name> names_;
  std::array<uint8_t, 64> first_;  // by size; longer names are in the last list
};

// The data for read_auth_request, made of a profile once.
struct AuthPlan {
  struct Header {
    std::string key;  // of the entry
    uint8_t name;
    bool is_credentials;  // Authorization: its value is never shown, whatever its length
    bool is_list;         // lines of it are one list
  };
  struct Cookie {
    std::string key, name;
  };

  bool is_made = false;
  FieldNames names;     // the names of all fields that are read
  uint64_t single = 0;  // a bit for each of them that must not be repeated
  // The numbers of these names; FieldNames::none: the field is not read.
  uint8_t method = FieldNames::none, uri = FieldNames::none, host = FieldNames::none,
          scheme = FieldNames::none, ip = FieldNames::none, secret = FieldNames::none,
          cookie = FieldNames::none;
  // Whether the request gives the entry. It does not if `entries` of the profile has it.
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
  // These come before all others, and replace entries of the request with the same key.
  std::vector<std::pair<std::string, std::string>> entries;
  request::OnError on_store_error = request::OnError::error;  // error, deny or allow
  std::vector<std::string> headers;  // the fields that become `header.NAME`, in lower case
  std::vector<std::string> cookies;  // the cookies that become `cookie.NAME`
  unsigned ip_depth = 0;
  unsigned ipv6_prefix = 128;
  bool normalize_path = false;
  // A peer that is not trusted gets the entries of its own request to /auth instead of a refusal.
  bool untrusted_direct = false;
  std::string secret;  // the required value of X-Sluice-Secret; empty: none is required

  AuthPlan plan;
  // Makes `plan`. Must be called once, after the members above were set.
  void prepare();
};

struct AuthOptions {
  TrustedProxies trusted = TrustedProxies::loopback();
  std::map<std::string, AuthProfile, std::less<>> profiles;

  // Null: there is no such profile. An empty `name` means the profile `default`.
  const AuthProfile* find(std::string_view name) const;
};

// The fields that the proxy sends; none for `custom`.
ProxyFields fields_of(Proxy proxy);

// For messages: a field's name as people write it, and how to make the profile's proxy send that
// field. `name` must be in lower case.
std::string_view shown_field(std::string_view name);
std::string how_to_send(const AuthProfile& profile, std::string_view name);

}  // namespace sluice::http
