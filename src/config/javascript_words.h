// Texts of variables as the programs read them that drop-ins replace and that run on Node.js. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace sluice::config {

// As JavaScript's Number(text): ` 80 `, `0x50`, `8e1`, `80.0`; an empty or blank text is 0.
// Nothing: it is not a number.
std::optional<double> javascript_number(std::string_view text);

// As JavaScript's parseInt(text, 10): the whole number at the front, so `80x` is 80 and `8e1` is 8.
// Nothing: there is none.
std::optional<double> javascript_parse_int(std::string_view text);

// The port on which `listen(text)` of Node.js listens. Nothing: it refuses the text, as it does an
// empty one, or takes it for the path of a UNIX socket.
std::optional<uint16_t> node_port(std::string_view text);

// The number as a port; nothing: it is none.
std::optional<uint16_t> port_of_number(double number);

}  // namespace sluice::config
