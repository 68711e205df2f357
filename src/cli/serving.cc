#include "cli/serving.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/printable.h"
#include "store/embedded_store.h"

namespace sluice::cli {
namespace {

void announce(const Announcement& announcement, const std::vector<server::Bound>& bound,
              Outside& outside) {
  if (announcement.before) outside.out << announcement.before(bound);
  for (const auto& b : bound)
    outside.out << "sluice: " << server::name_of(b.protocol) << " listening on " << b.address
                << '\n';
  if (announcement.after) outside.out << announcement.after(bound);
  outside.out.flush();
}

}  // namespace

int run_server(const Config& config, const Announcement& announcement, Outside& outside) {
  const base::Log log(config.log_level.value);
  limit::Spaces spaces;
  base::Diagnostics diagnostics;
  auto rules = load_policy(config.policy_files(), spaces, diagnostics);
  tell(diagnostics, outside);
  if (!rules) return exit_failure;

  for (const auto& rule : rules->rules(policy::Dialect::divvy))
    log.logger()->debug("{}:{}: rule [{}] {}", rule.file, rule.line, base::printable(rule.pattern),
                        base::printable(rule.comment));

  const auto store = store::EmbeddedStore::open(config.memory_bytes.value, base::Hash());
  if (!store) {
    outside.err << "sluice: the system does not give the address space for "
                << config.memory_bytes.value
                << " bytes of counters; lower --memory, or raise ulimit -v" << std::endl;
    return exit_failure;
  }
  server::Server server(config.options(), std::move(rules), *store, log.logger());
  if (const auto problem = server.start()) {
    outside.err << "sluice: " << *problem << std::endl;
    return exit_failure;
  }
  announce(announcement, server.bound(), outside);
  server.run();
  return exit_ok;
}

}  // namespace sluice::cli
