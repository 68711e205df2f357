#include "base/log.h"

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <algorithm>

namespace sluice::base {
namespace {

constexpr const char* line_pattern = "%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v";

}  // namespace

const std::vector<std::string_view>& log_level_names() {
  static const std::vector<std::string_view> names{"trace", "debug", "info",
                                                   "warn",  "error", "off"};
  return names;
}

std::optional<spdlog::level::level_enum> log_level(std::string_view name) {
  using namespace spdlog::level;
  static constexpr level_enum levels[] = {trace, debug, info, warn, err, off};
  const auto& names = log_level_names();
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return levels[at - names.begin()];
}

Log::Log(spdlog::level::level_enum level)
    : Log(level, std::make_shared<spdlog::sinks::stderr_color_sink_mt>(), queue_lines_default) {}

Log::Log(spdlog::level::level_enum level, spdlog::sink_ptr sink, size_t queue_lines)
    : sink_(std::move(sink)),
      writer_(std::make_shared<spdlog::details::thread_pool>(queue_lines, 1)),
      logger_(std::make_shared<spdlog::async_logger>(
          "sluice", sink_, writer_, spdlog::async_overflow_policy::overrun_oldest)) {
  logger_->set_level(level);
  logger_->set_formatter(
      std::make_unique<spdlog::pattern_formatter>(line_pattern, spdlog::pattern_time_type::utc));
}

Log::~Log() {
  // A queued line owns the logger, not its writer, so this is the writer's end: it writes the rest
  // and is joined.
  const size_t lost = dropped();
  writer_.reset();
  if (lost == 0) return;
  const std::string text = fmt::format(
      "{} log lines were dropped: they came faster than standard error took them", lost);
  sink_->log(spdlog::details::log_msg(logger_->name(), spdlog::level::warn, text));
  sink_->flush();
}

size_t Log::dropped() const {
  return writer_->overrun_counter();
}

}  // namespace sluice::base
