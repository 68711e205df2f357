// A policy that an operator asks about before serving it: its text, read as a server would. Any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/options.h"

namespace sluice::config {

// `kind` as kind_named knows it; nothing: it is none. `live_file`: the sluice.yaml that is live, or
// nothing; the policies that a new one names lie beside it, or that one names them too.
std::optional<admin::Candidate> read_candidate(std::string_view kind, const std::string& text,
                                               const std::string& live_file);

}  // namespace sluice::config
