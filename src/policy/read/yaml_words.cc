#include "policy/read/yaml_words.h"

#include "policy/text.h"

namespace sluice::policy {
namespace {

struct Known {
  std::string_view problem;  // the beginning of libyaml's text
  YamlPlace place;
  std::string_view message, remedy;
};

constexpr Known known[] = {
    {"could not find expected ':'", YamlPlace::begun, "this line must be a key and has no `: `",
     "write `key: value`, with a space behind the colon"},
    {"did not find expected ',' or ']'", YamlPlace::met, "`,` or `]` is expected here",
     "separate the items of a list by commas and close it"},
    {"did not find expected ',' or '}'", YamlPlace::met, "`,` or `}` is expected here",
     "separate the entries of a map by commas and close it"},
    {"did not find expected key", YamlPlace::met, "a key is expected here",
     "indent it like the keys above, and close what is open there"},
    {"did not find expected '-' indicator", YamlPlace::met, "an item of a list is expected here",
     "indent it like the items above, with its `- `"},
    {"did not find expected node content", YamlPlace::met, "a value is expected here",
     "quote it if this is meant to be one"},
    {"did not find expected <document start>", YamlPlace::met, "the document ends above",
     "take out what follows, or indent it so that it belongs there"},
    {"block sequence entries are not allowed", YamlPlace::met, "no list can begin here",
     "begin it on a line of its own"},
    {"mapping keys are not allowed", YamlPlace::met, "no key can stand here",
     "put it on a line of its own"},
    {"mapping values are not allowed", YamlPlace::met, "a `: ` cannot stand here",
     "quote the value if it belongs to it; else indent this line like the others"},
    {"found a tab character", YamlPlace::met, "a tab cannot indent", "use spaces"},
    {"found unexpected end of stream", YamlPlace::begun, "the quotes that open here never close",
     "close them, and write those inside as `\\\"` or, in single quotes, `''`"},
    {"found unexpected document indicator", YamlPlace::begun,
     "the quotes that open here are not closed before the document ends", "close them"},
    {"found unknown escape character", YamlPlace::met, "there is no such escape",
     "write `\\\\` for a backslash, or use single quotes, which have no escapes"},
    {"did not find expected hexdecimal number", YamlPlace::met, "hexadecimal digits are missing",
     "write two behind `\\x`, four behind `\\u`, eight behind `\\U`"},
    {"found invalid Unicode character escape code", YamlPlace::met,
     "this escape is not a character of Unicode", "write one up to `\\U0010FFFF`"},
    {"did not find expected alphabetic or numeric character", YamlPlace::begun,
     "`*` and `&` begin the name of an alias or anchor, and none follows",
     "quote the value if that is part of it, as in `\"*\"`"},
    {"found undefined tag handle", YamlPlace::begun, "no %TAG line declares the prefix of this tag",
     "take it out"},
    {"found an indentation indicator equal to 0", YamlPlace::met,
     "a block cannot be indented by 0 spaces", "write 1 to 9, or take the digit out"},
    {"did not find expected comment or line break", YamlPlace::met,
     "nothing can follow here on the same line", "begin the text on the next line"},
    {"found incompatible YAML document", YamlPlace::met, "this version of YAML is not supported",
     "take the %YAML line out"},
    {"duplicate %", YamlPlace::met, "repeats a directive of a line above", "keep one of them"},
    {"found duplicate %", YamlPlace::met, "repeats a directive of a line above",
     "keep one of them"},
};

// For a character with which no token begins.
YamlWords no_token(std::string_view rest) {
  if (rest.starts_with('\t')) return {YamlPlace::met, "a tab cannot stand here", "use spaces"};
  const std::string begin = rest.empty() ? "" : std::string(rest.substr(0, decode(rest, 0).size));
  return {YamlPlace::met, "no value can begin with `" + begin + "`", "quote it"};
}

}  // namespace

YamlWords yaml_words(std::string_view problem, std::string_view context, std::string_view rest,
                     bool open) {
  const bool at_end = rest.find_first_not_of(" \t\r\n") == std::string_view::npos;
  if (problem.starts_with("found character that cannot start any token")) return no_token(rest);
  if (at_end && open && problem.starts_with("did not find expected"))
    return {YamlPlace::begun, "what opens here is never closed", "close it"};
  for (const Known& one : known)
    if (problem.starts_with(one.problem))
      return {one.place, std::string(one.message), std::string(one.remedy)};
  if (context.find("tag") != std::string_view::npos)
    return {YamlPlace::begun, "this is not a tag", "take it out, or quote the value"};
  if (context.find("directive") != std::string_view::npos)
    return {YamlPlace::begun, "a line that begins with `%` is not a directive that is known here",
            "take it out"};
  return {YamlPlace::met, "this cannot be read",
          "check the indentation, quotes and brackets of this line and of the one above"};
}

}  // namespace sluice::policy
