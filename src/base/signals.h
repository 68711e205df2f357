// What signals do to a server, beside those that it listens for. Main thread.
#pragma once

namespace sluice::base {

// From the start of the process on: those that a server listens for later, but not to end, wait
// until then (SIGHUP, SIGUSR1). Before any other thread is made, which inherits it.
void hold_signals();
// They come now. The server listens for them.
void release_signals();

// Signals that end a process which has not asked for them, and mean nothing to a server: SIGUSR2,
// SIGALRM, SIGPIPE and alike. Where a library has a handler for one it stays.
void ignore_signals();

}  // namespace sluice::base
