// For tests and fuzz targets: a naive reader of RESP commands, which gets all bytes at once and
// copies; and a function that runs the real reader on the same bytes in pieces.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "wire/resp.h"

namespace sluice::wire::resp_model {

// What a connection's bytes are read as.
struct Transcript {
  std::vector<std::vector<std::string>> commands;
  std::string end;      // the error, or "http"; empty: the connection continues
  size_t consumed = 0;  // the bytes consumed, if `end` is empty
  friend bool operator==(const Transcript&, const Transcript&) = default;
};

inline std::optional<int64_t> number_of(const std::string& text) {
  std::string digits = text;
  if (digits.starts_with('-')) digits.erase(0, 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return {};
  if (digits[0] == '0' && text != "0") return {};
  errno = 0;
  const long long value = std::strtoll(text.c_str(), nullptr, 10);
  if (errno != 0) return {};
  return value;
}

// The words of an inline command; nothing if its quotes are not balanced.
inline std::optional<std::vector<std::string>> split(const std::string& line) {
  const std::string blanks = " \t\r\v\f";
  const auto is_blank = [&](size_t i) { return blanks.find(line[i]) != std::string::npos; };
  const std::string hex = "0123456789abcdef0123456789ABCDEF";
  std::vector<std::string> words;
  size_t i = 0;
  while (true) {
    while (i < line.size() && is_blank(i)) ++i;
    if (i == line.size()) return words;
    std::string word;
    char quote = 0;
    for (; quote != 0 || (i < line.size() && !is_blank(i)); ++i) {
      if (i == line.size()) return {};
      const std::string ahead = line.substr(i, 4);
      if (quote == 0) {
        if (line[i] == '"' || line[i] == '\'')
          quote = line[i];
        else
          word += line[i];
      } else if (line[i] == quote) {
        if (i + 1 < line.size() && !is_blank(i + 1)) return {};
        quote = 0;
      } else if (quote == '\'' && ahead.starts_with("\\'")) {
        word += '\'';
        ++i;
      } else if (quote == '"' && ahead.size() == 4 && ahead.starts_with("\\x") &&
                 hex.find(ahead[2]) != std::string::npos &&
                 hex.find(ahead[3]) != std::string::npos) {
        word += static_cast<char>(hex.find(ahead[2]) % 16 * 16 + hex.find(ahead[3]) % 16);
        i += 3;
      } else if (quote == '"' && ahead.size() > 1 && ahead[0] == '\\') {
        const std::string names = "nrtba", values = "\n\r\t\b\a";
        const size_t at = names.find(ahead[1]);
        word += at == std::string::npos ? ahead[1] : values[at];
        ++i;
      } else {
        word += line[i];
      }
    }
    words.push_back(word);
  }
}

inline Transcript expected(const std::string& text, const RespBounds& bounds) {
  Transcript all;
  const auto broken = [&](const std::string& why) {
    all.end = "ERR Protocol error: " + why;
    all.consumed = 0;
    return all;
  };
  constexpr size_t line_max = 65'536;
  size_t at = 0;  // the beginning of the command
  while (true) {
    all.consumed = at;
    if (at == text.size()) return all;
    std::vector<std::string> words;
    if (text[at] != '*') {
      const size_t lf = text.find('\n', at), longest = std::min(line_max, bounds.command_bytes);
      if (std::min(lf, text.size()) - at > longest) return broken("too big inline request");
      if (lf == std::string::npos) return all;
      std::string line = text.substr(at, lf - at);
      if (line.ends_with('\r')) line.pop_back();
      at = lf + 1;
      const auto found = split(line);
      // The reader reads words from the left and reports the first mistake.
      if (!found || found->size() > bounds.words ||
          std::any_of(found->begin(), found->end(),
                      [&](const std::string& w) { return w.size() > bounds.word_bytes; })) {
        // That mistake is in the shortest beginning of the line, before a blank, that is wrong.
        for (size_t n = 1; n <= line.size(); ++n) {
          if (n < line.size() && std::string(" \t\r\v\f").find(line[n]) == std::string::npos)
            continue;
          const auto part = split(line.substr(0, n));
          if (!part) continue;
          if (part->size() > bounds.words) return broken("invalid multibulk length");
          if (!part->empty() && part->back().size() > bounds.word_bytes)
            return broken("too big inline request");
        }
        return broken("unbalanced quotes in request");
      }
      if (found->empty()) continue;
      std::string first = found->front();
      for (char& c : first) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
      if (first == "post" || first == "host:") {
        all.end = "http";
        all.consumed = 0;
        return all;
      }
      all.commands.push_back(*found);
      continue;
    }

    size_t to = at;
    // Reads the line at `to`; nothing if its end has not arrived.
    bool too_long = false;
    const auto read_line = [&]() -> std::optional<std::string> {
      const size_t cr = text.find('\r', to);
      too_long = std::min(cr, text.size()) - to > line_max;
      if (too_long || cr == std::string::npos || cr + 1 == text.size()) return {};
      const std::string line = text.substr(to, cr - to);
      to = cr + 2;
      return line;
    };
    const auto header = read_line();
    if (too_long) return broken("too big mbulk count string");
    if (!header) return all;
    const auto count = number_of(header->substr(1));
    if (!count || *count > static_cast<int64_t>(bounds.words))
      return broken("invalid multibulk length");
    for (int64_t i = 0; i < *count; ++i) {
      if (to > text.size()) return all;
      const auto line = read_line();
      if (too_long) return broken("too big bulk count string");
      if (!line) return all;
      const std::string rest = line->empty() ? "" : line->substr(1);
      if (i > 0 && line->starts_with(':') && !rest.empty() &&
          rest.find_first_not_of("0123456789", rest.find_first_of("+-") == 0) == rest.npos &&
          rest.find_first_of("0123456789") != rest.npos) {
        words.push_back(rest);
        if (to - at > bounds.command_bytes) return broken("invalid bulk length");
        continue;
      }
      if (!line->starts_with('$')) {
        std::string shown = line->substr(0, 1);
        if (shown.empty() || shown == "\n") shown = " ";
        return broken("expected '$', got '" + shown + "'");
      }
      const auto bytes = number_of(rest);
      if (!bytes || *bytes < 0 || *bytes > static_cast<int64_t>(bounds.word_bytes))
        return broken("invalid bulk length");
      const size_t size = static_cast<size_t>(*bytes);
      if (to - at + size + 2 > bounds.command_bytes) return broken("invalid bulk length");
      if (to < text.size()) words.push_back(text.substr(to, size));
      to += size + 2;
    }
    if (to > text.size()) return all;
    at = to;
    if (*count > 0) all.commands.push_back(words);
  }
}

// What the real reader makes of `text` in pieces of these sizes, the last of which is repeated.
// Sets `failure` if the reader breaks its contract.
inline Transcript run(const std::string& text, std::span<const size_t> pieces,
                      const RespBounds& bounds, std::string& failure) {
  using Found = RespCommandReader::Found;
  Transcript all;
  RespCommandReader reader(bounds);
  base::Arena texts;
  size_t arrived = 0;
  for (size_t piece = 0; arrived < text.size();) {
    arrived = std::min(text.size(), arrived + pieces[std::min(piece, pieces.size() - 1)]);
    ++piece;
    while (true) {
      // The bytes are in other memory each time, so that old views are found.
      const std::vector<char> in(text.begin() + static_cast<ptrdiff_t>(all.consumed),
                                 text.begin() + static_cast<ptrdiff_t>(arrived));
      texts.clear();
      const auto result = reader.next({in.data(), in.size()}, texts);
      if (result.consumed > in.size()) failure = "consumed more than there is";
      if (result.found == Found::broken || result.found == Found::http) {
        if (result.consumed != in.size()) failure = "an end did not consume all";
        all.end = result.found == Found::http ? "http" : std::string(reader.error());
        all.consumed = 0;
        const auto again = reader.next("*1\r\n$4\r\nPING\r\n", texts);
        if (again.found != result.found || again.consumed != 14) failure = "an end did not stay";
        return all;
      }
      all.consumed += result.consumed;
      const size_t left = in.size() - result.consumed;
      if (result.found == Found::incomplete) {
        if (left > bounds.command_bytes + resp_line_bytes_max) failure = "left too much";
        break;
      }
      if (reader.words().empty()) failure = "a command without words";
      auto& command = all.commands.emplace_back();
      for (const std::string_view word : reader.words()) command.emplace_back(word);
    }
  }
  return all;
}

}  // namespace sluice::wire::resp_model
