#include "access/users.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace sluice::access {
namespace {

// The most bytes of NAME:TOKEN in base64. Longer ones are not read.
constexpr size_t basic_bytes_max = 1024;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// `lower` is in lower case.
bool is_scheme(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a + 32 : a) == b; });
}

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.empty() || text.size() > basic_bytes_max) return std::nullopt;
  std::string padded(text);
  while (padded.size() % 4 != 0) padded += '=';
  std::string bytes(padded.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(padded.data()),
                                   static_cast<int>(padded.size()));
  if (size < 0) return std::nullopt;
  const auto padding = static_cast<size_t>(std::count(padded.end() - 2, padded.end(), '='));
  bytes.resize(static_cast<size_t>(size) - padding);
  return bytes;
}

}  // namespace

std::string make_token() {
  std::array<unsigned char, token_bytes> bytes;
  SLUICE_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  std::array<unsigned char, token_characters + 2> text;  // with its padding and a NUL
  SLUICE_CHECK(EVP_EncodeBlock(text.data(), bytes.data(), static_cast<int>(bytes.size())) ==
               static_cast<int>(token_characters + 1));
  std::string token(text.begin(), text.begin() + token_characters);
  std::replace(token.begin(), token.end(), '+', '-');
  std::replace(token.begin(), token.end(), '/', '_');
  return token;
}

bool is_token(std::string_view text) {
  return text.size() == token_characters && std::all_of(text.begin(), text.end(), [](char c) {
           return is_alphanumeric(c) || c == '-' || c == '_';
         });
}

// OpenSSL wants EVP in place of these, whose contexts are allocated with each digest; each request
// may bring a token.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
Digest digest_of(std::string_view token) {
  Digest digest;
  SHA256_CTX context;
  SLUICE_CHECK(SHA256_Init(&context) == 1 &&
               SHA256_Update(&context, token.data(), token.size()) == 1 &&
               SHA256_Final(digest.data(), &context) == 1);
  return digest;
}
#pragma GCC diagnostic pop

std::optional<Proof> read_authorization(std::string_view field) {
  const size_t blank = std::min(field.find(' '), field.size());
  const std::string_view scheme = field.substr(0, blank);
  std::string_view rest = field.substr(blank);
  while (rest.starts_with(' ')) rest.remove_prefix(1);
  if (is_scheme(scheme, "bearer")) return Proof{{}, std::string(rest)};
  if (!is_scheme(scheme, "basic")) return std::nullopt;
  const auto decoded = decode_base64(rest);
  if (!decoded) return std::nullopt;
  const size_t colon = decoded->find(':');
  if (colon == std::string::npos) return std::nullopt;
  return Proof{decoded->substr(0, colon), decoded->substr(colon + 1)};
}

std::string authorization_of(std::string_view name, std::string_view token) {
  if (token.empty()) return {};
  if (name.empty()) return "Bearer " + std::string(token);
  const std::string plain = std::string(name) + ":" + std::string(token);
  std::string text((plain.size() + 2) / 3 * 4 + 1, '\0');  // EVP_EncodeBlock appends a NUL
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                  reinterpret_cast<const unsigned char*>(plain.data()),
                  static_cast<int>(plain.size()));
  text.pop_back();
  return "Basic " + text;
}

std::string_view why_unknown(std::string_view field) {
  return field.empty() ? "send the token of a user, as `Authorization: Bearer TOKEN` or as Basic "
                         "with NAME:TOKEN"
                       : "no user has this token, or it has another name; send `Bearer TOKEN`, or "
                         "Basic with NAME:TOKEN";
}

Users::Users(std::vector<User> users) : users_(std::move(users)) {
  for (User& user : users_) user.is_limited = std::ranges::any_of(user.reach, &Reach::is_limited);
  std::ranges::sort(users_, {}, &User::token_digest);
}

const User* Users::find(std::string_view name) const {
  const auto at = std::ranges::find(users_, name, &User::name);
  return at == users_.end() ? nullptr : &*at;
}

const User* Users::find_certificate(std::string_view certificate) const {
  const auto at = std::ranges::find(users_, certificate, &User::certificate);
  return at == users_.end() ? nullptr : &*at;
}

// The search is by the first bytes of the digest. Its time says nothing of the token, as a digest
// does not lead to the text that it is of.
const User* Users::find_by(std::string_view name, std::string_view token) const {
  const Digest digest = digest_of(token);
  const auto first = [](const Digest& of) { return std::span(of).first<8>(); };
  const auto [begin, end] = std::equal_range(
      users_.begin(), users_.end(), User{{}, {}, digest}, [&](const User& a, const User& b) {
        return std::ranges::lexicographical_compare(first(a.token_digest), first(b.token_digest));
      });
  const auto at = std::find_if(begin, end, [&](const User& user) {
    return CRYPTO_memcmp(user.token_digest.data(), digest.data(), digest.size()) == 0;
  });
  if (at == end) return nullptr;
  const bool is_named = !name.empty() && (name != default_user || find(name) != nullptr);
  return !is_named || at->name == name ? &*at : nullptr;
}

Access::Access(std::shared_ptr<const Users> users)
    : users_(users ? std::move(users) : std::make_shared<const Users>()) {}

std::shared_ptr<const Users> Access::users() const {
  const std::lock_guard lock(mutex_);
  return users_;
}

void Access::set(std::shared_ptr<const Users> users) {
  if (!users) users = std::make_shared<const Users>();
  {
    const std::lock_guard lock(mutex_);
    users_.swap(users);
  }
  version_.fetch_add(1, std::memory_order_release);
}

}  // namespace sluice::access
