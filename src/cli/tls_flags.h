// The options for files of TLS of commands that connect to a server, and what a person can do where
// TLS fails.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/arguments.h"
#include "net/tls.h"

namespace sluice::cli {

// Adds the options --ca, --cert and `key_option`, each the name of a file.
using TlsFlag = std::optional<std::string>;
void add_tls_flags(Arguments& arguments, TlsFlag& ca, TlsFlag& cert, TlsFlag& key,
                   const std::string& key_option = "--key");

// Whom to trust and what to show; empty: the server is asked in plain text. A problem: the flags do
// not fit the address. `how`: how an address asks for TLS, as "--admin https://ADDRESS".
base::Result<std::optional<net::TlsClient>> tls_of(const TlsFlag& ca, const TlsFlag& cert,
                                                   const TlsFlag& key, bool is_secure,
                                                   const std::string& how);

// What to do about a connection that failed, to be appended; empty: TLS is not the reason.
std::string_view tls_remedy(std::string_view problem);

}  // namespace sluice::cli
