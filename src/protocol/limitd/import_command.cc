// The command `sluice store import-limitd`, which imports limitd's buckets.
#include "base/clock.h"
#include "base/printable.h"
#include "base/units.h"
#include "cli/inspect.h"
#include "disk/layout.h"
#include "protocol/limitd/dialect.h"
#include "protocol/limitd/import.h"
#include "protocol/protocol.h"

namespace sluice::limitd {
namespace {

int import_command(const protocol::StoreCall& call, config::CommandIo& io) {
  request::Spaces spaces;
  base::Diagnostics diagnostics;
  const auto rules =
      cli::inspect(*call.values[0], config::kind_named("limitd"), {}, spaces, diagnostics);
  tell(diagnostics, io);
  if (!rules) return config::exit_failure;
  const base::Time now = base::Clock().now();
  policy::Plan plan;
  const auto to_counter = [&](std::string_view type,
                              std::string_view key) -> std::optional<BucketCounter> {
    const request::Entry descriptor[] = {{"type", type}, {"key", key}};
    policy::Asked request;
    request.descriptor = descriptor;
    request.now = now;
    plan.clear();
    rules->match(&dialect, request, plan);
    const auto steps = plan.steps(plan.parts().front());
    if (steps.empty()) return std::nullopt;
    const policy::Rule& rule = *steps.back().rule;
    return BucketCounter{rule.space, rule.limits_id, rule.limits.front(),
                         plan.charge(steps.back()).key};
  };
  const base::Result<ImportReport> imported = import_buckets(call.dir, now, spaces, to_counter);
  if (!imported) return cli::fail(imported.problem().text, io);
  const ImportReport& r = *imported;
  if (call.json) {
    io.out << cli::to_text({{"imported", r.imported},
                            {"full", r.full},
                            {"there", r.there},
                            {"untyped", r.untyped},
                            {"unreadable", r.unreadable}})
           << std::flush;
    return config::exit_ok;
  }
  io.out << base::counted(r.imported, "bucket") << " imported\n";
  const auto also = [&](uint64_t count, const char* what) {
    if (count > 0) io.out << base::counted(count, "bucket") << ' ' << what << '\n';
  };
  also(r.full, "full, so there is nothing to keep of them");
  also(r.there, "skipped: the store has their counters already");
  also(r.untyped, "skipped: their types are not in the configuration");
  also(r.unreadable, "skipped: these entries are not buckets");
  io.out.flush();
  return config::exit_ok;
}

// Warns of a limitd database that has not been imported, because its buckets would start full.
void warn_of_database(const std::string& dir, const std::string& origin,
                      base::Diagnostics& diagnostics) {
  if (!has_database(dir) || disk::look(dir).condition != disk::Condition::absent) return;
  base::Diagnostic d;
  d.severity = base::Diagnostic::Severity::warning;
  d.subject = origin;
  d.message = "`" + base::printable(dir) +
              "` holds a database of limitd's, which is not read and not written; ours lies beside "
              "it, in its folder `sluice`, and begins empty";
  d.remedy = "to bring its buckets over, stop this server, run `sluice store import-limitd " +
             base::printable(dir) + " --config FILE` with limitd's configuration, and start again";
  diagnostics.push_back(std::move(d));
}

constexpr protocol::StoreOption import_options[] = {
    {"--config", "FILE", "limitd's configuration", "which names the types"}};

constexpr protocol::StoreTool tools[] = {
    {"import-limitd",
     "brings the buckets of limitd's own database in DIR into the store there;\n"
     "FILE is limitd's configuration, which names their types",
     import_options, import_command}};

}  // namespace

constinit const protocol::StoreTools store_tools = {tools, warn_of_database};

}  // namespace sluice::limitd
