// One client's connection: its socket, its session and the few bytes that are under way. Belongs to
// one worker and lives on its thread; kept alive by the operation it waits for. Idle it holds a
// small input buffer and nothing else; a larger one is lent by the
// worker while a request does not fit into it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "server/options.h"
#include "server/parking.h"
#include "wire/session.h"

namespace sluice::server {

class Worker;

// Without asio's type-erased executor, which costs a good part of what deciding costs.
using Socket =
    boost::asio::basic_stream_socket<boost::asio::ip::tcp, boost::asio::io_context::executor_type>;
using Timer = boost::asio::basic_waitable_timer<std::chrono::steady_clock,
                                                boost::asio::wait_traits<std::chrono::steady_clock>,
                                                boost::asio::io_context::executor_type>;

class Connection final : public Recipient, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Worker& worker, Socket socket, Protocol protocol);
  ~Connection() override;

  // Serves until the client leaves or is sent away.
  void start();
  // Tells the client why it is not served, once it asks for something: a line that nobody asked for
  // would break it. If it asks for nothing, it is closed without a word.
  void turn_away(std::string_view why);
  bool is_turned_away() const { return !turned_away_.empty(); }
  // Answers what has arrived, then closes: the server is stopping.
  void finish();
  // Closes now.
  void abort();

  void reply_late(const wire::Request& request, const wire::Verdict& verdict,
                  base::Time now) override;
  void send_late() override;

 private:
  enum class Phase { serving, flushing, draining, closed };

  void read();
  // Decides what has arrived and sees to what comes next.
  void process();
  bool decide();
  bool receive_last();
  void refuse(std::string_view why);
  bool flush();
  void await_writable();
  void close_gently();
  void await_linger();
  void drain();
  bool make_room();
  bool swap_buffer(size_t bytes);

  Worker& worker_;
  Socket socket_;
  std::unique_ptr<wire::Session> session_;
  std::unique_ptr<Timer> linger_;  // while draining
  std::unique_ptr<char[]> in_;
  size_t in_capacity_ = 0, in_size_ = 0;  // in_size_: bytes that are not consumed
  std::string unsent_;  // output that the socket did not take; while it is there nothing is read
  size_t unsent_at_ = 0;
  size_t drained_ = 0;
  const Protocol protocol_;
  Phase phase_ = Phase::serving;
  bool reading_ = false;
  std::string late_;        // late replies that are about to be sent
  bool end_ = false;        // the client will send no more
  bool finishing_ = false;  // the server is stopping; what had arrived by then is still answered
  size_t last_bytes_ = 0;   // of that
  std::string_view turned_away_;  // why; a literal
};

}  // namespace sluice::server
