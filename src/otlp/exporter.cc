#include "otlp/exporter.h"

#include <poll.h>
#include <spdlog/logger.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "base/printable.h"
#include "otlp/post.h"

namespace sluice::otlp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds told_again_after{60};
// At most so much of a collector's reason is shown.
constexpr size_t rejected_bytes_max = 256;
constexpr std::array<milliseconds, 2> waits_between_tries{milliseconds(500), milliseconds(2000)};

uint64_t unix_ns() {
  using std::chrono::nanoseconds;
  return static_cast<uint64_t>(
      std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count());
}

// A UUID of version 4 (RFC 9562).
std::string random_uuid() {
  static constexpr char hex[] = "0123456789abcdef";
  std::random_device random;
  std::string text = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";
  for (char& c : text) {
    if (c == 'x') c = hex[random() & 15];
    if (c == 'y') c = hex[8 | (random() & 3)];
  }
  return text;
}

void signal_fd(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t ignored = ::write(fd, &one, sizeof one);
}

}  // namespace

struct Exporter::Signal {
  Signal(std::string_view its_name, std::string its_url, Endpoint to, const Options& options,
         int cut)
      : name(its_name),
        url(std::move(its_url)),
        post(std::move(to), options.headers, options.tls, milliseconds(options.timeout.us / 1000),
             cut) {}

  const std::string_view name;
  const std::string url;
  Post post;
  std::atomic<uint64_t> sent{0}, failed{0};
  bool is_down = false;  // the last message was not taken
  bool is_told = false;  // its being down, and that it works again was not
  Clock::time_point told_at{}, rejected_told_at{};
  mutable std::mutex mutex;
  std::string problem{};  // guarded
};

base::Result<std::unique_ptr<Exporter>> Exporter::make(const Options& options, std::string version,
                                                       const metrics::Sources& sources,
                                                       std::shared_ptr<spdlog::logger> log) {
  std::unique_ptr<Exporter> made(
      new Exporter(options, std::move(version), sources, std::move(log)));
  const auto add = [&](std::unique_ptr<Signal>& signal, std::string_view name,
                       const std::string& url, std::string_view path) -> base::Done {
    if (url.empty()) return {};
    auto to = read_endpoint(url, path);
    if (!to) return std::move(to).problem();
    signal = std::make_unique<Signal>(name, url, *std::move(to), options, made->cut_);
    return {};
  };
  if (auto done = add(made->traces_, "traces", options.traces.endpoint, traces_path); !done)
    return std::move(done).problem();
  if (auto done = add(made->metrics_, "metrics", options.metrics.endpoint, metrics_path); !done)
    return std::move(done).problem();
  return base::Result<std::unique_ptr<Exporter>>(std::move(made));
}

Exporter::Exporter(const Options& options, std::string version, const metrics::Sources& sources,
                   std::shared_ptr<spdlog::logger> log)
    : options_(options),
      version_(std::move(version)),
      resource_{options.service, options.name_space,
                options.instance.empty() ? random_uuid() : options.instance},
      sources_(sources),
      log_(std::move(log)),
      began_ns_(unix_ns()),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      cut_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  sampling_.set(options.traces.sample, options.traces.values);
}

Exporter::~Exporter() {
  stop();
  ::close(wake_);
  ::close(cut_);
}

Spans* Exporter::add_worker() {
  if (!traces_) return nullptr;
  return &workers_.emplace_back(options_.traces.queue, sampling_, awake_, wake_);
}

void Exporter::start() {
  thread_ = std::thread([this] {
    run();
    const std::lock_guard lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  });
}

void Exporter::stop() {
  if (!thread_.joinable()) return;
  {
    std::unique_lock lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
    signal_fd(wake_);
    changed_.wait_for(lock, stop_max, [this] { return ended_; });
  }
  signal_fd(cut_);
  thread_.join();
}

void Exporter::run() {
  const auto delay = std::chrono::microseconds(options_.traces.delay.us),
             interval = std::chrono::microseconds(options_.metrics.interval.us);
  auto spans_at = Clock::now() + delay, metrics_at = Clock::now() + interval;
  while (!stopping_) {
    rest(traces_ && metrics_ ? std::min(spans_at, metrics_at) : traces_ ? spans_at : metrics_at);
    // Workers whose spans a collector does not take have more to say after each request.
    if (traces_ && (Clock::now() >= spans_at || (awake_ && !traces_->is_down))) {
      awake_ = false;
      send_spans();
      spans_at = Clock::now() + delay;
    }
    if (metrics_ && Clock::now() >= metrics_at) {
      send_metrics();
      metrics_at = std::max(metrics_at + interval, Clock::now());
    }
  }
  if (traces_) send_spans();
  if (metrics_) send_metrics();
}

void Exporter::rest(Clock::time_point until) {
  pollfd woken{wake_, POLLIN, 0};
  while (!stopping_) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now());
    if (left.count() <= 0) return;
    if (::poll(&woken, 1, static_cast<int>(std::min<milliseconds::rep>(left.count(), 60'000))) > 0)
      break;
  }
  uint64_t ignored;
  [[maybe_unused]] const ssize_t read = ::read(wake_, &ignored, sizeof ignored);
}

// What waits by now, as long as it is taken.
void Exporter::send_spans() {
  std::string spans;
  size_t count = 0;
  const auto flush = [&] {
    const bool taken =
        count == 0 || send(*traces_, trace_message(resource_, version_, spans), count);
    spans.clear();
    count = 0;
    return taken;
  };
  for (Spans& worker : workers_) {
    // As many as fit, so that a worker which adds as fast as they are sent does not hold the others
    // up for ever.
    for (size_t left = options_.traces.queue; left > 0;) {
      const size_t most = std::min<size_t>(left, options_.traces.batch - count);
      const size_t taken = worker.drain(most, [&](const Span& span) { append_span(span, spans); });
      left -= taken;
      count += taken;
      if (count == options_.traces.batch && !flush()) return;
      if (taken < most) break;
    }
  }
  flush();
}

void Exporter::send_metrics() {
  MetricsMessage page(began_ns_, unix_ns());
  sources_.collect(page);
  send(*metrics_, page.message(resource_, version_), 1);
}

// False: it was not taken.
bool Exporter::send(Signal& signal, const std::string& message, uint64_t count) {
  Post::Sent sent = signal.post.send(message);
  for (const milliseconds wait : waits_between_tries) {
    if (sent.problem.empty() || !sent.may_retry || signal.is_down || stopping_) break;
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, wait, [this] { return stopping_.load(); });
    }
    sent = signal.post.send(message);
  }
  if (sent.problem.empty()) {
    const Rejected rejected = read_rejected(sent.body);
    const uint64_t refused = std::min(rejected.count, count);
    signal.sent += count - refused;
    signal.failed += refused;
    tell(signal, "");
    if (rejected.count > 0) tell_rejected(signal, rejected.why);
  } else {
    signal.failed += count;
    tell(signal, sent.problem);
  }
  return sent.problem.empty();
}

void Exporter::tell(Signal& signal, const std::string& problem) {
  {
    const std::lock_guard lock(signal.mutex);
    signal.problem = problem;
  }
  if (problem.empty()) {
    signal.is_down = false;
    if (std::exchange(signal.is_told, false))
      log_->info("OTLP: {} takes {} again", signal.url, signal.name);
    return;
  }
  signal.is_down = true;
  const auto now = Clock::now();
  if (now - signal.told_at < told_again_after) return;
  signal.told_at = now;
  signal.is_told = true;
  log_->warn("OTLP: {} does not take {}: {}; what is not taken is dropped and counted", signal.url,
             signal.name, problem);
}

// The collector works, and has its reasons.
void Exporter::tell_rejected(Signal& signal, const std::string& reason) {
  const std::string why = base::printable(reason, rejected_bytes_max);
  {
    const std::lock_guard lock(signal.mutex);
    signal.problem = "it rejected a part: " + why;
  }
  const auto now = Clock::now();
  if (now - signal.rejected_told_at < told_again_after) return;
  signal.rejected_told_at = now;
  log_->warn("OTLP: {} rejected a part of {}: {}; it is counted", signal.url, signal.name, why);
}

uint64_t Exporter::dropped() const {
  uint64_t all = 0;
  for (const Spans& worker : workers_) all += worker.dropped();
  return all;
}

std::vector<Exporter::State> Exporter::states() const {
  std::vector<State> all;
  for (const Signal* const signal : {traces_.get(), metrics_.get()}) {
    if (signal == nullptr) continue;
    const std::lock_guard lock(signal->mutex);
    all.push_back({signal->name, signal->url, signal->sent, signal->failed,
                   signal == traces_.get() ? dropped() : 0, signal->problem});
  }
  return all;
}

void Exporter::collect(metrics::Page& page) const {
  if (traces_) {
    page.counter("sluice_otlp_spans_sent_total", "Spans that the collector has taken.",
                 static_cast<double>(traces_->sent.load()));
    page.counter("sluice_otlp_spans_failed_total",
                 "Spans that were given up, as the collector did not take them.",
                 static_cast<double>(traces_->failed.load()));
    page.counter("sluice_otlp_spans_dropped_total",
                 "Sampled requests without a span, as the memory for spans was full.",
                 static_cast<double>(dropped()));
  }
  if (metrics_) {
    page.counter("sluice_otlp_metrics_sent_total",
                 "Messages of metrics that the collector has taken.",
                 static_cast<double>(metrics_->sent.load()));
    page.counter("sluice_otlp_metrics_failed_total",
                 "Messages of metrics that the collector did not take.",
                 static_cast<double>(metrics_->failed.load()));
  }
}

}  // namespace sluice::otlp
