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

// Cuts the receipt of the next charge off. Empty: it took nothing.
std::string_view next_of(std::string_view& receipt) {
  const std::string_view its = receipt.substr(0, receipt.find(';'));
  receipt.remove_prefix(std::min(receipt.size(), its.size() + 1));
  return its;
}

// Calls `visit(charge, its receipt)` for each charge that took something.
template <class Visit>
void each_taken(std::span<const Charge> charges, std::string_view receipt, const Visit& visit) {
  for (const Charge& charge : charges) {
    const std::string_view its = next_of(receipt);
    if (!its.empty() && charge.cost > 0) visit(charge, its);
  }
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

std::string receipt_if_refused(std::span<const Charge> charges, std::string_view receipt) {
  std::string rest;
  for (size_t k = 0; k < charges.size(); ++k) {
    const Charge& charge = charges[k];
    std::string_view its = next_of(receipt);
    if (k > 0) rest += ';';
    if (!request::may_bring_debt(charge.verb)) rest += its;
    if (charge.verb != Verb::count || charge.counts == limit::all_of(charge.limits)) continue;
    for (size_t i = 0; !its.empty(); ++i) {
      const std::string_view one = its.substr(0, its.find(','));
      its.remove_prefix(std::min(its.size(), one.size() + 1));
      if (i > 0) rest += ',';
      rest += limit::has(charge.counts, i) ? std::string_view("-") : one;
    }
  }
  return rest;
}

uint64_t units_of(std::span<const Charge> charges, std::string_view receipt) {
  uint64_t units = 0;
  each_taken(charges, receipt, [&](const Charge& charge, std::string_view) {
    units += static_cast<uint64_t>(charge.cost);
  });
  return units;
}

uint64_t most_units_of(std::span<const Charge> charges, bool refused) {
  uint64_t units = 0;
  for (const Charge& charge : charges)
    if (charge.verb == Verb::charge || (charge.verb == Verb::count && charge.counts != 0) ||
        (!refused && (charge.verb == Verb::take || charge.verb == Verb::count)))
      units += static_cast<uint64_t>(charge.cost);
  return units;
}

void append_undo(std::string& out, const ScriptCall& ask, std::string_view receipt,
                 const Script& script, LimitTexts& texts) {
  size_t count = 0, size = 3;
  each_taken(ask.charges, receipt, [&](const Charge& charge, std::string_view) {
    ++count, size += 7 + 4 * charge.limits.size();
  });
  append_array(out, ask.told.us >= 0 ? size + 1 : size);
  append_hash(out, script);
  append_bulk(out, static_cast<int64_t>(count));
  each_taken(ask.charges, receipt,
             [&](const Charge& charge, std::string_view) { append_key(out, ask, charge); });
  each_taken(ask.charges, receipt, [&](const Charge& charge, std::string_view its) {
    const LimitText& text = texts.of(charge.limits, charge.limits_id);
    const std::string_view kind = kind_of(charge);
    append_bulk(out, kind, kind == "own" ? head_of(ask) : std::string(), {}, {});
    append_bulk(out, text.name);
    append_cost(out, charge);
    append_bulk(out, charge.space->keep_fresh_for.us / 1000);
    append_bulk(out, static_cast<int64_t>(text.count));
    append_bulk(out, its);
    out += text.arguments;
  });
  if (ask.told.us >= 0) append_bulk(out, ask.told.us);
}

void append_by_text(std::string& out, std::string_view call, const Script& script) {
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
