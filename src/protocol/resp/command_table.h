// The table of commands, with the data for COMMAND, COMMAND INFO and COMMAND DOCS. Constant; any
// thread.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "access/users.h"
#include "limit/limit.h"
#include "wire/resp.h"

namespace sluice::resp {

inline constexpr std::string_view ok = "+OK\r\n";
// The most bytes of an unknown command, and of all its arguments, that an error quotes.
inline constexpr size_t shown_bytes_max = 128;

// Lists are words separated by blanks. An argument is NAME:TYPE, followed by `?` if it is optional.
struct CommandEntry {
  std::string_view name;  // lower case
  int arity;              // the number of words with the name; negative: at least so many
  std::string_view flags;
  int first_key, last_key, key_step;
  std::string_view categories;
  std::string_view group, since, summary, arguments;
  std::optional<access::Right> right = std::nullopt;    // the right that a user needs
  limit::Algorithm throttles = limit::Algorithm::deny;  // of a throttling command; deny: of others

  // Is it allowed before the client has authenticated?
  bool is_open() const { return flags.ends_with("no_auth"); }
};

std::span<const CommandEntry> command_entries();
// The entry with that name, ignoring case; null: there is no such command.
const CommandEntry* find_command(std::string_view name);

// The error for a command of Redis that is refused by name, which says what to do instead; empty:
// it is not one of these. There must be a first word.
std::string refusal_of(std::span<const std::string_view> words);

// Is `word` equal to `upper`, ignoring case?
bool is_word(std::string_view word, std::string_view upper);

// Append an entry of COMMAND; the pair of COMMAND DOCS, which begins with the name.
void append_info(const CommandEntry& entry, wire::RespWriter& out);
void append_docs(const CommandEntry& entry, wire::RespWriter& out);

}  // namespace sluice::resp
