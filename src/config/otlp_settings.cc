#include "config/otlp_settings.h"

#include <algorithm>
#include <charconv>

#include "config/settings.h"
#include "wire/http_field.h"

namespace sluice::config {
namespace {

struct Share {
  static bool read(const Written& written, double& to) {
    const auto share = read_share(written.text);
    if (!share) return written.wrong_text("is not a share", "write 0 to 1, as in `0.1`");
    to = *share;
    return true;
  }
  static std::string text(double share) {
    char text[32];
    return {text, std::to_chars(text, text + sizeof text, share).ptr};
  }
  static std::string values() { return "0 to 1"; }
};

struct EndpointUrl : Text {
  std::string_view usual_path;

  bool read(const Written& written, std::string& to) const {
    const auto endpoint = otlp::read_endpoint(written.text, usual_path);
    if (!endpoint)
      return written.wrong(endpoint.problem().text,
                           "write http://HOST:PORT, as in `http://collector:4318`");
    to = written.text;
    return true;
  }
  static std::string values() { return "http://HOST:PORT or https://HOST:PORT, perhaps a path"; }
};

struct Header {
  static bool read(const Written& written, std::pair<std::string, std::string>& to) {
    const size_t colon = written.text.find(':');
    std::pair<std::string, std::string> header(written.text.substr(0, colon), {});
    if (colon != std::string::npos) {
      const size_t begin = written.text.find_first_not_of(" \t", colon + 1);
      if (begin != std::string::npos) header.second = written.text.substr(begin);
    }
    if (colon == std::string::npos || !is_header(header))
      return written.wrong("has an item that is not NAME: VALUE, or that every request has",
                           "write it as in \"x-key: value\"");
    to = std::move(header);
    return true;
  }
  static std::string text(const std::pair<std::string, std::string>& header) {
    return in_quotes(header.first + ": " + header.second);
  }
  static std::string values() { return "NAME: VALUE"; }
};

About changed(std::string_view help) {
  return About{.help = help, .shown = Shown::changed};
}

Table traces_table(otlp::Options::Traces& traces) {
  return {
      setting("endpoint", traces.endpoint, EndpointUrl{{}, otlp::traces_path},
              changed("where traces go; without a path to `/v1/traces`. Without it: nowhere")),
      setting("sample", traces.sample, Share{},
              changed("the share of traces that are recorded, where the caller does not say")),
      setting("values", traces.values, Truth{},
              changed("spans have the keys and values of requests, which may be addresses and "
                      "names of people")),
      setting("delay", traces.delay, Length{base::milliseconds(1), base::seconds(600)},
              changed("from one message to the next")),
      setting("batch", traces.batch, Number{1, 100'000}, changed("the most spans in a message")),
      setting("queue", traces.queue, Number{16, 1'000'000},
              changed("the spans for which each worker has memory, about 700 bytes each; past it "
                      "requests go untraced, and are counted"))};
}

Table metrics_table(otlp::Options::Metrics& metrics) {
  return {
      setting("endpoint", metrics.endpoint, EndpointUrl{{}, otlp::metrics_path},
              changed("where what `/metrics` shows is sent as well; without a path to "
                      "`/v1/metrics`. Without it: nowhere")),
      setting("interval", metrics.interval, Length{base::milliseconds(100), base::seconds(86'400)},
              changed("from one message to the next"))};
}

Table collector_tls_table(net::TlsClient& tls) {
  return {
      setting("ca", tls.authority, Path{}, changed("authorities beside the system's: a PEM file")),
      setting("certificate", tls.certificate, Path{},
              changed("shown to the collector: a PEM file")),
      setting("key", tls.key, Path{}, changed("its key: a PEM file"))};
}

}  // namespace

std::optional<double> read_share(std::string_view text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  if (error != std::errc() || end != text.data() + text.size() || !(share >= 0 && share <= 1))
    return std::nullopt;
  return share;
}

bool is_header(const std::pair<std::string, std::string>& header) {
  constexpr std::string_view own[] = {"host", "content-length", "content-type", "connection",
                                      "transfer-encoding"};
  return wire::is_http_field_name(header.first) &&
         std::ranges::none_of(own,
                              [&](auto name) { return wire::is_http_name(header.first, name); }) &&
         std::ranges::none_of(header.second, [](char c) {
           return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

Table otlp_table(otlp::Options& otlp) {
  return {section("traces", otlp.traces, traces_table, changed("a span of each request")),
          section("metrics", otlp.metrics, metrics_table, changed("metrics that are sent")),
          setting("service", otlp.service, Text{}, changed("`service.name` of what is sent")),
          setting("namespace", otlp.name_space, Text{}, changed("`service.namespace`")),
          setting("instance", otlp.instance, Text{},
                  changed("`service.instance.id`; without it a random one for each start")),
          setting("headers", otlp.headers, ListOf{Header{}, "headers: [\"x-key: value\"]", true},
                  {.help = "sent with each message", .shown = Shown::never, .secret = true}),
          setting("timeout", otlp.timeout, Length{base::milliseconds(10), base::seconds(300)},
                  changed("of one try to send a message")),
          section("tls", otlp.tls, collector_tls_table, changed("of endpoints with `https://`"))};
}

bool check_otlp(const Written& written, const GivenKeys&, otlp::Options& otlp) {
  return otlp.tls.certificate.empty() == otlp.tls.key.empty() ||
         written.wrong("has one of certificate and key in `tls`", "write both, or none");
}

}  // namespace sluice::config
