// The users of a server: their names, their rights, and the digests of their tokens. One list for
// all protocols whose clients authenticate, and for the admin port. A list is constant once made;
// the live one is replaced as a whole. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "access/reach.h"

namespace sluice::access {

// What a user may do: `put` stands for put and reset, `look` for whatever changes no counter,
// `admin` for what concerns other clients' counters.
enum class Right : uint8_t { take, put, look, admin };
inline constexpr std::array<std::string_view, 4> right_names = {"take", "put", "look", "admin"};

class Rights {
 public:
  constexpr Rights() = default;
  constexpr Rights(std::initializer_list<Right> rights) {
    for (const Right right : rights) add(right);
  }
  constexpr void add(Right right) { bits_ |= static_cast<uint8_t>(1u << static_cast<int>(right)); }
  constexpr bool has(Right right) const { return (bits_ >> static_cast<int>(right) & 1) != 0; }
  friend bool operator==(Rights, Rights) = default;

 private:
  uint8_t bits_ = 0;
};

// Of clients of a server that has no users.
inline constexpr Rights rights_without_users{Right::take, Right::put, Right::look};

// Who clients are that name no user.
inline constexpr std::string_view default_user = "default";

// A token is 32 random bytes in base64url without padding: too many to guess, so that a digest made
// fast protects it.
inline constexpr size_t token_bytes = 32, token_characters = 43;
using Digest = std::array<unsigned char, 32>;  // SHA-256

std::string make_token();
bool is_token(std::string_view text);
Digest digest_of(std::string_view token);

struct User {
  std::string name;  // not empty
  Rights rights;
  Digest token_digest{};
  // In place of a token: the name in the certificate that the user's clients show.
  std::string certificate{};
  // The counters that each right is limited to, by its number. `admin` never is.
  std::array<Reach, right_names.size()> reach{};
  bool is_limited = false;  // is one of them? Users sets it

  const Reach& reach_of(Right right) const { return reach[static_cast<size_t>(right)]; }
};

// What a client shows to be a user: a token, and the user's name if it gives one.
struct Proof {
  std::string name, token;
};
// From the field Authorization of HTTP, or the metadata `authorization` of gRPC: `Bearer TOKEN`
// (RFC 6750), or `Basic` with NAME:TOKEN (RFC 7617). Empty: it is neither.
std::optional<Proof> read_authorization(std::string_view field);
// The field that shows such a proof; empty: there is no token.
std::string authorization_of(std::string_view name, std::string_view token);
// The answer to a client whose field is not of a user.
std::string_view why_unknown(std::string_view field);

class Users {
 public:
  // With names, tokens and certificates that differ.
  explicit Users(std::vector<User> users = {});
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  bool empty() const { return users_.empty(); }
  std::span<const User> all() const { return users_; }
  // Null: there is none of that name.
  const User* find(std::string_view name) const;
  // The user with that token. Null: there is none, or it has another name than the given one. No
  // name is given if it is empty, or if it is `default` and no user has it: clients send that where
  // they have a token alone. Tokens are compared by their digests, in constant time.
  const User* find_by(std::string_view name, std::string_view token) const;
  // The user whose clients show a certificate of that name, which is not empty; null: there is
  // none.
  const User* find_certificate(std::string_view certificate) const;

 private:
  std::vector<User> users_;  // by digest
};

// The live list. Made by the server.
class Access {
 public:
  explicit Access(std::shared_ptr<const Users> users = {});
  Access(const Access&) = delete;
  Access& operator=(const Access&) = delete;

  // One more with each `set`; from 1.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Never null.
  std::shared_ptr<const Users> users() const;
  // Null: there are none.
  void set(std::shared_ptr<const Users> users);

 private:
  std::atomic<uint64_t> version_{1};
  mutable std::mutex mutex_;
  std::shared_ptr<const Users> users_;
};

}  // namespace sluice::access
