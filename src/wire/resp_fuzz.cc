// Any bytes, in one piece and in pieces, must give the same RESP commands as with the naive reader;
// and each reply must have as many items as it announces. The first byte says how the rest is cut,
// and whether the bounds are small.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "wire/resp.h"
#include "wire/resp_model.h"

namespace {

using namespace sluice::wire;

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

// Whether `items` has as many items as the reply's heads announce, including the reply itself.
bool walk(RespItems& items, uint64_t awaited) {
  RespItem item;
  for (; awaited > 0; --awaited) {
    if (!items.next(item)) return false;
    if (item.kind == RespItem::Kind::list) awaited += item.count;
    if (item.kind == RespItem::Kind::map) awaited += 2 * item.count;
    if (item.kind == RespItem::Kind::attributes) awaited += 2 * item.count + 1;
  }
  return !items.next(item);
}

std::vector<size_t> read_replies(const std::string& text, size_t step) {
  std::vector<size_t> ends;
  RespReplyReader reader({4096, 256});
  size_t consumed = 0;
  for (size_t arrived = 0; arrived < text.size();) {
    arrived = std::min(text.size(), arrived + step);
    while (true) {
      const std::string in = text.substr(consumed, arrived - consumed);
      const auto result = reader.next(in);
      if (result.found == RespReplyReader::Found::broken) {
        ends.push_back(SIZE_MAX);
        return ends;
      }
      if (result.found == RespReplyReader::Found::incomplete) break;
      RespItems items(std::string_view(in).substr(0, result.consumed));
      require(walk(items, 1), "a reply has not its items");
      consumed += result.consumed;
      ends.push_back(consumed);
    }
  }
  return ends;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  RespBounds bounds;
  if (data[0] >= 128) bounds = {3, 8, 40};
  const std::vector<size_t> whole{text.size() + 1}, pieces{size_t{data[0]} % 128 + 1};

  const resp_model::Transcript expected = resp_model::expected(text, bounds);
  for (const auto& cuts : {whole, pieces}) {
    std::string failure;
    const resp_model::Transcript found = resp_model::run(text, cuts, bounds, failure);
    require(failure.empty(), failure);
    require(found == expected, "ends with '" + found.end + "', expected '" + expected.end + "'");
  }
  require(read_replies(text, whole[0]) == read_replies(text, pieces[0]), "replies by their pieces");
  return 0;
}
