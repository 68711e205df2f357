// Warns of native rules that do not fit the settings of the protocol, for `sluice check`. Main
// thread.
#pragma once

#include "base/diagnostic.h"
#include "policy/rule_set.h"
#include "protocol/http/options.h"

namespace sluice::http {

// Appends warnings, in the order of the rules: of entries `header.NAME` and `cookie.NAME` that no
// profile of forward-auth gives. Without profiles nothing is said of them, because a client of the
// protocol may send any entry. And of rules of which none decides, as all are in shadow, where
// `http.unmatched` refuses requests that no rule decides.
void review(const HttpOptions& options, const policy::RuleSet& rules,
            base::Diagnostics& diagnostics);

}  // namespace sluice::http
