#include "protocol/http/auth_settings.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "config/file_reader.h"
#include "config/read_file.h"
#include "config/settings.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

using policy::YamlNode;

constexpr std::string_view hidden_secret = "(hidden)";
constexpr std::array<uint16_t, 4> deny_statuses = {401, 403, 429, 503};
constexpr std::array<request::OnError, 3> auth_error_answers = {
    request::OnError::error, request::OnError::deny, request::OnError::allow};
constexpr const char* profile_example =
    "write `profiles: { web: { proxy: nginx } }`, and have the proxy ask /auth/web";

bool is_of_nginx(Proxy proxy) {
  return proxy == Proxy::nginx || proxy == Proxy::ingress_nginx;
}

uint16_t deny_default(Proxy proxy) {
  return is_of_nginx(proxy) ? 403 : 429;
}

bool is_profile_name(std::string_view name) {
  return !name.empty() && name.size() <= auth_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
         });
}

// Can a header field carry the text unchanged? Blanks at its ends would be lost.
bool is_sendable_secret(std::string_view text) {
  return !text.empty() && text.size() <= auth_secret_bytes_max && text.front() != ' ' &&
         text.back() != ' ' &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c < 0x7f; });
}

std::string in_lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), wire::http_lower);
  return text;
}

std::string names_of_proxies() {
  return config::one_of({proxy_names.begin(), proxy_names.end()});
}

// Reads one profile. Values that depend on others are checked after all have been read.
class ProfileReader {
 public:
  ProfileReader(config::FileReader& reader, std::string_view name) : reader_(reader) {
    profile_.name = name;
  }

  // Nothing: the profile has an error, which was reported.
  std::optional<AuthProfile> read(const YamlNode& node) {
    const size_t problems = reader_.diagnostics().size();
    reader_.map(node, "profile `" + profile_.name + "`", keys());
    if (!proxy_ && reader_.diagnostics().size() == problems)
      complain("proxy", node,
               "is missing in the profile `" + profile_.name +
                   "`, and there is no default: each proxy passes on what a client sends under the "
                   "names that another one uses",
               "add `proxy:` with " + names_of_proxies());
    if (reader_.diagnostics().size() == problems) finish(node);
    if (reader_.diagnostics().size() > problems) return std::nullopt;
    profile_.prepare();
    return std::move(profile_);
  }

 private:
  using Known = config::FileReader::Known;
  using Key = const std::string&;

  std::vector<Known> keys() {
    return {
        {"proxy", [&](Key key, const YamlNode& node) { read_proxy(key, node); }},
        {"from", [&](Key key, const YamlNode& node) { read_from(key, node); }},
        {"deny", [&](Key key, const YamlNode& node) { read_deny(key, node); }},
        {"ok", [&](Key key, const YamlNode& node) { read_ok(key, node); }},
        {"n",
         [&](Key key, const YamlNode& node) {
           if (const auto n = reader_.number(key, node, 0, base::bounds::quota_max))
             profile_.n = static_cast<int64_t>(*n);
         }},
        {"entries", [&](Key key, const YamlNode& node) { read_entries(key, node); }},
        {"on_store_error", [&](Key key, const YamlNode& node) { read_on_error(key, node); }},
        {"headers", [&](Key key, const YamlNode& node) { read_headers(key, node); }},
        {"cookies", [&](Key key, const YamlNode& node) { read_cookies(key, node); }},
        {"ip_depth",
         [&](Key key, const YamlNode& node) {
           depth_ = node;
           if (const auto n = reader_.number(key, node, 0, forwarded_entries_max))
             profile_.ip_depth = static_cast<unsigned>(*n);
         }},
        {"ipv6_prefix",
         [&](Key key, const YamlNode& node) {
           if (const auto n = reader_.number(key, node, 1, 128))
             profile_.ipv6_prefix = static_cast<unsigned>(*n);
         }},
        {"normalize_path",
         [&](Key key, const YamlNode& node) {
           profile_.normalize_path =
               reader_
                   .truth(key, node, "write `normalize_path: true` to have one name for each path")
                   .value_or(false);
         }},
        {"untrusted", [&](Key key, const YamlNode& node) { read_untrusted(key, node); }},
        {"secret", [&](Key key, const YamlNode& node) { read_secret(key, node); }},
        {"secret_file", [&](Key key, const YamlNode& node) { read_secret_file(key, node); }},
    };
  }

  void read_proxy(Key key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    const auto at = std::find(proxy_names.begin(), proxy_names.end(), *text);
    if (at == proxy_names.end())
      return complain(key, node, "`" + *text + "` is not a proxy that is known here",
                      "write " + names_of_proxies() +
                          "; `custom` takes the names of the header fields in `from`");
    proxy_ = static_cast<Proxy>(at - proxy_names.begin());
  }

  void read_from(Key key, const YamlNode& node) {
    from_node_ = node;
    const auto field = [&](std::string& to) {
      return [&](Key name, const YamlNode& value) {
        if (auto text = field_name(name, value)) to = *std::move(text);
      };
    };
    reader_.map(node, key,
                {{"method", field(from_.method)},
                 {"uri", field(from_.uri)},
                 {"host", field(from_.host)},
                 {"scheme", field(from_.scheme)},
                 {"ip", field(from_.ip)}});
    from_.ip_is_list = from_.ip == "x-forwarded-for";
    from_.ip_is_forwarded = from_.ip == "forwarded";
    // HTTP/2 has no field Host; the session knows the host of either version's request.
    if (from_.host != "host") return;
    from_.host.clear();
    from_.host_may_be_own = true;
  }

  void read_deny(Key key, const YamlNode& node) {
    deny_node_ = node;
    const auto text = reader_.text(key, node);
    if (!text) return;
    for (const uint16_t status : deny_statuses)
      if (*text == std::to_string(status)) deny_ = status;
    if (!deny_)
      complain(key, node, "`" + *text + "` is not a status of a refusal",
               "write 401, 403, 429 or 503");
  }

  void read_ok(Key key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    if (*text == "200" || *text == "204")
      profile_.ok = *text == "200" ? 200 : 204;
    else
      complain(key, node, "`" + *text + "` is not a status by which a request passes",
               "write 200 or 204");
  }

  void read_entries(Key key, const YamlNode& node) {
    if (!node.is_map())
      return complain(key, node, "must be a map of keys to values",
                      "write `entries: {tier: gold}`");
    for (const auto& [name, value] : reader_.yaml().entries(key, node)) {
      const auto text = reader_.text(std::string(name.text()), value);
      if (!text) continue;
      if (name.text().empty() || name.text().size() > auth_entry_bytes_max ||
          text->size() > auth_entry_bytes_max)
        complain(key, name,
                 "has a key or a value with no bytes or more than " +
                     std::to_string(auth_entry_bytes_max),
                 "shorten it");
      else
        profile_.entries.emplace_back(name.text(), *text);
    }
    if (profile_.entries.size() > auth_entries_max) complain_many(key, node, auth_entries_max);
  }

  void read_on_error(Key key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    const auto at = std::find_if(auth_error_answers.begin(), auth_error_answers.end(),
                                 [&](request::OnError one) { return name_of(one) == *text; });
    if (at == auth_error_answers.end())
      complain(key, node, "`" + *text + "` is not one of error, deny, allow", "write one of these");
    else
      profile_.on_store_error = *at;
  }

  void read_headers(Key key, const YamlNode& node) {
    read_names(key, node, "headers: [x-api-key]", auth_headers_max, profile_.headers,
               [&](const YamlNode& item) -> std::optional<std::string> {
                 auto name = field_name(key, item);
                 if (name != "host") return name;
                 complain(key, item, "names Host, which is the entry `host`", "take it out");
                 return std::nullopt;
               });
  }

  void read_cookies(Key key, const YamlNode& node) {
    read_names(key, node, "cookies: [session]", auth_cookies_max, profile_.cookies,
               [&](const YamlNode& item) -> std::optional<std::string> {
                 auto name = reader_.text(key, item);
                 // A cookie's name may have the characters of a field's name (RFC 6265, 4.1.1).
                 if (!name || is_short_name(*name)) return name;
                 complain(key, item, "`" + *name + "` is not the name of a cookie",
                          "write the characters in front of the `=`");
                 return std::nullopt;
               });
  }

  template <class ReadName>
  void read_names(Key key, const YamlNode& node, std::string example, size_t most,
                  std::vector<std::string>& to, ReadName&& read_name) {
    if (!reader_.sequence(key, node, "write `" + std::move(example) + "`")) return;
    for (YamlNode item = node.first_child(); item; item = item.next()) {
      auto name = read_name(item);
      if (!name) continue;
      if (std::find(to.begin(), to.end(), *name) != to.end())
        complain(key, item, "has `" + *name + "` twice", "take one of them out");
      else
        to.push_back(*std::move(name));
    }
    if (to.size() > most) complain_many(key, node, most);
  }

  void read_untrusted(Key key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    if (*text == "refuse" || *text == "direct")
      profile_.untrusted_direct = *text == "direct";
    else
      complain(key, node, "`" + *text + "` is not one of refuse, direct", "write one of these");
  }

  void read_secret(Key key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return;
    if (*text == hidden_secret)
      return complain(key, node, "`(hidden)` is what --print-config shows in place of a secret",
                      "write the secret itself, or `secret_file: PATH`");
    take_secret(key, node, *text);
  }

  void read_secret_file(Key key, const YamlNode& node) {
    const auto path = reader_.text(key, node);
    if (!path) return;
    const config::ReadScope regular_file;  // it is read again with each reload
    auto text = config::read_file(reader_.beside_file(*path), reader_.diagnostics());
    if (!text) return;
    while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
    take_secret(key, node, *text);
  }

  void take_secret(Key key, const YamlNode& node, std::string_view text) {
    if (!profile_.secret.empty())
      return complain(key, node, "is one of `secret` and `secret_file`, which are both there",
                      "take one of them out");
    if (!is_sendable_secret(text))
      return complain(key, node,
                      "has a secret that no header field can have: it must be 1 to " +
                          std::to_string(auth_secret_bytes_max) +
                          " printable ASCII characters without blanks around them",
                      "make one with `openssl rand -hex 32`");
    profile_.secret = text;
  }

  void finish(const YamlNode& node) {
    profile_.proxy = *proxy_;
    profile_.deny = deny_.value_or(deny_default(*proxy_));
    if (is_of_nginx(*proxy_) && profile_.deny != 401 && profile_.deny != 403)
      complain("deny", deny_node_,
               "is " + std::to_string(profile_.deny) +
                   ", of which nginx makes 500: its auth_request knows 2xx, 401 and 403 alone",
               "write `deny: 403`, and have nginx answer 429: `error_page 403 =429 @limited;`");
    finish_fields(node);
    const bool is_list = profile_.fields.ip_is_list || profile_.fields.ip_is_forwarded;
    if (profile_.ip_depth > 0 && !is_list)
      complain("ip_depth", depth_,
               "counts the entries of a list, and here the address of the client is alone in its "
               "header field",
               "take it out");
  }

  void finish_fields(const YamlNode& node) {
    if (*proxy_ != Proxy::custom) {
      profile_.fields = fields_of(*proxy_);
      if (from_node_)
        complain("from", from_node_,
                 "is for `proxy: custom` alone: the others have names of their "
                 "own",
                 "take it out, or write `proxy: custom`");
      return;
    }
    profile_.fields = from_;
    if (from_.uri.empty() || from_.ip.empty())
      complain("from", from_node_ ? from_node_ : node,
               std::string("must say in which header field `custom` proxies send the ") +
                   (from_.uri.empty() ? "URI" : "address of the client"),
               "write `from: { uri: X-Original-URI, ip: X-Real-IP }`; `ip: forwarded` is RFC 7239");
  }

  static bool is_short_name(std::string_view name) {
    return name.size() <= auth_name_bytes_max && wire::is_http_field_name(name);
  }

  // The field's name in lower case; nothing: a profile may not read it, which was reported.
  std::optional<std::string> field_name(Key key, const YamlNode& node) {
    const auto text = reader_.text(key, node);
    if (!text) return std::nullopt;
    std::string name = in_lower_case(*text);
    if (!is_short_name(name))
      complain(key, node, "`" + *text + "` is not the name of a header field",
               "use letters, digits and `-`, up to " + std::to_string(auth_name_bytes_max));
    else if (name == auth_secret_field)
      complain(key, node, "names X-Sluice-Secret, whose value is to stay a secret", "take it out");
    else
      return name;
    return std::nullopt;
  }

  void complain_many(Key key, const YamlNode& node, size_t most) {
    complain(key, node, "has more than " + std::to_string(most), "take some out");
  }
  void complain(std::string_view key, const YamlNode& node, std::string what, std::string remedy) {
    config::complain(reader_.place(key, node), std::move(what), std::move(remedy),
                     reader_.diagnostics());
  }

  config::FileReader& reader_;
  AuthProfile profile_;
  std::optional<Proxy> proxy_;
  std::optional<uint16_t> deny_;
  ProxyFields from_;
  YamlNode from_node_, deny_node_, depth_;
};

void read_trusted(config::FileReader& reader, const std::string& key, const YamlNode& node,
                  TrustedProxies& to) {
  if (!reader.sequence(key, node, "write `trusted_proxies: [127.0.0.0/8, \"::1\"]`")) return;
  to = {};
  if (node.size() > auth_trusted_max)
    return config::complain(reader.place(key, node),
                            "has more than " + std::to_string(auth_trusted_max),
                            "join ranges that lie beside each other", reader.diagnostics());
  for (YamlNode item = node.first_child(); item; item = item.next()) {
    const auto text = reader.text(key, item);
    if (!text || to.add(*text)) continue;
    config::complain(reader.place(key, item), "`" + *text + "` is not an address or a range",
                     "write one as in 10.0.0.0/8, \"fd00::/8\" or 192.0.2.1, or `unix`",
                     reader.diagnostics());
  }
}

void read_profiles(config::FileReader& reader, const std::string& key, const YamlNode& node,
                   AuthOptions& to) {
  if (!node.is_map())
    return config::complain(reader.place(key, node), "must be a map of names to profiles",
                            profile_example, reader.diagnostics());
  to.profiles.clear();
  for (const auto& [name, value] : reader.yaml().entries(key, node)) {
    if (!is_profile_name(name.text())) {
      config::complain(reader.place(key, name),
                       "`" + std::string(name.text()) + "` is not the name of a profile",
                       "use 1 to " + std::to_string(auth_name_bytes_max) +
                           " lower-case letters, digits, `_` and `-`",
                       reader.diagnostics());
      continue;
    }
    if (auto profile = ProfileReader(reader, name.text()).read(value))
      to.profiles.emplace(name.text(), *std::move(profile));
  }
  if (to.profiles.size() > auth_profiles_max)
    config::complain(reader.place(key, node), "has more than " + std::to_string(auth_profiles_max),
                     "take some out", reader.diagnostics());
}

// ---- As text ----

// In YAML, U+0085, U+2028 and U+2029 end a line, so they are written as escapes.
std::string quoted_text(std::string_view text) {
  std::string quoted = config::in_quotes(text);
  static constexpr std::pair<std::string_view, std::string_view> breaks[] = {
      {"\u0085", "\\N"}, {"\u2028", "\\L"}, {"\u2029", "\\P"}};
  for (const auto& [line_break, escape] : breaks)
    for (size_t at = 0; (at = quoted.find(line_break, at)) != std::string::npos;)
      quoted.replace(at, line_break.size(), escape);
  return quoted;
}

std::string quoted_list(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + quoted_text(item);
  return "[" + text + "]";
}

// Writes the keys and values of a YAML map in flow form.
class FlowMap {
 public:
  void add(std::string_view key, std::string_view value) {
    text_.append(text_.empty() ? "" : ", ").append(key).append(": ").append(value);
  }
  std::string text() const { return "{ " + text_ + " }"; }

 private:
  std::string text_;
};

std::string from_text(const ProxyFields& fields) {
  FlowMap map;
  const auto add = [&](std::string_view key, const std::string& name) {
    if (!name.empty()) map.add(key, quoted_text(name));
  };
  add("method", fields.method);
  add("uri", fields.uri);
  add("host", fields.host_may_be_own && fields.host.empty() ? "host" : fields.host);
  add("scheme", fields.scheme);
  add("ip", fields.ip);
  return map.text();
}

std::string profile_text(const AuthProfile& profile) {
  const AuthProfile usual;
  FlowMap map;
  map.add("proxy", proxy_names[static_cast<size_t>(profile.proxy)]);
  if (profile.proxy == Proxy::custom) map.add("from", from_text(profile.fields));
  map.add("deny", std::to_string(profile.deny));
  map.add("ok", std::to_string(profile.ok));
  map.add("n", std::to_string(profile.n));
  if (!profile.entries.empty()) {
    FlowMap entries;
    for (const auto& [key, value] : profile.entries)
      entries.add(quoted_text(key), quoted_text(value));
    map.add("entries", entries.text());
  }
  if (profile.on_store_error != usual.on_store_error)
    map.add("on_store_error", name_of(profile.on_store_error));
  if (!profile.headers.empty()) map.add("headers", quoted_list(profile.headers));
  if (!profile.cookies.empty()) map.add("cookies", quoted_list(profile.cookies));
  if (profile.ip_depth != usual.ip_depth) map.add("ip_depth", std::to_string(profile.ip_depth));
  if (profile.ipv6_prefix != usual.ipv6_prefix)
    map.add("ipv6_prefix", std::to_string(profile.ipv6_prefix));
  if (profile.normalize_path) map.add("normalize_path", "true");
  if (profile.untrusted_direct) map.add("untrusted", "direct");
  if (!profile.secret.empty()) map.add("secret", hidden_secret);
  return map.text();
}

}  // namespace

AuthOptions default_auth() {
  return {};
}

void read_auth(config::FileReader& reader, const YamlNode& section, AuthOptions& to) {
  reader.map(section, "auth",
             {{"trusted_proxies",
               [&](const std::string& key, const YamlNode& node) {
                 read_trusted(reader, key, node, to.trusted);
               }},
              {"profiles", [&](const std::string& key, const YamlNode& node) {
                 read_profiles(reader, key, node, to);
               }}});
}

std::string auth_text(const AuthOptions& options) {
  const std::string trusted = quoted_list(options.trusted.texts());
  if (options.profiles.empty() && trusted == quoted_list(TrustedProxies::loopback().texts()))
    return {};
  FlowMap map;
  map.add("trusted_proxies", trusted);
  if (!options.profiles.empty()) {
    FlowMap profiles;
    for (const auto& [name, profile] : options.profiles)
      profiles.add(quoted_text(name), profile_text(profile));
    map.add("profiles", profiles.text());
  }
  return map.text();
}

}  // namespace sluice::http
