// What the replies to SLUICE.*, CL.THROTTLE, THROTTLE and GCRA say, for `sluice ask`. Pure
// functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/time.h"
#include "protocol/resp/reply_value.h"

namespace sluice::resp {

// What a reply to a command is made of.
enum class ReplyForm : uint8_t {
  take,      // SLUICE.TAKE, SLUICE.PEEK
  put,       // SLUICE.PUT
  reset,     // SLUICE.RESET
  explain,   // SLUICE.EXPLAIN
  info,      // SLUICE.INFO
  cell,      // CL.THROTTLE, GCRA
  throttle,  // THROTTLE
  verdict,   // SLUICE.WAIT, SLUICE.MTAKE: the first number says whether units were taken
  other      // any other command's
};

// What the words of a question are sent as.
struct AskedCommand {
  std::string_view name;  // the command, in place of the first word
  ReplyForm form = ReplyForm::other;
};
// `take`, `peek`, `put`, `reset`, `explain`, `info`, `wait` and `mtake`, written so, are the SLUICE
// commands of that name; all else is a command as it stands, in any case. There is a first word.
AskedCommand asked_command(std::span<const std::string> words);

// A decision, whatever the command.
struct AskedDecision {
  bool allowed = false;
  int64_t limit = 0, remaining = 0;
  base::Duration retry_after{};                 // 0 when allowed; base::never
  std::optional<base::Duration> reset_after{};  // nothing: the command does not tell it
  std::string rule{};                           // of WITHNAME
};
// Of `take`, `cell` and `throttle`; nothing: that is no such reply.
std::optional<AskedDecision> read_decision(ReplyForm form, const RespValue& reply);

// "allowed: 4 of 5 left, all of them again within 15s", without a line end.
std::string words_for(const AskedDecision& decision, bool coloured);

// Of `verdict`: was nothing taken?
bool is_denied(const RespValue& reply);

// The reply to any other of these as lines, or as JSON. Nothing: it is none of that form, or an
// error.
struct AskedAnswer {
  std::string text;
  bool denied = false;
};
std::optional<AskedAnswer> answer_to(ReplyForm form, const RespValue& reply, bool json,
                                     bool coloured);

}  // namespace sluice::resp
