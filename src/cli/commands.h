// The commands of the program, one file each. They take the words behind their name and return the
// exit status.
#pragma once

#include <string>
#include <vector>

#include "config/outside.h"

namespace sluice::cli {

using Words = std::vector<std::string>;

int serve(const Words& words, Outside& outside);
int divvy(const Words& words, Outside& outside);
int droplet(const Words& words, Outside& outside);
int limitd(const Words& words, Outside& outside);
int check(const Words& words, Outside& outside);
int explain(const Words& words, Outside& outside);
int limitdctl(const Words& words, Outside& outside);
int store(const Words& words, Outside& outside);
int ask(const Words& words, Outside& outside);
// These ask the admin port of a running server.
int status(const Words& words, Outside& outside);
int top(const Words& words, Outside& outside);
int rules(const Words& words, Outside& outside);
int counters(const Words& words, Outside& outside);
int reset(const Words& words, Outside& outside);
int override_limits(const Words& words, Outside& outside);
int reload(const Words& words, Outside& outside);

// Finds the command that the first word names, and the program's own --help and --version.
int run(const Words& words, Outside& outside);

}  // namespace sluice::cli
