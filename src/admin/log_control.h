// What the log tells, to be looked at and changed while the server runs: levels, format, denials.
// Answers /v1/log. Owned by the server; any thread: changes are made one after the other.
#pragma once

#include <mutex>
#include <string>

#include "admin/admin_json.h"
#include "admin/http_server.h"
#include "engine/denials.h"
#include "live/change_log.h"
#include "log/log.h"
#include "wire/http_session.h"

namespace sluice::admin {

class LogControl {
 public:
  // `log` outlives this.
  LogControl(log::Log& log, uint64_t denials_every) : log_(log) {
    denials_.set_every(denials_every);
  }

  engine::DenialSampler& denials() { return denials_; }

  wire::HttpResponse get() const;
  // All that the body names, or nothing. `handler` tells problems. by: as live::Change::by.
  wire::HttpResponse put(const wire::HttpRequest& request, const HttpHandler& handler,
                         const std::string& by, live::ChangeLog& changes);

 private:
  Json settings() const;

  log::Log& log_;
  engine::DenialSampler denials_;
  std::mutex changing_;
};

}  // namespace sluice::admin
