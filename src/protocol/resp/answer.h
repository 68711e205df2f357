// Reads the replies to SLUICE.*, CL.THROTTLE, THROTTLE and GCRA, and converts them to text for
// `sluice ask`. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"
#include "protocol/resp/reply_text.h"

namespace sluice::resp {

// The form of a command's reply.
enum class ReplyForm : uint8_t {
  take,      // SLUICE.TAKE, SLUICE.PEEK
  charge,    // SLUICE.CHARGE
  put,       // SLUICE.PUT
  reset,     // SLUICE.RESET
  explain,   // SLUICE.EXPLAIN
  info,      // SLUICE.INFO
  cell,      // CL.THROTTLE, GCRA
  throttle,  // THROTTLE
  hold,      // SLUICE.RESERVE, SLUICE.EXTEND
  commit,    // SLUICE.COMMIT
  release,   // SLUICE.RELEASE
  renew,     // SLUICE.RENEW
  verdict,   // SLUICE.WAIT, SLUICE.MTAKE, SLUICE.MRESERVE: the first number: were units taken?
  other      // the reply of any other command
};

// The command that `sluice ask` sends for its words.
struct AskedCommand {
  std::string_view name;  // the command, in place of the first word
  ReplyForm form = ReplyForm::other;
};
// A word of asked_words() is the SLUICE command with this name; any other first word is a command
// itself. There must be a first word.
AskedCommand asked_command(std::span<const std::string> words);
// Literals, in lower case.
std::vector<std::string_view> asked_words();

// A decision of any of these commands.
struct AskedDecision {
  bool allowed = false;
  int64_t limit = 0, remaining = 0;
  base::Duration retry_after{};                 // 0 if allowed; may be base::never
  std::optional<base::Duration> reset_after{};  // empty: the reply does not have it
  std::string rule{};                           // with WITHNAME
};
// For the forms `take`, `cell` and `throttle`; empty: the reply does not have that form.
std::optional<AskedDecision> read_decision(ReplyForm form, const RespValue& reply);

// "allowed: 4 of 5 left, all of them again within 15s", without a line end.
std::string words_for(const AskedDecision& decision, bool coloured);

// For the form `verdict`: was nothing taken?
bool is_denied(const RespValue& reply);

// The reply as lines, or as JSON, for all forms. Empty: the reply does not have that form, or is an
// error.
struct AskedAnswer {
  std::string text;
  bool denied = false;
};
std::optional<AskedAnswer> answer_to(ReplyForm form, const RespValue& reply, bool json,
                                     bool coloured);

}  // namespace sluice::resp
