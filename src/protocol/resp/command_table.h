// The commands that there are, as COMMAND, COMMAND INFO and COMMAND DOCS tell of them. Constant;
// any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "access/users.h"
#include "limit/limit.h"
#include "wire/resp.h"

namespace sluice::resp {

inline constexpr std::string_view ok = "+OK\r\n";
// Of what an error quotes: of an unknown command, and of all its arguments.
inline constexpr size_t shown_bytes_max = 128;

// Lists are words with a blank between. Arguments are NAME:TYPE, `?` behind for an optional one.
struct CommandEntry {
  std::string_view name;  // lower case
  int arity;              // words, the name included; below 0: that many at least
  std::string_view flags;
  int first_key, last_key, key_step;
  std::string_view categories;
  std::string_view group, since, summary, arguments;
  std::optional<access::Right> right = std::nullopt;    // that a user needs for it
  limit::Algorithm throttles = limit::Algorithm::deny;  // of the commands that do

  // May it be asked before the client has authenticated?
  bool is_open() const { return flags.ends_with("no_auth"); }
};

std::span<const CommandEntry> command_entries();
// `name` in whatever case; null: there is none.
const CommandEntry* find_command(std::string_view name);

// Does `word` spell `upper`, in whatever case?
bool is_word(std::string_view word, std::string_view upper);

// An entry of COMMAND; the pair of COMMAND DOCS, with its name in front.
void append_info(const CommandEntry& entry, wire::RespWriter& out);
void append_docs(const CommandEntry& entry, wire::RespWriter& out);

}  // namespace sluice::resp
