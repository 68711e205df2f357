// Reads the text of a policy that an operator wants to check before serving it, as a server would.
// Any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/options.h"

namespace sluice::config {

// `kind`: a name that kind_named knows; if it is not one, the result is empty. `live_file`: the
// live sluice.yaml; empty: there is none. A candidate may name regular files in that folder, and
// those that the live file names; what it says of others does not show whether they exist.
std::optional<admin::Candidate> read_candidate(std::string_view kind, const std::string& text,
                                               const std::string& live_file);

}  // namespace sluice::config
