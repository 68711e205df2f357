#include "config/users.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/bounds.h"
#include "base/hash.h"
#include "config/config.h"
#include "config/read_file.h"
#include "config/settings.h"
#include "config/table.h"
#include "policy/rule_set.h"
#include "protocol/protocol.h"

namespace sluice::config {
namespace {

using access::Right;
using policy::YamlNode;

constexpr const char* example =
    "write `users: [{ name: app, token_file: app.token, rights: [take, look] }]`";
// A token and its line end, and what editors add to it.
constexpr size_t token_file_bytes_max = 256;

struct RightsKind {
  static constexpr bool is_list = true;

  bool read(const Written& written, access::Rights& rights) const {
    bool sound = true;
    for (const Written& item : items_of(written, "write `rights: [take, look]`", sound)) {
      const auto at = std::find(access::right_names.begin(), access::right_names.end(), item.text);
      if (at != access::right_names.end())
        rights.add(static_cast<Right>(at - access::right_names.begin()));
      else
        sound = item.wrong_text("is not a right; there are take, put (and reset), look and admin",
                                "write some of these");
    }
    return sound;
  }
  std::string text(const access::Rights& rights) const {
    std::vector<std::string> names;
    for (size_t i = 0; i < access::right_names.size(); ++i)
      if (rights.has(static_cast<Right>(i))) names.emplace_back(access::right_names[i]);
    return list_text(names);
  }
  std::string values() const { return "a list: `take`, `put`, `look`, `admin`"; }
};

// The patterns of one right, of a sluice.yaml alone.
struct ReachKind {
  static constexpr bool is_list = true;
  base::Diagnostic* place = nullptr;

  bool read(const Written& written, access::Reach& reach) const {
    bool sound = true;
    std::vector<std::string> patterns;
    for (const Written& item : items_of(written, "write `take: [\"RULE:*\"]`", sound)) {
      if (item.text.size() > access::reach_pattern_bytes_max)
        sound = item.wrong("has a pattern of more than " +
                               std::to_string(access::reach_pattern_bytes_max) + " bytes",
                           "write the beginning of it, and `*`");
      else if (!access::is_reach_pattern(item.text))
        sound = item.wrong_text("is not a pattern: it is empty, or has a `*` before its end",
                                "write a rule's name, `RULE:ACTOR`, or the beginning of one of "
                                "these and `*`");
      else if (patterns.size() == access::reach_patterns_max)
        return item.wrong(
            "has more than " + std::to_string(access::reach_patterns_max) + " patterns",
            "take shorter ones that end with `*`, or give clients users of their "
            "own");
      else
        patterns.push_back(item.text);
    }
    *place = written.place;
    reach = access::Reach(std::move(patterns));
    return sound;
  }
  std::string text(const access::Reach& reach) const {
    std::vector<std::string> quoted;
    for (const std::string& pattern : reach.patterns()) quoted.push_back(Text{}.text(pattern));
    return quoted.empty() ? "" : list_text(quoted);
  }
  std::string values() const { return "a list of patterns"; }
};

// By the numbers of rights. `admin` is refused by name.
constexpr std::array<std::string_view, access::right_names.size()> reach_help = {
    "the counters that `take` reaches, as RULE, RULE:ACTOR or the beginning of one and `*`",
    "those that `put` reaches", "those that `look` reaches",
    "cannot be limited: who has it can change every rule"};

Table reach_table(ConfiguredUser& user) {
  Table table;
  for (const Right right : {Right::take, Right::put, Right::look}) {
    const auto at = static_cast<size_t>(right);
    table.push_back(setting(access::right_names[at], user.user.reach[at],
                            ReachKind{&user.places[at]}, {.help = reach_help[at]}));
  }
  const auto admin = static_cast<size_t>(Right::admin);
  table.push_back({.key = access::right_names[admin],
                   .about = {.shown = Shown::never},
                   .is_single = false,
                   .read = [](const Written& written) {
                     return written.wrong(std::string(reach_help[admin]),
                                          "take it out of `only`, and give the right to those "
                                          "alone who may do everything");
                   }});
  return table;
}

// A limited right must be one that the user has.
bool check_limited(const ConfiguredUser& user, const Written& written) {
  for (size_t i = 0; i < access::right_names.size(); ++i)
    if (user.user.reach[i].is_limited() && !user.user.rights.has(static_cast<Right>(i)))
      return written.wrong("limits the right `" + std::string(access::right_names[i]) +
                               "`, which `" + user.user.name + "` does not have",
                           "add it to `rights`, or take it out of `only`");
  return true;
}

struct UserName : Text {
  static bool read(const Written& written, std::string& to) {
    to = written.text;
    return is_user_name(to) || written.wrong("is not a name of a user: up to " +
                                                 std::to_string(base::bounds::user_name_bytes_max) +
                                                 " printable ASCII characters without blanks",
                                             "choose another");
  }
};

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

std::optional<ConfiguredUser> read_user(const Written& written) {
  ConfiguredUser read;
  if (refuses_password(*written.reader, written.node)) return std::nullopt;
  const size_t problems = written.diagnostics.size();
  const GivenKeys given = read_table(written, user_table(read));
  if (written.diagnostics.size() > problems) return std::nullopt;
  const int proofs = (given.contains("sha256") ? 1 : 0) + (read.token_file.empty() ? 0 : 1) +
                     (read.user.certificate.empty() ? 0 : 1);
  const char* const missing = read.user.name.empty() ? "has no name"
                              : proofs != 1
                                  ? "has to have one of sha256, token_file and certificate"
                              : !given.contains("rights") ? "has no rights"
                                                          : nullptr;
  if (missing == nullptr) {
    if (!check_limited(read, written)) return std::nullopt;
    return read;
  }
  written.wrong(missing, example);
  return std::nullopt;
}

}  // namespace

bool is_user_name(std::string_view name) {
  return !name.empty() && name.size() <= base::bounds::user_name_bytes_max &&
         std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f; });
}

Table user_table(ConfiguredUser& user) {
  Entry digest = own_setting(
      "sha256",
      [&user](const Written& written) {
        const auto bytes = read_digest(written.text);
        if (!bytes)
          return written.wrong("is not the SHA-256 of a token, in 64 hexadecimal digits",
                               "make a token and its line with `sluice token NAME`");
        user.user.token_digest = *bytes;
        return true;
      },
      {.help = "of the token, as `sluice token NAME` prints it", .required = true},
      [&user] {
        return user.token_file.empty() && user.user.certificate.empty() ? "\"not shown\"" : "";
      });
  digest.values = "64 hexadecimal digits";
  return {
      setting("name", user.user.name, UserName{}, {.help = "who it is, in logs and shares"}),
      std::move(digest),
      setting("token_file", user.token_file, Path{}, {.help = "or a file that holds the token"}),
      setting("certificate", user.user.certificate, Text{},
              {.help = "or the name in the [certificates](security.md#tls) of its clients",
               .shown = user.user.certificate.empty() ? Shown::never : Shown::always}),
      setting("rights", user.user.rights, RightsKind{}, {.help = "what it may do"}),
      section("only", user, reach_table,
              {.help = "which [counters](security.md#limited-rights) a right is limited to"})};
}

bool read_users(const Written& written, ConfiguredUsers& users) {
  users.origin = written.origin;
  users.value.clear();
  if (!written.reader->sequence(written.key, written.node, example)) return false;
  for (YamlNode entry = written.node.first_child(); entry; entry = entry.next()) {
    const Written its = written.reader->written("users", entry);
    auto user = read_user(its);
    if (!user) continue;
    const bool twice = std::any_of(users.value.begin(), users.value.end(), [&](const auto& one) {
      return one.user.name == user->user.name;
    });
    if (twice)
      its.wrong("names `" + user->user.name + "`, as an entry above does", "take one of them out");
    else if (users.value.size() == base::bounds::users_max)
      return its.wrong("is one more than the " + std::to_string(base::bounds::users_max) +
                           " users that a server has at most",
                       "let services share a user");
    else
      users.value.push_back(std::move(*user));
  }
  return true;
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
  std::map<access::Digest, std::string> names, certificates;
  for (const ConfiguredUser& one : users.value) {
    access::User user = one.user;
    if (!one.token_file.empty()) {
      const auto at = std::find(files.begin(), files.end(), one.token_file);
      user.token_digest = tokens[static_cast<size_t>(at - files.begin())];
    }
    const bool has_token = user.certificate.empty();
    const auto [at, is_new] =
        has_token ? names.emplace(user.token_digest, user.name)
                  : certificates.emplace(access::digest_of(user.certificate), user.name);
    if (!is_new) {
      place = {};
      place.subject = "users";
      complain(place,
               "`" + at->second + "` and `" + user.name + "` have one " +
                   (has_token ? "token" : "certificate") + " (" + users.origin + ")",
               has_token ? "make one for each with `sluice token NAME`" : "take one of them out",
               diagnostics);
      return {};
    }
    all.push_back(std::move(user));
  }
  made.users = std::make_shared<const access::Users>(std::move(all));
  return made;
}

bool check_reach(const Config& config, const policy::RuleSet& rules,
                 base::Diagnostics& diagnostics) {
  const auto& users = config.users.value;
  const auto is_limited = [](const ConfiguredUser& one) {
    return std::ranges::any_of(one.user.reach, &access::Reach::is_limited);
  };
  if (std::ranges::none_of(users, is_limited)) return true;
  std::vector<std::pair<std::string, bool>> names;  // and do they count by an actor?
  std::string some;
  for (const policy::RuleSet::DialectRules& list : rules.lists()) {
    const auto numbers = protocol::numbers();
    const bool is_open =
        &list.dialect() == &policy::native_dialect ||
        std::ranges::any_of(numbers, [&](protocol::Protocol number) {
          return describe(number).authenticates && protocol::dialect_of(number) == &list.dialect();
        });
    if (!is_open) continue;
    for (const policy::Rule& rule : list.rules())
      if (!rule.built_in || rule.limits_from != policy::LimitsFrom::rule)
        names.emplace_back(policy::name_or_pattern(rule), !rule.actor.empty());
  }
  constexpr size_t named_max = 5;
  for (size_t i = 0; i < std::min(names.size(), named_max); ++i)
    some += (i == 0 ? "`" : ", `") + names[i].first + "`";
  if (names.size() > named_max) some += " ...";
  const bool more_to_come = std::ranges::any_of(config.policy, [](const Policy& policy) {
    return std::as_const(*policy.files).sent() != nullptr;
  });
  bool sound = true;
  for (const ConfiguredUser& one : users) {
    for (size_t i = 0; i < access::right_names.size(); ++i) {
      for (const std::string& pattern : one.user.reach[i].patterns()) {
        if (std::ranges::any_of(names, [&](const auto& rule) {
              return access::can_fit(pattern, rule.first, rule.second);
            }))
          continue;
        base::Diagnostic place = one.places[i];
        if (more_to_come) place.severity = base::Diagnostic::Severity::warning;
        sound = sound && more_to_come;
        complain(place,
                 "`" + pattern + "` of user `" + one.user.name + "` fits no counter of any rule",
                 names.empty() ? "write a rule first"
                               : "write the name of a rule, or RULE:ACTOR; there are " + some,
                 diagnostics);
      }
    }
  }
  return sound;
}

std::string print_users(ConfiguredUsers& users) {
  if (users.value.empty()) return {};
  std::string text = line_with_origin("users:", users.origin);
  for (ConfiguredUser& one : users.value)
    text += line_with_origin("  - " + text_of(user_table(one), {}), users.origin);
  return text;
}

}  // namespace sluice::config
