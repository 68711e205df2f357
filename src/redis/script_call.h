// Writes a group of charges as a call of a script, and reads the script's answer as decisions.
// Pure; a LimitTexts belongs to one thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "limit/limit.h"
#include "redis/scripts.h"
#include "request/charge.h"

namespace sluice::redis {

// Lists of limits as arguments of scripts; each is made once.
struct LimitText {
  std::string name;       // `s1;...`
  std::string arguments;  // without carry and count: letter, quota, window, burst of each, in RESP
  std::vector<limit::Limit> limits;  // the list itself
  size_t count = 0;
  // The list has a limit whose numbers come with each call: then `arguments` is not used, and in
  // `name` and `limits` that limit has no numbers, so that both are the same for all calls.
  bool numbers_come_along = false;
  Algorithms algorithms = 0;
  bool wide = false;  // its numbers are too large for doubles
  // The list has a window of a calendar: a call brings the boundaries around the time of this
  // server in place of its burst, where `arguments` have 0.
  bool has_calendar = false;
};

class LimitTexts {
 public:
  const LimitText& of(std::span<const limit::Limit> limits, uint32_t limits_id);

 private:
  // By the lists' numbers. A number may be given to another list later.
  std::unordered_map<uint32_t, LimitText> known_;
};

// RESP: the head of an array, and bulk strings.
void append_array(std::string& out, size_t size);
void append_bulk(std::string& out, std::string_view text);
void append_bulk(std::string& out, std::string_view a, std::string_view b, std::string_view c,
                 std::string_view d);
void append_bulk(std::string& out, int64_t number);
// The argument `cost` of the scripts.
void append_cost(std::string& out, const request::Charge& charge);

// How the limits of a space continue, as the scripts spell it.
std::string_view carry_word(limit::CarryOver carry);
// For each limit of the charge a comma and, if it has an overdraft, its units. Empty: none has one.
std::string overdrafts_text(const request::Charge& charge);
// Of a limit with a calendar: the start of the window before that of `now`, its own, the one behind
// and that one's end, and the nominal length.
std::string boundaries_of(const limit::Limit& limit, limit::Time now);

// Appends the key of the charge's counter in Redis. Keys that other programs share are used as they
// are; all others have the prefix and, in Redis Cluster, a tag after it (redis/cluster_map.h).
// `now`: for counters of a window.
void append_stored_name(std::string& out, const request::Charge& charge,
                        std::string_view key_prefix, bool tagged, limit::Time now);

// The weight of the script for a group: the lightest one that may do is called first.
enum class Weight : uint8_t { light, full, wide };

// A call for one group.
struct ScriptCall {
  std::span<const request::Charge> charges;  // at least one
  // for each charge, the units that earlier requests claim; empty: 0
  std::span<const int64_t> ahead{};
  bool hold = false;                      // the group is refused whatever its counters hold
  bool sparing = false;                   // as request::Group has it
  bool looks = false;                     // with both: charges that count are not taken either
  bool receipts = false;                  // the answer says what was written (redis/receipts.h)
  const request::ChargeId* id = nullptr;  // the script remembers it with the charges
  bool is_shadow = false;                 // they are a shadow rule's
  Weight weight = Weight::light;          // at least
  std::string_view key_prefix{};
  bool tagged = false;               // Redis Cluster: keys that are not shared have a tag
  limit::Duration kept_fresh_for{};  // Options::kept_fresh_for
  limit::Time told{-1};              // not negative: the time, for scripts that receive it
  // The time, for counters that use this server's clock; and any number, which varies how long keys
  // live.
  limit::Time now{};
  uint64_t chance = 0;
};

// Can the script remember an id with these charges? In a cluster its key must be in their slot, and
// has the tag of one of them.
bool remembers(std::span<const request::Charge> charges, bool tagged);

// Is the group a single charge for which plain commands do the same as the script? They take a
// quarter of the script's work in Redis. So it is for a count of window_text, and for a look at
// one.
bool is_plain(const ScriptCall& ask);
// Appends the command. Its reply is the counter's value after the charge, or nil: there is no
// counter.
void append_plain(std::string& out, const ScriptCall& ask);
// May the command have made its key? Then the key must get an expiry. If it has one already,
// `renews` says whether it is set again.
bool may_make_key(const ScriptCall& ask);
void append_life(std::string& out, const ScriptCall& ask, bool renews);

// The script to call for it; sets `weight` to the one that was chosen.
const Script& script_of(const ScriptCall& ask, Scripts& scripts, LimitTexts& texts, Weight& weight);
// Appends the name of the charge's counter as an argument.
void append_key(std::string& out, const ScriptCall& ask, const request::Charge& charge);
// How many bytes stand before the stored name of a counter that no other program shares, in
// decimal: the prefix and, in Redis Cluster, the tag.
std::string head_of(const ScriptCall& ask);
// Appends the call, as EVALSHA with the script's hash or as EVAL with its text.
void append_call(std::string& out, const ScriptCall& ask, const Script& script, bool by_hash,
                 const Scripts& scripts, LimitTexts& texts);

// Cuts off what the answer says of an id.
request::Known cut_known(std::string_view& text);
// What an answer says. again_*: nothing was done, call the script of that weight.
enum class ScriptReply : uint8_t { decided, again_full, again_wide, nonsense };
// Reads an answer into the decisions of the charges (each at its decision_first) and, for charges
// that keep their limits, slot_mask. `now`: as in the call.
ScriptReply read_answer(std::string_view text, std::span<request::Charge> charges,
                        std::span<limit::Decision> decisions, bool& allowed, limit::Time now = {});
// The same for a plain command. nonsense: the key's value is not a number.
ScriptReply read_plain(std::string_view text, bool nil, const request::Charge& charge,
                       limit::Decision& decision, bool& allowed, limit::Time now);

}  // namespace sluice::redis
