#include "access/users.h"

#include <crypt.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <memory>

#include "base/check.h"

namespace sluice::access {
namespace {

// Methods that are made for passwords, and how long the part after the last `$` of a hash is:
// yescrypt, gost-yescrypt, scrypt, bcrypt (22 characters of salt are part of it), SHA-512, SHA-256.
struct Method {
  std::string_view prefix;
  size_t bytes;
};
constexpr Method methods[] = {{"$y$", 43},  {"$gy$", 43}, {"$7$", 43}, {"$2b$", 53},
                              {"$2a$", 53}, {"$2y$", 53}, {"$6$", 86}, {"$5$", 43}};

// A hash of no user's password; as slow as SHA-512 with its usual number of rounds.
constexpr const char* unknown_user_hash = "$6$unknown.user$";

bool is_same(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

// Empty: crypt(3) does not know the method.
std::string crypt_of(const std::string& password, const std::string& setting) {
  const auto data = std::make_unique<crypt_data>();  // 32 kB
  const char* const hash = ::crypt_r(password.c_str(), setting.c_str(), data.get());
  return hash == nullptr || hash[0] == '*' ? std::string() : std::string(hash);
}

bool is_password_of(const std::string& password, const std::string& hash) {
  const std::string made = crypt_of(password, hash);
  return !made.empty() && is_same(made, hash);
}

}  // namespace

bool is_password_hash(std::string_view text) {
  const auto* const method =
      std::find_if(std::begin(methods), std::end(methods),
                   [&](const Method& one) { return text.starts_with(one.prefix); });
  if (method == std::end(methods) || text.find('\0') != text.npos) return false;
  return text.size() - text.rfind('$') - 1 == method->bytes &&
         ::crypt_checksalt(std::string(text).c_str()) == CRYPT_SALT_OK;
}

Users::Users(std::vector<User> users) : users_(std::move(users)), stand_in_(unknown_user_hash) {
  SLUICE_CHECK(RAND_bytes(secret_.data(), static_cast<int>(secret_.size())) == 1);
  const auto hashed = std::find_if(users_.begin(), users_.end(),
                                   [](const User& user) { return !user.password_hash.empty(); });
  if (hashed != users_.end()) stand_in_ = hashed->password_hash;
}

const User* Users::find(std::string_view name) const {
  const auto at = std::find_if(users_.begin(), users_.end(),
                               [&](const User& user) { return user.name == name; });
  return at == users_.end() ? nullptr : &*at;
}

Users::Digest Users::digest_of(std::string_view text) const {
  Digest digest;
  SLUICE_CHECK(HMAC(EVP_sha256(), secret_.data(), static_cast<int>(secret_.size()),
                    reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(),
                    nullptr) != nullptr);
  return digest;
}

// By the password itself, or by the memory of hashes' right ones.
bool Users::is_known(const User& user, const Digest& digest) const {
  Digest right;
  if (user.password_hash.empty()) {
    if (user.password.empty()) return false;
    right = digest_of(user.password);
  } else {
    const std::lock_guard lock(mutex_);
    const auto at = known_.find(user.name);
    if (at == known_.end()) return false;
    right = at->second;
  }
  return CRYPTO_memcmp(digest.data(), right.data(), digest.size()) == 0;
}

bool Users::knows(std::string_view name, std::string_view password) const {
  const User* const user = find(name);
  return user != nullptr && is_known(*user, digest_of(password));
}

bool Users::check(std::string_view name, std::string_view password) const {
  const User* const user = find(name);
  const Digest digest = digest_of(password);
  // crypt(3) ends a password at its first NUL.
  const bool has_nul = password.find('\0') != password.npos;
  if (user == nullptr || (user->password_hash.empty() && user->password.empty())) {
    is_password_of(std::string(password), stand_in_);
    return false;
  }
  if (is_known(*user, digest)) return true;
  if (user->password_hash.empty()) {
    // As slow as for a name that there is not.
    is_password_of(std::string(password), stand_in_);
    return false;
  }
  if (!is_password_of(std::string(password), user->password_hash) || has_nul) return false;
  const std::lock_guard lock(mutex_);
  known_.insert_or_assign(std::string(name), digest);
  return true;
}

}  // namespace sluice::access
