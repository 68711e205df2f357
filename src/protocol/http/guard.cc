#include "protocol/http/guard.h"

#include <algorithm>

#include "protocol/http/client_address.h"

namespace sluice::http {
namespace {

// The host without its port.
std::string_view without_port(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon == host.npos || host.find(']', colon) != host.npos) return host;
  const std::string_view port = host.substr(colon + 1);
  const bool digits =
      std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  return digits ? host.substr(0, colon) : host;
}

bool has(std::span<const std::string> names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](const std::string& one) { return wire::is_http_name(name, one); });
}

// Browsers resolve such names to this machine, whatever a name server says (RFC 6761, 6.3).
bool is_localhost(std::string_view name) {
  constexpr std::string_view below = ".localhost";
  return wire::is_http_name(name, below.substr(1)) ||
         (name.size() > below.size() && name.front() != '.' &&
          wire::is_http_name(name.substr(name.size() - below.size()), below));
}

}  // namespace

std::string_view name_of_host(std::string_view host) {
  std::string_view name = without_port(host);
  if (name.ends_with('.')) name.remove_suffix(1);
  return name;
}

bool is_host_allowed(std::string_view host, std::span<const std::string> hosts) {
  if (host.empty()) return true;
  const std::string_view address = without_port(host);
  const char first = address.empty() ? '.' : address.front();
  const bool may_be_address = (first >= '0' && first <= '9') || first == '[';
  if (may_be_address && parse_address(address)) return true;
  const std::string_view name = name_of_host(host);
  return !name.empty() && (is_localhost(name) || has(hosts, name));
}

bool is_origin_allowed(const RequestFields& fields, std::span<const std::string> origins) {
  if (fields.has_origin) return has(origins, fields.origin);
  return fields.sec_fetch_site.empty() || fields.sec_fetch_site == "none" ||
         fields.sec_fetch_site == "same-origin";
}

}  // namespace sluice::http
