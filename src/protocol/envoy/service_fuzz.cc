// Any bytes of a client must get the same answers from the service in one piece and in pieces, over
// HTTP/2 and HTTP/1.1. The first byte chooses the version and how the rest is cut; for HTTP/2 the
// rest follows the preface.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "protocol/envoy/service_world_test.h"
#include "testing/random_cuts.h"
#include "wire/http2_peer_test.h"

namespace {

using namespace sluice::envoy;
using namespace sluice::envoy::service_world;
namespace http2 = sluice::wire::http2_peer;

void require(bool holds) {
  if (!holds) std::abort();
}

const Files files = {{"limits.yaml",
                      "domain: d\ndescriptors:\n"
                      "  - {key: a, value: x, rate_limit: {unit: day, requests_per_unit: 2, name: "
                      "one, replaces: [{name: two}]}}\n"
                      "  - {key: a, rate_limit: {unit: hour, requests_per_unit: 3, name: two}}\n"
                      "  - {key: b, value: 'p*', rate_limit: {unlimited: true}}\n"}};

using Transcript = std::tuple<std::map<uint32_t, std::string>, size_t, bool, std::string>;

Transcript run(std::string_view bytes, bool is_http2, const std::vector<size_t>& cuts) {
  World world;
  require(world.load(files));
  Connection connection(world);
  size_t cut = 0;
  for (size_t arrived = 0; arrived < bytes.size() && !connection.closed();) {
    const size_t count = cut < cuts.size() ? cuts[cut++] : bytes.size() - arrived;
    connection.send(bytes.substr(arrived, count));
    arrived += count;
  }
  const std::string sent = connection.take();
  const std::string fault(connection.session().fault().code);
  if (!is_http2) return {{{0, sent}}, 0, connection.closed(), fault};
  // The ids of reservations are made at random.
  const auto without_id = [](const std::string& body) {
    const bool has_id = body.size() > 9 && body.substr(5, 3) == "\x08\x01\x12" && body[9] != '\x08';
    return has_id ? body.substr(0, 9) : body;
  };
  http2::Peer peer;
  peer.read(sent);
  std::map<uint32_t, std::string> answers;
  for (const auto& [stream, answer] : peer.answers) {
    // An empty answer here comes from a frame that only opens a window. When such frames are sent
    // depends on how the input is cut.
    if (answer.headers.empty() && !answer.ended && answer.reset < 0) continue;
    std::string& text = answers[stream];
    for (const auto* list : {&answer.headers, &answer.trailers})
      for (const auto& [name, value] : *list) text += name + ": " + value + "\n";
    text += without_id(answer.body) + (answer.ended ? " ended" : "") + std::to_string(answer.reset);
  }
  return {answers, peer.goaways.size(), connection.closed(), fault};
}

// A call that its client resets may be answered before the reset, so such calls are not compared.
void require_same(const Transcript& whole, const Transcript& cut) {
  const auto& [answers, goaways, closed, fault] = whole;
  const auto& [others, other_goaways, other_closed, other_fault] = cut;
  for (const auto& [stream, answer] : answers)
    if (const auto other = others.find(stream); other != others.end())
      require(answer == other->second);
  require(goaways == other_goaways && closed == other_closed && fault == other_fault);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const bool is_http2 = (data[0] & 0x80) == 0;
  std::string bytes = is_http2 ? http2::join({http2::hello(), http2::settings_ack()}) : "";
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  require_same(run(bytes, is_http2, {}),
               run(bytes, is_http2, sluice::tests::random_cuts(data[0], bytes.size())));
  return 0;
}
