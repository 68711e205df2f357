#include "redis/scripts.h"

#include <openssl/evp.h>

#include <utility>

#include "base/check.h"
#include "redis/arrival.h"
#include "redis/lua.h"

namespace sluice::redis {

namespace {

using limit::Algorithm;

struct ScriptPart {
  Algorithm algorithm;
  std::string_view text, rest = {};
};
const ScriptPart parts[] = {
    {Algorithm::fixed_window, lua_fixed_window, lua_window},
    {Algorithm::aligned_window, lua_aligned_window, lua_window},
    {Algorithm::token_bucket, lua_token_bucket},
    {Algorithm::sliding_window, lua_sliding_window},
    {Algorithm::sliding_log, lua_merge, lua_sliding_log},
    {Algorithm::fixed_bucket, lua_fixed_bucket},
    {Algorithm::concurrency, lua_merge, lua_concurrency},
};

std::string sha1(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  SLUICE_CHECK(EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr) == 1);
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

std::string head(bool wide, Scripts::Time time) {
  std::string text(wide ? lua_wide : lua_plain);
  text += time == Scripts::Time::told ? lua_told_time
          : wide                      ? lua_redis_time
                                      : lua_redis_time_plain;
  return text + "local F, P = {}, {}\n";
}

std::string counters_text(bool wide, Scripts::Time time) {
  std::string text = head(wide, time);
  for (const ScriptPart& part : parts) text.append(part.text).append(part.rest);
  if (wide) text += lua_gcra;
  for (const std::string_view part :
       {lua_calendar_window, lua_always, lua_put, lua_carry_over, lua_carry_list, lua_states,
        lua_costs, lua_count, lua_kept_limits, lua_window_text})
    text += part;
  if (wide) text += lua_tat_text;
  return text.append(lua_given).append(lua_counters);
}

std::string full_text(bool wide, Scripts::Time time) {
  std::string text = counters_text(wide, time);
  return text.append(lua_window_end).append(lua_receipts).append(lua_settle_full);
}

std::string undo_text(Scripts::Time time) {
  std::string text = head(true, time);
  for (const ScriptPart& part : parts) text.append(part.text).append(part.rest);
  for (const std::string_view part :
       {lua_states, lua_costs, lua_window_text, lua_window_end, lua_given, lua_undo})
    text += part;
  return text;
}

Script arrival_script(Scripts::Arrival which, Scripts::Time time) {
  const bool told = time == Scripts::Time::told;
  return Script(std::string(told ? lua_told_clock : lua_redis_clock) + arrival::text_of(which));
}

}  // namespace

std::string holds_text(bool wide, Scripts::Time time) {
  return counters_text(wide, time).append(lua_holds);
}

Script::Script(std::string its_text) : text(std::move(its_text)), sha(sha1(text)) {}

Scripts::Scripts(Time time)
    : time_(time),
      full_plain_(full_text(false, time)),
      full_wide_(full_text(true, time)),
      remaining_text_(std::string(lua_remaining_text)),
      window_text_("local call, sub, find = redis.call, string.sub, string.find\n" +
                   std::string(lua_window_text) + std::string(lua_settle_window_text)),
      undo_(undo_text(time)),
      arrivals_{arrival_script(Arrival::bucket, time), arrival_script(Arrival::cell, time),
                arrival_script(Arrival::shared_cell, time), arrival_script(Arrival::crab, time),
                arrival_script(Arrival::redis, time)} {}

Scripts::~Scripts() {
  for (auto* scripts : {&light_, &light_with_receipts_})
    for (auto& script : *scripts) delete script.load(std::memory_order_relaxed);
}

const Script& Scripts::light(Algorithms algorithms, bool receipts) {
  SLUICE_CHECK(algorithms < algorithm_sets);
  auto& made = (receipts ? light_with_receipts_ : light_)[algorithms];
  if (const Script* script = made.load(std::memory_order_acquire)) return *script;
  const std::lock_guard lock(mutex_);
  if (const Script* script = made.load(std::memory_order_relaxed)) return *script;
  std::string text = head(false, time_);
  for (const ScriptPart& part : parts)
    if ((algorithms & algorithm_bit(part.algorithm)) != 0) text.append(part.text).append(part.rest);
  const Algorithms always = algorithm_bit(Algorithm::unlimited) | algorithm_bit(Algorithm::deny);
  if ((algorithms & always) != 0) text += lua_always;
  text.append(lua_states).append(lua_settle_light);
  text += receipts ? lua_light_receipts : std::string_view("return table.concat(out, ' ')\n");
  const auto* const script = new Script(std::move(text));
  made.store(script, std::memory_order_release);
  return *script;
}

}  // namespace sluice::redis
