// An answer to an HTTP request, independent of HTTP's version. Each worker has one, which is sent
// before the next answer is begun.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/buffer.h"
#include "base/decimal.h"
#include "protocol/http/limit_fields.h"

namespace sluice::http {

struct Answer {
  uint16_t status = 200;
  std::string_view content_type{};  // a literal; empty: there is no body
  FieldList fields;                 // all fields except the type and the length
  base::Buffer body;

  void add(std::string_view name, std::string_view value) {
    fields.begin(name).append(value);
    fields.end();
  }
  void add(std::string_view name, int64_t number) {
    base::append_decimal(number, fields.begin(name));
    fields.end();
  }
  void clear() {
    status = 200;
    content_type = {};
    fields.clear();
    body.clear();
  }
};

}  // namespace sluice::http
