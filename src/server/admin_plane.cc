#include "server/admin_plane.h"

#include <algorithm>
#include <utility>

#include "admin/routes.h"
#include "base/bounds.h"
#include "base/check.h"
#include "protocol/policy_files.h"

namespace sluice::server {
namespace {

// The admin port's health, and nothing else of it: for probes, which need no token and no TLS.
class HealthAlone final : public admin::HttpHandler {
 public:
  explicit HealthAlone(admin::Admin& admin) : admin_(admin) {}

  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const override {
    if (admin_.is_health(request)) return admin_.refuse(request);
    return problem(404, "here are /health/live and /health/ready alone");
  }
  bool is_health(const wire::HttpRequest& request) const override {
    return admin_.is_health(request);
  }
  bool is_slow(const wire::HttpRequest& request) const override { return admin_.is_slow(request); }
  wire::HttpResponse answer(const wire::HttpRequest& request) override {
    return admin_.answer(request);
  }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return admin_.problem(status, why);
  }

 private:
  admin::Admin& admin_;
};

}  // namespace

void AdminPlane::prepare(const Options& options, const live::Live& live, live::Reloader* reloader,
                         live::OverrideRegistry* overrides, store::HoldBook* holds,
                         std::vector<std::string> files, const store::Catalog& store,
                         base::Clock& clock, log::Log& log, live::ChangeLog& changes) {
  log_control_ = std::make_unique<admin::LogControl>(log, options.denials_every);
  server_info_ = std::make_unique<admin::ServerInfo>(
      live, reloader == nullptr ? nullptr : &reloader->history(), store, options.admin.version);
  sources_.add(*server_info_);
  sources_.add(server_stats_);
  sources_.add(process_);
  for (const metrics::Source* source : options.sources) sources_.add(*source);
  if (overrides != nullptr) sources_.add(*overrides);
  const auto metrics_deps = [&](protocol::Protocol protocol) {
    const live::ReloadHistory* const history = reloader == nullptr ? nullptr : &reloader->history();
    return protocol::MetricsDeps{
        server_stats_, protocol, options.session_options[static_cast<size_t>(protocol)].get(),
        [&live, history] {
          return protocol::PolicyLoads{live.shown()->generation,
                                       history == nullptr ? 0 : history->refusals()};
        },
        *live.shown()->rules};
  };
  if (options.statsd) {
    const admin::StatsdOptions& o = *options.statsd;
    const protocol::Metrics* const metrics = protocol::describe(o.protocol).metrics;
    SLUICE_CHECK(metrics != nullptr);
    statsd_ = std::make_unique<metrics::StatsdSender>(
        metrics::StatsdSender::Options{o.host, o.port, o.tcp, o.period},
        metrics->make_statsd_feed(metrics_deps(o.protocol), o.prefix));
    if (metrics->is_counted_by_engine)
      server_stats_.keep_events(o.protocol, [this] { statsd_->wake(); });
    sources_.add(*statsd_);
  }
  const bool http = std::any_of(options.listeners.begin(), options.listeners.end(),
                                [](const auto& l) { return l.service.is_http(); });
  if (!http && options.admin_socket.empty()) return;
  admin_ = std::make_unique<admin::Admin>(
      options.admin, admin::Admin::Deps{live, server_stats_, sources_, reloader, std::move(files)});
  admin_->add_check([this]() -> std::optional<std::string> {
    if (stopping_) return "the server is stopping";
    if (!serving_) return "the server is starting";
    return std::nullopt;
  });
  admin_->add_check([&store]() -> std::optional<std::string> {
    std::string why = store.why_not_ready();
    return why.empty() ? std::nullopt : std::optional(std::move(why));
  });
  admin_->add_check([this]() -> std::optional<std::string> {
    std::string why = server_stats_.why_full();
    return why.empty() ? std::nullopt : std::optional(std::move(why));
  });
  admin_->add_degraded_check([&store]() -> std::optional<std::string> {
    std::string why = store.why_degraded();
    return why.empty() ? std::nullopt : std::optional(std::move(why));
  });
  for (const auto& feed : options.feeds)
    admin_->add_degraded_check([feed]() -> std::optional<std::string> {
      const protocol::PolicyFeed::State its = feed->state();
      if (its.taken_at) return std::nullopt;
      return "it waits for the first limits from " + its.from + " for node " + its.node +
             ", and requests that need them are errors";
    });
  if (overrides != nullptr) admin::add_overrides(*admin_, *overrides, live);
  admin_->add({.method = "GET", .path = "/v1/log", .handler = [this](const admin::Admin::Call&) {
                 return log_control_->get();
               }});
  admin_->add({.method = "PUT",
               .path = "/v1/log",
               .body_bytes_max = base::bounds::admin_small_body_bytes_max,
               .handler = [this, &changes](const admin::Admin::Call& c) {
                 return log_control_->put(c.request, *admin_, c.by, changes);
               }});
  admin::add_changes(*admin_, changes);
  if (holds != nullptr) admin::add_holds(*admin_, *holds, clock, changes);
  const bool asks =
      !options.admin_socket.empty() ||
      std::any_of(options.listeners.begin(), options.listeners.end(),
                  [](const auto& l) { return l.service.kind == Service::Kind::admin; });
  if (asks) {
    top_board_ = std::make_unique<admin::TopBoard>(clock, live, server_stats_, options.spaces);
    admin_->add({.method = "GET",
                 .path = "/v1/top",
                 .slow = true,
                 .handler = [this](const admin::Admin::Call& call) {
                   return top_board_->answer(call.request, *admin_);
                 }});
    denial_board_ =
        std::make_unique<admin::DenialBoard>(clock, live, server_stats_, options.spaces);
    admin_->add({.method = "GET",
                 .path = "/v1/denials",
                 .slow = true,
                 .handler = [this](const admin::Admin::Call& call) {
                   return denial_board_->answer(call.request);
                 }});
  }
  for (const ListenerOptions& listener : options.listeners) {
    const Service& service = listener.service;
    if (service.kind != Service::Kind::page) continue;
    const protocol::Metrics& metrics = *protocol::describe(service.protocol).metrics;
    pages_.push_back({service, metrics.make_page(metrics_deps(service.protocol), service.path)});
  }
  health_ = std::make_unique<HealthAlone>(*admin_);
  http_ = std::make_unique<admin::HttpServer>(log.logger(log::LogModule::admin));
}

void AdminPlane::start(size_t http_places) {
  if (statsd_) statsd_->start();
  if (http_) http_->start(http_places);
  serving_ = true;
}

bool AdminPlane::stop() {
  const bool in_time = !http_ || http_->stop();
  statsd_.reset();
  return in_time;
}

net::Listener::Owner AdminPlane::http_owner() {
  return {[this] { return http_->has_room(); }, [this] { http_->make_room(); }, {}};
}

bool AdminPlane::take(int fd, const Service& service, std::shared_ptr<net::TlsContext> tls) {
  if (!service.is_http()) return false;
  if (service.kind == Service::Kind::admin || service.kind == Service::Kind::health) {
    http_->adopt(fd, service.kind == Service::Kind::admin ? *admin_ : *health_, std::move(tls));
    return true;
  }
  const auto page = std::find_if(pages_.begin(), pages_.end(), [&](const OwnPage& one) {
    return one.service.protocol == service.protocol && one.service.path == service.path;
  });
  SLUICE_CHECK(page != pages_.end());
  http_->adopt(fd, *page->handler);
  return true;
}

}  // namespace sluice::server
