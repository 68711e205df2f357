// One spelling of what clients can write in several ways, so that a rule of forward-auth has one
// counter for all of them. Pure functions; any thread.
#pragma once

#include <string_view>

#include "base/arena.h"

namespace sluice::http {

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

}  // namespace sluice::http
