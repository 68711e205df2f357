#include "cli/asked_server.h"

#include <stdexcept>
#include <utility>

#include "wire/http_session.h"

namespace sluice::cli {
namespace {

constexpr std::string_view closed = "the server closed the connection";

std::string address_of(std::string_view scheme, const AskTarget& target, const AskedUser& user) {
  const config::Address& server = target.address;
  std::string address(scheme);
  address += target.tls ? "s://" : "://";
  if (!user.token.empty())
    address += wire::percent_encoded(user.name) + ":" + wire::percent_encoded(user.token) + "@";
  const bool is_ipv6 = server.host.find(':') != std::string::npos;
  address += is_ipv6 ? "[" + server.host + "]" : server.host;
  return address + ":" + std::to_string(server.port);
}

}  // namespace

AskedServer::AskedServer(std::string_view scheme, const AskTarget& target, const AskedUser& user)
    : target_(target) {
  client_options options;
  options.timeout = target.timeout;
  if (target.tls) options.tls = {target.tls->authority, target.tls->certificate, target.tls->key};
  options.on_connection = [this](const client_connection_report& report) {
    using event = client_connection_report::event;
    if (report.what == event::connected) was_connected_ = true;
    if (report.what == event::disconnected) was_lost_ = true;
    if (report.what != event::attempt_failed) return;
    // The library tries again; a person does that, or not.
    failure_ = report.text;
    for (const client_call_id call : calls_) client_->cancel(call);
  };
  try {
    client_ = std::make_unique<client>(address_of(scheme, target, user), options);
  } catch (const std::invalid_argument& invalid) {
    problem_ = invalid.what();
    constexpr std::string_view its = "sluice::client: ";
    if (problem_.starts_with(its)) problem_.erase(0, its.size());
  }
}

client_result AskedServer::call(const client_request& request) {
  return std::move(call_all({&request, 1}).front());
}

std::vector<client_result> AskedServer::call_all(std::span<const client_request> requests) {
  std::vector<client_result> results(requests.size());
  if (client_ == nullptr) {
    for (client_result& result : results) {
      result.error = client_errc::bad_request;
      result.text = problem_;
    }
    return results;
  }
  failure_.clear();
  calls_.clear();
  size_t ended = 0;
  for (size_t i = 0; i < requests.size(); ++i)
    calls_.push_back(client_->submit(requests[i],
                                     [&results, &ended, i](client_result&& result) {
                                       results[i] = std::move(result);
                                       ++ended;
                                     },
                                     {.timeout = target_.timeout}));
  while (ended < results.size()) client_->poll(std::chrono::milliseconds(-1));
  for (client_result& result : results) explain(result);
  return results;
}

// Says in the words of a command why there is no answer.
void AskedServer::explain(client_result& result) const {
  if (result.error == client_errc::cancelled) {
    result.error = client_errc::unavailable;
    result.text = failure_;
  }
  if (result.error == client_errc::timeout && !was_connected_)
    result.text = "cannot connect to " + target_.address.host + " port " +
                  std::to_string(target_.address.port) + ": no answer in time";
  if (result.error != client_errc::none && result.text.starts_with(closed))
    result.text.insert(closed.size(), " without a reply");
  if (result.error != client_errc::none) result.text = with_hint(std::move(result.text), target_);
}

}  // namespace sluice::cli
