#include "protocol/envoy/xds.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "base/buffer.h"
#include "base/printable.h"
#include "base/result.h"
#include "base/time.h"
#include "base/units.h"
#include "client/socket.h"
#include "config/settings.h"
#include "config/table.h"
#include "net/resolver.h"
#include "protocol/envoy/limits_message.h"
#include "protocol/envoy/xds_log.h"
#include "wire/grpc_client.h"
#include "wire/http_field.h"

namespace sluice::envoy {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using std::chrono::system_clock;

// What the control plane has sent last, and what is in force. Any thread.
struct XdsPolicy::Arrived {
  using Messages = std::vector<std::string>;

  mutable std::mutex mutex;
  std::shared_ptr<const Messages> in_force;  // null: nothing has been taken yet
  std::shared_ptr<const Messages> offered;   // null: nothing waits to be taken
  uint64_t in_force_digest = 0, offered_digest = 0;
  base::Diagnostics errors;     // of what is offered
  std::weak_ptr<XdsFeed> feed;  // the one that was made

  // Of what decides if the policy is read now.
  std::pair<std::shared_ptr<const Messages>, uint64_t> current() const {
    const std::lock_guard lock(mutex);
    return offered != nullptr ? std::pair(offered, offered_digest)
                              : std::pair(in_force, in_force_digest);
  }
};

namespace {

using config::setting;

constexpr size_t resources_max = limits_files_max;
constexpr milliseconds connect_timeout{20'000}, send_timeout{10'000};
constexpr milliseconds look_up_step{100}, look_up_max{30'000};

// The limits that have arrived, as the texts of files are.
class XdsTexts final : public protocol::PolicyTexts {
 public:
  using Messages = std::vector<std::string>;
  using Note = std::function<void(const base::Diagnostics&)>;

  XdsTexts(std::shared_ptr<const Messages> messages, uint64_t digest, const LimitsFiles& limits,
           Note note)
      : messages_(std::move(messages)),
        reading_(limits.reading),
        rules_(limits.rules),
        note_(std::move(note)) {
    rules_.not_loaded = messages_ == nullptr;
    rules_.healthy_not_loaded = limits.start_without_limits;
    digests.push_back(digest);
  }

  void add_rules(request::Spaces& spaces, policy::RuleSet& rules,
                 base::Diagnostics& diagnostics) const override {
    if (messages_ == nullptr) return LimitRules::add(LimitSet(), rules_, spaces, rules);
    base::Diagnostics told;
    auto set = read_limit_messages(*messages_, reading_, told);
    note_(told);
    std::move(told.begin(), told.end(), std::back_inserter(diagnostics));
    if (set) LimitRules::add(*std::move(set), rules_, spaces, rules);
  }

 private:
  const std::shared_ptr<const Messages> messages_;
  const LimitsReading reading_;
  RulesOptions rules_;
  const Note note_;
};

// "a: descriptor has empty key (at a.k_v)", of each error.
std::string refusal_of(const base::Diagnostics& errors) {
  std::string text;
  for (const base::Diagnostic& one : errors) {
    if (text.size() > AdsSession::refusal_bytes_max) break;
    if (!text.empty()) text += "; ";
    text += one.file + ": " + one.message;
    if (!one.subject.empty()) text += " (at " + one.subject + ')';
  }
  return text;
}

struct ServerName : config::Text {
  static bool read(const config::Written& written, std::string& to) {
    to = written.text;
    const auto target = read_xds_target(to);
    return target || written.wrong(target.problem().text, "write HOST:PORT, as in `gateway:18001`");
  }
  static std::string values() { return "HOST:PORT, or `unix:/PATH`"; }
};

// Two texts in one, with a sign between them.
struct Pair {
  char sign;
  std::string_view example;

  bool read(const config::Written& written, std::pair<std::string, std::string>& to) const {
    auto pair = read_pair(written.text, sign);
    if (!pair || (sign == ':' && !wire::is_http_field_name(pair->first)))
      return written.wrong_text("is not NAME" + std::string(1, sign) + "VALUE",
                                "write it as in `" + std::string(example) + "`");
    to = *std::move(pair);
    return true;
  }
  std::string text(const std::pair<std::string, std::string>& pair) const {
    return config::in_quotes(pair.first + sign + pair.second);
  }
  std::string values() const { return "NAME" + std::string(1, sign) + "VALUE"; }
};

config::Table tls_table(XdsTls& tls) {
  const auto about = [](std::string_view help) { return config::About{.help = help}; };
  return {setting("ca", tls.files.authority, config::Path{},
                  about("authorities beside the system's: a PEM file")),
          setting("certificate", tls.files.certificate, config::Path{},
                  about("shown to the control plane: a PEM file")),
          setting("key", tls.files.key, config::Path{}, about("its key: a PEM file")),
          setting("name", tls.name, config::Text{},
                  about("the name that the control plane's certificate must be for; without it "
                        "the host of `server`"))};
}

bool check_tls(const config::Written& written, const config::GivenKeys&, XdsTls& tls) {
  return tls.files.certificate.empty() == tls.files.key.empty() ||
         written.wrong("has one of certificate and key", "write both, or none");
}

std::string_view type_name(std::string_view url) {
  return url.substr(url.rfind('/') + 1);
}

}  // namespace

base::Result<XdsTarget> read_xds_target(std::string_view text) {
  const auto wrong = [&](const std::string& why) {
    return base::Problem{"`" + std::string(text) + "` " + why};
  };
  if (text.starts_with("unix:")) {
    std::string_view path = text.substr(5);
    if (path.starts_with("//")) path.remove_prefix(2);
    if (!calls::is_unix_path(path)) return wrong("names no path of a socket");
    return XdsTarget{std::string(path), 0};
  }
  for (const std::string_view scheme : {"dns:///", "passthrough:///", "dns:"})
    if (text.starts_with(scheme)) {
      text.remove_prefix(scheme.size());
      break;
    }
  if (text.find('/') != std::string_view::npos)
    return wrong("is a URL, and no server of gRPC: gRPC's targets have no `http://` and no path");
  // As in Go an empty host is this machine.
  auto address =
      config::parse_address((text.starts_with(':') ? "localhost" : "") + std::string(text), 443);
  if (!address) return wrong("is not HOST:PORT: " + address.problem().text);
  return XdsTarget{std::move(address->host), address->port};
}

std::optional<std::pair<std::string, std::string>> read_pair(std::string_view text, char sign) {
  const size_t at = text.find(sign);
  if (at == 0 || at == std::string_view::npos) return std::nullopt;
  std::string_view value = text.substr(at + 1);
  std::string name(text.substr(0, at));
  if (sign == ':') {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t'; };
    while (!value.empty() && is_blank(value.front())) value.remove_prefix(1);
    while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
    std::ranges::transform(name, name.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
  }
  return std::pair(std::move(name), std::string(value));
}

// Keeps one stream to the control plane. Its thread does everything but `start`, `stop`, `state`
// and `collect`.
class XdsFeed final : public protocol::PolicyFeed {
 public:
  XdsFeed(XdsSettings settings, std::shared_ptr<XdsPolicy::Arrived> arrived)
      : settings_(std::move(settings)),
        arrived_(std::move(arrived)),
        session_(settings_.node, settings_.metadata),
        backoff_(settings_.wait) {
    state_.from = settings_.server;
    state_.node = settings_.node;
  }
  ~XdsFeed() override {
    stop();
    if (wake_ >= 0) ::close(wake_);
  }
  XdsFeed(const XdsFeed&) = delete;
  XdsFeed& operator=(const XdsFeed&) = delete;

  const XdsSettings& settings() const { return settings_; }

  void start(Apply apply, std::shared_ptr<spdlog::logger> log) override {
    apply_ = std::move(apply);
    log_.emplace(settings_.server, settings_.node, std::move(log));
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread_ = std::thread([this] { run(); });
  }

  void stop() override {
    if (!thread_.joinable()) return;
    stopping_ = true;
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t ignored = ::write(wake_, &one, sizeof one);
    thread_.join();
  }

  State state() const override {
    const std::lock_guard lock(mutex_);
    return state_;
  }

  void collect(metrics::Page& page) const override {
    const State its = state();
    const metrics::Labels from{{"server", its.from}};
    page.gauge("sluice_xds_connected", "Is there a stream to the control plane?",
               its.is_connected ? 1 : 0, from);
    page.counter("sluice_xds_taken_total", "Responses of the control plane that were taken.",
                 static_cast<double>(its.taken), from);
    page.counter("sluice_xds_refused_total",
                 "Responses of the control plane that were refused; the limits before them stay.",
                 static_cast<double>(its.refused), from);
    if (!its.taken_at) return;
    using Seconds = std::chrono::duration<double>;
    page.gauge("sluice_xds_taken_timestamp_seconds",
               "When a response of the control plane was taken last.",
               Seconds(its.taken_at->time_since_epoch()).count(), from);
    page.gauge("sluice_xds_version_info", "The version that the control plane gave what is live.",
               1, {{"server", its.from}, {"version", its.version}});
  }

 private:
  void run() {
    while (!stopping_) {
      worked_ = false;
      const std::string problem = serve_stream();
      if (stopping_) return;
      note_down(problem);
      if (worked_) backoff_.begin_anew();
      rest(backoff_.next(chance_(random_)));
    }
  }

  void rest(base::Duration length) {
    const auto until = steady_clock::now() + std::chrono::microseconds(length.us);
    pollfd woken{wake_, POLLIN, 0};
    while (!stopping_) {
      const auto left = std::chrono::ceil<milliseconds>(until - steady_clock::now());
      if (left.count() <= 0) return;
      ::poll(&woken, 1, static_cast<int>(std::min<milliseconds::rep>(left.count(), 60'000)));
    }
  }

  // The addresses of the server by now. A name server may not answer, so the look-up has a thread
  // of its own.
  base::Result<std::vector<net::Address>> look_up(const XdsTarget& target) {
    if (target.port == 0) {
      auto address = calls::unix_address(target.host);
      if (!address) return address.problem();
      return std::vector<net::Address>{*address};
    }
    net::Resolver resolver({{target.host, target.port}});
    resolver.look();
    const auto until = steady_clock::now() + look_up_max;
    while (!stopping_ && steady_clock::now() < until) {
      resolver.await(look_up_step);
      auto addresses = resolver.addresses();
      if (!addresses.empty()) return addresses;
      if (auto problem = resolver.take_problem(); !problem.empty()) return base::Problem{problem};
    }
    return base::Problem{"cannot find the host `" + target.host + "`: no answer in time"};
  }

  // Connects, and serves one stream to its end. Returns why it has ended.
  std::string serve_stream() {
    const auto target = read_xds_target(settings_.server);
    if (!target) return target.problem().text;
    std::unique_ptr<net::TlsContext> tls;
    const std::string& host = target->host;
    std::string name = target->port == 0 ? "localhost" : host;
    if (settings_.tls) {
      auto opened = net::TlsContext::open(settings_.tls->files);
      if (!opened) return opened.problem().text;
      tls = *std::move(opened);
      if (!settings_.tls->name.empty()) name = settings_.tls->name;
    }
    const auto addresses = look_up(*target);
    if (!addresses) return addresses.problem().text;
    auto socket = calls::Socket::connect(*addresses, settings_.server, connect_timeout,
                                         {.tls = tls.get(), .name = name, .wake = wake_});
    if (!socket) return socket.problem().text;
    if (settings_.tls && socket->alpn() != "h2") return "it does not offer HTTP/2 over TLS (ALPN)";
    socket->keep_alive();
    const std::string authority = settings_.tls && !settings_.tls->name.empty()
                                      ? settings_.tls->name
                                  : target->port == 0 ? name
                                                      : config::format_address(host, target->port);
    wire::GrpcClientStream stream({.authority = authority,
                                   .path = ads_path,
                                   .over_tls = tls != nullptr,
                                   .metadata = settings_.headers,
                                   .message_bytes_max = settings_.message_bytes_max});
    stream.send(session_.open());
    return serve(*socket, stream);
  }

  std::string serve(calls::Socket& socket, wire::GrpcClientStream& stream) {
    base::Buffer out;
    std::string in, problem;
    log_->begun(steady_clock::now());
    for (bool is_first = true;;) {
      out.clear();
      stream.write(out);
      socket.renew(send_timeout);
      if (!out.empty() && !socket.send(out.view())) return calls::sent_too_late;
      if (stream.is_over()) return end_of(stream);
      const auto due = session_.due();
      const auto silent_at = log_->silent_at();
      auto until = steady_clock::now() + seconds(3600);
      if (due) until = std::min(until, *due);
      if (silent_at) until = std::min(until, *silent_at);
      in.clear();
      switch (socket.receive(in, until, problem)) {
        case calls::Socket::Got::bytes:
          break;
        case calls::Socket::Got::late:
          if (session_.due() && steady_clock::now() >= *session_.due())
            stream.send(session_.take_due());
          if (silent_at && steady_clock::now() >= *silent_at) log_->silent(has_limits());
          continue;
        case calls::Socket::Got::woken:
          return "the server stops";
        case calls::Socket::Got::ended:
          return "it closed the connection";
        case calls::Socket::Got::failed:
          return problem;
      }
      if (std::exchange(is_first, false)) {
        const std::lock_guard lock(mutex_);
        state_.is_connected = true;
        state_.problem.clear();
      }
      stream.receive(in);
      while (const auto message = stream.take_message()) {
        std::string wrong = take(*message, stream);
        if (!wrong.empty()) return wrong;
      }
    }
  }

  std::string end_of(const wire::GrpcClientStream& stream) const {
    if (stream.was_too_large())
      return stream.problem() +
             " by XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES, or `message_max` of the policy's `xds`";
    if (!stream.problem().empty()) return stream.problem();
    const auto& [status, text, message] = stream.answer();
    return "it ended the stream: " + wire::grpc_status_name(status) +
           (text.empty() ? "" : ", " + base::printable(text));
  }

  // Takes a response. Returns why the stream must end; empty: it goes on.
  std::string take(const std::string& message, wire::GrpcClientStream& stream) {
    std::string answer;
    const auto outcome = session_.receive(
        message, steady_clock::now(),
        [this](const AdsResponse& response) { return bring(response); }, answer);
    if (stopping_) return "the server stops";
    using Outcome = AdsSession::Outcome;
    if (outcome == Outcome::nonsense) return "it sent something that is no DiscoveryResponse";
    const bool is_taken = outcome == Outcome::taken || outcome == Outcome::again;
    {
      const std::lock_guard lock(mutex_);
      state_.version = session_.version();
      if (is_taken) {
        ++state_.taken;
        state_.taken_at = system_clock::now();
      } else {
        ++state_.refused;
        state_.refused_at = system_clock::now();
        state_.refusal = session_.refusal();
      }
    }
    if (is_taken) {
      worked_ = true;
      log_->taken(session_.version(), outcome == Outcome::taken);
    } else {
      log_->refused(session_.refusal(), has_limits(), steady_clock::now());
    }
    if (!answer.empty()) stream.send(answer);
    return {};
  }

  // Has the resources of a response take effect. Returns why they are refused, or nothing.
  std::optional<AdsSession::Refusal> bring(const AdsResponse& response) {
    using Refusal = AdsSession::Refusal;
    const size_t count = response.resources.size();
    if (count > resources_max)
      return Refusal{"there are " + base::grouped(count) + " resources, and may be " +
                     base::grouped(resources_max)};
    auto messages = std::make_shared<std::vector<std::string>>();
    messages->reserve(count);
    for (const AdsResponse::Resource& one : response.resources) {
      if (one.type != limits_type)
        return Refusal{std::string(name_of_limits(one.value).name) +
                       ": proto: mismatched message type: got \"" +
                       std::string(type_name(one.type)) + "\", want \"" +
                       std::string(type_name(limits_type)) + '"'};
      messages->push_back(one.value);
    }
    XdsPolicy::Arrived& arrived = *arrived_;
    {
      const std::lock_guard lock(arrived.mutex);
      arrived.offered = std::move(messages);
      // Never that of nothing.
      arrived.offered_digest = response.digest | 1;
      arrived.errors.clear();
    }
    const auto problem = apply_();
    const std::lock_guard lock(arrived.mutex);
    const auto offered = std::exchange(arrived.offered, nullptr);
    if (!problem) {
      arrived.in_force = offered;
      arrived.in_force_digest = arrived.offered_digest;
      return std::nullopt;
    }
    if (!arrived.errors.empty()) return Refusal{refusal_of(arrived.errors)};
    return Refusal{*problem, false};
  }

  void note_down(const std::string& problem) {
    {
      const std::lock_guard lock(mutex_);
      state_.is_connected = false;
      state_.problem = problem;
    }
    log_->down(problem, has_limits(), steady_clock::now());
  }

  bool has_limits() const {
    const std::lock_guard lock(arrived_->mutex);
    return arrived_->in_force != nullptr;
  }

  const XdsSettings settings_;
  const std::shared_ptr<XdsPolicy::Arrived> arrived_;
  AdsSession session_;
  AdsBackoff backoff_;
  Apply apply_;
  std::optional<XdsLog> log_;  // of `start`
  int wake_ = -1;
  std::atomic<bool> stopping_{false};
  std::minstd_rand random_{std::random_device{}()};
  std::uniform_real_distribution<double> chance_{0, 1};
  bool worked_ = false;       // the stream has brought a response that was taken
  mutable std::mutex mutex_;  // of the state
  State state_;
  std::thread thread_;
};

XdsPolicy::XdsPolicy(XdsSettings its)
    : SentPolicy(base::Setting<std::string>{}),
      settings(std::move(its)),
      limits(base::Setting<std::string>{}),
      arrived_(std::make_shared<Arrived>()) {}

std::unique_ptr<protocol::PolicyFiles> XdsPolicy::clone() const {
  return std::make_unique<XdsPolicy>(*this);
}

std::unique_ptr<protocol::PolicyTexts> XdsPolicy::read(protocol::Unusable,
                                                       base::Diagnostics&) const {
  auto [messages, digest] = arrived_->current();
  return std::make_unique<XdsTexts>(std::move(messages), digest, limits,
                                    [arrived = arrived_](const base::Diagnostics& errors) {
                                      const std::lock_guard lock(arrived->mutex);
                                      arrived->errors = errors;
                                    });
}

std::vector<config::Entry> XdsPolicy::sender() {
  using config::setting;
  const auto always = [](std::string_view help) { return config::About{.help = help}; };
  const auto changed = [](std::string_view help) {
    return config::About{.help = help, .shown = config::Shown::changed};
  };
  const config::Length wait{base::milliseconds(1), base::seconds(86'400)};
  return {setting("server", settings.server, ServerName{}, always("the control plane")),
          setting("node", settings.node, config::Text{},
                  always("the id by which it knows its clients")),
          setting("metadata", settings.metadata,
                  config::ListOf{Pair{'=', "zone=a"}, "metadata: [zone=a]", true},
                  changed("of the node: texts by keys")),
          setting("headers", settings.headers,
                  config::ListOf{Pair{':', "x-key: value"}, "headers: [\"x-key: value\"]", true},
                  {.help = "that are sent with the stream's request",
                   .shown = config::Shown::never,
                   .secret = true}),
          config::section("tls", settings.tls, tls_table,
                          changed("with TLS; `{}`: as the system does"), nullptr, check_tls),
          setting("first_wait", settings.wait.first, wait,
                  changed("before a new stream is tried; each further one is 1.6 times as long")),
          setting("longest_wait", settings.wait.longest, wait, changed("the longest of them")),
          setting("message_max", settings.message_bytes_max, config::Size{1024, uint64_t{1} << 30},
                  changed("the largest response that is taken"))};
}

std::shared_ptr<protocol::PolicyFeed> XdsPolicy::feed() const {
  auto made = arrived_->feed.lock();
  if (made == nullptr) arrived_->feed = made = std::make_shared<XdsFeed>(settings, arrived_);
  return made;
}

void XdsPolicy::go_on_from(SentPolicy* running, const std::string& file,
                           base::Diagnostics& diagnostics) {
  auto* const its = dynamic_cast<XdsPolicy*>(running);
  if (its != nullptr) arrived_ = its->arrived_;
  if (its != nullptr && settings == its->settings) return;
  base::Diagnostic place;
  place.severity = base::Diagnostic::Severity::warning;
  place.file = file;
  place.subject = "policy.xds";
  config::complain(place,
                   its == nullptr ? "there was none at the start, so no limits come by it"
                                  : "was changed since the start, and a reload does not apply it",
                   "restart the server to apply it", diagnostics);
}

}  // namespace sluice::envoy
