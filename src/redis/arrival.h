// The scripts for the most usual group: one take from one counter under one limit whose state is a
// time of arrival, which a token bucket's and those of gcra_* are. Pure.
//
// A time of arrival is a number of microseconds and a part of one: of gcra_cell and gcra_crab so
// many thousandths, of a token bucket so many of its quota's parts. A take adds to it, and is
// granted if the sum is at most `tolerance` later than now. So the script only adds and compares
// whole numbers below 2^53, each of which a double holds exactly, whatever the limit's own products
// are: those are worked out here, in 128 bits. The script answers with the time and the state that
// it found, and the decision that these mean is worked out here too, by limit/.
#pragma once

#include <string>
#include <string_view>

#include "limit/limit.h"
#include "redis/script_call.h"
#include "redis/scripts.h"

namespace sluice::redis::arrival {

// Is the group of that kind, and are all its numbers below 2^52? If so, sets which script decides
// it. `ask.weight` is light.
bool holds(const ScriptCall& ask, Scripts::Arrival& which);

// The script's text, without the lines that set `clock` and SPARE.
std::string text_of(Scripts::Arrival which);

// The number of the script's arguments, and the arguments. `name`: of the limits, as LimitText has
// it.
size_t arguments_of(Scripts::Arrival which);
void append_arguments(std::string& out, Scripts::Arrival which, const request::Charge& charge,
                      std::string_view name);

// Reads the answer, without its first letter.
ScriptReply read(std::string_view text, const request::Charge& charge, limit::Decision& decision,
                 bool& allowed);

}  // namespace sluice::redis::arrival
