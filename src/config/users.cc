#include "config/users.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <system_error>

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
    "write `users: [{ name: app, token_file: app.token, rights: [take, look] }]`";
// A token and its line end, and what editors add to it.
constexpr size_t token_file_bytes_max = 256;

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

// SHA-256 in hexadecimal digits.
std::optional<access::Digest> read_digest(std::string_view text) {
  access::Digest digest;
  if (text.size() != 2 * digest.size()) return std::nullopt;
  for (size_t i = 0; i < digest.size(); ++i) {
    const char* const end = text.data() + 2 * i + 2;
    const auto [at, error] = std::from_chars(end - 2, end, digest[i], 16);
    if (error != std::errc() || at != end) return std::nullopt;
  }
  return digest;
}

// Reports a key of the time when users had passwords.
bool refuses_password(FileReader& reader, const YamlNode& node) {
  if (!node.is_map()) return false;
  for (YamlNode key = node.first_child(); key; key = key.next().next()) {
    if (!key.is_scalar() || !key.text().starts_with("password")) continue;
    complain(
        reader.place(key.text(), key), "is not read: users have tokens, and no passwords",
        "run `sluice token NAME`, give the client the token, and write the line that it prints",
        reader.diagnostics());
    return true;
  }
  return false;
}

std::optional<ConfiguredUser> read_user(FileReader& reader, const YamlNode& node) {
  const size_t problems = reader.diagnostics().size();
  ConfiguredUser read;
  bool has_rights = false, has_digest = false;
  if (refuses_password(reader, node)) return std::nullopt;
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
              {"sha256",
               [&](const std::string& key, const YamlNode& value) {
                 const auto text = reader.text(key, value);
                 if (!text) return;
                 const auto digest = read_digest(*text);
                 has_digest = true;
                 if (digest)
                   read.user.token_digest = *digest;
                 else
                   complain(reader.place(key, value),
                            "is not the SHA-256 of a token, in 64 hexadecimal digits",
                            "make a token and its line with `sluice token NAME`",
                            reader.diagnostics());
               }},
              {"token_file",
               [&](const std::string& key, const YamlNode& value) {
                 if (const auto text = reader.text(key, value))
                   read.token_file = reader.beside_file(*text);
               }},
              {"rights", [&](const std::string& key, const YamlNode& value) {
                 has_rights = true;
                 read_rights(reader, key, value, read.user.rights);
               }}});
  if (reader.diagnostics().size() > problems) return std::nullopt;
  const char* const missing = read.user.name.empty() ? "has no name"
                              : has_digest != read.token_file.empty()
                                  ? "has to have one of sha256 and token_file"
                              : !has_rights ? "has no rights"
                                            : nullptr;
  if (missing != nullptr) {
    complain(reader.place("users", node), missing, example, reader.diagnostics());
    return std::nullopt;
  }
  return read;
}

}  // namespace

bool is_user_name(std::string_view name) {
  return !name.empty() && name.size() <= base::bounds::user_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

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
    if (!one.token_file.empty() &&
        std::find(files.begin(), files.end(), one.token_file) == files.end())
      files.push_back(one.token_file);
  return files;
}

MadeUsers make_users(const ConfiguredUsers& users, base::Diagnostics& diagnostics) {
  const ReadScope regular_files;  // they are read again with each reload
  MadeUsers made;
  base::Diagnostic place;
  const std::vector<std::string> files = files_of(users);
  std::vector<access::Digest> tokens;
  for (const std::string& file : files) {
    auto text = read_file(file, diagnostics);
    if (!text) return {};
    made.digests.push_back(base::digest(*text));
    const bool is_short = text->size() <= token_file_bytes_max;
    while (text->ends_with('\n') || text->ends_with('\r')) text->pop_back();
    if (!is_short || !access::is_token(*text)) {
      place.file = file;
      complain(place, "holds no token: 43 letters, digits, `-` and `_` in one line",
               "make one with `sluice token NAME`, and write it into the file, and nothing else",
               diagnostics);
      return {};
    }
    tokens.push_back(access::digest_of(*text));
  }
  std::vector<access::User> all;
  std::map<access::Digest, std::string> names;
  for (const ConfiguredUser& one : users.value) {
    access::User user = one.user;
    if (!one.token_file.empty()) {
      const auto at = std::find(files.begin(), files.end(), one.token_file);
      user.token_digest = tokens[static_cast<size_t>(at - files.begin())];
    }
    const auto [at, is_new] = names.emplace(user.token_digest, user.name);
    if (!is_new) {
      place = {};
      place.subject = "users";
      complain(place,
               "`" + at->second + "` and `" + user.name + "` have one token (" + users.origin + ")",
               "make one for each with `sluice token NAME`", diagnostics);
      return {};
    }
    all.push_back(std::move(user));
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
    lines.emplace_back("  - { name: " + in_quotes(one.user.name) + ", " +
                           (one.token_file.empty() ? "sha256: \"not shown\""
                                                   : "token_file: " + in_quotes(one.token_file)) +
                           ", rights: [" + rights + "] }",
                       users.origin);
  }
  return lines;
}

}  // namespace sluice::config
