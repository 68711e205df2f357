// The settings of what is sent by OTLP (`otlp:` of a sluice.yaml). Main thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "config/table.h"
#include "otlp/options.h"

namespace sluice::config {

Table otlp_table(otlp::Options& otlp);
// Reports a client certificate without its key, or the reverse.
bool check_otlp(const Written& written, const GivenKeys& given, otlp::Options& otlp);

// A share from 0 to 1; empty: it is none.
std::optional<double> read_share(std::string_view text);

// Can it be sent as a field of a request? Its own fields aside.
bool is_header(const std::pair<std::string, std::string>& header);

}  // namespace sluice::config
