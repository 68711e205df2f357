// Requests of proxies to /auth: the entries that they give for each proxy, and what is refused;
// what a client of the proxy can and cannot forge.
#include "protocol/http/auth_request.h"

#include <gtest/gtest.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::http::auth_request_test {
namespace {

using Fields = std::vector<std::pair<std::string, std::string>>;

constexpr Proxy all_proxies[] = {Proxy::nginx, Proxy::haproxy, Proxy::traefik,
                                 Proxy::caddy, Proxy::apisix,  Proxy::ingress_nginx};

// The value of an entry whose text is not shown.
std::string digest_of(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  EXPECT_EQ(EVP_Digest(text.data(), text.size(), digest, nullptr, EVP_sha256(), nullptr), 1);
  std::string value = "sha256:";
  for (size_t i = 0; i < 16; ++i)
    for (const int shift : {4, 0}) value += "0123456789abcdef"[digest[i] >> shift & 15];
  return value;
}

// A profile, a request to it, and the result as a text: a line `key=value` for each entry, or the
// refusal.
struct Asking {
  AuthProfile profile;
  AuthOptions options;
  AuthPeer peer;
  Fields fields;
  std::string method = "GET", path = "/auth/web", query, host = "sluice.local", scheme = "http";

  explicit Asking(Proxy proxy = Proxy::nginx, Fields its = {}) : fields(std::move(its)) {
    profile.name = "web";
    profile.proxy = proxy;
    profile.fields = fields_of(proxy);
    from("127.0.0.1:40000");
  }

  Asking& from(std::string_view address) {
    peer = AuthPeer(address, options.trusted);
    return *this;
  }
  // Replaces the value of a field, or adds it; an empty value removes the field.
  Asking& set(const std::string& name, const std::string& value) {
    std::erase_if(fields, [&](const auto& field) { return field.first == name; });
    if (!value.empty()) fields.emplace_back(name, value);
    return *this;
  }
  Asking& add(const std::string& name, const std::string& value) {
    fields.emplace_back(name, value);
    return *this;
  }
  std::string entries() {
    profile.prepare();
    std::vector<wire::HttpField> views;
    for (const auto& [name, value] : fields) views.push_back({name, value});
    base::Arena texts;
    std::vector<request::Entry> all = {{"of", "before"}};
    const AuthQuestion question{.method = method,
                                .path = path,
                                .query = query,
                                .host = host,
                                .scheme = scheme,
                                .fields = views};
    const auto refusal = read_auth_request(question, profile, options, peer, texts, all);
    if (refusal) return std::to_string(refusal->status) + " " + refusal->message;
    EXPECT_EQ(all.front().key, "of");
    std::string text;
    for (size_t i = 1; i < all.size(); ++i)
      text += (i > 1 ? "\n" : "") + std::string(all[i].key) + "=" + std::string(all[i].value);
    return text;
  }
  // The value of one entry, or the refusal.
  std::string entry(const std::string& key) {
    const std::string all = "\n" + entries() + "\n";
    const size_t at = all.find("\n" + key + "=");
    if (all.starts_with("\n4")) return all.substr(1, all.size() - 2);
    if (at == std::string::npos) return "none";
    const size_t begin = at + key.size() + 2;
    return all.substr(begin, all.find('\n', begin) - begin);
  }
};

// The fields with which the proxy describes a client's request for
// https://www.example.com/p%20q/../r?x=1&y=%2F.
Fields sent_by(Proxy proxy) {
  const std::string uri = "/p%20q/../r?x=1&y=%2F";
  switch (proxy) {
    case Proxy::nginx:
    case Proxy::haproxy:
      return {{"X-Original-Method", "POST"},
              {"X-Original-URI", uri},
              {"X-Original-Host", "WWW.example.com:8443"},
              {"X-Original-Proto", "HTTPS"},
              {"X-Real-IP", "192.0.2.7"}};
    case Proxy::traefik:
    case Proxy::caddy:
    case Proxy::apisix:
      return {{"X-Forwarded-Method", "POST"},
              {"X-Forwarded-Uri", uri},
              {"X-Forwarded-Host", "WWW.example.com:8443"},
              {"X-Forwarded-Proto", "HTTPS"},
              {"X-Forwarded-For", "192.0.2.7"}};
    case Proxy::ingress_nginx:
      return {{"X-Original-Method", "POST"},
              {"X-Original-URL", "HTTPS://WWW.example.com:8443" + uri},
              {"X-Real-IP", "192.0.2.7"}};
    case Proxy::custom:
      break;
  }
  return {};
}

constexpr std::string_view original_entries =
    "method=POST\npath=/p%20q/../r\nquery=x=1&y=%2F\nhost=www.example.com\nscheme=https\n"
    "ip=192.0.2.7";

Asking asking(Proxy proxy = Proxy::nginx) {
  return Asking(proxy, sent_by(proxy));
}
Asking asking_custom(const ProxyFields& fields, Fields sent) {
  Asking custom(Proxy::custom, std::move(sent));
  custom.profile.fields = fields;
  return custom;
}

TEST(AuthRequest, BecomesEntriesByTheFieldsOfItsProxy) {
  for (const Proxy proxy : all_proxies) {
    EXPECT_EQ(asking(proxy).entries(), original_entries) << proxy_names[static_cast<size_t>(proxy)];
    // Names in lower case, as in HTTP/2, and in upper case.
    for (const auto change : {wire::http_lower, +[](char c) -> char {
                                return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
                              }}) {
      Asking other = asking(proxy);
      for (auto& [name, value] : other.fields)
        std::transform(name.begin(), name.end(), name.begin(), change);
      EXPECT_EQ(other.entries(), original_entries) << proxy_names[static_cast<size_t>(proxy)];
    }
  }
}

TEST(AuthRequest, IgnoresFieldsOfOtherProxies) {
  const Fields forged = {{"X-Original-Method", "PUT"},      {"X-Original-URI", "/forged?f=1"},
                         {"X-Original-Host", "forged"},     {"X-Original-Proto", "forged"},
                         {"X-Real-IP", "6.6.6.6"},          {"X-Original-URL", "http://forged/f"},
                         {"X-Forwarded-Method", "PUT"},     {"X-Forwarded-Uri", "/forged"},
                         {"X-Forwarded-Host", "forged"},    {"X-Forwarded-Proto", "forged"},
                         {"X-Forwarded-For", "6.6.6.6"},    {"Forwarded", "for=6.6.6.6"},
                         {"X-Forwarded-Prefix", "/forged"}, {"X-Client-IP", "6.6.6.6"},
                         {"True-Client-IP", "6.6.6.6"},     {"CF-Connecting-IP", "6.6.6.6"},
                         {"X-HTTP-Method-Override", "PUT"}, {"X-Original-Uri2", "/forged"},
                         {"X-Rewrite-URL", "/forged"},      {"X-Cluster-Client-IP", "6.6.6.6"}};
  for (const Proxy proxy : all_proxies) {
    const Fields own = sent_by(proxy);
    for (const bool in_front : {true, false}) {
      Asking asked(proxy);
      if (!in_front) asked.fields = own;
      for (const auto& [name, value] : forged) {
        const auto is_it = [&name = name](const auto& field) { return field.first == name; };
        if (std::none_of(own.begin(), own.end(), is_it))
          asked.add(name, value).add(name, value + "2");
      }
      if (in_front) asked.fields.insert(asked.fields.end(), own.begin(), own.end());
      EXPECT_EQ(asked.entries(), original_entries) << proxy_names[static_cast<size_t>(proxy)];
      // The forged fields do not replace a field that is missing either.
      for (const auto& [name, value] : own) {
        Asking without = asked;
        without.set(name, "");
        const std::string text = without.entries();
        EXPECT_EQ(text.find("6.6.6.6"), text.npos) << text;
        EXPECT_EQ(text.find("forged"), text.npos) << text;
        EXPECT_EQ(text.find("PUT"), text.npos) << text;
      }
    }
  }
}

TEST(AuthRequest, IgnoresItsOwnRequestLine) {
  for (const Proxy proxy : all_proxies) {
    Asking asked = asking(proxy);
    asked.method = "DELETE";
    asked.query = "n=0&deny=200&path=/forged&x=2";
    asked.host = "forged";
    asked.scheme = "forged";
    EXPECT_EQ(asked.entries(), original_entries);
  }
}

TEST(AuthRequest, ReportsAMissingFieldAndHowToConfigureIt) {
  for (const Proxy proxy : all_proxies)
    for (const auto& [name, value] : sent_by(proxy)) {
      Asking asked = asking(proxy).set(name, "");
      const std::string text = asked.entries();
      if (name == "X-Original-Proto") {
        EXPECT_EQ(asked.entry("scheme"), "none");
        EXPECT_EQ(asked.entry("ip"), "192.0.2.7");
      } else if (name == "X-Original-Host") {
        EXPECT_EQ(asked.entry("host"), "sluice.local");
        asked.host.clear();
        EXPECT_TRUE(asked.entries().starts_with("400 X-Original-Host is missing, "));
      } else {
        EXPECT_TRUE(
            text.starts_with("400 " + name + " is missing, which the profile `web` of proxy " +
                             std::string(proxy_names[static_cast<size_t>(proxy)]) + " needs; "))
            << text;
      }
    }
  EXPECT_EQ(asking().set("X-Original-URI", "").entries(),
            "400 X-Original-URI is missing, which the profile `web` of proxy nginx needs; set "
            "X-Original-URI in the location of auth_request: proxy_set_header X-Original-URI "
            "$request_uri;");
  EXPECT_EQ(
      asking(Proxy::haproxy).set("X-Real-IP", "").entries(),
      "400 X-Real-IP is missing, which the profile `web` of proxy haproxy needs; set X-Real-IP "
      "before /auth is asked: http-request set-header X-Real-IP %[src]");
}

TEST(AuthRequest, RejectsARepeatedField) {
  for (const Proxy proxy : all_proxies)
    for (const auto& [name, value] : sent_by(proxy)) {
      Asking asked = asking(proxy).add(name, value);
      if (name == "X-Forwarded-For")
        EXPECT_EQ(asked.entries(), original_entries);
      else
        EXPECT_TRUE(asked.entries().starts_with("400 " + name + " is there twice, "))
            << asked.entries();
    }
}

TEST(AuthRequest, RejectsAnInvalidMethod) {
  Asking asked = asking();
  for (const std::string& method :
       {std::string("get"), std::string("M-SEARCH"), std::string(64, 'X')})
    EXPECT_EQ(asked.set("X-Original-Method", method).entry("method"), method);
  for (const std::string& method : {std::string("G T"), std::string("G,T"), std::string(65, 'X')})
    EXPECT_TRUE(asked.set("X-Original-Method", method)
                    .entries()
                    .starts_with("400 X-Original-Method has `" + method.substr(0, 64)))
        << asked.entries();
  std::erase_if(asked.fields, [](const auto& field) { return field.first == "X-Original-Method"; });
  EXPECT_TRUE(asked.add("X-Original-Method", "")
                  .entries()
                  .starts_with("400 X-Original-Method has ``, which is not a method; "));
}

TEST(AuthRequest, KeepsThePathUnchanged) {
  for (const auto& [uri, path, query] :
       {std::tuple("/", "/", "none"), std::tuple("/a//../%41?", "/a//../%41", ""),
        std::tuple("/a?b?c", "/a", "b?c"), std::tuple("//evil/path", "//evil/path", "none"),
        std::tuple("/a#b?c", "/a#b", "c"), std::tuple("*", "*", "none"),
        std::tuple("http://other/a?b", "/a", "b"), std::tuple("HTTP://other", "/", "none"),
        std::tuple("http://other?b", "/", "b"), std::tuple("h+1.-://a:b@c/d", "/d", "none")}) {
    Asking asked = asking().set("X-Original-URI", uri);
    EXPECT_EQ(asked.entry("path"), path) << uri;
    EXPECT_EQ(asked.entry("query"), query) << uri;
    EXPECT_EQ(asked.entry("host"), "www.example.com") << uri;
  }
  for (const char* const uri :
       {"a", "?a", "a/b?c=http://d/e", "://a/b", "1http://a/b", "http:/a", "*a", "host:443"})
    EXPECT_TRUE(asking()
                    .set("X-Original-URI", uri)
                    .entries()
                    .starts_with("400 X-Original-URI has `" + std::string(uri) +
                                 "`, which is not a path or an absolute URI"))
        << uri;
}

TEST(AuthRequest, RequiresAnAbsoluteUriOfIngressNginx) {
  for (const auto& [url, entries] :
       {std::pair("http://a.b/", "method=POST\npath=/\nhost=a.b\nscheme=http\nip=192.0.2.7"),
        std::pair("https://[2001:DB8::1]:8443/x?",
                  "method=POST\npath=/x\nquery=\nhost=[2001:db8::1]\nscheme=https\nip=192.0.2.7"),
        std::pair("http://a?b", "method=POST\npath=/\nquery=b\nhost=a\nscheme=http\nip=192.0.2.7")})
    EXPECT_EQ(asking(Proxy::ingress_nginx).set("X-Original-URL", url).entries(), entries);
  for (const char* const url : {"/a", "*", "http:///a", "http://u@h/a", "http://a b/", "//a/b"})
    EXPECT_TRUE(asking(Proxy::ingress_nginx)
                    .set("X-Original-URL", url)
                    .entries()
                    .starts_with("400 X-Original-URL has `"))
        << url;
  Asking path = asking(Proxy::ingress_nginx).set("X-Original-URL", "/a");
  path.profile.entries = {{"host", "h"}, {"scheme", "s"}};
  EXPECT_TRUE(
      path.entries().starts_with("400 X-Original-URL has `/a`, which is not an absolute URI"));
}

TEST(AuthRequest, HasTheHostWithoutItsPort) {
  for (const auto& [sent, host] :
       {std::pair("a.example", "a.example"), std::pair("A.Example:80", "a.example"),
        std::pair("a.example.", "a.example"), std::pair("a.example.:443", "a.example"),
        std::pair("a:", "a"), std::pair("192.0.2.1:1", "192.0.2.1"), std::pair("[::1]", "[::1]"),
        std::pair("[FE80::A]:80", "[fe80::a]"), std::pair("xn--Bcher-kva", "xn--bcher-kva"),
        std::pair("a_b~!$&'()*+;=%2d", "a_b~!$&'()*+;=%2d")})
    EXPECT_EQ(asking().set("X-Original-Host", sent).entry("host"), host);
  EXPECT_EQ(asking().set("X-Original-Host", std::string(255, 'a') + ":80").entry("host"),
            std::string(255, 'a'));
  for (const std::string& sent :
       {std::string("a,b"), std::string("a b"), std::string("a/b"), std::string("a@b"),
        std::string("a:8a"), std::string("::1"), std::string("[::1"), std::string("[::1]a"),
        std::string("[1.2.3.4]"), std::string("[fe80::1%25a]"), std::string(":80"),
        std::string("."), std::string(256, 'a'), std::string("a\0b", 3), std::string("B\xc3\xbc")})
    EXPECT_TRUE(
        asking().set("X-Original-Host", sent).entries().starts_with("400 X-Original-Host has `"))
        << sent;
  Asking own = asking().set("X-Original-Host", "");
  own.host = "A b";
  EXPECT_EQ(own.entries(), "400 the Host of the request, `A b`, is ill-formed");
}

TEST(AuthRequest, HasTheSchemeInLowerCase) {
  for (const auto& [sent, scheme] :
       {std::pair("http", "http"), std::pair("WSS", "wss"), std::pair("a+b-c.1", "a+b-c.1")})
    EXPECT_EQ(asking().set("X-Original-Proto", sent).entry("scheme"), scheme);
  for (const std::string& sent : {std::string("1a"), std::string("https,http"), std::string("a b"),
                                  std::string(33, 'a'), std::string("ht\xe4")})
    EXPECT_TRUE(
        asking().set("X-Original-Proto", sent).entries().starts_with("400 X-Original-Proto has `"))
        << sent;
}

TEST(AuthRequest, HasTheAddressInOneForm) {
  for (const auto& [sent, ip] :
       {std::pair("192.0.2.7:1234", "192.0.2.7"), std::pair("::FFFF:192.0.2.7", "192.0.2.7"),
        std::pair("[2001:DB8:0::1]:80", "2001:db8::1"), std::pair("fe80::1%eth0", "fe80::1")})
    EXPECT_EQ(asking().set("X-Real-IP", sent).entry("ip"), ip);
  for (const char* const sent : {"unix:", "localhost", "192.0.2.7, 192.0.2.8", "192.0.2.07", "-"})
    EXPECT_TRUE(asking()
                    .set("X-Real-IP", sent)
                    .entries()
                    .starts_with("400 X-Real-IP has `" + std::string(sent) +
                                 "`, which is not an IP address; set X-Real-IP"))
        << sent;
  Asking cut = asking().set("X-Real-IP", "2001:db8:1:2:3:4:5:6");
  cut.profile.ipv6_prefix = 56;
  EXPECT_EQ(cut.entry("ip"), "2001:db8:1::");
  EXPECT_EQ(cut.set("X-Real-IP", "192.0.2.7").entry("ip"), "192.0.2.7");
}

TEST(AuthRequest, HasTheClientOfXForwardedFor) {
  Asking asked = asking(Proxy::traefik);
  const auto ip = [&](const std::string& list) {
    return asked.set("X-Forwarded-For", list).entry("ip");
  };
  EXPECT_EQ(ip("6.6.6.6, 192.0.2.7, 127.0.0.1, ::1"), "192.0.2.7");
  EXPECT_EQ(ip("127.0.0.9,127.0.0.1"), "127.0.0.9");
  EXPECT_EQ(ip("6.6.6.6, someone, 127.0.0.1"), "127.0.0.1");
  EXPECT_TRUE(ip("6.6.6.6, someone")
                  .starts_with("400 X-Forwarded-For has `6.6.6.6, someone`, which is not a list "
                               "that ends with an IP address"))
      << ip("6.6.6.6, someone");
  // Several lines of the field are one list.
  asked.set("X-Forwarded-For", "6.6.6.6").add("X-Forwarded-For", "192.0.2.7,127.0.0.2");
  asked.add("x-forwarded-for", "").add("X-FORWARDED-FOR", "127.0.0.3");
  EXPECT_EQ(asked.entry("ip"), "192.0.2.7");
  asked.profile.ip_depth = 2;
  EXPECT_EQ(asked.entry("ip"), "127.0.0.2");
  asked.profile.ip_depth = 4;
  EXPECT_EQ(asked.entry("ip"), "6.6.6.6");
  asked.profile.ip_depth = 5;
  EXPECT_NE(asked.entry("ip").find("a list with an IP address at `ip_depth`"), std::string::npos);
}

TEST(AuthRequest, ReadsTheConfiguredFieldsOfACustomProxy) {
  ProxyFields names;
  names.uri = "my-uri";
  names.ip = "forwarded";
  names.ip_is_forwarded = true;
  Asking asked = asking_custom(names, {{"My-URI", "/a?b"},
                                       {"Forwarded", "for=6.6.6.6"},
                                       {"Forwarded", "for=\"[2001:db8::1]:1\", for=127.0.0.1"}});
  EXPECT_EQ(asked.entries(), "path=/a\nquery=b\nip=2001:db8::1");
  EXPECT_EQ(
      asked.set("My-URI", "").entries(),
      "400 my-uri is missing, which the profile `web` of proxy custom needs; set my-uri in the "
      "proxy, in place of what a client sends under that name");
  asked.set("My-URI", "/a").profile.fields.host_may_be_own = true;
  EXPECT_EQ(asked.entries(), "path=/a\nhost=sluice.local\nip=2001:db8::1");
  asked.profile.fields.method = "m";
  asked.profile.fields.scheme = "s";
  asked.add("M", "PUT");
  EXPECT_TRUE(asked.entries().starts_with("400 s is missing"));
  EXPECT_EQ(asked.add("S", "https").entries(),
            "method=PUT\npath=/a\nhost=sluice.local\nscheme=https\nip=2001:db8::1");
}

TEST(AuthRequest, OneFieldMayGiveTwoEntries) {
  ProxyFields names;
  names.uri = names.host = "a";
  names.ip = "x-real-ip";
  Asking asked = asking_custom(names, {{"A", "*"}, {"X-Real-IP", "192.0.2.7"}});
  asked.profile.headers = {"a", "x-real-ip"};
  EXPECT_EQ(asked.entries(),
            "path=*\nhost=*\nip=192.0.2.7\nheader.a=*\nheader.x-real-ip=192.0.2.7");
}

TEST(AuthRequest, PutsTheEntriesOfItsProfileFirstAndInPlaceOfItsOwn) {
  Asking asked = asking();
  asked.profile.entries = {{"tier", "gold"}, {"a", ""}};
  EXPECT_EQ(asked.entries(), "tier=gold\na=\n" + std::string(original_entries));
  asked.profile.entries = {{"host", "all"}, {"ip", "any"}, {"query", ""}, {"method", "M"}};
  asked.fields = {{"X-Original-URI", "/a?b"}, {"X-Original-Host", ","}, {"X-Original-Host", ","}};
  EXPECT_EQ(asked.entries(), "host=all\nip=any\nquery=\nmethod=M\npath=/a");
  asked.profile.entries = {{"path", "/"},   {"query", ""}, {"scheme", "s"},
                           {"host", "all"}, {"ip", "any"}, {"method", "M"}};
  asked.fields.clear();
  EXPECT_EQ(asked.entries(), "path=/\nquery=\nscheme=s\nhost=all\nip=any\nmethod=M");
  // The URI is required as long as one entry is made of it.
  Asking ingress = asking(Proxy::ingress_nginx);
  ingress.profile.entries = {{"path", "/"}, {"query", ""}, {"host", "h"}};
  EXPECT_EQ(ingress.entries(), "path=/\nquery=\nhost=h\nmethod=POST\nscheme=https\nip=192.0.2.7");
}

TEST(AuthRequest, HasTheHeadersThatItsProfileNames) {
  Asking asked = asking();
  asked.profile.headers = {"x-api-key", "x-none", "accept", "te"};
  asked.add("X-API-Key", "K 1")
      .add("Accept", "a")
      .add("X-Other", "o")
      .add("ACCEPT", "")
      .add("accept", "b");
  asked.add("TE", "");
  EXPECT_EQ(asked.entries(), std::string(original_entries) +
                                 "\nheader.x-api-key=K 1\nheader.accept=a, , b\nheader.te=");
}

// The digests are those of `printf VALUE | sha256sum | cut -c1-32`.
TEST(AuthRequest, DoesNotShowLongValuesAndCredentials) {
  Asking asked = asking();
  asked.profile.headers = {"authorization", "a-long-name"};
  asked.add("Authorization", "Bearer x").add("A-Long-Name", std::string(256, 'a'));
  EXPECT_EQ(asked.entry("header.authorization"), digest_of("bearer x"));
  EXPECT_EQ(asked.entry("header.a-long-name"), std::string(256, 'a'));
  asked.set("A-Long-Name", std::string(257, 'a')).set("Authorization", "");
  EXPECT_EQ(asked.entry("header.a-long-name"), "sha256:e8d95cc2b4bc198c54b40bd214df958a");
  EXPECT_EQ(asked.entry("header.authorization"), "none");
  // The bound holds for all lines of a field together.
  asked.profile.headers = {"accept-language"};
  asked.set("Accept-Language", std::string(128, 'a')).add("Accept-Language", std::string(126, 'b'));
  EXPECT_EQ(asked.entry("header.accept-language"),
            std::string(128, 'a') + ", " + std::string(126, 'b'));
  asked.add("Accept-Language", "c");
  EXPECT_TRUE(asked.entry("header.accept-language").starts_with("sha256:"));
}

TEST(AuthRequest, RefusesAHeaderWithDifferentValues) {
  for (const std::string name : {"authorization", "x-api-key", "proxy-authorization"}) {
    Asking asked = asking();
    asked.profile.headers = {name};
    asked.add(name, "k").add(name, "k ");
    EXPECT_TRUE(asked.entry("header." + name) == (name == "x-api-key" ? "k" : digest_of("k")))
        << asked.entries();
    asked.add(name, "other");
    EXPECT_EQ(asked.entries(), "400 " + name +
                                   " is there twice with different values, and applications differ "
                                   "in which one they take; send it once");
    asked.profile.untrusted_direct = true;
    EXPECT_TRUE(asked.from("192.0.2.9:1").entries().starts_with("400 "));
  }
}

TEST(AuthRequest, HasTheCookiesThatItsProfileNames) {
  Asking asked = asking();
  asked.profile.cookies = {"sid", "b", "none"};
  const auto cookies = [&](const std::string& line) {
    asked.set("Cookie", line);
    const std::string all = asked.entries();
    return all.substr(std::min(all.size(), original_entries.size() + 1));
  };
  EXPECT_EQ(cookies("a=1; sid=2; b=3"), "cookie.sid=2\ncookie.b=3");
  EXPECT_EQ(cookies(" sid = \"x y\" ;; ; =;b=;sid"), "cookie.sid=x y\ncookie.b=");
  EXPECT_EQ(cookies("sid=a=b=c"), "cookie.sid=a=b=c");
  EXPECT_EQ(cookies("SID=1; xsid=2; sidx=3; sid ;"), "");
  EXPECT_EQ(cookies("sid=" + std::string(256, 'a')), "cookie.sid=" + std::string(256, 'a'));
  EXPECT_EQ(cookies("sid=" + std::string(257, 'a')),
            "cookie.sid=sha256:e8d95cc2b4bc198c54b40bd214df958a");
  // HTTP/2 may send each cookie in a line of its own.
  asked.set("Cookie", "x=1").add("cookie", "b=2").add("cookie", "sid=3; b=\"2\"");
  asked.profile.headers = {"cookie"};
  EXPECT_EQ(asked.entries(),
            std::string(original_entries) +
                "\nheader.cookie=x=1; b=2; sid=3; b=\"2\"\ncookie.sid=3\ncookie.b=2");
}

TEST(AuthRequest, RefusesACookieWithDifferentValues) {
  Asking asked = asking();
  asked.profile.cookies = {"sid"};
  const std::string refused =
      "400 the cookie `sid` is there twice with different values, and applications differ in which "
      "one they take; send it once";
  EXPECT_EQ(asked.set("Cookie", "sid=2; b=1; sid=4").entries(), refused);
  EXPECT_EQ(asked.set("Cookie", "sid=2; sid=").entries(), refused);
  EXPECT_EQ(asked.set("Cookie", "sid=2").add("cookie", "sid=4").entries(), refused);
  asked.set("cookie", "");
  EXPECT_EQ(asked.set("Cookie", "sid=2; other=1; other=2").entry("cookie.sid"), "2")
      << "only those that the profile names";
}

TEST(AuthRequest, MustShowTheSecretOfItsProfile) {
  Asking asked = asking();
  asked.profile.secret = "open sesame";
  const std::string refused =
      "403 X-Sluice-Secret is missing or is not the `secret` of the profile `web`; have the proxy "
      "set "
      "it";
  EXPECT_EQ(asked.entries(), refused);
  for (const char* const wrong : {"open sesamf", "open sesam", "open sesame ", "Open sesame"})
    EXPECT_EQ(asked.set("X-Sluice-Secret", wrong).entries(), refused);
  EXPECT_EQ(asked.set("X-Sluice-Secret", "open sesame").entries(), original_entries);
  EXPECT_TRUE(asked.add("X-Sluice-Secret", "open sesame")
                  .entries()
                  .starts_with("400 X-Sluice-Secret is there twice"));
  EXPECT_EQ(refused.find("sesame"), std::string::npos);
  // A peer that is not trusted needs the secret as well.
  asked.profile.untrusted_direct = true;
  asked.from("192.0.2.9:1").set("X-Sluice-Secret", "");
  EXPECT_EQ(asked.entries(), refused);
  asked.set("X-Sluice-Secret", "open sesame");
  EXPECT_EQ(asked.entry("ip"), "192.0.2.9");
}

TEST(AuthRequest, RejectsAPeerThatIsNotTrusted) {
  Asking asked = asking();
  EXPECT_EQ(asked.from("192.0.2.9:1").entries(),
            "403 the request is from 192.0.2.9, which is not in `trusted_proxies` of `http.auth`; "
            "add it there if it is a proxy of yours");
  EXPECT_TRUE(asked.from("").entries().starts_with("403 the request is from a UNIX socket, "));
  EXPECT_TRUE(asked.from("[2001:db8::1]:1").entries().starts_with("403 the request is from 2001:"));
  for (const char* const peer : {"127.0.0.1:1", "[::1]:1", "[::ffff:127.9.9.9]:1"})
    EXPECT_EQ(asked.from(peer).entries(), original_entries);
  asked.options.trusted = {};
  EXPECT_TRUE(asked.from("127.0.0.1:1").entries().starts_with("403 "));
  ASSERT_TRUE(asked.options.trusted.add("unix"));
  EXPECT_EQ(asked.from("").entries(), original_entries);
  EXPECT_TRUE(asked.from("nonsense").entries().starts_with("403 "));
}

TEST(AuthRequest, AcceptsAnUntrustedPeersOwnRequestWithUntrustedDirect) {
  for (const Proxy proxy : all_proxies) {
    Asking asked = asking(proxy).from("[2001:db8::1:2]:40000");
    asked.profile.untrusted_direct = true;
    asked.profile.headers = {"x-api-key"};
    asked.profile.cookies = {"c"};
    asked.profile.ipv6_prefix = 112;
    asked.method = "HEAD";
    asked.query = "x=1";
    asked.host = "Sluice.local:8390";
    asked.add("X-API-Key", "k").add("Cookie", "c=1");
    const std::string own =
        "method=HEAD\npath=/auth/web\nhost=sluice.local\nscheme=http\nip=2001:db8::1:0\n"
        "header.x-api-key=k\ncookie.c=1";
    EXPECT_EQ(asked.entries(), own);
    // It may have fields with the names that proxies use, also ill-formed ones.
    for (const auto& [name, value] : sent_by(proxy)) asked.add(name, " , ");
    EXPECT_EQ(asked.entries(), own);
    asked.profile.entries = {{"ip", "i"}, {"path", "p"}, {"method", "m"}, {"scheme", "s"}};
    EXPECT_EQ(asked.entries(),
              "ip=i\npath=p\nmethod=m\nscheme=s\nhost=sluice.local\nheader.x-api-key=k\n"
              "cookie.c=1");
    asked.profile.entries = {{"host", "h"}};
    EXPECT_EQ(asked.from("").entries(),
              "host=h\nmethod=HEAD\npath=/auth/web\nscheme=http\nheader.x-api-key=k\ncookie.c=1");
  }
}

TEST(AuthRequest, MayHaveThePathInItsNormalForm) {
  Asking asked = asking();
  asked.profile.normalize_path = true;
  EXPECT_EQ(asked.entry("path"), "/r");
  EXPECT_EQ(asked.entry("query"), "x=1&y=%2F");
  asked.set("X-Original-URI", "/a/../login#b?c");
  EXPECT_EQ(asked.entry("path"), "/login");
  EXPECT_EQ(asked.entry("query"), "none");
  EXPECT_EQ(asked.set("X-Original-URI", "*").entry("path"), "*");
  EXPECT_EQ(asked.set("X-Original-URI", "http://a/%41?").entry("path"), "/A");
  EXPECT_EQ(asked.set("X-Original-URI", "/" + std::string(60'000, '%')).entry("path").size(),
            1 + 3 * 60'000u);
}

}  // namespace
}  // namespace sluice::http::auth_request_test
