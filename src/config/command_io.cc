#include "config/command_io.h"

#include "config/screen_text.h"

namespace sluice::config {

std::string paint(std::string_view text, int colour, bool coloured) {
  if (!coloured) return std::string(text);
  const std::string code = colour == 0 ? "1" : "1;" + std::to_string(colour);
  return "\x1b[" + code + "m" + std::string(text) + "\x1b[0m";
}

void tell(const base::Diagnostics& all, CommandIo& io) {
  for (const auto& d : all) {
    std::string line = on_screen(base::to_string(d));
    const bool error = d.severity == base::Diagnostic::Severity::error;
    const std::string word = error ? "error:" : "warning:";
    // The search begins after the file's name, which could contain the word.
    const size_t at = line.find(word, d.file.size());
    if (at != std::string::npos)
      line.replace(at, word.size(), paint(word, error ? red : yellow, io.err_colour));
    io.err << line << '\n';
  }
  io.err.flush();
}

}  // namespace sluice::config
