// What a proxy's request to /auth/PROFILE becomes: the entries of the original request, for the
// rules of the policy. Pure functions; any thread.
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
#include "request/charge.h"
#include "wire/http_field.h"

namespace sluice::http {

// Bytes of `method`, `scheme` and `host` (without its port). Past it: 400. `path` and `query` are
// as long as the head of a request lets them be.
inline constexpr size_t auth_method_bytes_max = 64, auth_scheme_bytes_max = 32,
                        auth_host_bytes_max = 255;
// Bytes of the value of `header.NAME` and `cookie.NAME`. Past it: `sha256:` and 32 hexadecimal
// digits, the first half of the digest.
inline constexpr size_t auth_value_bytes_max = 256;

// The peer of a connection: parsed once for each.
struct AuthPeer {
  std::optional<IpAddress> address{};  // nothing: a UNIX socket
  bool is_trusted = false;

  AuthPeer() = default;
  // `address`: "ADDRESS:PORT", empty of a UNIX socket.
  AuthPeer(std::string_view address, const TrustedProxies& trusted);
};

struct AuthQuestion {
  std::string_view method, path, query, host;  // of the request to /auth itself
  std::string_view scheme = "http";
  std::span<const wire::HttpField> fields{};
};

// Why there is no answer from a rule. In words for the log and the answer.
struct AuthRefusal {
  uint16_t status;      // 400: a field is missing, there twice or ill-formed; 403: not trusted
  std::string message;  // which, and what to do
};

// Appends the entries to `entries`: those of the profile, then `method`, `path`, `query`, `host`,
// `scheme`, `ip`, `header.NAME`, `cookie.NAME`, as far as they are there (`query` only where there
// is a `?`) and the profile has none of that key. Views into the question, the profile or `texts`.
// After a refusal what was appended is of no use. `profile` is prepared.
//
//   fields  Only those of the profile's family and those that its `headers` and `cookies` name are
//           looked at; of the others nothing matters. Each comes once, but for lists: lines of
//           X-Forwarded-For and Forwarded, of Cookie (RFC 9113, 8.2.3), and of what only `headers`
//           names count as one, in their order.
//   path    As it stands up to `?`. Where the field has an absolute URI (RFC 9112, 3.2.2) the path
//           of that. Neither, and not `*` either: 400.
//   host    In lower case, without port, without the dot that ends a full name; of IPv6 in
//           brackets.
//   scheme  In lower case.
//   ip      As write_address has it. A field without an address: 400.
//   values  Of `header.authorization`, and of headers and cookies with more than
//           auth_value_bytes_max: a digest. The first cookie of a name counts.
//
// A peer that is not trusted is 403, or where the profile has it `direct` no field of the family is
// looked at, and `method`, `path`, `host`, `scheme` and `ip` are those of the request to /auth
// itself and of its connection: the path is /auth/PROFILE then, of no use to a rule but to tell
// such requests from others, and there is no `query`. The secret is asked of every peer.
std::optional<AuthRefusal> read_auth_request(const AuthQuestion& question,
                                             const AuthProfile& profile, const AuthOptions& options,
                                             const AuthPeer& peer, base::Arena& texts,
                                             std::vector<request::Entry>& entries);

// A path that begins with `/`, in the one form of all that name the same (RFC 3986, 6.2.2): escapes
// of unreserved characters decoded, others in upper case; what a path cannot have escaped, a `%`
// without two digits too; repeated slashes joined, then dot segments resolved. In `texts`.
std::string_view normalize_path(std::string_view path, base::Arena& texts);

}  // namespace sluice::http
