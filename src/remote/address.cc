#include "remote/address.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace sluice::calls {
namespace {

constexpr size_t hosts_max = 1024;

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit_of(text[i + 1]), low = digit_of(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

bool read_port(std::string_view text, uint16_t& port) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port > 0;
}

bool is_host_character(char c) {
  return c > ' ' && c < 0x7F && std::string_view("/?#@[]\\").find(c) == std::string_view::npos;
}

// "", or what is wrong.
std::string read_host(std::string_view text, Target& target) {
  const std::string whole(text);
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == text.npos) return "`" + whole + "` lacks its `]`";
    target.host = text.substr(1, end - 1);
    text.remove_prefix(end + 1);
  } else {
    const size_t end = std::min(text.find(':'), text.size());
    target.host = text.substr(0, end);
    text.remove_prefix(end);
  }
  if (target.host.empty() ||
      !std::all_of(target.host.begin(), target.host.end(), is_host_character))
    return "`" + whole + "` is not a host";
  if (!text.empty() && (text[0] != ':' || !read_port(text.substr(1), target.port)))
    return "`" + whole + "` does not end with a port from 1 to 65535";
  const bool is_ipv6 = target.host.find(':') != std::string::npos;
  target.name =
      (is_ipv6 ? "[" + target.host + "]" : target.host) + ":" + std::to_string(target.port);
  return "";
}

std::string read_user(std::string_view text, const Dialect& dialect, Target& target) {
  if (!dialect.has_users) return "the protocol has no users";
  const size_t colon = std::min(text.find(':'), text.size());
  const auto user = decoded(text.substr(0, colon));
  const auto token = decoded(text.substr(std::min(colon + 1, text.size())));
  if (!user || !token) return "a `%` of the user or token is not followed by two hex digits";
  target.user = *user;
  target.token = *token;
  return "";
}

std::string read_hosts(std::string_view text, Address& address) {
  Target model;
  model.port = address.dialect->port;
  if (const size_t at = text.rfind('@'); at != text.npos) {
    if (std::string problem = read_user(text.substr(0, at), *address.dialect, model);
        !problem.empty())
      return problem;
    text.remove_prefix(at + 1);
  }
  for (;;) {
    const size_t end = std::min(text.find(','), text.size());
    Target& target = address.hosts.emplace_back(model);
    if (std::string problem = read_host(text.substr(0, end), target); !problem.empty())
      return problem;
    if (end == text.size()) return "";
    if (address.hosts.size() == hosts_max) return "it has more than 1024 hosts";
    text.remove_prefix(end + 1);
  }
}

// The address for messages: without the user and the token.
std::string shown(std::string_view text) {
  const size_t at = text.rfind('@');
  if (at == text.npos) return std::string(text);
  const std::string_view scheme = text.substr(0, std::min(text.find("://"), text.size()));
  const bool is_known = find_dialect(scheme) != nullptr;
  return (is_known ? std::string(scheme) + "://" : "") + std::string(text.substr(at + 1));
}

}  // namespace

Address read_address(std::string_view text) {
  Address address;
  const std::string whole = shown(text);
  const size_t scheme_end = text.find("://");
  if (scheme_end == text.npos) {
    address.problem = "`" + whole + "` is not an address: it must begin as `resp://`";
    return address;
  }
  address.dialect = find_dialect(text.substr(0, scheme_end));
  const std::string_view given = text.substr(0, scheme_end);
  if (given == "https" || given == "wss" || given == "rediss") {
    address.problem = "`" + whole + "`: this client has no TLS; write " +
                      std::string(given.substr(0, given.size() - 1)) +
                      "://, and let a tunnel or a proxy on this machine encrypt";
    return address;
  }
  if (address.dialect == nullptr) {
    address.problem = "`" + whole + "`: the scheme must be one of";
    for (const Dialect* dialect : all_dialects())
      for (const std::string_view scheme : dialect->schemes)
        address.problem.append(" ").append(scheme);
    return address;
  }
  text.remove_prefix(scheme_end + 3);
  if (text.ends_with('/')) text.remove_suffix(1);
  if (std::string problem = read_hosts(text, address); !problem.empty())
    address.problem = "`" + whole + "`: " + problem;
  return address;
}

}  // namespace sluice::calls
