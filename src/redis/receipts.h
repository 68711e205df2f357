// What one slot's part of a group took, as the script that took it answers, and the call of the
// script that takes exactly that back. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "redis/script_call.h"
#include "request/charge.h"

namespace sluice::redis {

// Can a take of it be taken back by a receipt? Not of counters that keep their limits or have a
// theoretical arrival time.
bool has_receipts(const request::Charge& charge);

// Cuts the receipt off an answer and returns it.
std::string_view cut_receipt(std::string_view& answer);

// The receipt without what stays charged although the group is refused: charges that are never
// refused, and limits that count.
std::string receipt_if_refused(std::span<const request::Charge> charges, std::string_view receipt);

// The units that these charges took, by their receipt.
uint64_t units_of(std::span<const request::Charge> charges, std::string_view receipt);
// The most units that they may take; `refused`: as charges of a group that is refused.
uint64_t most_units_of(std::span<const request::Charge> charges, bool refused);

// Appends the call as EVALSHA, for `ask.charges` with their receipt, or a part of it. Its
// answer is read by undo_answer: how many units are still taken, as their counters have changed so
// much that they cannot be found. Nothing: it does not say.
void append_undo(std::string& out, const ScriptCall& ask, std::string_view receipt,
                 const Script& script, LimitTexts& texts);
// Appends a call of the script by its hash as EVAL, with the script's text, for a Redis that does
// not have the script.
void append_by_text(std::string& out, std::string_view call, const Script& script);
std::optional<uint64_t> undo_answer(std::string_view text);

}  // namespace sluice::redis
