#include "cli/watch.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <vector>

#include "base/units.h"
#include "cli/terminal.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr base::Duration watch_every_min = base::milliseconds(100),
                         watch_every_max = base::seconds(3600);

struct Shown {
  int status = 0;
  std::string out, err;
};

Shown shown_by(const std::function<int(config::CommandIo&)>& show, const config::CommandIo& io) {
  std::ostringstream out, err;
  config::CommandIo inner{out,
                          err,
                          io.out_colour,
                          io.err_colour,
                          io.environment,
                          io.variables,
                          io.out_terminal,
                          io.err_terminal};
  const int status = show(inner);
  return {status, out.str(), err.str()};
}

// As many lines of the output as fit; a problem is the first line.
std::vector<std::string> lines_of(const Shown& shown, const Terminal::Size& size) {
  std::vector<std::string> lines;
  std::istringstream text(shown.err + shown.out);
  for (std::string line; lines.size() < size.rows && std::getline(text, line);)
    lines.push_back(line.find('\x1b') == line.npos ? config::cut_to(line, size.columns) : line);
  return lines;
}

int watch_terminal(const std::function<int(config::CommandIo&)>& show, Shown shown,
                   std::chrono::microseconds every, const config::CommandIo& io) {
  Terminal terminal(STDIN_FILENO, STDOUT_FILENO);
  terminal.enter();
  for (;;) {
    const auto due = Clock::now() + every;
    for (bool again = false; !again;) {
      if (!terminal.draw(lines_of(shown, terminal.size()))) return shown.status;
      const auto event = terminal.next(due);
      using Kind = Terminal::Event::Kind;
      if (event.kind == Kind::end || (event.kind == Kind::key && event.key == 'q'))
        return shown.status;
      again = event.kind == Kind::none || (event.kind == Kind::key && event.key == ' ');
    }
    shown = shown_by(show, io);
  }
}

int watch_lines(const std::function<int(config::CommandIo&)>& show, Shown shown,
                std::chrono::microseconds every, config::CommandIo& io) {
  for (;;) {
    io.err << shown.err << std::flush;
    io.out << shown.out << '\n' << std::flush;
    if (!io.out) return shown.status;
    std::this_thread::sleep_for(every);
    shown = shown_by(show, io);
  }
}

}  // namespace

void add_watch_flags(Arguments& arguments, WatchFlags& flags) {
  arguments.add_flag("--watch", flags.watch,
                     "Show it again and again, on a terminal until q is pressed");
  arguments.add_option("--every", flags.every, "With --watch: how often, 100ms to 1h; default 2s",
                       "DURATION");
}

int show_or_watch(const WatchFlags& flags, const Arguments& arguments, config::CommandIo& io,
                  const std::function<int(config::CommandIo&)>& show) {
  const auto every = base::parse_duration(flags.every);
  if (!every || *every < watch_every_min || *every > watch_every_max)
    return arguments.misused("--every must be 100ms to 1h, not `" + flags.every + "`", io);
  if (!flags.watch) return show(io);
  Shown first = shown_by(show, io);
  if (first.status == exit_no_server || first.status == config::exit_usage) {
    io.err << first.err << std::flush;
    io.out << first.out << std::flush;
    return first.status;
  }
  const std::chrono::microseconds pause(every->us);
  return io.out_terminal ? watch_terminal(show, std::move(first), pause, io)
                         : watch_lines(show, std::move(first), pause, io);
}

}  // namespace sluice::cli
