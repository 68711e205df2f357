#include "server/gathered_output.h"

#include <utility>

#include "server/connection.h"

namespace sluice::server {

void GatheredOutput::add(Connection& connection, std::string_view text) {
  if (!runs_.empty() && runs_.back().connection == &connection && runs_.back().size > 0)
    runs_.back().size += text.size();
  else
    runs_.push_back({&connection, texts_.size(), text.size()});
  texts_.append(text);
}

void GatheredOutput::send(Run& run) {
  const size_t size = std::exchange(run.size, 0);
  if (run.connection != nullptr && size > 0)
    run.connection->send_gathered(texts_.view().substr(run.at, size));
}

void GatheredOutput::send(Connection& connection) {
  for (Run& run : runs_) {
    if (run.connection == &connection) send(run);
  }
}

void GatheredOutput::send_all() {
  for (Run& run : runs_) send(run);
  for (const Run& run : runs_) {
    if (run.connection != nullptr) run.connection->end_gathered();
  }
  runs_.clear();
  texts_.clear();
}

void GatheredOutput::send_if_full() {
  if (runs_.size() >= connections_max || texts_.size() >= bytes_max) send_all();
}

void GatheredOutput::forget(const Connection& connection) {
  for (Run& run : runs_) {
    if (run.connection == &connection) run.connection = nullptr;
  }
}

}  // namespace sluice::server
