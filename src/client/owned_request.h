// A request that owns its bytes, for what is decided after its caller has gone on. Immutable.
#pragma once

#include <sluice/client.h>

#include <deque>
#include <string>
#include <string_view>

namespace sluice::calls {

class OwnedRequest {
 public:
  explicit OwnedRequest(const client_request& request) : request_(request) {
    own(request_.subject);
    own(request_.id);
    for (client_subject& one : request_.several) own(one);
    for (std::string_view& word : request_.words) own(word);
  }
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;

  const client_request& request() const { return request_; }

 private:
  void own(std::string_view& text) { text = texts_.emplace_back(text); }
  void own(client_subject& subject) {
    own(subject.type);
    own(subject.key);
    for (client_entry& entry : subject.entries) {
      own(entry.key);
      own(entry.value);
    }
  }

  client_request request_;
  std::deque<std::string> texts_;  // which stay where they are
};

}  // namespace sluice::calls
