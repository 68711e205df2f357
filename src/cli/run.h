// The program behind `main`: finds the command and runs it on the main thread. No exception leaves
// it.
#pragma once

namespace sluice::cli {

// The status that the process ends with.
int run(int argc, char** argv);

}  // namespace sluice::cli
