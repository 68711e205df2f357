// `users` of a sluice.yaml: the users and their rights, for all protocols whose clients
// authenticate and for the admin port. They are read with the file; the files that hold their
// tokens are read when the list is made, at the start and at each reload. Main thread, and the
// thread that reloads.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "access/users.h"
#include "base/diagnostic.h"
#include "base/setting.h"

namespace sluice::policy {
class RuleSet;
}

namespace sluice::config {

struct Config;
struct Entry;
struct Written;

struct ConfiguredUser {
  access::User user;
  std::string token_file{};  // empty: the user has a digest
  // Where the patterns of each right stand, for messages.
  std::array<base::Diagnostic, access::right_names.size()> places{};
};

using ConfiguredUsers = base::Setting<std::vector<ConfiguredUser>>;

// Can a client send the name as one word, and can logs show it?
bool is_user_name(std::string_view name);

// The settings of one user (config/table.h).
std::vector<Entry> user_table(ConfiguredUser& user);
// Reads the key `users`. False: it is no list, or too long a one, which was reported.
bool read_users(const Written& written, ConfiguredUsers& users);

// The files of tokens, each once, in the order of the list.
std::vector<std::string> files_of(const ConfiguredUsers& users);

// The list with the tokens of its files, and the digests of the files in the order of `files_of`.
// Null: a file cannot be used, or two users have one token, which is reported.
struct MadeUsers {
  std::shared_ptr<const access::Users> users;
  std::vector<uint64_t> digests;
};
MadeUsers make_users(const ConfiguredUsers& users, base::Diagnostics& diagnostics);

// Reports each pattern of the users that fits no counter of the rules by which clients who can be
// users are counted. False: there is one. Where another server sends rules, which may come later,
// it is a warning.
bool check_reach(const Config& config, const policy::RuleSet& rules,
                 base::Diagnostics& diagnostics);

// The users as lines of a sluice.yaml, without digests; empty: there are none.
std::string print_users(ConfiguredUsers& users);

}  // namespace sluice::config
