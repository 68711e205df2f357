#include "cli/manual.h"

#include <algorithm>
#include <sstream>

#include "config/built_in.h"

namespace sluice::cli {
namespace {

// Escapes a text for roff, so that nothing in it is a request or an escape.
std::string roff(std::string_view text) {
  std::string out;
  bool begins = true;
  for (const char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

std::string upper(std::string_view text) {
  std::string out;
  for (const char c : text) out += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return out;
}

std::string head(const std::string& name, std::string_view summary) {
  return ".TH " + upper(name) + " 1 \"\" \"sluice " + std::string(config::version) +
         "\" \"sluice\"\n.SH NAME\n" + roff(name) + " \\- " + roff(summary) + "\n";
}

std::string option_names(const CommandDefinition::Option& option) {
  std::string names;
  for (const char c : option.names) names += c == ',' ? ", " : std::string(1, c);
  return names + (option.type.empty() ? "" : " " + option.type);
}

// Makes sections of the footer: "Environment:", "Exit status:" and similar words begin one. The
// other lines keep their layout.
std::string sections(const std::string& footer) {
  std::string out;
  bool open = false;
  const auto lay_out = [&](bool wanted) {
    if (open != wanted) out += wanted ? ".nf\n" : ".fi\n";
    open = wanted;
  };
  std::istringstream lines(footer);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = false) {
    const size_t colon = line.find(':');
    const bool is_title = colon != line.npos && colon + 1 == line.size() && colon < 30 &&
                          line.front() >= 'A' && line.front() <= 'Z';
    if (is_title) {
      lay_out(false);
      out += ".SH \"" + upper(roff(line.substr(0, colon))) + "\"\n";
      continue;
    }
    if (first) out += ".SH NOTES\n";
    lay_out(true);
    out += roff(line) + "\n";
  }
  lay_out(false);
  return out;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

bool wants_files(std::string_view type) {
  return type == "FILE" || type == "DIR" || type == "CONFIG";
}

// Is one of the command's words a file?
bool takes_files(const DefinedCommand& command) {
  const std::string& usage = command.definition.usage;
  return usage.find("FILE") != usage.npos || usage.find("DIR") != usage.npos ||
         usage.find("CONFIG") != usage.npos;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// The text in single quotes, for all of these shells.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

std::string for_bash(std::span<const DefinedCommand> commands) {
  std::string cases, values, files, names;
  for (const DefinedCommand& command : commands) {
    const auto& its = command.definition;
    if (!command.is_part()) names += (names.empty() ? "" : " ") + command.name;
    cases += "    '" + command.name + "') words='" + joined(its.words) + "' options='" +
             joined(its.long_names()) + "' files=" + (takes_files(command) ? "1" : "") + " ;;\n";
    for (const auto& option : its.options) {
      if (option.type.empty()) continue;
      CommandDefinition only;
      only.options = {option};
      for (const std::string& name : only.long_names())
        (wants_files(option.type) ? files : values) += " | '" + command.name + " " + name + "'";
    }
  }
  const auto pattern = [](const std::string& list) {
    return list.empty() ? std::string("'')") : list.substr(3) + ")";
  };
  return "# bash completion of sluice; made by `sluice completion bash`\n"
         "_sluice() {\n"
         "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
         "  local command='' sub='' words='' options='' files='' i\n"
         "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
         "    case ${COMP_WORDS[i]} in\n"
         "      -*) ;;\n"
         "      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}\n"
         "         elif [[ -z $sub ]]; then sub=${COMP_WORDS[i]}; fi ;;\n"
         "    esac\n"
         "  done\n"
         "  COMPREPLY=()\n"
         "  if [[ -z $command ]]; then\n"
         "    COMPREPLY=($(compgen -W '" +
         names +
         " help --help --version' -- \"$cur\"))\n"
         "    return\n"
         "  fi\n"
         "  [[ $command == help ]] && { COMPREPLY=($(compgen -W '" +
         names +
         "' -- \"$cur\")); return; }\n"
         "  [[ $command == ask && -n $sub ]] && command=\"ask $sub\"\n"
         "  case \"$command $prev\" in\n"
         "    " +
         pattern(files) +
         " COMPREPLY=($(compgen -f -- \"$cur\")); return ;;\n"
         "    " +
         pattern(values) +
         " return ;;\n"
         "  esac\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  if [[ $cur == -* ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
         "  elif [[ -n $words && -z $sub ]]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
         "  elif [[ -n $files ]]; then\n"
         "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
         "  fi\n"
         "}\n"
         "complete -o filenames -F _sluice sluice\n";
}

// Escapes a text for the brackets and the colons of zsh's _arguments.
std::string zsh_escaped(const std::string& text) {
  std::string out;
  for (const char c : one_line(text)) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string for_zsh(std::span<const DefinedCommand> commands) {
  std::string list, cases;
  for (const DefinedCommand& command : commands) {
    if (!command.is_part())
      list += "    " + shell_quoted(command.name + ":" + zsh_escaped(command.summary)) + "\n";
    cases += "    (" + shell_quoted(command.name) + ")\n      _arguments -s";
    for (const auto& option : command.definition.options) {
      CommandDefinition only;
      only.options = {option};
      for (const std::string& name : only.long_names()) {
        const std::string value =
            option.type.empty()
                ? ""
                : ":" + zsh_escaped(option.type) + (wants_files(option.type) ? ":_files" : ": ");
        cases += " \\\n        " +
                 shell_quoted("*" + name + "[" + zsh_escaped(option.help) + "]" + value);
      }
    }
    const std::string words = joined(command.definition.words);
    if (!words.empty()) cases += " \\\n        " + shell_quoted("1: :(" + words + ")");
    if (words.empty() || takes_files(command))
      cases +=
          std::string(" \\\n        ") + (takes_files(command) ? "'*:file:_files'" : "'*: : '");
    cases += " ;;\n";
  }
  return "#compdef sluice\n"
         "# zsh completion of sluice; made by `sluice completion zsh`\n"
         "_sluice() {\n"
         "  local command\n"
         "  local -a commands=(\n" +
         list +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe command commands\n"
         "    return\n"
         "  fi\n"
         "  command=$words[2]\n"
         "  shift words; (( CURRENT-- ))\n"
         "  if [[ $command == ask && CURRENT -gt 2 ]]; then\n"
         "    command=\"ask $words[2]\"\n"
         "    shift words; (( CURRENT-- ))\n"
         "  fi\n"
         "  case $command in\n"
         "    (help) _describe command commands ;;\n" +
         cases +
         "  esac\n"
         "}\n"
         "_sluice \"$@\"\n";
}

std::string for_fish(std::span<const DefinedCommand> commands) {
  std::string out =
      "# fish completion of sluice; made by `sluice completion fish`\n"
      "function __sluice_is\n"
      "  set -l words (commandline -opc)\n"
      "  set -l said\n"
      "  for word in $words[2..-1]\n"
      "    string match -q -- '-*' $word; or set -a said $word\n"
      "  end\n"
      "  test (count $said) -ge (count $argv); or return 1\n"
      "  for i in (seq (count $argv))\n"
      "    test $said[$i] = $argv[$i]; or return 1\n"
      "  end\n"
      "end\n"
      "complete -c sluice -f\n";
  for (const DefinedCommand& command : commands) {
    const auto& its = command.definition;
    if (!command.is_part())
      for (const char* const place : {"__fish_use_subcommand", "'__sluice_is help'"})
        out += std::string("complete -c sluice -n ") + place + " -a " + command.name + " -d " +
               shell_quoted(command.summary) + "\n";
    const std::string where = "complete -c sluice -n '__sluice_is " + command.name + "'";
    if (!its.words.empty()) out += where + " -a '" + joined(its.words) + "'\n";
    if (takes_files(command)) out += where + " -F\n";
    for (const auto& option : its.options) {
      CommandDefinition only;
      only.options = {option};
      for (const std::string& name : only.long_names())
        out += where + " -l " + name.substr(2) +
               (option.type.empty()        ? ""
                : wants_files(option.type) ? " -r -F"
                                           : " -x") +
               " -d " + shell_quoted(one_line(option.help)) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string page_name(const DefinedCommand& command) {
  std::string name = "sluice-" + command.name;
  std::replace(name.begin(), name.end(), ' ', '-');
  return name;
}

std::string manual_page(const DefinedCommand& command) {
  const CommandDefinition& its = command.definition;
  std::string page = head(page_name(command), command.summary) + ".SH SYNOPSIS\n.B " +
                     roff(its.usage) + "\n.SH DESCRIPTION\n.nf\n" + roff(its.about) +
                     "\n.fi\n.SH OPTIONS\n";
  for (const auto& option : its.options)
    page += ".TP\n.B " + roff(option_names(option)) + "\n" + roff(one_line(option.help)) + "\n";
  page += sections(its.footer);
  return page + ".SH \"SEE ALSO\"\n.BR sluice (1)\n";
}

std::string main_page(std::span<const DefinedCommand> commands) {
  std::string page = head("sluice", "a rate-limit and quota server") +
                     ".SH SYNOPSIS\n.B sluice\nCOMMAND [options]\n.SH COMMANDS\n";
  for (const DefinedCommand& command : commands)
    page += ".TP\n.BR " + roff(page_name(command)) + " (1)\n" + roff(command.summary) + "\n";
  return page;
}

std::optional<std::string> completion(std::string_view shell,
                                      std::span<const DefinedCommand> commands) {
  if (shell == "bash") return for_bash(commands);
  if (shell == "zsh") return for_zsh(commands);
  if (shell == "fish") return for_fish(commands);
  return std::nullopt;
}

}  // namespace sluice::cli
