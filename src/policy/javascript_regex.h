// Translates a JavaScript regular expression to PCRE2's syntax, so that it matches the same texts
// as in JavaScript: syntax with another meaning in PCRE2 is rewritten, and syntax that JavaScript
// does not have is refused. A pure function; not called by workers.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::policy {

// `source` is the text between the slashes of /x/, read as browsers do (ECMA-262 with annex B)
// without the flag u, except that a surrogate pair is one character and not two. The result must be
// compiled with PCRE2_UTF and PCRE2_DOLLAR_ENDONLY; none of its groups has a name.
base::Result<std::string> pcre2_from_javascript(std::string_view source, bool multiline,
                                                bool ignore_case);

}  // namespace sluice::policy
