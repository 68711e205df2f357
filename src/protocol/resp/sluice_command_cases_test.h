// SLUICE.* commands, and for each the line that read() of sluice_command_test.cc makes of it, or
// its error.
#pragma once

#include <string_view>

namespace sluice::resp::sluice_command_test {

inline constexpr std::string_view no_number = "ERR value is not an integer or out of range";
inline constexpr std::string_view no_window = "ERR window is not a length of time";
inline constexpr std::string_view no_float = "ERR timeout is not a float or out of range";
inline constexpr std::string_view syntax = "ERR syntax error";

// Blanks separate the words of `text`; '' is an empty word.
struct Case {
  std::string_view text, expected;
};

// `expected` leaves out what has its default.
inline constexpr Case accepted[] = {
    {"SLUICE.TAKE a=1", "TAKE | a->1"},
    {"SLUICE.TAKE method=POST path=/login ip=10.0.0.1",
     "TAKE | method->POST path->/login ip->10.0.0.1"},
    {"SLUICE.TAKE a= b==c N=5 KEY=x", "TAKE | a-> b->=c N->5 KEY->x"},
    {"SLUICE.TAKE a=1 a=1", "TAKE | a->1 a->1"},
    {"SLUICE.TAKE a=1 N 0", "TAKE N=0 | a->1"},
    {"SLUICE.TAKE a=1 N 9007199254740991", "TAKE N=9007199254740991 | a->1"},
    {"SLUICE.TAKE a=1 N 5 NOW 1795000000000 WITHNAME",
     "TAKE N=5 NOW=1795000000000000us WITHNAME | a->1"},
    {"SLUICE.TAKE a=1 WITHNAME NOW 0 N 5", "TAKE N=5 NOW=0us WITHNAME | a->1"},
    {"SLUICE.TAKE a=1 NOW 9223372036854775", "TAKE NOW=9223372036854775000us | a->1"},
    {"SLUICE.TAKE ENTRIES 2 a=1 b=2 N 3", "TAKE N=3 | a->1 b->2"},
    {"SLUICE.TAKE KEY user:17 LIMIT 100 60", "TAKE | key(user:17) token_bucket:100/60000000us+100"},
    {"SLUICE.TAKE KEY '' LIMIT 5k 1d BURST 2M",
     "TAKE | key() token_bucket:5000/86400000000us+2000000"},
    {"SLUICE.TAKE KEY LIMIT LIMIT 1 1 N 2", "TAKE N=2 | key(LIMIT) token_bucket:1/1000000us+1"},
    {"SLUICE.TAKE KEY N LIMIT 9007199254740991 36600d",
     "TAKE | key(N) token_bucket:9007199254740991/3162240000000000us+9007199254740991"},
    {"SLUICE.TAKE KEY k LIMIT 9 1 BURST 3 ALGORITHM token_bucket LIMIT 10_0 1h ALGORITHM "
     "fixed_window LIMIT 7 0.5 ALGORITHM aligned_window LIMIT 6 250ms ALGORITHM sliding_window "
     "LIMIT 5 60s ALGORITHM sliding_log LIMIT 4 0 ALGORITHM fixed_bucket",
     "TAKE | key(k) token_bucket:9/1000000us+3 fixed_window:100/3600000000us "
     "aligned_window:7/500000us sliding_window:6/250000us sliding_log:5/60000000us "
     "fixed_bucket:4/0us+4"},
    {"SLUICE.TAKE KEY k LIMIT 4 0s ALGORITHM fixed_bucket", "TAKE | key(k) fixed_bucket:4/0us+4"},
    {"SLUICE.TAKE KEY k LIMIT 4 30 ALGORITHM Concurrency",
     "TAKE | key(k) concurrency:4/30000000us+30000000"},
    {"SLUICE.PEEK a=1 WITHNAME N 2", "PEEK N=2 WITHNAME | a->1"},
    {"SLUICE.PUT a=1", "PUT | a->1"},
    {"SLUICE.PUT a=1 N 1", "PUT | a->1"},
    {"SLUICE.PUT KEY k LIMIT 1 1 ALL", "PUT ALL | key(k) token_bucket:1/1000000us+1"},
    {"SLUICE.RESET a=1 b=2", "RESET | a->1 b->2"},
    {"SLUICE.WAIT 0 a=1", "WAIT | a->1"},
    {"SLUICE.WAIT 2.5 KEY k LIMIT 1 1 N 0",
     "WAIT N=0 timeout=2500000us | key(k) token_bucket:1/1000000us+1"},
    {"SLUICE.MTAKE 1 ENTRIES 1 a=1", "MTAKE | a->1"},
    {"SLUICE.MTAKE 3 ENTRIES 2 a=1 b=2 KEY k LIMIT 1 1 LIMIT 2 1m KEY KEY LIMIT 3 1 N 2 EACH",
     "MTAKE N=2 EACH | a->1 b->2 | key(k) token_bucket:1/1000000us+1 token_bucket:2/60000000us+2 "
     "| key(KEY) token_bucket:3/1000000us+3"},
    {"SLUICE.CHARGE a=1", "CHARGE | a->1"},
    {"SLUICE.CHARGE a=1 N 0 WITHNAME", "CHARGE N=0 WITHNAME | a->1"},
    {"SLUICE.CHARGE a=1 ID charge-0000-0001 N 25", "CHARGE N=25 ID=charge-0000-0001 | a->1"},
    {"SLUICE.CHARGE ID=x id charge-0000_azAZ", "CHARGE ID=charge-0000_azAZ | ID->x"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVER COUNT BURST 2 LIMIT 2 1m OVER refuse LIMIT 3 1h over count",
     "TAKE | key(k) token_bucket:1/1000000us+2 counts token_bucket:2/60000000us+2 "
     "token_bucket:3/3600000000us+3 counts"},
    {"SLUICE.CHARGE KEY k LIMIT 1 1 OVERDRAFT 0 LIMIT 2 1m overdraft 5k BURST 3 LIMIT 3 1h",
     "CHARGE | key(k) token_bucket:1/1000000us+1 owes 0 token_bucket:2/60000000us+3 owes 5000 "
     "token_bucket:3/3600000000us+3"},
    {"SLUICE.EXPLAIN ENTRIES 1 a=1", "EXPLAIN | a->1"},
    {"SLUICE.EXPLAIN KEY k LIMIT 1 1", "EXPLAIN | key(k) token_bucket:1/1000000us+1"},
    {"SLUICE.INFO", "INFO"},
    {"SLUICE.HELP", "HELP"},
};

inline constexpr std::string_view bad_id =
    "ERR ID must be 16 to 64 of the characters A-Z a-z 0-9 _ -";
inline constexpr std::string_view at_most_two =
    "ERR the limits of a subject need more memory than one counter may have: at most two of "
    "sliding_log or concurrency can have a quota of 32 or more";

inline constexpr Case rejected[] = {
    {"", syntax},
    {"''", "ERR unknown command ''"},
    {"SLUICE.", "ERR unknown command 'SLUICE.'"},
    {"TAKE a=1", "ERR unknown command 'TAKE'"},
    {"SLUICE.TAKES a=1", "ERR unknown command 'SLUICE.TAKES'"},
    {"SLUICE.TAKE", "ERR wrong number of arguments for 'sluice.take' command"},
    {"SLUICE.PEEK", "ERR wrong number of arguments for 'sluice.peek' command"},
    {"SLUICE.PUT", "ERR wrong number of arguments for 'sluice.put' command"},
    {"SLUICE.RESET", "ERR wrong number of arguments for 'sluice.reset' command"},
    {"SLUICE.WAIT 1", "ERR wrong number of arguments for 'sluice.wait' command"},
    {"SLUICE.MTAKE 1 ENTRIES 1", "ERR wrong number of arguments for 'sluice.mtake' command"},
    {"SLUICE.EXPLAIN", "ERR wrong number of arguments for 'sluice.explain' command"},
    {"SLUICE.INFO a=1", "ERR wrong number of arguments for 'sluice.info' command"},
    {"SLUICE.HELP HELP", "ERR wrong number of arguments for 'sluice.help' command"},
    {"SLUICE.RESERVE", "ERR unknown command 'SLUICE.RESERVE'"},
    {"sluice.commit x", "ERR unknown command 'sluice.commit'"},
    // Entries.
    {"SLUICE.TAKE user:17", "ERR entry 'user:17' has no '='"},
    {"SLUICE.TAKE ''", "ERR entry '' has no '='"},
    {"SLUICE.TAKE a=1 NN 5", "ERR entry 'NN' has no '='"},
    {"SLUICE.TAKE a=1 =b", "ERR entry '=b' has no key"},
    {"SLUICE.TAKE N 1", syntax},
    {"SLUICE.TAKE a=1 N 1 b=2", syntax},
    {"SLUICE.TAKE a=1 KEY k LIMIT 1 1", syntax},
    {"SLUICE.TAKE a=1 ENTRIES 1 b=2", syntax},
    {"SLUICE.TAKE a=1 LIMIT 1 1", syntax},
    {"SLUICE.TAKE ENTRIES", syntax},
    {"SLUICE.TAKE ENTRIES x a=1", no_number},
    {"SLUICE.TAKE ENTRIES 0 a=1", "ERR numentries must be 1 to 64"},
    {"SLUICE.TAKE ENTRIES -1 a=1", "ERR numentries must be 1 to 64"},
    {"SLUICE.TAKE ENTRIES 65 a=1", "ERR numentries must be 1 to 64"},
    {"SLUICE.TAKE ENTRIES 2 a=1", syntax},
    {"SLUICE.TAKE ENTRIES 2 a=1 N", "ERR entry 'N' has no '='"},
    {"SLUICE.TAKE ENTRIES 1 =1", "ERR entry '=1' has no key"},
    {"SLUICE.TAKE ENTRIES 1 a=1 b=2", syntax},
    // Limits.
    {"SLUICE.TAKE KEY", syntax},
    {"SLUICE.TAKE KEY k", syntax},
    {"SLUICE.TAKE KEY k N 1", syntax},
    {"SLUICE.TAKE KEY k ALGORITHM token_bucket", syntax},
    {"SLUICE.TAKE KEY k LIMIT", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1", syntax},
    {"SLUICE.TAKE KEY k N 1 LIMIT 1 1", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 N 1 BURST 2", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 a=1", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 BURST", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 BURST 1 BURST 1", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM token_bucket ALGORITHM token_bucket", syntax},
    {"SLUICE.TAKE KEY k LIMIT 0 1", "ERR quota must be positive"},
    {"SLUICE.TAKE KEY k LIMIT -1 1", no_number},
    {"SLUICE.TAKE KEY k LIMIT 1.5 1", no_number},
    {"SLUICE.TAKE KEY k LIMIT '' 1", no_number},
    {"SLUICE.TAKE KEY k LIMIT 9007199254740992 1", no_number},
    {"SLUICE.TAKE KEY k LIMIT 99999999999999999999 1", no_number},
    {"SLUICE.TAKE KEY k LIMIT 1 1 BURST 0", "ERR BURST must be positive"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 BURST 9007199254740992", no_number},
    {"SLUICE.TAKE KEY k LIMIT 1 1 BURST x", no_number},
    {"SLUICE.TAKE KEY k LIMIT 5 1 BURST 5 ALGORITHM fixed_window",
     "ERR BURST is for token_bucket only"},
    {"SLUICE.TAKE KEY k LIMIT 5 0 ALGORITHM fixed_bucket BURST 5",
     "ERR BURST is for token_bucket only"},
    {"SLUICE.TAKE KEY k LIMIT 5 1 ALGORITHM fixed_bucket", "ERR window of fixed_bucket must be 0"},
    {"SLUICE.TAKE KEY k LIMIT 5 0 ALGORITHM concurrency", "ERR window must be positive"},
    {"SLUICE.TAKE KEY k LIMIT 5 1 ALGORITHM concurrency BURST 5",
     "ERR BURST is for token_bucket only"},
    {"SLUICE.TAKE KEY k LIMIT 5 0 ALGORITHM sliding_log", "ERR window must be positive"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM leaky", "ERR unknown algorithm 'leaky'"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM unlimited", "ERR unknown algorithm 'unlimited'"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM deny", "ERR unknown algorithm 'deny'"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 ALGORITHM Gcra",
     "ERR unknown algorithm 'Gcra': token_bucket makes the same promise in exact arithmetic"},
    {"SLUICE.TAKE KEY k LIMIT 32 1 ALGORITHM sliding_log LIMIT 40 2 ALGORITHM sliding_log LIMIT 1 "
     "1",
     at_most_two},
    // Options.
    {"SLUICE.TAKE a=1 N", syntax},
    {"SLUICE.TAKE a=1 N x", no_number},
    {"SLUICE.TAKE a=1 N -1", no_number},
    {"SLUICE.TAKE a=1 N +1", no_number},
    {"SLUICE.TAKE a=1 N 01", no_number},
    {"SLUICE.TAKE a=1 N 1k", no_number},
    {"SLUICE.TAKE a=1 N ''", no_number},
    {"SLUICE.TAKE a=1 N 9007199254740992", no_number},
    {"SLUICE.TAKE a=1 N 9223372036854775808", no_number},
    {"SLUICE.TAKE a=1 N 1 N 1", syntax},
    {"SLUICE.TAKE a=1 NOW 1 NOW 1", syntax},
    {"SLUICE.TAKE a=1 WITHNAME WITHNAME", syntax},
    {"SLUICE.TAKE a=1 NOW", syntax},
    {"SLUICE.TAKE a=1 NOW -1", no_number},
    {"SLUICE.TAKE a=1 NOW 1.5", no_number},
    {"SLUICE.TAKE a=1 NOW 9223372036854776", no_number},
    {"SLUICE.TAKE a=1 ALL", syntax},
    {"SLUICE.TAKE a=1 EACH", syntax},
    {"SLUICE.PEEK a=1 NOW 1", syntax},
    {"SLUICE.PUT a=1 N 0", "ERR N must be positive"},
    {"SLUICE.PUT a=1 N -5", "ERR N must be positive"},
    {"SLUICE.PUT a=1 N 9007199254740992", no_number},
    {"SLUICE.PUT a=1 N 1 ALL", syntax},
    {"SLUICE.PUT a=1 ALL N 1", syntax},
    {"SLUICE.PUT a=1 ALL ALL", syntax},
    {"SLUICE.PUT a=1 WITHNAME", syntax},
    {"SLUICE.RESET a=1 N 1", syntax},
    {"SLUICE.WAIT 1 a=1 WITHNAME", syntax},
    {"SLUICE.WAIT 1 N 1", syntax},
    {"SLUICE.WAIT a=1 b=1", no_float},
    {"SLUICE.EXPLAIN a=1 N 1", syntax},
    {"SLUICE.CHARGE", "ERR wrong number of arguments for 'sluice.charge' command"},
    {"SLUICE.CHARGE a=1 N -1", no_number},
    {"SLUICE.CHARGE a=1 ID", syntax},
    {"SLUICE.CHARGE a=1 ID charge-0000-001", bad_id},
    {"SLUICE.CHARGE a=1 ID charge.0000.0001", bad_id},
    {"SLUICE.CHARGE a=1 ID ''", bad_id},
    {"SLUICE.CHARGE a=1 ID charge-0000-0001 ID charge-0000-0001", syntax},
    {"SLUICE.CHARGE a=1 ALL", syntax},
    {"SLUICE.CHARGE a=1 NOW 1", syntax},
    {"SLUICE.TAKE a=1 ID charge-0000-0001", syntax},
    {"SLUICE.PUT a=1 ID charge-0000-0001", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVER", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVER drain", "ERR OVER must be COUNT or REFUSE"},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVER COUNT OVER COUNT", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVERDRAFT", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVERDRAFT 1 OVERDRAFT 1", syntax},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVERDRAFT -1", no_number},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVERDRAFT none", no_number},
    {"SLUICE.TAKE KEY k LIMIT 1 1 OVERDRAFT 9007199254740992", no_number},
    // MTAKE.
    {"SLUICE.MTAKE x ENTRIES 1 a=1", no_number},
    {"SLUICE.MTAKE 0 ENTRIES 1 a=1", "ERR numsubjects must be 1 to 64"},
    {"SLUICE.MTAKE 65 ENTRIES 1 a=1", "ERR numsubjects must be 1 to 64"},
    {"SLUICE.MTAKE 2 ENTRIES 1 a=1", syntax},
    {"SLUICE.MTAKE 1 ENTRIES 1 a=1 ENTRIES 1 b=1", syntax},
    {"SLUICE.MTAKE 3 a=1 b=2 c=3", syntax},
    {"SLUICE.MTAKE 1 ENTRIES 1 a=1 EACH EACH", syntax},
    {"SLUICE.MTAKE 1 ENTRIES 1 a=1 WITHNAME", syntax},
    {"SLUICE.MTAKE 1 ENTRIES 1 a=1 N 1 N 1", syntax},
};

}  // namespace sluice::resp::sluice_command_test
