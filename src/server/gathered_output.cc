#include "server/gathered_output.h"

#include <utility>

#include "server/connection.h"

namespace sluice::server {

void GatheredOutput::add(Connection& connection, std::string_view text) {
  if (!runs_.empty() && runs_.back().connection == &connection)
    runs_.back().size += text.size();
  else
    runs_.push_back({&connection, texts_.size(), text.size()});
  texts_.append(text);
  if (runs_.size() >= connections_max || texts_.size() >= bytes_max) send_all();
}

void GatheredOutput::send(Run& run) {
  if (Connection* const connection = std::exchange(run.connection, nullptr))
    connection->send_gathered(texts_.view().substr(run.at, run.size));
}

void GatheredOutput::send(Connection& connection) {
  for (Run& run : runs_) {
    if (run.connection == &connection) send(run);
  }
}

// A connection that cannot take its output may have others closed, which send theirs meanwhile.
void GatheredOutput::send_all() {
  for (Run& run : runs_) send(run);
  runs_.clear();
  texts_.clear();
}

}  // namespace sluice::server
