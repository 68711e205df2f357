// Reads a request to /auth with any fields. The result must be a refusal with a reason, or entries
// within their bounds whose texts live as long as documented. It must be the same when it is read
// again, and without the fields that the profile does not read.
//
// The input: a byte that chooses the profile, one that chooses the peer, then lines: method, path,
// query, host, and `name:value` for each field.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/http/auth_request.h"

namespace {

using namespace sluice::http;
using sluice::request::Entry;
using sluice::wire::HttpField;
using Texts = std::vector<std::pair<std::string, std::string>>;

constexpr size_t fields_max = 64;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// For each proxy a profile that reads few fields, and one that reads all.
struct Profiles {
  AuthOptions options;
  std::vector<AuthProfile> all;

  Profiles() {
    options.trusted.add("10.0.0.0/8");
    options.trusted.add("fd00::/8");
    options.trusted.add("unix");
    for (size_t i = 0; i < proxy_names.size(); ++i)
      for (const bool wants_all : {false, true})
        all.push_back(make(static_cast<Proxy>(i), wants_all));
  }

  static AuthProfile make(Proxy proxy, bool wants_all) {
    AuthProfile profile;
    profile.name = "fuzz";
    profile.proxy = proxy;
    profile.fields = fields_of(proxy);
    if (proxy == Proxy::custom) {
      profile.fields.uri = "u";
      profile.fields.ip = "forwarded";
      profile.fields.ip_is_forwarded = true;
      profile.fields.host_may_be_own = true;
    }
    if (wants_all) {
      profile.entries = {{"tier", "gold"}, {"method", "any"}};
      profile.headers = {"authorization", "x-api-key", "a", "cookie"};
      profile.cookies = {"sid", "b"};
      profile.ipv6_prefix = 57;
      profile.normalize_path = profile.untrusted_direct = true;
      profile.secret = "s";
      if (profile.fields.ip_is_list) profile.ip_depth = 2;
    }
    profile.prepare();
    return profile;
  }
};

// A copy of exactly the text's size, so that a sanitizer finds a view that is too long.
class Copy {
 public:
  explicit Copy(std::string_view text) : bytes_(new char[text.size()]), size_(text.size()) {
    std::copy(text.begin(), text.end(), bytes_.get());
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<char[]> bytes_;
  size_t size_;
};

struct Input {
  std::vector<Copy> copies;
  std::vector<HttpField> fields;
  AuthQuestion question{};

  explicit Input(std::string_view text) {
    const auto line = [&] {
      const size_t end = std::min(text.find('\n'), text.size());
      const std::string_view taken = text.substr(0, end);
      text.remove_prefix(std::min(end + 1, text.size()));
      return taken;
    };
    const auto copy = [&](std::string_view of) { return copies.emplace_back(of).view(); };
    question.method = copy(line());
    question.path = copy(line());
    question.query = copy(line());
    question.host = copy(line());
    while (!text.empty() && fields.size() < fields_max) {
      const std::string_view field = line();
      const size_t colon = std::min(field.find(':'), field.size());
      fields.push_back(
          {copy(field.substr(0, colon)), copy(field.substr(std::min(colon + 1, field.size())))});
    }
    question.fields = fields;
  }
};

// The result: the entries, or the refusal as a single entry.
Texts read(const AuthQuestion& question, const AuthProfile& profile, const AuthOptions& options,
           const AuthPeer& peer) {
  sluice::base::Arena texts;
  std::vector<Entry> entries;
  const auto refusal = read_auth_request(question, profile, options, peer, texts, entries);
  if (refusal) {
    require(refusal->status == 400 || refusal->status == 403, "the status of a refusal");
    require(!refusal->message.empty() && refusal->message.size() < 600, "its reason");
    return {{std::to_string(refusal->status), refusal->message}};
  }
  Texts all;
  for (const Entry& entry : entries) all.emplace_back(entry.key, entry.value);
  return all;
}

void check_address(const std::string& text) {
  const auto address = parse_address(text);
  require(address.has_value(), "an address that is none");
  std::array<char, address_bytes_max> again;
  require(std::string_view(again.data(), write_address(*address, 128, again.data())) == text,
          "an address in another form");
}

void check_path(const std::string& path) {
  if (path == "*") return;
  sluice::base::Arena texts;
  require(path.starts_with('/') && normalize_path(path, texts) == path, "a path in another form");
}

// For a profile that reads all fields.
void check(const Texts& all, bool is_trusted) {
  for (const auto& [key, value] : all) {
    if (key == "method") require(value.size() <= auth_method_bytes_max, "a method");
    if (key == "host") {
      require(!value.empty() && value.size() <= auth_host_bytes_max, "a host");
      require(std::none_of(value.begin(), value.end(),
                           [](char c) { return (c >= 'A' && c <= 'Z') || c <= ' '; }),
              "a host in another form");
    }
    if (key == "scheme")
      require(!value.empty() && value.size() <= auth_scheme_bytes_max, "a scheme");
    if (key == "ip") check_address(value);
    if (key == "path" && is_trusted) check_path(value);
    if (key.starts_with("header.") || key.starts_with("cookie."))
      require(value.size() <= auth_value_bytes_max, "a value that is too long");
    if (key == "header.authorization")
      require(value.size() == 39 && value.starts_with("sha256:"), "credentials");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Profiles profiles;
  if (size < 2) return 0;
  const AuthProfile& profile = profiles.all[data[0] % profiles.all.size()];
  static constexpr std::string_view peers[] = {"127.0.0.1:1", "", "192.0.2.1:1", "[2001:db8::1]:1"};
  const AuthPeer peer(peers[data[1] % std::size(peers)], profiles.options.trusted);
  Input input({reinterpret_cast<const char*>(data) + 2, size - 2});

  const Texts all = read(input.question, profile, profiles.options, peer);
  require(read(input.question, profile, profiles.options, peer) == all, "another answer");
  const bool is_refused = !all.empty() && all.front().first.starts_with('4');
  if (!is_refused && profile.normalize_path) check(all, peer.is_trusted);
  std::erase_if(input.fields, [&](const HttpField& field) {
    return profile.plan.names.find(field.name) == FieldNames::none;
  });
  input.question.fields = input.fields;
  input.question.query = "another=query";
  require(read(input.question, profile, profiles.options, peer) == all,
          "a field of another family");
  return 0;
}
