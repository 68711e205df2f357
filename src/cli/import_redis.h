// The tool `sluice store import-redis`. Constant data; main thread.
#pragma once

#include "protocol/store_tools.h"

namespace sluice::cli {

extern const protocol::StoreTool import_redis_tool;

}  // namespace sluice::cli
