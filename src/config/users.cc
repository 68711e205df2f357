#include "config/users.h"

#include <algorithm>
#include <optional>

#include "base/bounds.h"
#include "base/hash.h"
#include "config/file_reader.h"
#include "config/read_file.h"
#include "config/settings.h"

namespace sluice::config {
namespace {

using access::Right;
using policy::YamlNode;

constexpr const char* example =
    "write `users: [{ name: app, password_file: app.password, rights: [take, look] }]`";
constexpr size_t password_bytes_max = 512;  // the bound of crypt(3)

// Can a client send the name as one word, and can logs show it?
bool is_user_name(std::string_view name) {
  return !name.empty() && name.size() <= base::bounds::user_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

void read_rights(FileReader& reader, const std::string& key, const YamlNode& node,
                 access::Rights& rights) {
  if (!reader.sequence(key, node, "write `rights: [take, look]`")) return;
  for (YamlNode item = node.first_child(); item; item = item.next()) {
    const auto text = reader.text(key, item);
    if (!text) continue;
    const auto at = std::find(access::right_names.begin(), access::right_names.end(), *text);
    if (at == access::right_names.end())
      complain(reader.place(key, item),
               "`" + *text + "` is not a right; there are take, put (and reset), look and admin",
               "write some of these", reader.diagnostics());
    else
      rights.add(static_cast<Right>(at - access::right_names.begin()));
  }
}

std::optional<ConfiguredUser> read_user(FileReader& reader, const YamlNode& node) {
  const size_t problems = reader.diagnostics().size();
  ConfiguredUser read;
  bool has_rights = false;
  reader.map(node, "users",
             {{"name",
               [&](const std::string& key, const YamlNode& value) {
                 const auto text = reader.text(key, value);
                 if (!text) return;
                 read.user.name = *text;
                 if (!is_user_name(*text))
                   complain(reader.place(key, value),
                            "is not a name of a user: up to " +
                                std::to_string(base::bounds::user_name_bytes_max) +
                                " printable ASCII characters without blanks",
                            "choose another", reader.diagnostics());
               }},
              {"password_hash",
               [&](const std::string& key, const YamlNode& value) {
                 const auto text = reader.text(key, value);
                 if (!text) return;
                 read.user.password_hash = *text;
                 if (!access::is_password_hash(*text))
                   complain(reader.place(key, value),
                            "is not a hash of a password that crypt(5) knows ($y$, $2b$, $6$, $5$)",
                            "make one with `openssl passwd -6`, and put it in single quotes",
                            reader.diagnostics());
               }},
              {"password_file",
               [&](const std::string& key, const YamlNode& value) {
                 if (const auto text = reader.text(key, value))
                   read.password_file = reader.beside_file(*text);
               }},
              {"rights", [&](const std::string& key, const YamlNode& value) {
                 has_rights = true;
                 read_rights(reader, key, value, read.user.rights);
               }}});
  if (reader.diagnostics().size() > problems) return std::nullopt;
  const char* const missing = read.user.name.empty() ? "has no name"
                              : read.user.password_hash.empty() == read.password_file.empty()
                                  ? "has to have one of password_hash and password_file"
                              : !has_rights ? "has no rights"
                                            : nullptr;
  if (missing != nullptr) {
    complain(reader.place("users", node), missing, example, reader.diagnostics());
    return std::nullopt;
  }
  return read;
}

}  // namespace

void read_users(FileReader& reader, const std::string& key, const YamlNode& node,
                ConfiguredUsers& users) {
  users.origin = reader.origin(node);
  users.value.clear();
  if (!reader.sequence(key, node, example)) return;
  for (YamlNode entry = node.first_child(); entry; entry = entry.next()) {
    auto user = read_user(reader, entry);
    if (!user) continue;
    const bool twice = std::any_of(users.value.begin(), users.value.end(), [&](const auto& one) {
      return one.user.name == user->user.name;
    });
    if (twice)
      complain(reader.place("users", entry),
               "names `" + user->user.name + "`, as an entry above does", "take one of them out",
               reader.diagnostics());
    else if (users.value.size() == base::bounds::users_max)
      return complain(reader.place("users", entry),
                      "is one more than the " + std::to_string(base::bounds::users_max) +
                          " users that a server has at most",
                      "let services share a user", reader.diagnostics());
    else
      users.value.push_back(std::move(*user));
  }
}

std::vector<std::string> files_of(const ConfiguredUsers& users) {
  std::vector<std::string> files;
  for (const ConfiguredUser& one : users.value)
    if (!one.password_file.empty() &&
        std::find(files.begin(), files.end(), one.password_file) == files.end())
      files.push_back(one.password_file);
  return files;
}

MadeUsers make_users(const ConfiguredUsers& users, base::Diagnostics& diagnostics) {
  const ReadScope regular_files;  // they are read again with each reload
  MadeUsers made;
  const std::vector<std::string> files = files_of(users);
  std::vector<std::string> passwords;
  for (const std::string& file : files) {
    auto text = read_file(file, diagnostics);
    if (!text) return {};
    made.digests.push_back(base::digest(*text));
    while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
    if (text->empty() || text->size() > password_bytes_max) {
      base::Diagnostic place;
      place.file = file;
      complain(place,
               text->empty() ? "holds no password"
                             : "holds more than the " + std::to_string(password_bytes_max) +
                                   " bytes that a password has at most",
               "write the password into it, and nothing else", diagnostics);
      return {};
    }
    passwords.push_back(std::move(*text));
  }
  std::vector<access::User> all;
  for (const ConfiguredUser& one : users.value) {
    all.push_back(one.user);
    if (one.password_file.empty()) continue;
    const auto at = std::find(files.begin(), files.end(), one.password_file);
    all.back().password = passwords[static_cast<size_t>(at - files.begin())];
  }
  made.users = std::make_shared<const access::Users>(std::move(all));
  return made;
}

std::vector<std::pair<std::string, std::string>> lines_of(const ConfiguredUsers& users) {
  std::vector<std::pair<std::string, std::string>> lines;
  if (users.value.empty()) return lines;
  lines.emplace_back("users:", users.origin);
  for (const ConfiguredUser& one : users.value) {
    std::string rights;
    for (size_t i = 0; i < access::right_names.size(); ++i)
      if (one.user.rights.has(static_cast<Right>(i)))
        rights += (rights.empty() ? "" : ", ") + std::string(access::right_names[i]);
    const bool hashed = one.password_file.empty();
    lines.emplace_back("  - { name: " + in_quotes(one.user.name) + ", " +
                           (hashed ? "password_hash: \"not shown\""
                                   : "password_file: " + in_quotes(one.password_file)) +
                           ", rights: [" + rights + "] }",
                       users.origin);
  }
  return lines;
}

}  // namespace sluice::config
