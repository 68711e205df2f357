#include "cli/asked_server.h"

#include <optional>
#include <stdexcept>
#include <utility>

namespace sluice::cli {
namespace {

constexpr std::string_view closed = "the server closed the connection";

std::string name_of(const config::Address& address) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  return (is_ipv6 ? "[" + address.host + "]" : address.host) + ":" + std::to_string(address.port);
}

}  // namespace

AskedServer::AskedServer(std::string_view scheme, const AskTarget& target) : target_(target) {
  client_options options;
  options.timeout = target.timeout;
  options.on_connection = [this](const client_connection_report& report) {
    using event = client_connection_report::event;
    if (report.what == event::connected) was_connected_ = true;
    if (report.what != event::attempt_failed) return;
    // The library tries again; a person does that, or not.
    failure_ = report.text;
    client_->cancel(call_);
  };
  try {
    client_ =
        std::make_unique<client>(std::string(scheme) + "://" + name_of(target.address), options);
  } catch (const std::invalid_argument& invalid) {
    problem_ = invalid.what();
  }
}

client_result AskedServer::call(const client_request& request) {
  if (client_ == nullptr) {
    client_result result;
    result.error = client_errc::bad_request;
    result.text = problem_;
    return result;
  }
  failure_.clear();
  std::optional<client_result> ended;
  call_ = client_->submit(request, [&](client_result&& result) { ended = std::move(result); },
                          {.timeout = target_.timeout});
  while (!ended) client_->poll(std::chrono::milliseconds(-1));
  if (ended->error == client_errc::cancelled) {
    ended->error = client_errc::unavailable;
    ended->text = failure_;
  }
  if (ended->error == client_errc::timeout && !was_connected_)
    ended->text = "cannot connect to " + target_.address.host + " port " +
                  std::to_string(target_.address.port) + ": no answer in time";
  if (ended->error != client_errc::none && ended->text.starts_with(closed))
    ended->text.insert(closed.size(), " without a reply");
  return *std::move(ended);
}

}  // namespace sluice::cli
