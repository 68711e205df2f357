#include "protocol/droplet/commands.h"
#include "protocol/droplet/dialect.h"
#include "protocol/droplet/session.h"
#include "protocol/protocol.h"

namespace sluice::droplet {

namespace {

constexpr protocol::Command commands[] = {
    {"droplet", "serve droplet's protocol, in place of `droplet`", serve, true}};

constexpr protocol::Ask ask_words = {"take|query BUCKET", "", ask};

}  // namespace

extern const protocol::Description description;
constinit const protocol::Description description = {
    .name = "droplet",
    .port = 3000,
    .make_session = [] { return std::unique_ptr<request::Session>(new DropletSession); },
    // Droplet's client answers a Close with its own, which takes a round trip and its event loop's
    // turn.
    .linger = std::chrono::milliseconds(1000),
    .dialect = &dialect,
    .ask = &ask_words,
    .commands = commands,
};

}  // namespace sluice::droplet
