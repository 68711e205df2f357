#include "cli/run.h"

int main(int argc, char** argv) {
  return sluice::cli::run(argc, argv);
}
