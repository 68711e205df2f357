// The users of a server: their names, their rights, and what their passwords are checked against.
// One list for all protocols whose clients authenticate. Constant once made, but for the memory of
// passwords that were right; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

struct User {
  std::string name;  // not empty
  Rights rights;
  // One of the two. A hash as crypt(5) has it ("$y$...", "$6$..."), or the password itself.
  std::string password_hash{}, password{};
};

// Does crypt(3) of this system know the method of such a hash, and is it one that is made for
// passwords?
bool is_password_hash(std::string_view text);

class Users {
 public:
  // With names that differ.
  explicit Users(std::vector<User> users = {});
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  bool empty() const { return users_.empty(); }
  std::span<const User> all() const { return users_; }
  // Null: there is none of that name.
  const User* find(std::string_view name) const;

  // Is it that user's password? Slow, as hashes of passwords are meant to be, also where there is
  // no such user or its password is not hashed: then as the first hash of the list is. Fast where
  // the password is known to be right. Compared in constant time.
  bool check(std::string_view name, std::string_view password) const;
  // Is it known to be that user's password, without a slow check? In constant time.
  bool knows(std::string_view name, std::string_view password) const;

 private:
  using Digest = std::array<unsigned char, 32>;
  Digest digest_of(std::string_view text) const;
  bool is_known(const User& user, const Digest& digest) const;

  std::vector<User> users_;
  std::array<unsigned char, 32> secret_;  // of the digests
  std::string stand_in_;                  // a hash that is checked where there is no such user
  mutable std::mutex mutex_;
  mutable std::map<std::string, Digest, std::less<>> known_;  // by user: of the right password
};

}  // namespace sluice::access
