// Whose a store is. What root makes in it, with a tool, would be root's, and the server that serves
// it could not open that. Any thread.
#pragma once

#include <string>

#include "base/result.h"

namespace sluice::disk {

// Gives what is root's at `path`, and below it, to the owner of `dir`; links are not followed.
// Nothing happens unless this process is root.
base::Done give_to_owner(const std::string& dir, const std::string& path);

// The same for a file that is open; what fails is left.
void give_to_owner(const std::string& dir, int fd);

}  // namespace sluice::disk
