#include "protocol/droplet/commands.h"
#include "protocol/droplet/rules.h"
#include "protocol/droplet/session.h"
#include "protocol/droplet/settings.h"
#include "protocol/protocol.h"

namespace sluice::droplet {

namespace {

constexpr protocol::Command commands[] = {
    {"droplet", "serve droplet's protocol, in place of `droplet`", serve, true}};

constexpr protocol::Ask ask_words = {
    .usage = "take|query BUCKET",
    .example = {},
    .question = {},
    .command = {},
    .run = ask,
};

}  // namespace

constinit const protocol::Description description = {
    .name = "droplet",
    .title = "droplet",
    .port = 3000,
    .make_session =
        [](const request::Peer&) { return std::unique_ptr<request::Session>(new DropletSession); },
    .tags_are_ids = true,
    // The connection stays open for a while after a Close, because droplet's client answers it with
    // its own Close, which takes a round trip and a turn of the client's event loop.
    .linger = std::chrono::milliseconds(1000),
    .dialect = &dialect,
    .ask = &ask_words,
    .commands = commands,
    .add_rules = [](const protocol::Settings*, request::Spaces& spaces,
                    policy::RuleSet& rules) { add_droplet_rule(spaces, rules); },
    .settings = &settings_format,
};

}  // namespace sluice::droplet
