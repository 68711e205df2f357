// Whatever a server sends, the client must read the same answers, or the same problem, in one piece
// and in pieces. The first byte says how the bytes are cut, the second whether they follow a valid
// handshake.
#include <openssl/evp.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "testing/client_codec_check.h"
#include "testing/random_cuts.h"
#include "wire/websocket.h"

namespace sluice::droplet {
extern const calls::Dialect client_dialect;
}

namespace {

using sluice::client_verb;
using namespace sluice::calls;

// What the codec makes of `bytes` after a valid answer to its handshake.
CodecOutcome read_behind_handshake(std::string_view bytes, const std::vector<size_t>& cuts) {
  const auto codec = sluice::droplet::client_dialect.make_codec(Target{});
  RecordedReplies replies({{client_verb::take}, {client_verb::peek}, {client_verb::take}});
  sluice::base::Buffer opening, head, out;
  codec->open(opening);
  const auto accept = sluice::wire::read_websocket_handshake(opening.view()).accept;
  sluice::wire::append_switching_protocols({accept.data(), accept.size()}, head);
  const CodecRead opened = codec->read(head.view(), replies, out);
  if (!codec->is_open() || opened.consumed != head.size()) std::abort();
  CodecOutcome outcome;
  std::string in;
  size_t at = 0;
  for (const size_t cut : cuts) {
    in += bytes.substr(at, cut);
    at += cut;
    const std::string exact(in);
    const CodecRead read = codec->read(exact, replies, out);
    if (read.consumed > in.size()) std::abort();
    in.erase(0, read.consumed);
    outcome.problem = read.problem;
    if (!outcome.problem.empty()) break;
  }
  outcome.answers = replies.text;
  outcome.sent = std::to_string(out.size());
  return outcome;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  if (data[1] % 2 == 0) {
    if (!reads_alike(sluice::droplet::client_dialect, data, size, {{client_verb::take}}))
      std::abort();
    return 0;
  }
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const auto cuts = sluice::tests::random_cuts(data[0], bytes.size());
  if (read_behind_handshake(bytes, {bytes.size()}) != read_behind_handshake(bytes, cuts))
    std::abort();
  return 0;
}
