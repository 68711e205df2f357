#include "protocol/http/auth_request.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/printable.h"
#include "wire/http_field.h"

namespace sluice::http {
namespace {

// How the normal form of a path writes a byte.
enum class PathByte : uint8_t {
  escaped,     // always as %XX
  unreserved,  // always as itself
  reserved,    // as it was sent: itself and %XX have different meanings
};
constexpr std::array<PathByte, 256> path_bytes = [] {
  std::array<PathByte, 256> table{};
  for (const char c : std::string_view("!$&'()*+,;=:@/"))
    table[static_cast<unsigned char>(c)] = PathByte::reserved;
  for (const char c : std::string_view("0123456789-._~"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))
    table[static_cast<unsigned char>(c)] = PathByte::unreserved;
  return table;
}();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = wire::http_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

char* write_escaped(unsigned char byte, char* to) {
  static constexpr char hex[] = "0123456789ABCDEF";
  *to++ = '%';
  *to++ = hex[byte >> 4];
  *to++ = hex[byte & 15];
  return to;
}

// Writes the normal form of the segment at `at` to `to`. Moves `at` behind the segment and returns
// the end of what was written.
char* write_segment(std::string_view path, size_t& at, char* to) {
  for (; at < path.size() && path[at] != '/'; ++at) {
    auto byte = static_cast<unsigned char>(path[at]);
    const bool is_escape = byte == '%' && path.size() - at > 2 && hex_digit(path[at + 1]) >= 0 &&
                           hex_digit(path[at + 2]) >= 0;
    if (is_escape) {
      byte = static_cast<unsigned char>(hex_digit(path[at + 1]) << 4 | hex_digit(path[at + 2]));
      at += 2;
    }
    const PathByte is = path_bytes[byte];
    if (is == PathByte::unreserved || (is == PathByte::reserved && !is_escape))
      *to++ = static_cast<char>(byte);
    else
      to = write_escaped(byte, to);
  }
  return to;
}

// The value of a character of Base64, of its form for URLs too; negative: it is none.
int base64_value(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '+' || c == '-') return 62;
  return c == '/' || c == '_' ? 63 : -1;
}

// Writes the Base64 `text` in its one spelling to `to`, and returns the end.
char* write_base64(std::string_view text, char* to) {
  static constexpr std::string_view letters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  size_t count = 0;
  for (const char c : text) {
    const int value = base64_value(c);
    if (value < 0) continue;
    *to++ = letters[static_cast<size_t>(value)];
    ++count;
  }
  // Of the last group only whole bytes count.
  if (count % 4 == 1) --to;
  const int unused = count % 4 == 2 ? 4 : count % 4 == 3 ? 2 : 0;
  if (unused > 0) {
    const int value = base64_value(to[-1]);
    to[-1] = letters[static_cast<size_t>(value >> unused << unused)];
  }
  return to;
}

}  // namespace

std::string_view without_blanks_around(std::string_view text) {
  while (text.starts_with(' ') || text.starts_with('\t')) text.remove_prefix(1);
  while (text.ends_with(' ') || text.ends_with('\t')) text.remove_suffix(1);
  return text;
}

std::string_view normalize_path(std::string_view path, base::Arena& texts) {
  const auto grows = [](char c) {
    return path_bytes[static_cast<unsigned char>(c)] == PathByte::escaped;
  };
  const auto longer = static_cast<size_t>(std::count_if(path.begin(), path.end(), grows));
  char* const begin = texts.allocate(path.size() + 2 * longer + 1);
  char* to = begin;
  for (size_t at = 0; at < path.size();) {
    while (at < path.size() && path[at] == '/') ++at;
    char* const slash = to;
    *to++ = '/';
    to = write_segment(path, at, to);
    const std::string_view segment(slash + 1, static_cast<size_t>(to - slash - 1));
    const bool is_up = segment == "..";
    if (!is_up && segment != ".") continue;
    to = slash;
    if (is_up && to != begin)
      while (*--to != '/') {
      }
    if (at == path.size()) *to++ = '/';
  }
  return {begin, static_cast<size_t>(to - begin)};
}

std::string_view credentials_of(std::string_view value, base::Arena& texts) {
  value = without_blanks_around(value);
  const size_t scheme_bytes = std::min(value.find_first_of(" \t"), value.size());
  const std::string_view rest = without_blanks_around(value.substr(scheme_bytes));
  if (rest.empty()) return value;  // no scheme, but a key whose letters count as they are
  char* const begin = texts.allocate(value.size() + 1);
  char* to = std::transform(value.begin(), value.begin() + static_cast<ptrdiff_t>(scheme_bytes),
                            begin, wire::http_lower);
  const bool is_basic = std::string_view(begin, scheme_bytes) == "basic";
  *to++ = ' ';
  to = is_basic ? write_base64(rest, to) : std::copy(rest.begin(), rest.end(), to);
  return {begin, static_cast<size_t>(to - begin)};
}

std::string_view cookie_value(std::string_view value, base::Arena& texts) {
  value = without_blanks_around(value);
  const bool is_quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  if (is_quoted) value = value.substr(1, value.size() - 2);
  const auto is_plain = [&](char c) { return c != '%' && c != '\\' && c > ' ' && c < 0x7f; };
  if (std::all_of(value.begin(), value.end(), is_plain)) return value;
  char* const begin = texts.allocate(3 * value.size());
  char* to = begin;
  for (size_t at = 0; at < value.size(); ++at) {
    auto byte = static_cast<unsigned char>(value[at]);
    if (byte == '\\' && is_quoted && at + 1 < value.size()) {
      const auto octal = [&](size_t i, char most) {
        return at + i < value.size() && value[at + i] >= '0' && value[at + i] <= most;
      };
      if (octal(1, '3') && octal(2, '7') && octal(3, '7')) {
        byte = static_cast<unsigned char>((value[at + 1] - '0') << 6 | (value[at + 2] - '0') << 3 |
                                          (value[at + 3] - '0'));
        at += 3;
      } else {
        byte = static_cast<unsigned char>(value[++at]);
      }
    }
    if (byte == '%' && value.size() - at > 2 && hex_digit(value[at + 1]) >= 0 &&
        hex_digit(value[at + 2]) >= 0) {
      byte = static_cast<unsigned char>(hex_digit(value[at + 1]) << 4 | hex_digit(value[at + 2]));
      at += 2;
    }
    if (byte >= ' ' && byte < 0x7f)
      *to++ = static_cast<char>(byte);
    else
      to = write_escaped(byte, to);
  }
  return {begin, static_cast<size_t>(to - begin)};
}

namespace {

constexpr uint8_t no_field = FieldNames::none;
constexpr std::string_view digest_mark = "sha256:";
constexpr size_t digest_bytes = 16;
constexpr size_t shown_value_bytes_max = 64;  // of a wrong value, in a message

// By character: its lower case if the character is allowed, else a control character that differs
// from it.
using LowerTable = std::array<char, 256>;
constexpr LowerTable lower_table(std::string_view allowed) {
  LowerTable table{};
  table[0] = 1;
  for (const char c : allowed) table[static_cast<unsigned char>(c)] = c;
  for (char c = 'a'; c <= 'z'; ++c)
    table[static_cast<unsigned char>(c)] = table[static_cast<unsigned char>(c - 'a' + 'A')] = c;
  return table;
}
constexpr char lower_by(const LowerTable& table, char c) {
  return table[static_cast<unsigned char>(c)];
}
constexpr bool is_allowed_by(const LowerTable& table, char c) {
  return lower_by(table, c) >= ' ';
}

// The characters of a host's name (RFC 3986, 3.2.2), without the comma: a field with a comma has
// several hosts.
constexpr LowerTable host_chars = lower_table("0123456789-._~%!$&'()*+;=");
// The characters of a scheme after its first letter (RFC 3986, 3.1).
constexpr LowerTable scheme_chars = lower_table("0123456789+-.");

// SHA-256, looked up once: EVP_Digest looks it up in each call, which costs more than the digest.
// (OpenSSL 3.0 still allocates its state, a hundred bytes, for each digest.)
class ValueDigest {
 public:
  ValueDigest() : context_(EVP_MD_CTX_new()), sha256_(EVP_MD_fetch(nullptr, "SHA256", nullptr)) {
    SLUICE_CHECK(context_ != nullptr && EVP_DigestInit_ex(context_, sha256_, nullptr) == 1);
  }
  ValueDigest(const ValueDigest&) = delete;
  ValueDigest& operator=(const ValueDigest&) = delete;
  ~ValueDigest() {
    EVP_MD_CTX_free(context_);
    EVP_MD_free(sha256_);
  }

  // The digest as an entry's value, allocated in `texts`.
  std::string_view operator()(std::string_view value, base::Arena& texts) {
    static constexpr char hex[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    SLUICE_CHECK(EVP_DigestInit_ex(context_, nullptr, nullptr) == 1 &&
                 EVP_DigestUpdate(context_, value.data(), value.size()) == 1 &&
                 EVP_DigestFinal_ex(context_, digest, nullptr) == 1);
    constexpr size_t size = digest_mark.size() + 2 * digest_bytes;
    char* const text = texts.allocate(size);
    char* to = std::copy(digest_mark.begin(), digest_mark.end(), text);
    for (size_t i = 0; i < digest_bytes; ++i) {
      *to++ = hex[digest[i] >> 4];
      *to++ = hex[digest[i] & 15];
    }
    return {text, size};
  }

 private:
  EVP_MD_CTX* context_;
  EVP_MD* sha256_;
};

bool is_scheme(std::string_view text) {
  const auto is_one = [](char c) { return is_allowed_by(scheme_chars, c); };
  if (text.empty() || text.size() > auth_scheme_bytes_max) return false;
  const char first = wire::http_lower(text.front());
  return first >= 'a' && first <= 'z' && std::all_of(text.begin(), text.end(), is_one);
}

// A request's target (RFC 9112, 3.2).
struct TargetParts {
  std::string_view scheme{}, authority{};  // of an absolute URI
  std::string_view path{}, query{};
  bool has_query = false;
};

// False: it is neither a path nor an absolute URI nor `*`.
bool split_target(std::string_view target, TargetParts& to) {
  if (target == "*") {
    to.path = target;
    return true;
  }
  if (!target.starts_with('/')) {
    const size_t colon = target.find("://");
    if (colon == target.npos || !is_scheme(target.substr(0, colon))) return false;
    to.scheme = target.substr(0, colon);
    target.remove_prefix(colon + 3);
    const size_t end = std::min(target.find_first_of("/?#"), target.size());
    to.authority = target.substr(0, end);
    target.remove_prefix(end);
  }
  const size_t mark = std::min(target.find('?'), target.size());
  to.has_query = mark < target.size();
  to.path = target.substr(0, mark);
  if (to.has_query) to.query = target.substr(mark + 1);
  if (!to.path.starts_with('/')) to.path = "/";
  return true;
}

// ---- One request ----

class AuthReader {
 public:
  // values_ is not initialized: only values of fields in there_ are read.
  // cppcheck-suppress uninitMemberVar
  AuthReader(const AuthQuestion& question, const AuthProfile& profile, const AuthOptions& options,
             const AuthPeer& peer, base::Arena& texts, std::vector<request::Entry>& entries)
      : question_(question),
        profile_(profile),
        plan_(profile.plan),
        options_(options),
        peer_(peer),
        texts_(texts),
        entries_(entries) {}

  // False: `refusal` says why.
  bool read() {
    if (!peer_.is_trusted && !profile_.untrusted_direct) return refuse_peer();
    if (!find_fields(peer_.is_trusted ? plan_.single : secret_bit()) || !is_secret_right())
      return false;
    for (const auto& [key, value] : profile_.entries) add(key, value);
    return (peer_.is_trusted ? read_original() : read_own()) &&
           (plan_.headers.empty() || read_headers()) &&
           (plan_.cookies.empty() || !has(plan_.cookie) || read_cookies());
  }

  AuthRefusal refusal{400, {}};

 private:
  // Like std::string_view, but without a constructor, which would clear all of values_ for each
  // request.
  struct Value {
    const char* data;
    size_t size;
  };

  static uint64_t bit(uint8_t number) { return uint64_t{1} << number; }
  uint64_t secret_bit() const { return plan_.secret == no_field ? 0 : bit(plan_.secret); }
  bool has(uint8_t number) const { return number != no_field && (there_ & bit(number)) != 0; }
  bool has_several(uint8_t number) const { return (several_ & bit(number)) != 0; }
  std::string_view value_of(uint8_t number) const {
    return {values_[number].data, values_[number].size};
  }

  bool refuse(std::string message, uint16_t status = 400) {
    refusal.status = status;
    refusal.message = std::move(message);
    return false;
  }
  bool refuse_peer();
  bool refuse_missing(uint8_t number);
  bool refuse_value(uint8_t number, std::string_view value, std::string_view what);
  bool refuse_own(std::string_view what, std::string_view value);

  bool find_fields(uint64_t single);
  bool is_secret_right();
  bool read_original();
  bool read_own();

  bool read_method();
  bool read_target();
  bool read_host();
  bool read_scheme();
  bool read_ip();
  bool read_headers();
  bool read_cookies();
  bool find_cookies(std::string_view line, std::span<Value> found, uint32_t& there);
  bool has_one_value(uint8_t number) const;

  // The host or scheme in lower case. Empty: the text is not valid.
  std::string_view host_of(std::string_view text);
  std::string_view scheme_of(std::string_view text);
  // Empty: the text has a character that the table does not allow.
  std::string_view in_lower_case(const LowerTable& table, std::string_view text);
  std::string_view text_of(const IpAddress& address);
  std::string_view joined(uint8_t number, std::string_view separator);
  std::string_view shortened(std::string_view value, bool is_secret = false);
  // Flat: for each of the six entries or more of a request the list's own call would cost as much.
  [[gnu::flatten]] void add(std::string_view key, std::string_view value) {
    entries_.push_back({key, value});
  }

  const AuthQuestion& question_;
  const AuthProfile& profile_;
  const AuthPlan& plan_;
  const AuthOptions& options_;
  const AuthPeer& peer_;
  base::Arena& texts_;
  std::vector<request::Entry>& entries_;

  uint64_t there_ = 0, several_ = 0;     // bits by FieldNames: sent at all, sent more than once
  Value values_[FieldNames::names_max];  // the first value of each field
  TargetParts target_{};
};

bool AuthReader::refuse_peer() {
  std::string peer = "a UNIX socket";
  if (peer_.address) {
    char text[address_bytes_max];
    peer.assign(text, write_address(*peer_.address, 128, text));
  }
  return refuse("the request is from " + peer +
                    ", which is not in `trusted_proxies` of `http.auth`; add it there if it is a "
                    "proxy of yours",
                403);
}

bool AuthReader::refuse_missing(uint8_t number) {
  const std::string& name = plan_.names[number];
  return refuse(std::string(shown_field(name)) + " is missing, which the profile `" +
                profile_.name + "` of proxy " +
                std::string(proxy_names[static_cast<size_t>(profile_.proxy)]) + " needs; " +
                how_to_send(profile_, name));
}

bool AuthReader::refuse_value(uint8_t number, std::string_view value, std::string_view what) {
  const std::string& name = plan_.names[number];
  return refuse(std::string(shown_field(name)) + " has `" +
                base::printable(value, shown_value_bytes_max) + "`, which is not " +
                std::string(what) + "; " + how_to_send(profile_, name));
}

bool AuthReader::refuse_own(std::string_view what, std::string_view value) {
  return refuse("the " + std::string(what) + " of the request, `" +
                base::printable(value, shown_value_bytes_max) + "`, is ill-formed");
}

bool AuthReader::find_fields(uint64_t single) {
  for (const wire::HttpField& field : question_.fields) {
    const uint8_t number = plan_.names.find(field.name);
    if (number == no_field) continue;
    if ((there_ & bit(number)) == 0) {
      there_ |= bit(number);
      values_[number] = {field.value.data(), field.value.size()};
    } else if ((single & bit(number)) == 0) {
      several_ |= bit(number);
    } else {
      return refuse(std::string(shown_field(plan_.names[number])) +
                    " is there twice, and proxies differ in which one they take; have the proxy "
                    "set it in place of what a client sends");
    }
  }
  return true;
}

bool AuthReader::is_secret_right() {
  if (plan_.secret == no_field) return true;
  const std::string& secret = profile_.secret;
  if (has(plan_.secret)) {
    const std::string_view sent = value_of(plan_.secret);
    if (sent.size() == secret.size() &&
        CRYPTO_memcmp(sent.data(), secret.data(), secret.size()) == 0)
      return true;
  }
  return refuse("X-Sluice-Secret is missing or is not the `secret` of the profile `" +
                    profile_.name + "`; have the proxy set it",
                403);
}

bool AuthReader::read_original() {
  return (!plan_.gives_method || read_method()) && (plan_.uri == no_field || read_target()) &&
         (!plan_.gives_host || read_host()) && (!plan_.gives_scheme || read_scheme()) &&
         (!plan_.gives_ip || read_ip());
}

bool AuthReader::read_own() {
  if (plan_.gives_method) {
    if (question_.method.empty() || question_.method.size() > auth_method_bytes_max)
      return refuse_own("method", question_.method);
    add("method", question_.method);
  }
  if (plan_.gives_path) add("path", question_.path);
  if (plan_.gives_host && !question_.host.empty()) {
    const std::string_view host = host_of(question_.host);
    if (host.empty()) return refuse_own("Host", question_.host);
    add("host", host);
  }
  if (plan_.gives_scheme) add("scheme", question_.scheme);
  if (plan_.gives_ip && peer_.address) add("ip", text_of(*peer_.address));
  return true;
}

bool AuthReader::read_method() {
  if (plan_.method == no_field) return true;
  if (!has(plan_.method)) return refuse_missing(plan_.method);
  const std::string_view method = value_of(plan_.method);
  if (method.size() > auth_method_bytes_max || !wire::is_http_field_name(method))
    return refuse_value(plan_.method, method, "a method");
  add("method", method);
  return true;
}

bool AuthReader::read_target() {
  if (!has(plan_.uri)) return refuse_missing(plan_.uri);
  std::string_view target = value_of(plan_.uri);
  // Servers drop a fragment if a client sends one.
  if (profile_.normalize_path) target = target.substr(0, target.find('#'));
  if (!split_target(target, target_))
    return refuse_value(plan_.uri, target, "a path or an absolute URI");
  if (profile_.fields.uri_is_absolute && target_.scheme.empty())
    return refuse_value(plan_.uri, target, "an absolute URI");
  if (plan_.gives_path) {
    const bool as_is = !profile_.normalize_path || !target_.path.starts_with('/');
    add("path", as_is ? target_.path : normalize_path(target_.path, texts_));
  }
  if (plan_.gives_query && target_.has_query) add("query", target_.query);
  return true;
}

bool AuthReader::read_host() {
  const bool is_there = has(plan_.host);
  std::string_view text;
  uint8_t number = plan_.host;
  if (is_there) {
    text = value_of(plan_.host);
  } else if (profile_.fields.uri_is_absolute) {
    text = target_.authority;
    number = plan_.uri;
  } else if (profile_.fields.host_may_be_own && !question_.host.empty()) {
    text = question_.host;
  } else {
    return plan_.host == no_field || refuse_missing(plan_.host);
  }
  const std::string_view host = host_of(text);
  if (host.empty())
    return is_there || profile_.fields.uri_is_absolute ? refuse_value(number, text, "a host")
                                                       : refuse_own("Host", text);
  add("host", host);
  return true;
}

bool AuthReader::read_scheme() {
  std::string_view text = target_.scheme;
  uint8_t number = plan_.uri;
  if (!profile_.fields.uri_is_absolute) {
    number = plan_.scheme;
    if (!has(number))
      return number == no_field || profile_.fields.scheme_is_optional || refuse_missing(number);
    text = value_of(number);
  }
  const std::string_view scheme = scheme_of(text);
  if (scheme.empty()) return refuse_value(number, text, "a scheme");
  add("scheme", scheme);
  return true;
}

bool AuthReader::read_ip() {
  if (plan_.ip == no_field) return true;
  if (!has(plan_.ip)) return refuse_missing(plan_.ip);
  const ProxyFields& fields = profile_.fields;
  const std::string_view text = has_several(plan_.ip)
                                    ? joined(plan_.ip, fields.ip_is_forwarded ? "\n" : ", ")
                                    : value_of(plan_.ip);
  const auto address =
      fields.ip_is_list        ? forwarded_client(text, options_.trusted, profile_.ip_depth)
      : fields.ip_is_forwarded ? forwarded_element_client(text, options_.trusted, profile_.ip_depth)
                               : parse_address(text);
  if (!address) {
    const bool is_list = fields.ip_is_list || fields.ip_is_forwarded;
    return refuse_value(plan_.ip, text,
                        !is_list                ? "an IP address"
                        : profile_.ip_depth > 0 ? "a list with an IP address at `ip_depth`"
                                                : "a list that ends with an IP address");
  }
  // Text that is all digits and dots is an IPv4 address in its normal form, so it is not copied.
  const auto is_of_v4 = [](char c) { return c == '.' || (c >= '0' && c <= '9'); };
  add("ip", std::all_of(text.begin(), text.end(), is_of_v4) ? text : text_of(*address));
  return true;
}

bool AuthReader::read_headers() {
  for (const AuthPlan::Header& header : plan_.headers) {
    if (!has(header.name)) continue;
    std::string_view value = without_blanks_around(value_of(header.name));
    if (has_several(header.name) && header.is_list) {
      value = joined(header.name, header.name == plan_.cookie ? "; " : ", ");
    } else if (has_several(header.name) && !has_one_value(header.name)) {
      return refuse(std::string(shown_field(plan_.names[header.name])) +
                    " is there twice with different values, and applications differ in which one "
                    "they take; send it once");
    }
    if (header.is_credentials && !value.empty()) value = credentials_of(value, texts_);
    add(header.key, shortened(value, header.is_credentials));
  }
  return true;
}

// Have all lines of the field the same value?
bool AuthReader::has_one_value(uint8_t number) const {
  const std::string_view first = without_blanks_around(value_of(number));
  return std::ranges::all_of(question_.fields, [&](const wire::HttpField& field) {
    return plan_.names.find(field.name) != number || without_blanks_around(field.value) == first;
  });
}

// The cookies of all Cookie fields: HTTP/2 may split them over several (RFC 9113, 8.2.3).
bool AuthReader::read_cookies() {
  Value found[auth_cookies_max];
  uint32_t there = 0;
  if (has_several(plan_.cookie)) {
    for (const wire::HttpField& field : question_.fields)
      if (plan_.names.find(field.name) == plan_.cookie && !find_cookies(field.value, found, there))
        return false;
  } else if (!find_cookies(value_of(plan_.cookie), found, there)) {
    return false;
  }
  for (size_t i = 0; i < plan_.cookies.size(); ++i)
    if ((there >> i & 1) != 0) add(plan_.cookies[i].key, shortened({found[i].data, found[i].size}));
  return true;
}

// Sets found[i], and bit i of `there`, to the cookie named plan_.cookies[i]. False: it was there
// with another value.
bool AuthReader::find_cookies(std::string_view line, std::span<Value> found, uint32_t& there) {
  while (!line.empty()) {
    const size_t end = std::min(line.find(';'), line.size());
    const std::string_view pair = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    const size_t equals = pair.find('=');
    if (equals == pair.npos) continue;
    const std::string_view name = without_blanks_around(pair.substr(0, equals));
    for (size_t i = 0; i < plan_.cookies.size(); ++i) {
      if (plan_.cookies[i].name != name) continue;
      const std::string_view value = cookie_value(pair.substr(equals + 1), texts_);
      if ((there >> i & 1) != 0 && value != std::string_view(found[i].data, found[i].size))
        return refuse("the cookie `" + base::printable(name, shown_value_bytes_max) +
                      "` is there twice with different values, and applications differ in which "
                      "one they take; send it once");
      there |= uint32_t{1} << i;
      found[i] = {value.data(), value.size()};
    }
  }
  return true;
}

std::string_view AuthReader::host_of(std::string_view text) {
  const bool is_literal = text.starts_with('[');
  const size_t end = is_literal ? text.find(']') + 1 : std::min(text.find(':'), text.size());
  const std::string_view port = text.substr(end);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!port.empty() &&
      (port.front() != ':' || !std::all_of(port.begin() + 1, port.end(), is_digit)))
    return {};
  std::string_view name = text.substr(0, end);
  if (is_literal) {
    if (name.find('%') != name.npos || !parse_address(name)) return {};
    char* const to = texts_.allocate(name.size());
    std::transform(name.begin(), name.end(), to, wire::http_lower);
    return {to, name.size()};
  }
  if (name.ends_with('.')) name.remove_suffix(1);
  return name.size() > auth_host_bytes_max ? std::string_view() : in_lower_case(host_chars, name);
}

std::string_view AuthReader::scheme_of(std::string_view text) {
  if (text == "https" || text == "http") return text;
  return is_scheme(text) ? in_lower_case(scheme_chars, text) : std::string_view();
}

std::string_view AuthReader::in_lower_case(const LowerTable& table, std::string_view text) {
  const auto is_same = [&](char c) { return lower_by(table, c) == c; };
  const auto* const other = std::find_if_not(text.begin(), text.end(), is_same);
  if (other == text.end()) return text;
  char* const to = texts_.allocate(text.size());
  char* end = std::copy(text.begin(), other, to);
  for (const char* from = other; from != text.end(); ++from) {
    if (!is_allowed_by(table, *from)) return {};
    *end++ = lower_by(table, *from);
  }
  return {to, text.size()};
}

std::string_view AuthReader::text_of(const IpAddress& address) {
  char* const to = texts_.allocate(address_bytes_max);
  return {to, write_address(address, profile_.ipv6_prefix, to)};
}

// The values of all lines of a field, in order.
std::string_view AuthReader::joined(uint8_t number, std::string_view separator) {
  size_t size = 0;
  const auto each_line = [&](auto&& take) {
    for (const wire::HttpField& field : question_.fields)
      if (plan_.names.find(field.name) == number) take(field.value);
  };
  each_line([&](std::string_view line) { size += line.size() + separator.size(); });
  char* const text = texts_.allocate(size);
  char* to = text;
  bool is_first = true;
  each_line([&](std::string_view line) {
    if (!std::exchange(is_first, false)) to = std::copy(separator.begin(), separator.end(), to);
    to = std::copy(line.begin(), line.end(), to);
  });
  return {text, static_cast<size_t>(to - text)};
}

std::string_view AuthReader::shortened(std::string_view value, bool is_secret) {
  if (!is_secret && value.size() <= auth_value_bytes_max) return value;
  static thread_local ValueDigest digest;
  return digest(value, texts_);
}

}  // namespace

AuthPeer::AuthPeer(std::string_view text, const TrustedProxies& trusted)
    : address(parse_address(text)),
      is_trusted(text.empty() ? trusted.contains_unix() : address && trusted.contains(*address)) {}

std::optional<AuthRefusal> read_auth_request(const AuthQuestion& question,
                                             const AuthProfile& profile, const AuthOptions& options,
                                             const AuthPeer& peer, base::Arena& texts,
                                             std::vector<request::Entry>& entries) {
  SLUICE_CHECK(profile.plan.is_made);
  AuthReader reader(question, profile, options, peer, texts, entries);
  if (reader.read()) return std::nullopt;
  return std::move(reader.refusal);
}

}  // namespace sluice::http
