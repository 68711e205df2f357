// Converts a proxy's request to /auth/PROFILE to the entries of the original request, for the rules
// of the policy. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "protocol/http/auth_profile.h"
#include "protocol/http/client_address.h"
#include "request/request.h"
#include "wire/http_field.h"

namespace sluice::http {

// One spelling of what clients can write in several ways, so that a rule of forward-auth has one
// counter for all of them. Pure functions; any thread.

// The text without blanks and tabs around it.
std::string_view without_blanks_around(std::string_view text);

// One spelling of the credentials of an Authorization field, in `texts` or `value` itself: the
// scheme in lower case, one blank, and the rest without blanks around it. Of `basic` only the
// characters of Base64 are kept, without padding and unused bits, because applications ignore the
// others. A value without a blank has no scheme, and is returned as it is.
std::string_view credentials_of(std::string_view value, base::Arena& texts);

// One spelling of a cookie's value, in `texts` or `value` itself: without blanks and one pair of
// quotes around it; within quotes backslashes are taken as Python's programs take them (`\141` and
// `\a` are `a`); escapes (`%61`) of printable ASCII are decoded, as most frameworks do, other bytes
// are escaped in upper case.
std::string_view cookie_value(std::string_view value, base::Arena& texts);

// The normal form of a path that begins with `/`, which is the same for all spellings of the path
// (RFC 3986, 6.2.2): escapes of unreserved characters are decoded, others are in upper case;
// characters that a path cannot have, and a `%` without two digits, are escaped; repeated slashes
// are joined, then dot segments resolved. The result is in `texts`.
std::string_view normalize_path(std::string_view path, base::Arena& texts);

// The most bytes of `method`, `scheme` and `host` (without its port). Beyond it: 400. `path` and
// `query` are bounded by the head of the request.
inline constexpr size_t auth_method_bytes_max = 64, auth_scheme_bytes_max = 32,
                        auth_host_bytes_max = 255;
// The most bytes of the value of `header.NAME` and `cookie.NAME`. A longer value becomes `sha256:`
// and 32 hexadecimal digits, the first half of its digest.
inline constexpr size_t auth_value_bytes_max = 256;

// The peer of a connection; parsed once for each connection.
struct AuthPeer {
  std::optional<IpAddress> address{};  // empty: a UNIX socket
  bool is_trusted = false;

  AuthPeer() = default;
  // `address`: "ADDRESS:PORT"; empty for a UNIX socket.
  AuthPeer(std::string_view address, const TrustedProxies& trusted);
};

struct AuthQuestion {
  std::string_view method, path, query, host;  // of the request to /auth itself
  std::string_view scheme = "http";
  std::span<const wire::HttpField> fields{};
};

// Why the request is refused without any rule. The text is for the log and the answer.
struct AuthRefusal {
  uint16_t status;      // 400: a field is missing, repeated or ill-formed; 403: not trusted
  std::string message;  // the problem and the remedy
};

// Appends the entries to `entries`: those of the profile, then `method`, `path`, `query`, `host`,
// `scheme`, `ip`, `header.NAME`, `cookie.NAME`, if they exist (`query` only after a `?`) and the
// profile has no entry with that key. Views into the question, the profile or `texts`. After a
// refusal the entries that were appended must not be used. `profile` must be prepared.
//
//   fields  Only the fields of the profile's proxy, and those that its `headers` and `cookies`
//           name, are read. A field of the proxy must not be repeated, except for lists: the lines
//           of X-Forwarded-For, of Forwarded, of Cookie (RFC 9113, 8.2.3), and of lists that
//           `headers` names (Accept and similar ones) are joined in their order. Other fields that
//           `headers` names may be repeated with one and the same value, which counts once; with
//           different values: 400, because applications differ in which one they take.
//   path    The part before `?`; of an absolute URI (RFC 9112, 3.2.2) its path. If it is neither,
//           nor `*`: 400.
//   host    In lower case, without the port and without a dot at the end; IPv6 in brackets.
//   scheme  In lower case.
//   ip      In the form of write_address. A field without an address: 400.
//   values  The value of `header.authorization` is the digest of one spelling (credentials_of), and
//           that of other headers and cookies longer than auth_value_bytes_max is their digest.
//           The value of a cookie is one spelling as well (cookie_value). Cookies with equal names
//           and different values: 400.
//
// A peer that is not trusted gets 403. If the profile has `untrusted_direct`, the rules decide
// instead, but none of the proxy's fields is read: `method`, `path`, `host`, `scheme` and `ip` are
// those of the request to /auth itself and of its connection, and there is no `query`. The path
// /auth/PROFILE then only serves to recognize such requests in a rule. The secret is required of
// every peer.
std::optional<AuthRefusal> read_auth_request(const AuthQuestion& question,
                                             const AuthProfile& profile, const AuthOptions& options,
                                             const AuthPeer& peer, base::Arena& texts,
                                             std::vector<request::Entry>& entries);

}  // namespace sluice::http
