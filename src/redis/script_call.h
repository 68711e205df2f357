// A group of charges as a call of a script, and the script's answer as decisions. Pure; a
// LimitTexts belongs to one thread.
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

// Lists of limits as scripts want them, made once each.
struct LimitText {
  std::string name;       // `s1;...`
  std::string arguments;  // carry and count excepted: letter, quota, window, burst of each, in RESP
  std::vector<limit::Limit> limits;  // that it is of
  size_t count = 0;
  // There is a limit whose numbers come with each call: `arguments` hold for none, and in `name`
  // and `limits` it is without numbers, so both are the same for all calls.
  bool numbers_come_along = false;
  Algorithms algorithms = 0;
  bool wide = false;  // its numbers are too large for doubles
};

class LimitTexts {
 public:
  const LimitText& of(std::span<const limit::Limit> limits, uint32_t limits_id);

 private:
  // By the lists' numbers, which stand for other limits in time.
  std::unordered_map<uint32_t, LimitText> known_;
};

// RESP: the head of an array, and bulk strings.
void append_array(std::string& out, size_t size);
void append_bulk(std::string& out, std::string_view text);
void append_bulk(std::string& out, std::string_view a, std::string_view b, std::string_view c,
                 std::string_view d);
void append_bulk(std::string& out, int64_t number);

// Appends what the charge's counter is called in Redis. Names that other programs share stand as
// they are; all others have the prefix in front and, in Redis Cluster, a tag behind it
// (redis/slots.h). `now`: for counters of a window.
void append_stored_name(std::string& out, const request::Charge& charge,
                        std::string_view key_prefix, bool tagged, limit::Time now);

// How a group is asked: at first as light as can be.
enum class Weight : uint8_t { light, full, wide };

// What is asked of one group.
struct ScriptCall {
  std::span<const request::Charge> charges;  // one at least
  std::span<const int64_t> ahead{};          // units that are not there for each; none: 0
  bool hold = false;                         // it is refused whatever they say
  bool sparing = false;                      // as request::Group has it
  bool looks = false;                        // with both: what counts is spared whatever it says
  bool receipts = false;                     // the answer says what was written (redis/receipts.h)
  Weight weight = Weight::light;             // at least
  std::string_view key_prefix{};
  bool tagged = false;               // in Redis Cluster: keys that are not shared have a tag
  limit::Duration kept_fresh_for{};  // Options::kept_fresh_for
  limit::Time told{-1};              // not negative: what time it is, for scripts that receive it
  // What time it is for counters that go by this server's clock; and any number, for their lives.
  limit::Time now{};
  uint64_t chance = 0;
};

// Is the group one charge for which plain commands do what the script would? Redis has a quarter of
// the work with them. Such is a count of window_text, or a look at it.
bool is_plain(const ScriptCall& ask);
// The command: a number is what its counter holds with it, nil that there is none.
void append_plain(std::string& out, const ScriptCall& ask);
// Of what may have made its key: has that end. Where it has one already: `renews`, or it is left.
bool may_make_key(const ScriptCall& ask);
void append_life(std::string& out, const ScriptCall& ask, bool renews);

// The script to call for it; `weight` becomes what it was in the end.
const Script& script_of(const ScriptCall& ask, Scripts& scripts, LimitTexts& texts, Weight& weight);
// Appends the name of the charge's counter as an argument.
void append_key(std::string& out, const ScriptCall& ask, const request::Charge& charge);
// The call, as EVALSHA with its hash, or as EVAL with its text.
void append_call(std::string& out, const ScriptCall& ask, const Script& script, bool by_hash,
                 const Scripts& scripts, LimitTexts& texts);

// What an answer is. `again`: nothing was done, ask with that weight.
enum class ScriptReply : uint8_t { decided, again_full, again_wide, nonsense };
// Into the decisions of the charges (each at its decision_first) and, of those that keep their
// limits, slot_mask. `now`: as in the call.
ScriptReply read_answer(std::string_view text, std::span<request::Charge> charges,
                        std::span<limit::Decision> decisions, bool& allowed, limit::Time now = {});
// The same of a plain command. Nonsense: the key holds what is not a number.
ScriptReply read_plain(std::string_view text, bool nil, const request::Charge& charge,
                       limit::Decision& decision, bool& allowed, limit::Time now);

}  // namespace sluice::redis
