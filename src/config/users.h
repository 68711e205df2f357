// `users` of a sluice.yaml: the users and their rights, for all protocols whose clients
// authenticate. They are read with the file; their password files are read when the list is made,
// at the start and at each reload. Main thread, and the thread that reloads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "access/users.h"
#include "base/diagnostic.h"
#include "base/setting.h"
#include "policy/read/yaml_tree.h"

namespace sluice::config {

class FileReader;

struct ConfiguredUser {
  access::User user;
  std::string password_file{};  // empty: the user has a hash
};

using ConfiguredUsers = base::Setting<std::vector<ConfiguredUser>>;

// Reads the key `users`.
void read_users(FileReader& reader, const std::string& key, const policy::YamlNode& node,
                ConfiguredUsers& users);

// The password files, each once, in the order of the list.
std::vector<std::string> files_of(const ConfiguredUsers& users);

// The list with the passwords of its files, and the digests of the files in the order of
// `files_of`. Null: a file cannot be used, which is reported.
struct MadeUsers {
  std::shared_ptr<const access::Users> users;
  std::vector<uint64_t> digests;
};
MadeUsers make_users(const ConfiguredUsers& users, base::Diagnostics& diagnostics);

// The users as lines of a sluice.yaml, without hashes.
std::vector<std::pair<std::string, std::string>> lines_of(const ConfiguredUsers& users);

}  // namespace sluice::config
