// The whole program: finds the command and runs it on the main thread. It lets no exception out.
#pragma once

namespace sluice::cli {

// Returns the exit status of the process.
int run(int argc, char** argv);

}  // namespace sluice::cli
