// Tells the service manager (systemd, Type=notify) how this process is doing, where there is one.
// Main thread.
#pragma once

#include <string_view>

namespace sluice::base {

// "READY=1", "STOPPING=1". Nothing happens without NOTIFY_SOCKET, or if no process listens.
void notify_manager(std::string_view state);

}  // namespace sluice::base
