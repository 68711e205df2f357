#include <sstream>

#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/metrics_text.h"
#include "config/screen_text.h"

namespace sluice::cli {
namespace {

constexpr const char* about_metrics =
    "Prints the metrics of a running server, as Prometheus reads them. With TEXT, those whose "
    "name\n"
    "has it.";

std::string footer_of_metrics() {
  return admin_footer(
      "That no metric has TEXT is a failure, for scripts.\n"
      "\n"
      "Examples:\n"
      "  sluice metrics\n"
      "  sluice metrics requests_total\n"
      "  sluice metrics --json store",
      "printed", "no metric has TEXT");
}

// The metric's name in a line of the page: that of the sample, or that after `# HELP ` or `# TYPE
// `.
std::string_view metric_of(std::string_view line) {
  for (const std::string_view mark : {"# HELP ", "# TYPE "})
    if (line.starts_with(mark)) line.remove_prefix(mark.size());
  return line.substr(0, line.find_first_of(" {"));
}

}  // namespace

int print_metrics(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice metrics [options] [TEXT]", about_metrics, footer_of_metrics());
  AdminFlags flags;
  add_admin_flags(arguments, flags);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (arguments.positional().size() > 1) return arguments.misused("one TEXT is enough", io);
  const std::string text = arguments.positional().empty() ? "" : arguments.positional().front();
  int ending = config::exit_ok;
  auto port = AdminPort::open(flags, arguments, io, ending);
  if (!port) return ending;
  const auto reply = port->get("/metrics");
  if (!reply.is_done()) return report_failure(reply, flags.json, io);

  std::string page;
  Json samples = Json::array();
  std::istringstream lines(reply.text);
  for (std::string line; std::getline(lines, line);) {
    const std::string name(metric_of(line));
    if (name.find(text) == std::string::npos) continue;
    page += line + "\n";
    if (line.starts_with('#') || line.empty()) continue;
    if (const auto sample = read_sample(line))
      samples.push_back({{"name", name}, {"labels", sample->labels}, {"value", sample->value}});
  }
  if (page.empty()) return fail("no metric has `" + text + "`", io);
  io.out << (flags.json ? to_text({{"metrics", samples}}) : config::on_screen_lines(page))
         << std::flush;
  return config::exit_ok;
}

}  // namespace sluice::cli
