#include "protocol/http/auth_profile.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"

namespace sluice::http {
namespace {

// The number of a field's name; `none` for an empty name.
uint8_t number_of(FieldNames& names, const std::string& name) {
  return name.empty() ? FieldNames::none : names.add(name);
}

uint64_t bit_of(uint8_t number) {
  return number == FieldNames::none ? 0 : uint64_t{1} << number;
}

// Sets which fields of the proxy's requests are read, and for which entries. A field is not read if
// the profile has an entry of its own for that key.
void plan_fields(const AuthProfile& profile, AuthPlan& plan) {
  const auto gives = [&](std::string_view key) {
    return std::none_of(profile.entries.begin(), profile.entries.end(),
                        [&](const auto& entry) { return entry.first == key; });
  };
  plan.gives_method = gives("method");
  plan.gives_path = gives("path");
  plan.gives_query = gives("query");
  plan.gives_host = gives("host");
  plan.gives_scheme = gives("scheme");
  plan.gives_ip = gives("ip");
  const ProxyFields& fields = profile.fields;
  const bool of_uri = fields.uri_is_absolute && (plan.gives_host || plan.gives_scheme);
  if (plan.gives_method) plan.method = number_of(plan.names, fields.method);
  if (plan.gives_path || plan.gives_query || of_uri) plan.uri = number_of(plan.names, fields.uri);
  if (plan.gives_host) plan.host = number_of(plan.names, fields.host);
  if (plan.gives_scheme) plan.scheme = number_of(plan.names, fields.scheme);
  if (plan.gives_ip) plan.ip = number_of(plan.names, fields.ip);
  if (!profile.secret.empty()) plan.secret = plan.names.add(auth_secret_field);
  plan.single = bit_of(plan.method) | bit_of(plan.uri) | bit_of(plan.host) | bit_of(plan.scheme) |
                bit_of(plan.secret);
  if (!fields.ip_is_list && !fields.ip_is_forwarded) plan.single |= bit_of(plan.ip);
}

// What the proxy itself knows about the original request: the field for it, and the variables in
// the configurations of nginx and HAProxy.
struct ProxyVariable {
  std::string_view field, nginx, haproxy;
};
constexpr ProxyVariable proxy_variables[] = {
    {"x-original-method", "$request_method", "%[method]"},
    {"x-original-uri", "$request_uri", "%[pathq]"},
    {"x-original-host", "$host", "%[req.hdr(host)]"},
    {"x-original-proto", "$scheme", "%[ssl_fc,iif(https,http)]"},
    {"x-real-ip", "$remote_addr", "%[src]"},
};

}  // namespace

uint8_t FieldNames::add(std::string_view lower_name) {
  if (const uint8_t known = find(lower_name); known != none) return known;
  SLUICE_CHECK(names_.size() < names_max);
  const auto number = static_cast<uint8_t>(names_.size());
  uint8_t& first = first_[std::min(lower_name.size(), first_.size() - 1)];
  names_.push_back({std::string(lower_name), first});
  return first = number;
}

// Fields whose values are lists, so that a client may send them in several lines (RFC 9110, 5.3).
static bool is_list_field(std::string_view name) {
  static constexpr std::string_view lists[] = {"cache-control",
                                               "connection",
                                               "content-encoding",
                                               "content-language",
                                               "cookie",
                                               "forwarded",
                                               "if-match",
                                               "if-none-match",
                                               "link",
                                               "pragma",
                                               "prefer",
                                               "priority",
                                               "te",
                                               "trailer",
                                               "upgrade",
                                               "via",
                                               "warning",
                                               "x-forwarded-for"};
  return name == "accept" || name.starts_with("accept-") ||
         std::find(std::begin(lists), std::end(lists), name) != std::end(lists);
}

void AuthProfile::prepare() {
  SLUICE_CHECK(headers.size() <= auth_headers_max && cookies.size() <= auth_cookies_max);
  plan = {};
  plan_fields(*this, plan);
  for (const std::string& header : headers)
    plan.headers.push_back({"header." + header, plan.names.add(header),
                            header == "authorization" || header == "proxy-authorization",
                            is_list_field(header)});
  if (!cookies.empty()) plan.cookie = plan.names.add("cookie");
  for (const std::string& cookie : cookies) plan.cookies.push_back({"cookie." + cookie, cookie});
  plan.is_made = true;
}

const AuthProfile* AuthOptions::find(std::string_view name) const {
  const auto found = profiles.find(name.empty() ? std::string_view("default") : name);
  return found == profiles.end() ? nullptr : &found->second;
}

ProxyFields fields_of(Proxy proxy) {
  ProxyFields fields;
  switch (proxy) {
    case Proxy::nginx:
    case Proxy::haproxy:
      fields.method = "x-original-method";
      fields.uri = "x-original-uri";
      fields.host = "x-original-host";
      fields.host_may_be_own = true;
      fields.scheme = "x-original-proto";
      fields.scheme_is_optional = true;
      fields.ip = "x-real-ip";
      break;
    case Proxy::traefik:
    case Proxy::caddy:
    case Proxy::apisix:
      fields.method = "x-forwarded-method";
      fields.uri = "x-forwarded-uri";
      fields.host = "x-forwarded-host";
      fields.scheme = "x-forwarded-proto";
      fields.ip = "x-forwarded-for";
      fields.ip_is_list = true;
      break;
    case Proxy::ingress_nginx:
      fields.method = "x-original-method";
      fields.uri = "x-original-url";
      fields.uri_is_absolute = true;
      fields.ip = "x-real-ip";
      break;
    case Proxy::custom:
      break;
  }
  return fields;
}

std::string_view shown_field(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"x-original-method", "X-Original-Method"},   {"x-original-uri", "X-Original-URI"},
      {"x-original-url", "X-Original-URL"},         {"x-original-host", "X-Original-Host"},
      {"x-original-proto", "X-Original-Proto"},     {"x-real-ip", "X-Real-IP"},
      {"x-forwarded-method", "X-Forwarded-Method"}, {"x-forwarded-uri", "X-Forwarded-Uri"},
      {"x-forwarded-host", "X-Forwarded-Host"},     {"x-forwarded-proto", "X-Forwarded-Proto"},
      {"x-forwarded-for", "X-Forwarded-For"},       {"forwarded", "Forwarded"},
      {auth_secret_field, "X-Sluice-Secret"},
  };
  const auto* const found = std::find_if(std::begin(known), std::end(known),
                                         [&](const auto& one) { return one.first == name; });
  return found == std::end(known) ? name : found->second;
}

std::string how_to_send(const AuthProfile& profile, std::string_view name) {
  const std::string field(shown_field(name));
  const auto* const variable =
      std::find_if(std::begin(proxy_variables), std::end(proxy_variables),
                   [&](const ProxyVariable& one) { return one.field == name; });
  const bool is_known = variable != std::end(proxy_variables);
  switch (profile.proxy) {
    case Proxy::nginx:
      if (!is_known) break;
      return "set " + field + " in the location of auth_request: proxy_set_header " + field + " " +
             std::string(variable->nginx) + ";";
    case Proxy::haproxy:
      if (!is_known) break;
      return "set " + field + " before /auth is asked: http-request set-header " + field + " " +
             std::string(variable->haproxy);
    case Proxy::traefik:
      return "ForwardAuth of Traefik sends it: is the request from that, and is trustForwardHeader "
             "off?";
    case Proxy::caddy:
      return "forward_auth of Caddy sends it: is the request from that?";
    case Proxy::apisix:
      return "forward-auth of APISIX sends it: is the request from that?";
    case Proxy::ingress_nginx:
      return "ingress-nginx sends it where auth-url is annotated: is the request from that?";
    case Proxy::custom:
      break;
  }
  return "set " + field + " in the proxy, in place of what a client sends under that name";
}

}  // namespace sluice::http
