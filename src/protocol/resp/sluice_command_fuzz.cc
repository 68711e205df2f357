// Any words, one a line, must be an error or a command within its bounds. Read into an object that
// held another command, they must give the same. Written by the naive writer, in a form that the
// first byte chooses, and read again, the command must be the same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/bounds.h"
#include "limit/decide.h"
#include "protocol/resp/sluice_command.h"
#include "protocol/resp/sluice_command_model.h"
#include "request/charge_ids.h"
#include "request/hold.h"

namespace {

using namespace sluice::resp;
namespace bounds = sluice::base::bounds;
using sluice::limit::Algorithm;
using Words = std::vector<std::string_view>;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

// The numbers of a limit are as limit::Limit requires.
void check(const sluice::limit::Limit& limit) {
  const bool is_bucket = limit.algorithm == Algorithm::token_bucket;
  const bool is_fixed = limit.algorithm == Algorithm::fixed_bucket;
  require(sluice::limit::has_counter(limit.algorithm), "an algorithm without a counter");
  require(limit.quota >= 1 && limit.quota <= bounds::quota_max, "a quota");
  require(limit.window.us >= (is_fixed ? 0 : 1), "a window that is too short");
  require(limit.window.us <= (is_fixed ? 0 : bounds::window_us_max), "a window that is too long");
  require(is_bucket ? limit.burst >= 1 && limit.burst <= bounds::quota_max
                    : limit.burst == (is_fixed ? limit.quota : 0),
          "a burst");
}

void check(const SluiceCommand& command) {
  const size_t subjects = command.subjects.size(), units = command.units.size();
  const bool settles = command.verb >= SluiceVerb::extend;
  const bool reserves = !settles && command.verb >= SluiceVerb::reserve;
  if (command.verb == SluiceVerb::commit)
    require(subjects == 0 || subjects == units, "subjects of a commit");
  else if (settles || command.verb == SluiceVerb::info || command.verb == SluiceVerb::help)
    require(subjects == 0, "a subject without a meaning");
  else if (command.verb == SluiceVerb::mtake || command.verb == SluiceVerb::mreserve)
    require(subjects >= 1 && subjects <= sluice_subjects_max, "subjects");
  else
    require(subjects == 1, "a subject");
  require(units <= sluice_subjects_max && (units > 0 || command.verb != SluiceVerb::commit),
          "numbers of units");
  require(!reserves || units == subjects, "units of each subject");
  for (const int64_t one : command.units)
    require(one >= 0 && one <= bounds::quota_max, "units that are out of range");
  require(!settles || sluice::request::is_charge_id(command.id), "the id of a hold");
  require(command.holder.size() <= sluice::request::holder_bytes_max, "a long holder");
  require(command.ttl.us >= 0 && command.ttl.us <= sluice_ttl_max.us, "a ttl");
  require(command.n >= (command.verb == SluiceVerb::put ? 1 : 0), "N that is too small");
  require(command.n <= bounds::quota_max, "N that is too large");
  require(command.timeout.us >= 0 && command.timeout.us < int64_t{1} << 62, "a timeout");
  require(!command.now || command.now->us >= 0, "a time");
  for (const SluiceSubject& subject : command.subjects) {
    const auto entries = command.entries_of(subject);
    const auto limits = command.limits_of(subject);
    if (subject.is_inline) {
      require(!limits.empty() && limits.size() <= sluice::limit::slots_max, "limits");
      require(sluice::limit::cells(limits) <= sluice::limit::cells_max, "cells");
    } else {
      require(!entries.empty() && entries.size() <= sluice_entries_max, "entries");
    }
    for (const auto& entry : entries)
      require(!entry.key.empty() && entry.key.find('=') == entry.key.npos, "an entry");
    for (const auto& limit : limits) check(limit);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  Words words;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    words.push_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }

  SluiceCommand command, used;
  const Words other = {"SLUICE.PUT", "KEY", "k", "LIMIT", "5", "60", "LIMIT", "5", "1", "N", "7"};
  require(parse_sluice_command(other, used) && used.n == 7, "a command of two limits");
  const bool sound = parse_sluice_command(words, command);
  require(parse_sluice_command(words, used) == sound && used.error == command.error, "used again");
  require(sound == command.error.empty(), "an error, or none");
  if (!sound) {
    require(command.error.starts_with("ERR ") && command.error.size() <= 256, "a text of an error");
    return 0;
  }
  check(command);
  const sluice_model::Asked asked = sluice_model::asked_of(command);
  require(sluice_model::asked_of(used) == asked, "another command when used again");
  uint32_t seed = data[0];
  const auto choose = [&](size_t n) {
    seed = seed * 1'664'525 + 1'013'904'223;
    return (seed >> 16) % n;
  };
  const sluice_model::Written again = sluice_model::Writer(choose).write(asked);
  require(parse_sluice_command(Words(again.begin(), again.end()), used), used.error.c_str());
  require(sluice_model::asked_of(used) == asked, "another command when written again");
  return 0;
}
