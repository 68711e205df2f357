// Translates a JavaScript regular expression to PCRE2's syntax, so that it matches the same texts
// as in JavaScript: syntax with another meaning in PCRE2 is rewritten where it is common and
// refused where it is rare, and so is syntax that JavaScript does not have. A pure function; not
// called by workers.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace sluice::policy {

// `source` is the text between the slashes of /x/, read as browsers do (ECMA-262 with annex B)
// without the flag u, but for references to groups, names of groups, letters beyond ASCII with
// `ignore_case`, and what is odd in a class, which are refused. The result must be compiled with
// PCRE2_UTF, PCRE2_DOLLAR_ENDONLY and PCRE2_EXTRA_ALLOW_SURROGATE_ESCAPES, and finds a character
// beyond U+FFFF as JavaScript does, as the two halves that it has in UTF-16.
base::Result<std::string> pcre2_from_javascript(std::string_view source, bool multiline,
                                                bool ignore_case);

}  // namespace sluice::policy
