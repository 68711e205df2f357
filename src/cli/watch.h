// `--watch`: what a command shows, shown again and again: on a terminal in place until `q` is
// pressed, else one below the other until its reader goes. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/arguments.h"

namespace sluice::cli {

struct WatchFlags {
  bool watch = false;
  std::string every = "2s";
};
// --watch and --every.
void add_watch_flags(CLI::App& app, WatchFlags& flags);

// Calls `show` once, or with --watch until it is ended; its output goes to the CommandIo that it is
// handed. Returns the last status, or that of a first call for which no server could be asked. A
// wrong --every is reported.
int show_or_watch(const WatchFlags& flags, const Arguments& arguments, config::CommandIo& io,
                  const std::function<int(config::CommandIo&)>& show);

}  // namespace sluice::cli
