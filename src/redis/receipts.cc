#include "redis/receipts.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "base/check.h"
#include "limit/gcra.h"
#include "redis/window_text.h"
#include "request/space.h"

namespace sluice::redis {

using request::Charge;
using request::KeyEncoding;
using request::Verb;

namespace {

std::string_view kind_of(const Charge& charge) {
  if (window_text::holds(charge)) return "window";
  return charge.space->encoding == KeyEncoding::remaining_text ? "remaining" : "own";
}

bool takes(const Charge& charge) {
  return charge.verb == Verb::take && charge.cost > 0;
}

void append_hash(std::string& out, const Script& script) {
  append_bulk(out, std::string_view("EVALSHA"));
  append_bulk(out, std::string_view(script.sha));
}

}  // namespace

bool has_receipts(const Charge& charge) {
  return !charge.keeps_limits && charge.space->encoding != KeyEncoding::tat_text &&
         std::ranges::none_of(charge.limits, limit::gcra::is_gcra, &limit::Limit::algorithm);
}

std::string_view cut_receipt(std::string_view& answer) {
  const size_t at = answer.rfind(" @");
  if (at == std::string_view::npos) return {};
  const std::string_view receipt = answer.substr(at + 2);
  answer = answer.substr(0, at);
  return receipt;
}

uint64_t units_of(std::span<const Charge> charges) {
  uint64_t units = 0;
  for (const Charge& charge : charges)
    if (takes(charge)) units += static_cast<uint64_t>(charge.cost);
  return units;
}

void append_undo(std::string& out, const ScriptCall& ask, std::string_view receipt,
                 const Script& script, LimitTexts& texts) {
  size_t count = 0, size = 3;
  for (const Charge& charge : ask.charges)
    if (takes(charge)) ++count, size += 7 + 4 * charge.limits.size();
  append_array(out, ask.told.us >= 0 ? size + 1 : size);
  append_hash(out, script);
  append_bulk(out, static_cast<int64_t>(count));
  for (const Charge& charge : ask.charges)
    if (takes(charge)) append_key(out, ask, charge);
  for (const Charge& charge : ask.charges) {
    const std::string_view its = receipt.substr(0, receipt.find(';'));
    receipt.remove_prefix(std::min(receipt.size(), its.size() + 1));
    if (!takes(charge)) continue;
    const LimitText& text = texts.of(charge.limits, charge.limits_id);
    append_bulk(out, kind_of(charge));
    append_bulk(out, text.name);
    append_bulk(out, charge.cost);
    append_bulk(out, charge.space->keep_fresh_for.us / 1000);
    append_bulk(out, static_cast<int64_t>(text.count));
    append_bulk(out, its);
    out += text.arguments;
  }
  if (ask.told.us >= 0) append_bulk(out, ask.told.us);
}

void append_undo_by_text(std::string& out, std::string_view call, const Script& script) {
  const size_t head = call.find('\n') + 1;
  std::string by_hash;
  append_hash(by_hash, script);
  SLUICE_CHECK(call.substr(head).starts_with(by_hash));
  out += call.substr(0, head);
  append_bulk(out, std::string_view("EVAL"));
  append_bulk(out, std::string_view(script.text));
  out += call.substr(head + by_hash.size());
}

std::optional<uint64_t> undo_answer(std::string_view text) {
  uint64_t units = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), units);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return units;
}

}  // namespace sluice::redis
