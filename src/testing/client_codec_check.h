// For tests and fuzz targets: what a client's codec makes of a server's bytes, in one piece and in
// several. Any bytes must end in answers or in a problem, and in the same ones however they are
// cut.
#pragma once

#include <sluice/client.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/dialect.h"
#include "testing/random_cuts.h"

namespace sluice::calls {

// Answers the calls that it is given, and records the answers.
class RecordedReplies final : public Replies {
 public:
  // The calls' ids are 1, 2, ...
  explicit RecordedReplies(std::vector<Expected> expected) : expected_(std::move(expected)) {}

  const Expected* oldest() override {
    return next_ < expected_.size() ? &expected_[next_] : nullptr;
  }
  void answer_oldest(client_result&& result) override { record(++next_, result); }
  const Expected* find(uint64_t id) override {
    const bool is_there = id >= 1 && id <= expected_.size() &&
                          std::find(done_.begin(), done_.end(), id) == done_.end();
    return is_there ? &expected_[id - 1] : nullptr;
  }
  void answer(uint64_t id, client_result&& result) override {
    done_.push_back(id);
    record(id, result);
  }

  std::string text;  // a line for each answer

 private:
  static std::string show(const std::optional<int64_t>& number) {
    return number ? std::to_string(*number) : "-";
  }
  void record(uint64_t id, const client_result& result) {
    text += std::to_string(id) + " " + std::to_string(static_cast<int>(result.error)) + " " +
            std::to_string(result.allowed) + " " + show(result.limit) + " " +
            show(result.remaining) + " " + show(result.reset_at) + " " + result.rule + " " +
            result.text + " " + std::to_string(result.status) + " " + result.reply + "\n";
    for (const client_level& level : result.levels)
      text += " " + level.name + " " + std::to_string(level.allowed) + show(level.remaining) + "\n";
  }

  const std::vector<Expected> expected_;
  size_t next_ = 0;
  std::vector<uint64_t> done_;
};

struct CodecOutcome {
  std::string answers, problem, sent;
  bool operator==(const CodecOutcome&) const = default;
};

// Feeds a codec as the core does.
inline CodecOutcome read_all(const Dialect& dialect, const Target& target,
                             const std::vector<Expected>& expected, std::string_view bytes,
                             const std::vector<size_t>& cuts) {
  const std::unique_ptr<Codec> codec = dialect.make_codec(target);
  RecordedReplies replies(expected);
  base::Buffer opening, out;
  codec->open(opening);
  CodecOutcome outcome;
  std::string in;
  size_t at = 0;
  for (const size_t cut : cuts) {
    in += bytes.substr(at, cut);
    at += cut;
    for (bool again = true; again && outcome.problem.empty();) {
      const bool was_open = codec->is_open();
      // In memory of its own, so that a sanitizer notices reads beyond the end.
      const std::unique_ptr<char[]> memory(new char[in.size()]);
      std::copy(in.begin(), in.end(), memory.get());
      const CodecRead read = codec->read({memory.get(), in.size()}, replies, out);
      if (read.consumed > in.size()) std::abort();
      if (!read.problem.empty() && read.error == client_errc::none) std::abort();
      in.erase(0, read.consumed);
      outcome.problem = read.problem;
      const bool is_open = codec->is_open();
      // cppcheck-suppress incorrectLogicOperator
      again = is_open && !was_open;
    }
    if (!outcome.problem.empty()) break;
  }
  outcome.answers = replies.text;
  outcome.sent = out.view();
  return outcome;
}

// `size` bytes of a fuzzer, of which the first two are not read: the first says how the rest is
// cut, the second is the caller's. True: cut or not, `in_front` and the rest give the same answers,
// and the codec sends as many bytes.
inline bool reads_alike(const Dialect& dialect, const uint8_t* data, size_t size,
                        const std::vector<Expected>& expected, std::string_view in_front = {}) {
  if (size < 2) return true;
  std::string bytes(in_front);
  bytes.append(reinterpret_cast<const char*>(data) + 2, size - 2);
  Target target;
  target.host = target.name = "sluice.test";
  const CodecOutcome whole = read_all(dialect, target, expected, bytes, {bytes.size()});
  const CodecOutcome cut =
      read_all(dialect, target, expected, bytes, tests::random_cuts(data[0], bytes.size()));
  return whole.answers == cut.answers && whole.problem == cut.problem &&
         whole.sent.size() == cut.sent.size();
}

}  // namespace sluice::calls
