#include "cli/completion.h"

#include <algorithm>
#include <sstream>
#include <vector>

namespace sluice::cli {
namespace {

using Option = CommandDefinition::Option;

bool names_a_file(std::string_view text) {
  for (const std::string_view word : {"FILE", "DIR", "CONFIG", "PATH"})
    if (text.find(word) != text.npos) return true;
  return false;
}

// Does one of its words name a file? What follows an option in the usage is its value.
bool takes_files(const CommandDefinition& definition) {
  std::istringstream usage(definition.usage);
  bool is_value = false;
  for (std::string word; usage >> word;) {
    if (!is_value && names_a_file(word)) return true;
    is_value = word.starts_with('-') || word.starts_with("[-") || word.starts_with("(-");
  }
  return false;
}

// "-c" and "--config-file" of "-c,--config-file".
std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names;
  std::istringstream text(option.names);
  for (std::string name; std::getline(text, name, ',');) names.push_back(name);
  return names;
}

// "text json" of "text|json"; empty if the type lists no values.
std::string values_of(const Option& option) {
  if (option.type.find('|') == std::string::npos) return "";
  std::string values = option.type;
  for (char& c : values) {
    if (c >= 'A' && c <= 'Z') return "";
    if (c == '|') c = ' ';
  }
  return values;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// In single quotes, for any of these shells.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string command_names(std::span<const DefinedCommand> commands) {
  std::string names;
  for (const DefinedCommand& command : commands)
    if (!command.is_part()) names += (names.empty() ? "" : " ") + command.name;
  return names;
}

// Commands that have another one as their first word: `ask`.
std::vector<std::string> commands_with_parts(std::span<const DefinedCommand> commands) {
  std::vector<std::string> found;
  for (const DefinedCommand& command : commands) {
    const std::string first = command.name.substr(0, command.name.find(' '));
    if (command.is_part() && (found.empty() || found.back() != first)) found.push_back(first);
  }
  return found;
}

// 'COMMAND OPTION' of all options with a value that `has` accepts, `between` them.
template <class Has>
std::string option_list(std::span<const DefinedCommand> commands, std::string_view between,
                        Has&& has) {
  std::string list;
  for (const DefinedCommand& command : commands)
    for (const Option& option : command.definition.options)
      for (const std::string& name : names_of(option))
        if (!option.type.empty() && has(option)) {
          if (!list.empty()) list += between;
          list += shell_quoted(command.name + " " + name);
        }
  return list;
}

bool is_of_files(const Option& option) {
  return names_a_file(option.type);
}

// Lists of values, each once.
std::vector<std::string> value_lists(std::span<const DefinedCommand> commands) {
  std::vector<std::string> lists;
  for (const DefinedCommand& command : commands)
    for (const Option& option : command.definition.options)
      if (const std::string values = values_of(option); !values.empty()) lists.push_back(values);
  std::sort(lists.begin(), lists.end());
  lists.erase(std::unique(lists.begin(), lists.end()), lists.end());
  return lists;
}

// A branch of a bash `case`; none for an empty list.
std::string branch(const std::string& patterns, const std::string& does) {
  return patterns.empty() ? "" : "    " + patterns + ") " + does + " ;;\n";
}

std::string bash_values(std::span<const DefinedCommand> commands) {
  std::string text =
      "# What the option $2 of the command $1 takes: REPLY is `file`, its values, `any`, or "
      "empty.\n"
      "_sluice_value() {\n"
      "  case \"$1 $2\" in\n";
  text += branch(option_list(commands, " | ", is_of_files), "REPLY=file");
  for (const std::string& values : value_lists(commands))
    text += branch(option_list(commands, " | ",
                               [&](const Option& option) { return values_of(option) == values; }),
                   "REPLY='" + values + "'");
  text += branch(option_list(commands, " | ",
                             [](const Option& option) {
                               return !is_of_files(option) && values_of(option).empty();
                             }),
                 "REPLY=any");
  return text + "    *) REPLY='' ;;\n  esac\n}\n";
}

// readline cuts the line at = and : too (COMP_WORDBREAKS), and replaces the last of these parts
// alone: so the words are put together again, and what stands before that part is taken off the
// words that are offered.
constexpr const char* bash_begin = R"(_sluice() {
  local REPLY i word cut='' command='' option='' only_words='' count=0
  local -a line=()
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((${#line[@]} > 0)) && [[ -n $cut || $word =~ ^[=:]+$ ]]; then
      line[${#line[@]} - 1]+=$word
    else
      line+=("$word")
    fi
    [[ $word =~ ^[=:]+$ ]] && cut=1 || cut=''
  done
  local cur=${line[${#line[@]} - 1]} part=${COMP_WORDS[COMP_CWORD]} before=''
  [[ -n $cut ]] && part=''
  for word in "${line[@]:0:${#line[@]}-1}"; do
    if [[ -n $option ]]; then
      option=''
    elif [[ -z $only_words && $word == -* ]]; then
      _sluice_value "$command" "$word"
      [[ -n $REPLY ]] && option=$word
      [[ $word == -- ]] && only_words=1
    elif [[ -z $command ]]; then
      command=$word
)";

constexpr const char* bash_end = R"(  if [[ -z $option && -z $only_words && $cur == --*=* ]]; then
    option=${cur%%=*}
    [[ $part == "$option"=* ]] && before=$option= part=${part#*=}
    cur=${cur#*=}
  fi
  COMPREPLY=()
  if [[ -n $option ]]; then
    _sluice_value "$command" "$option"
    words=$REPLY options='' files=''
    [[ $REPLY == any ]] && words=''
    [[ $REPLY == file ]] && words='' files=1
  elif [[ -z $only_words && $cur == -* ]]; then
    words=$options files=''
  elif ((count > 0)); then
    words=''
  elif [[ -n $words ]]; then
    files=''
  fi
  if [[ -n $files && -n $before ]]; then
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    COMPREPLY=("${COMPREPLY[@]/#/$before}")
    compopt -o filenames 2>/dev/null
  elif [[ -n $files ]]; then
    # readline knows better how names of files are quoted.
    compopt -o default -o filenames 2>/dev/null
  elif [[ -n $words ]]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    cur=${cur%"$part"}
    COMPREPLY=("${COMPREPLY[@]/#"$cur"/$before}")
  fi
}
complete -F _sluice sluice
)";

std::string for_bash(std::span<const DefinedCommand> commands) {
  const std::string names = command_names(commands);
  std::string text = "# bash completion of sluice; made by `sluice completion bash`\n" +
                     bash_values(commands) + bash_begin;
  for (const std::string& command : commands_with_parts(commands))
    text += "    elif [[ $command == " + command + " ]]; then\n      command=\"" + command +
            " $word\"\n";
  text +=
      "    else\n"
      "      ((count++))\n"
      "    fi\n"
      "  done\n"
      "  local words='' options='' files=''\n"
      "  case $command in\n"
      "    '') words='" +
      names +
      " help' options='--help --version' ;;\n"
      "    help) words='" +
      names + "' ;;\n";
  for (const DefinedCommand& command : commands) {
    const CommandDefinition& its = command.definition;
    text += "    '" + command.name + "') words='" + joined(its.words) + "' options='" +
            joined(its.long_names()) + "' files=" + (takes_files(its) ? "1" : "") + " ;;\n";
  }
  return text + "  esac\n" + bash_end;
}

// What stands in the brackets and between the colons of _arguments.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// As an argument of _arguments.
std::string zsh_option(const Option& option, const std::string& name) {
  std::string value;
  if (!option.type.empty()) {
    const std::string values = values_of(option);
    value = ":" + zsh_escaped(option.type) +
            (!values.empty()       ? ":(" + values + ")"
             : is_of_files(option) ? ":_files"
                                   : ": ");
  }
  const bool takes_equals = !value.empty() && name.starts_with("--");
  return shell_quoted("*" + name + (takes_equals ? "=" : "") + "[" + zsh_escaped(option.help) +
                      "]" + value);
}

std::string zsh_case(const DefinedCommand& command, bool has_parts) {
  const CommandDefinition& its = command.definition;
  const std::string next = " \\\n        ";
  std::string text = "    (" + shell_quoted(command.name) + ")\n      _arguments -s -S";
  if (has_parts) text += " -C -A '-*'";
  for (const Option& option : its.options)
    for (const std::string& name : names_of(option)) text += next + zsh_option(option, name);
  if (!its.words.empty()) text += next + shell_quoted("1: :(" + joined(its.words) + ")");
  if (has_parts)
    text += next + "'*:: :->part' && ret=0\n      [[ $state == part ]] && _sluice_words \"" +
            command.name + " $words[1]\" && ret=0";
  else
    text += next + (takes_files(its) ? "'*:file:_files'" : "'*: :()'") + " && ret=0";
  return text + " ;;\n";
}

std::string for_zsh(std::span<const DefinedCommand> commands) {
  const std::vector<std::string> with_parts = commands_with_parts(commands);
  std::string list, cases;
  for (const DefinedCommand& command : commands) {
    if (!command.is_part())
      list += "    " + shell_quoted(command.name + ":" + one_line(command.summary)) + "\n";
    cases += zsh_case(
        command, std::find(with_parts.begin(), with_parts.end(), command.name) != with_parts.end());
  }
  return "#compdef sluice\n"
         "# zsh completion of sluice; made by `sluice completion zsh`\n"
         "_sluice_commands() {\n"
         "  local -a commands=(\n" +
         list +
         "  )\n"
         "  _describe command commands \"$@\"\n"
         "}\n"
         "# The words of the command $1, which is words[1] or ends with it.\n"
         "_sluice_words() {\n"
         "  local curcontext=$curcontext state line ret=1\n"
         "  typeset -A opt_args\n"
         "  case $1 in\n"
         "    (help) (( CURRENT == 2 )) && _sluice_commands && ret=0 ;;\n" +
         cases +
         "  esac\n"
         "  return ret\n"
         "}\n"
         "_sluice() {\n"
         "  local curcontext=$curcontext state line ret=1\n"
         "  local -a help=('help:describe a command')\n"
         "  typeset -A opt_args\n"
         "  _arguments -C -A '-*' '(- *)--help[Print this help message and exit]' \\\n"
         "    '(- *)--version[Print the version and exit]' \\\n"
         "    '1: :->command' '*:: :->words' && ret=0\n"
         "  case $state in\n"
         "    (command) _sluice_commands -- help && ret=0 ;;\n"
         "    (words) _sluice_words \"$words[1]\" && ret=0 ;;\n"
         "  esac\n"
         "  return ret\n"
         "}\n"
         "# Of a file in fpath this is the function's body; where it is sourced it registers it.\n"
         "if [[ $funcstack[1] == _sluice ]]; then\n"
         "  _sluice \"$@\"\n"
         "else\n"
         "  compdef _sluice sluice\n"
         "fi\n";
}

// `said` is the command, with its part, then the words behind it.
std::string fish_words(std::span<const DefinedCommand> commands) {
  std::string text =
      "# fish completion of sluice; made by `sluice completion fish`\n"
      "function __sluice_takes_value\n"
      "  switch \"$argv\"\n"
      "    case " +
      option_list(commands, " ", [](const Option&) { return true; }) +
      "\n"
      "      return 0\n"
      "  end\n"
      "  return 1\n"
      "end\n"
      "# Is the command $argv[1], with as many words behind it as $argv[2] says, if it does?\n"
      "function __sluice_at\n"
      "  set -l command ''\n"
      "  set -l count 0\n"
      "  set -l option ''\n"
      "  set -l only_words ''\n"
      "  for word in (commandline -opc)[2..-1]\n"
      "    if test -n \"$option\"\n"
      "      set option ''\n"
      "    else if test -z \"$only_words\"; and string match -q -- '-*' \"$word\"\n"
      "      __sluice_takes_value \"$command\" \"$word\"; and set option 1\n"
      "      test \"$word\" = --; and set only_words 1\n"
      "    else if test -z \"$command\"\n"
      "      set command \"$word\"\n";
  for (const std::string& command : commands_with_parts(commands))
    text += "    else if test \"$command\" = " + command + "\n      set command \"" + command +
            " $word\"\n";
  return text +
         "    else\n"
         "      set count (math $count + 1)\n"
         "    end\n"
         "  end\n"
         "  test \"$command\" = \"$argv[1]\"; or return 1\n"
         "  set -q argv[2]; or return 0\n"
         "  test $count = $argv[2]\n"
         "end\n";
}

std::string fish_option(const Option& option) {
  std::string text;
  for (const std::string& name : names_of(option))
    text += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  const std::string values = values_of(option);
  text += option.type.empty()   ? ""
          : !values.empty()     ? " -x -a '" + values + "'"
          : is_of_files(option) ? " -r -F"
                                : " -x";
  return text + " -d " + shell_quoted(one_line(option.help)) + "\n";
}

std::string for_fish(std::span<const DefinedCommand> commands) {
  const std::string complete = "complete -c sluice -n ";
  std::string text = fish_words(commands) + "complete -c sluice -f\n" + complete +
                     "'__sluice_at \"\"' -l help -d 'Print this help message and exit'\n" +
                     complete + "'__sluice_at \"\"' -l version -d 'Print the version and exit'\n" +
                     complete + "'__sluice_at \"\"' -a help -d 'describe a command'\n";
  for (const DefinedCommand& command : commands) {
    const CommandDefinition& its = command.definition;
    if (!command.is_part())
      for (const char* const place : {"'__sluice_at \"\"'", "'__sluice_at help 0'"})
        text += complete + place + " -a " + command.name + " -d " + shell_quoted(command.summary) +
                "\n";
    const std::string here = "'__sluice_at \"" + command.name + "\"";
    if (!its.words.empty()) text += complete + here + " 0' -a '" + joined(its.words) + "'\n";
    if (takes_files(its))
      text +=
          complete +
          (its.words.empty() ? here : here + "; and not __sluice_at \"" + command.name + "\" 0") +
          "' -F\n";
    for (const Option& option : its.options) text += complete + here + "'" + fish_option(option);
  }
  return text;
}

}  // namespace

std::optional<std::string> completion(std::string_view shell,
                                      std::span<const DefinedCommand> commands) {
  if (shell == "bash") return for_bash(commands);
  if (shell == "zsh") return for_zsh(commands);
  if (shell == "fish") return for_fish(commands);
  return std::nullopt;
}

}  // namespace sluice::cli
