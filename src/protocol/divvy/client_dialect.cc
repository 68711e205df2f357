#include <array>
#include <chrono>
#include <utility>

#include "client/dialect.h"
#include "client/looks_like.h"
#include "protocol/divvy/line.h"

namespace sluice::divvy {
namespace {

using calls::CodecRead;

constexpr size_t reply_line_bytes_max = 64 << 10;
constexpr size_t shown_bytes_max = 200;  // of a line that is not a reply, in an error message

client_result result_of_line(std::string_view line) {
  client_result result;
  DivvyReply reply;
  if (!read_divvy_reply(line, reply)) {
    result.error = line.starts_with("ERR ") ? client_errc::refused : client_errc::bad_reply;
    if (line.starts_with("ERR Internal Error")) result.error = client_errc::unavailable;
    result.text = result.error == client_errc::bad_reply
                      ? "that is not a reply of Divvy's protocol: " +
                            std::string(line.substr(0, shown_bytes_max)) + calls::looks_like(line)
                      : std::string(line);
    return result;
  }
  result.allowed = reply.allowed;
  result.remaining = reply.remaining;
  // A time that microseconds in 64 bits cannot hold counts as never.
  const bool is_never = reply.reset_seconds < 0 || reply.reset_seconds > INT64_MAX / 1'000'000;
  result.reset_after =
      is_never ? client_never : std::chrono::microseconds(reply.reset_seconds * 1'000'000);
  return result;
}

class ClientCodec final : public calls::Codec {
 public:
  CodecRead read(std::string_view in, calls::Replies& replies, base::Buffer&) override {
    size_t done = 0;
    for (;;) {
      const size_t end = in.find('\n', done + searched_);
      if (end == std::string_view::npos) break;
      std::string_view line = in.substr(done, end - done);
      done = end + 1;
      searched_ = 0;
      if (line.size() > reply_line_bytes_max)
        return {done, client_errc::bad_reply, "the reply is too long"};
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (replies.oldest() == nullptr)
        return {done, client_errc::bad_reply, "the server sent a line that answers nothing"};
      replies.answer_oldest(result_of_line(line));
    }
    searched_ = in.size() - done;
    if (searched_ > reply_line_bytes_max)
      return {done, client_errc::bad_reply,
              "the reply has no line end; that is not a server of Divvy's protocol"};
    return {done, client_errc::none, {}};
  }

 private:
  size_t searched_ = 0;  // bytes at the front of the next `in` that hold no LF
};

base::Done encode(const client_request& request, calls::EncodeContext&, base::Buffer& out) {
  const client_subject& subject = request.subject;
  if (request.verb != client_verb::take || request.n.value_or(1) != 1)
    return base::Problem{"Divvy's protocol can only take one unit"};
  if (!request.several.empty() || !subject.limits.empty() || !subject.key.empty() ||
      !subject.type.empty())
    return base::Problem{"Divvy's protocol carries entries, and neither keys nor limits"};
  std::array<DivvyEntry, 16> few;
  std::vector<DivvyEntry> many;
  const size_t count = subject.entries.size();
  if (count > few.size()) many.resize(count);
  const std::span<DivvyEntry> entries(count > few.size() ? many.data() : few.data(), count);
  for (size_t i = 0; i < count; ++i)
    entries[i] = {subject.entries[i].key, subject.entries[i].value};
  return append_divvy_request(entries, out);
}

constexpr std::string_view client_schemes[] = {"divvy"};

}  // namespace

extern const calls::Dialect client_dialect;
const calls::Dialect client_dialect = {
    .schemes = client_schemes,
    .port = 8321,
    .timeout = base::seconds(1),
    .pending_max = 100,
    // As in Divvy's client: five more attempts, each one second after the last failure; then one
    // attempt for each call that finds the connection closed.
    .reconnect = {.first = base::seconds(1),
                  .tries = 5,
                  .given_up = calls::Reconnect::GivenUp::until_the_next_call},
    .away = {.queue_while_waiting = true},
    .make_codec = [](const calls::Target&) -> std::unique_ptr<calls::Codec> {
      return std::make_unique<ClientCodec>();
    },
    .encode = encode,
};

}  // namespace sluice::divvy
