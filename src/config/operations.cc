#include "config/operations.h"

#include <arpa/inet.h>

#include <algorithm>

#include "base/units.h"
#include "config/built_in.h"
#include "config/candidate.h"
#include "config/load_policy.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

constexpr size_t token_bytes_min = 16;

base::Diagnostic place_of(std::string subject, bool error = true) {
  base::Diagnostic place;
  place.subject = std::move(subject);
  if (!error) place.severity = base::Diagnostic::Severity::warning;
  return place;
}

bool is_admin(const Setting<Listener>& listener) {
  return listener.value.protocol == protocol::Protocol::admin;
}

bool is_loopback(std::string_view host) {
  in_addr address;
  if (::inet_pton(AF_INET, std::string(host).c_str(), &address) == 1)
    return ntohl(address.s_addr) >> 24 == 127;
  return host == "localhost" || host == "::1";
}

// What can stand in a header.
bool is_token(std::string_view text) {
  return text.size() >= token_bytes_min &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

std::string double_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out += '"';
}

}  // namespace

void set_admin(std::string_view text, const std::string& origin, const base::Diagnostic& place,
               Config& config, base::Diagnostics& diagnostics) {
  std::optional<Address> address;
  if (text != "off" && !(address = address_of(text, protocol::Protocol::admin, place, diagnostics)))
    return;
  std::erase_if(config.listen, is_admin);
  if (address) config.listen.push_back({{protocol::Protocol::admin, *address}, origin});
}

void set_admin_token(std::string_view text, const std::string& origin,
                     const base::Diagnostic& place, Config& config,
                     base::Diagnostics& diagnostics) {
  if (is_token(text))
    config.operations.admin_token = {std::string(text), origin};
  else
    complain(place, "is no token",
             "give it " + std::to_string(token_bytes_min) +
                 " or more printable ASCII characters without blanks",
             diagnostics);
}

void apply_divvy_operations(const Outside& outside, Config& config,
                            base::Diagnostics& diagnostics) {
  const auto get = [&](const char* name) { return outside.environment(name).value_or(""); };
  const auto port_of_variable = [&](const char* name) -> std::optional<uint16_t> {
    const std::string text = get(name);
    const auto port = base::parse_port(text);
    if (!port)
      complain(place_of(name), "`" + text + "` is no port", "set it to 0 to 65535, or unset it",
               diagnostics);
    return port;
  };
  const std::string host = get("STATSD_HOST");
  if (!host.empty() && !get("STATSD_PORT").empty()) {
    if (const auto port = port_of_variable("STATSD_PORT"))
      config.operations.statsd = {
          {{host, *port}, get("STATSD_PREFIX"), !get("STATSD_USE_TCP").empty()}, "STATSD_HOST"};
  } else if (!host.empty() || !get("STATSD_PORT").empty()) {
    complain(place_of(host.empty() ? "STATSD_PORT" : "STATSD_HOST", false),
             "stands alone, so nothing is sent to statsd",
             "set STATSD_HOST and STATSD_PORT, or neither", diagnostics);
  }
  const std::string path = get("PROMETHEUS_METRICS_PATH");
  if (!path.empty() && !get("HTTP_SERVICE_PORT").empty()) {
    if (const auto port = port_of_variable("HTTP_SERVICE_PORT"))
      config.operations.divvy_page = {{{"::", *port}, path}, "HTTP_SERVICE_PORT"};
  } else if (!path.empty() || !get("HTTP_SERVICE_PORT").empty()) {
    complain(place_of(path.empty() ? "HTTP_SERVICE_PORT" : "PROMETHEUS_METRICS_PATH", false),
             "stands alone, so no page of metrics is served",
             "Only found one of HTTP_SERVICE_PORT / PROMETHEUS_METRICS_PATH. Check your "
             "environment.",
             diagnostics);
  }
}

std::vector<std::pair<std::string, std::string>> lines_of(const Operations& operations) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (const auto& file = operations.admin_token_file; !file.value.empty())
    lines.push_back({"admin: { token_file: " + double_quoted(file.value) + " }", file.origin});
  else if (const auto& token = operations.admin_token; !token.value.empty())
    lines.push_back({"# admin: a token, not shown here", token.origin});
  const auto& page = operations.divvy_page;
  const auto& statsd = operations.statsd;
  if (page || statsd) lines.push_back({"divvy:", page ? page->origin : statsd->origin});
  if (page)
    lines.push_back(
        {"  metrics: { address: " +
             double_quoted(format_address(page->value.address.host, page->value.address.port)) +
             ", path: " + double_quoted(page->value.path) + " }",
         page->origin});
  if (statsd)
    lines.push_back(
        {"  statsd: { address: " +
             double_quoted(format_address(statsd->value.address.host, statsd->value.address.port)) +
             ", prefix: " + double_quoted(statsd->value.prefix) +
             ", tcp: " + (statsd->value.tcp ? "true" : "false") + " }",
         statsd->origin});
  return lines;
}

bool same_operations(const Operations& a, const Operations& b) {
  const auto texts = [](const Operations& operations) {
    std::vector<std::string> all;
    for (const auto& line : lines_of(operations)) all.push_back(line.first);
    return all;
  };
  return texts(a) == texts(b);
}

void add_operations(const Config& config, server::Options& options) {
  const Operations& o = config.operations;
  if (o.divvy_page) {
    const auto& [address, path] = o.divvy_page->value;
    options.listeners.push_back({protocol::Protocol::divvy_metrics, address.host, address.port});
    options.divvy_metrics_path = path;
  }
  if (o.statsd) {
    const auto& [address, prefix, tcp] = o.statsd->value;
    options.statsd = {address.host, address.port, prefix, tcp};
  }
  options.admin.version = version;
}

bool set_up_admin(const Config& config, admin::AdminOptions& options, Outside& outside) {
  base::Diagnostics diagnostics;
  options.token = config.operations.admin_token.value;
  if (const auto& file = config.operations.admin_token_file; !file.value.empty()) {
    if (auto text = read_file(file.value, diagnostics)) {
      while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
      base::Diagnostic place = place_of("admin");
      place.file = file.value;
      Config read;
      set_admin_token(*text, file.origin, place, read, diagnostics);
      options.token = read.operations.admin_token.value;
    }
  }
  for (const auto& listener : config.listen) {
    if (!is_admin(listener) || is_loopback(listener.value.address.host) || !options.token.empty())
      continue;
    complain(place_of("admin"),
             listener.origin + " has it listen on " +
                 format_address(listener.value.address.host, listener.value.address.port) +
                 ", where others reach it, and there is no token",
             "set admin.token_file or SLUICE_ADMIN_TOKEN, or listen on 127.0.0.1", diagnostics);
  }
  tell(diagnostics, outside);
  options.settings = print_config(config);
  options.check = [file = config.file](std::string_view kind, const std::string& text) {
    return read_candidate(kind, text, file);
  };
  return !base::has_errors(diagnostics);
}

}  // namespace sluice::config
