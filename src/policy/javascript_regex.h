// A JavaScript regular expression in PCRE2's spelling, so that it matches what it matches in
// JavaScript: what PCRE2 reads otherwise is rewritten, what JavaScript does not know is refused.
// Pure; called off the workers.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::policy {

// `source` as between the slashes of /x/, read as in browsers (ECMA-262 with annex B) without the
// flag u, but by characters and not by halves of them. The result must be compiled with PCRE2_UTF
// and PCRE2_DOLLAR_ENDONLY; none of its groups has a name.
base::Result<std::string> pcre2_from_javascript(std::string_view source, bool multiline,
                                                bool ignore_case);

}  // namespace sluice::policy
