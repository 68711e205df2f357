#include "server/operate.h"

#include <algorithm>
#include <utility>

#include "admin/overrides_api.h"
#include "base/bounds.h"

namespace sluice::server {
namespace {

// Divvy's metrics port: one page. Any method, as there.
class DivvyPage final : public admin::Site {
 public:
  DivvyPage(const admin::Figures& figures, std::string path)
      : figures_(figures), path_(std::move(path)) {
    if (!path_.starts_with('/')) path_ = "/" + path_;
  }

  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const override {
    if (request.body_bytes <= base::bounds::admin_small_body_bytes_max) return {};
    return problem(413, "the body of the request is too long");
  }
  bool is_slow(const wire::HttpRequest&) const override { return false; }
  wire::HttpResponse answer(const wire::HttpRequest& request) override {
    if (request.path != path_) return {404, {}, {}, {}};
    return {200, "text/plain; version=0.0.4", figures_.divvy_page(), {}};
  }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return {status, "text/plain; charset=utf-8", why + "\n", {}};
  }

 private:
  const admin::Figures& figures_;
  std::string path_;
};

}  // namespace

void Operate::prepare(const Options& options, const live::Live& live, live::Reloader* reloader,
                      live::OverridesBook* overrides, std::vector<std::string> files,
                      const store::Store& store, base::Clock& clock, log::Log& log) {
  log_control_ = std::make_unique<admin::LogControl>(log, options.denials_every);
  facts_ = std::make_unique<admin::Facts>(
      live, reloader == nullptr ? nullptr : &reloader->readings(), store, options.admin.version);
  sources_.add(*facts_);
  sources_.add(figures_);
  sources_.add(process_);
  for (const metrics::Source* source : options.sources) sources_.add(*source);
  if (overrides != nullptr) sources_.add(*overrides);
  if (options.statsd) {
    const admin::StatsdOptions& o = *options.statsd;
    statsd_prefix_ = o.prefix;
    if (!statsd_prefix_.empty() && !statsd_prefix_.ends_with('.')) statsd_prefix_ += '.';
    statsd_ = std::make_unique<metrics::StatsdSender>(
        metrics::StatsdSender::Options{o.host, o.port, o.tcp},
        [this](const auto& put) { figures_.tell_statsd(statsd_prefix_, put); });
    figures_.keep_events([this] { statsd_->wake(); });
    sources_.add(*statsd_);
  }
  const bool http = std::any_of(options.listeners.begin(), options.listeners.end(),
                                [](const auto& listener) { return serves(listener.protocol); });
  if (!http) return;
  admin_ = std::make_unique<admin::Admin>(
      options.admin, admin::Admin::World{live, figures_, sources_, reloader, std::move(files)});
  admin_->add_check([this]() -> std::optional<std::string> {
    if (stopping_) return "the server is stopping";
    if (!serving_) return "the server is starting";
    return std::nullopt;
  });
  admin_->add_check([&store]() -> std::optional<std::string> {
    std::string why = store.why_not_ready();
    return why.empty() ? std::nullopt : std::optional(std::move(why));
  });
  if (overrides != nullptr) admin::add_overrides(*admin_, *overrides, live);
  admin_->add({.method = "GET", .path = "/v1/log", .handler = [this](const admin::Admin::Call&) {
                 return log_control_->get();
               }});
  admin_->add({.method = "PUT",
               .path = "/v1/log",
               .body_bytes_max = base::bounds::admin_small_body_bytes_max,
               .handler = [this](const admin::Admin::Call& c) {
                 return log_control_->put(c.request, *admin_);
               }});
  const bool asks =
      std::any_of(options.listeners.begin(), options.listeners.end(),
                  [](const auto& l) { return l.protocol == protocol::Protocol::admin; });
  if (asks) {
    top_board_ = std::make_unique<admin::TopBoard>(clock, live, figures_, options.spaces);
    admin_->add({.method = "GET",
                 .path = "/v1/top",
                 .slow = true,
                 .handler = [this](const admin::Admin::Call& call) {
                   return top_board_->answer(call.request, *admin_);
                 }});
  }
  divvy_page_ = std::make_unique<DivvyPage>(figures_, options.divvy_metrics_path);
  http_ = std::make_unique<admin::HttpServer>(log.logger(log::LogModule::admin));
}

void Operate::start(size_t http_places) {
  if (statsd_) statsd_->start();
  if (http_) http_->start(http_places);
  serving_ = true;
}

void Operate::stop() {
  if (http_) http_->stop();
  statsd_.reset();
}

net::Listener::Owner Operate::http_owner() {
  return {[this] { return http_->has_room(); }, [this] { http_->make_room(); }, {}};
}

bool Operate::take(int fd, protocol::Protocol protocol) {
  if (!serves(protocol)) return false;
  http_->adopt(fd, protocol == protocol::Protocol::admin ? static_cast<admin::Site&>(*admin_)
                                                         : *divvy_page_);
  return true;
}

}  // namespace sluice::server
