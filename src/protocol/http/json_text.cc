#include "protocol/http/json_text.h"

#include <algorithm>

namespace sluice::http {

void put_json_seconds(base::Duration length, base::TextWriter& writer) {
  if (length == base::never) return writer.put("null");
  const int64_t us = std::max<int64_t>(length.us, 0);
  const auto ms = static_cast<uint64_t>(us / 1000 + (us % 1000 > 0 ? 1 : 0));
  writer.put_number(ms / 1000);
  auto fraction = static_cast<unsigned>(ms % 1000);
  if (fraction == 0) return;
  writer.put('.');
  for (; fraction > 0; fraction = fraction % 100 * 10)
    writer.put(static_cast<char>('0' + fraction / 100));
}

void append_json_seconds(base::Duration length, base::Buffer& out) {
  base::TextWriter writer(out, json_seconds_bytes_max);
  put_json_seconds(length, writer);
  writer.finish();
}

}  // namespace sluice::http
