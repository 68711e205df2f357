// A port with one page of metrics, as protocols have one of their own. Any method; what is not at
// its path is not there. Made before the HTTP server and outlives it; used by its threads.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "admin/http_server.h"
#include "base/bounds.h"

namespace sluice::admin {

class MetricsPage final : public HttpHandler {
 public:
  // `text` makes the page, on either of the HTTP server's threads. `is_large`: may that take longer
  // than a few milliseconds now? Empty: never.
  MetricsPage(std::string path, std::string content_type, std::function<std::string()> text,
              std::function<bool()> is_large = {})
      : path_(std::move(path)),
        content_type_(std::move(content_type)),
        text_(std::move(text)),
        is_large_(std::move(is_large)) {
    if (!path_.starts_with('/')) path_ = "/" + path_;
  }

  std::optional<wire::HttpResponse> refuse(const wire::HttpRequest& request) const override {
    if (request.body_bytes <= base::bounds::admin_small_body_bytes_max) return {};
    return problem(413, "the body of the request is too long");
  }
  bool is_slow(const wire::HttpRequest&) const override { return is_large_ && is_large_(); }
  wire::HttpResponse answer(const wire::HttpRequest& request) override {
    if (request.path != path_) return {404, {}, {}, {}};
    return {200, content_type_, text_(), {}};
  }
  wire::HttpResponse problem(unsigned status, const std::string& why) const override {
    return {status, "text/plain; charset=utf-8", why + "\n", {}};
  }

 private:
  std::string path_, content_type_;
  std::function<std::string()> text_;
  std::function<bool()> is_large_;
};

}  // namespace sluice::admin
