/// @file
/// A client for tests of code that asks a sluice server: answers by rule instead of by a server,
/// and records its requests. C++17, header only; as sluice::client, but it needs no library
/// beside `sluice-client` for the base class.
///
///     sluice::mock_client mock;
///     mock.on([](const sluice::client_request& request) {
///       return sluice::mock_client::denied(std::chrono::seconds(3));
///     });
///     handle_login(mock);   // takes a sluice::client_interface&
///     assert(mock.requests().size() == 1);
///
/// Without a rule everything is allowed. Handlers run inside poll() and call(), as a client's do.
/// Any thread.
#ifndef SLUICE_CLIENT_MOCK_H
#define SLUICE_CLIENT_MOCK_H

#include <sluice/client.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace sluice {

/// A client without a server, for the tests of programs that use one. Any thread.
class mock_client : public client_interface {
 public:
  /// Answers a request. Called under the mock's lock.
  using rule = std::function<client_result(const client_request&)>;

  /// A request with bytes of its own.
  struct recorded {
    recorded() = default;
    recorded(recorded&&) = default;             ///< the views of `request` stay good
    recorded& operator=(recorded&&) = default;  ///< likewise
    client_request request;                     ///< its views point into `texts`
    std::list<std::string> texts;               ///< the bytes, which a move leaves in their place
  };

  /// From now on requests are answered so.
  void on(rule answer) {
    const std::lock_guard<std::mutex> lock(mutex_);
    rule_ = std::move(answer);
  }
  /// The next requests are answered so, one each, before the rule holds again.
  void next(client_result result) {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_.push_back(std::move(result));
  }

  /// The requests so far, in order; the record is cleared.
  std::vector<recorded> requests() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(requests_, {});
  }

  /// A result that allows.
  static client_result allowed() {
    client_result result;
    result.allowed = true;
    return result;
  }
  /// A result that denies.
  static client_result denied(std::chrono::microseconds retry_after = client_never) {
    client_result result;
    result.retry_after = retry_after;
    return result;
  }
  /// A result that is an error.
  static client_result failed(client_errc error, std::string text = {}) {
    client_result result;
    result.error = error;
    result.text = std::move(text);
    return result;
  }

  using client_interface::submit;
  client_call_id submit(const client_request& request, client_handler handler,
                        const client_call_options&) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    client_result result = allowed();
    if (!next_.empty()) {
      result = std::move(next_.front());
      next_.pop_front();
    } else if (rule_) {
      result = rule_(request);
    }
    record(request);
    pending_.push_back({++last_id_, std::move(handler), std::move(result)});
    return last_id_;
  }

  bool cancel(client_call_id call) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (pending& one : pending_) {
      if (one.id != call) continue;
      one.id = 0;
      one.result = failed(client_errc::cancelled, "the call was cancelled");
      return true;
    }
    return false;
  }

  std::size_t poll(std::chrono::milliseconds) override {
    std::deque<pending> ended;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended.swap(pending_);
    }
    for (pending& one : ended)
      if (one.handler) one.handler(std::move(one.result));
    return ended.size();
  }

 private:
  struct pending {
    client_call_id id;
    client_handler handler;
    client_result result;
  };

  void record(const client_request& request) {
    recorded& to = requests_.emplace_back();
    to.request = request;
    own(to.request.subject, to.texts);
    own(to.request.id, to.texts);
    for (client_subject& one : to.request.several) own(one, to.texts);
    for (std::string_view& word : to.request.words) own(word, to.texts);
  }
  static void own(std::string_view& text, std::list<std::string>& texts) {
    texts.emplace_back(text);
    text = texts.back();
  }
  static void own(client_subject& subject, std::list<std::string>& texts) {
    own(subject.type, texts);
    own(subject.key, texts);
    for (client_entry& entry : subject.entries) {
      own(entry.key, texts);
      own(entry.value, texts);
    }
  }

  std::mutex mutex_;
  rule rule_;
  std::deque<client_result> next_;
  std::deque<pending> pending_;
  std::vector<recorded> requests_;
  client_call_id last_id_ = 0;
};

}  // namespace sluice

#endif
