// The smallest protocol. A line `take KEY` is answered `yes N` or `no N`, where N is the number of
// remaining units, or `error WHY`. KEY is the value of the request's entry `key`; native rules
// decide.
#pragma once

#include <string_view>

#include "request/session.h"

namespace sluice::toy {

class ToySession final : public request::Session {
 public:
  request::Received receive(std::string_view in, bool end, request::Requests& requests,
                            base::Buffer& out) override;
  bool reply(const request::Request& request, const request::Verdict& verdict, base::Time now,
             base::Buffer& out) override;
  request::Fault fault() const override { return {"line"}; }
  void end(request::Ending ending, std::string_view why, base::Buffer& out) override;
};

}  // namespace sluice::toy
