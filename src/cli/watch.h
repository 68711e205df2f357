// `--watch`: repeats the output of a command. On a terminal it is updated in place until `q` is
// pressed; otherwise each output follows the one before, until the reader closes the pipe. One
// thread.
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
// Adds the options --watch and --every.
void add_watch_flags(Arguments& arguments, WatchFlags& flags);

// Calls `show` once, or with --watch repeatedly until the user ends it; `show` must write to the
// CommandIo that it gets. Returns the status of the last call, or of the first one if that could
// not reach a server. A wrong --every is reported.
int show_or_watch(const WatchFlags& flags, const Arguments& arguments, config::CommandIo& io,
                  const std::function<int(config::CommandIo&)>& show);

}  // namespace sluice::cli
