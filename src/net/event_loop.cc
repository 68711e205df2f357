#include "net/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

namespace sluice::net {

using Clock = std::chrono::steady_clock;

EventLoop::Descriptor::Descriptor(int fd, const char* maker) : fd_(fd) {
  if (fd < 0) throw std::system_error(errno, std::generic_category(), maker);
}

EventLoop::Descriptor::~Descriptor() {
  ::close(fd_);
}

// Marks one turn. A turn of sockets may be within a turn of clients.
class EventLoop::Turn {
 public:
  explicit Turn(EventLoop& loop) : loop_(loop), outer_(std::exchange(loop.in_turn_, true)) {}
  ~Turn() {
    if (loop_.turn_ended_) loop_.turn_ended_();
    loop_.in_turn_ = outer_;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  EventLoop& loop_;
  const bool outer_;
};

EventLoop::EventLoop(std::function<void()> turn_ended)
    : epoll_(::epoll_create1(EPOLL_CLOEXEC), "epoll_create1"),
      wakes_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), "eventfd"),
      alarm_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create"),
      turn_ended_(std::move(turn_ended)) {
  add_own(wakes_, nullptr);
  add_own(alarm_, &timers_);
}

EventLoop::~EventLoop() = default;

// Edge-triggered, so that neither has to be read: each write, and each ring, is an event.
void EventLoop::add_own(int fd, void* mark) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.ptr = mark;
  if (::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
    throw std::system_error(errno, std::generic_category(), "epoll_ctl");
}

void EventLoop::run() {
  while (!stops_.load(std::memory_order_relaxed)) round(true);
}

void EventLoop::stop() {
  stops_ = true;
  wake();
}

void EventLoop::round(bool may_sleep) {
  turn(may_sleep);
  if (rang_) run_timers();
  if (has_tasks_.load(std::memory_order_relaxed)) run_tasks();
  if (!again_.empty() || !slow_.empty()) take_turns();
  if (!at_end_.empty()) end_turn();
}

// One turn of sockets.
void EventLoop::turn(bool may_sleep) {
  if (stops_.load(std::memory_order_relaxed)) return;
  const Turn its(*this);
  work_ = 0;
  if (!timers_.empty() && timers_.front()->at_ < rings_at_) arm();
  const bool sleeps = may_sleep && begins_sleep();
  const int count = ::epoll_wait(epoll_, events_.data(), events_max, sleeps ? -1 : 0);
  sleeps_.store(false, std::memory_order_relaxed);
  count_ = count > 0 ? static_cast<size_t>(count) : 0;
  for (at_ = 0; at_ < count_ && !stops_.load(std::memory_order_relaxed);) {
    const epoll_event& event = events_[at_++];
    if (event.data.ptr == nullptr) continue;  // it was woken, or the watcher is gone
    if (event.data.ptr == &timers_) {
      rang_ = true;
      continue;
    }
    const auto events = event.events;
    static_cast<Watcher*>(event.data.ptr)
        ->on_ready((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0,
                   (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0,
                   (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0);
  }
  at_ = count_ = 0;
}

// Who posts a task looks at sleeps_ after it, and this at has_tasks_ after sleeps_, so one of the
// two sees the other.
bool EventLoop::begins_sleep() {
  if (rang_ || !again_.empty() || !slow_.empty() || !at_end_.empty()) return false;
  sleeps_ = true;
  return !has_tasks_ && !stops_;
}

void EventLoop::wake() {
  if (sleeps_ && sleeps_.exchange(false)) ::eventfd_write(wakes_, 1);
}

void EventLoop::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    has_tasks_ = true;
  }
  wake();
}

void EventLoop::run_tasks() {
  {
    const std::lock_guard lock(mutex_);
    running_.swap(tasks_);
    has_tasks_ = false;
  }
  for (Task& task : running_) {
    if (stops_.load(std::memory_order_relaxed)) break;
    task();
    task = nullptr;
  }
  running_.clear();
}

bool EventLoop::watch(int fd, Watcher& watcher) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  event.data.ptr = &watcher;
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void EventLoop::forget_events(const Watcher& watcher) {
  for (size_t i = at_; i < count_; ++i) {
    if (events_[i].data.ptr == &watcher) events_[i].data.ptr = nullptr;
  }
}

void EventLoop::unwatch(Watcher& watcher) {
  forget_events(watcher);
  std::erase(at_end_, &watcher);
  std::replace(ending_.begin(), ending_.end(), &watcher, static_cast<Watcher*>(nullptr));
}

void EventLoop::unregister(int fd) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
}

void EventLoop::remove(SocketOwner& client) {
  unwatch(client);
  if (!std::exchange(client.queued_, false)) return;
  std::erase(again_, &client);
  std::erase(slow_, &client);
}

void EventLoop::again(SocketOwner& client) {
  if (!std::exchange(client.queued_, true)) again_.push_back(&client);
}

void EventLoop::after_others(SocketOwner& client) {
  if (!std::exchange(client.queued_, true)) slow_.push_back(&client);
}

void EventLoop::take_turns() {
  const Turn its(*this);
  for (size_t turns = 0; turns < turns_max && !again_.empty() && !stops_; ++turns) {
    SocketOwner* const next = again_.front();
    again_.pop_front();
    next->queued_ = false;
    next->on_turn();
    if (work_ >= work_max) turn(false);
  }
  take_slow_turn();
}

// One a round, behind the sockets that are ready.
void EventLoop::take_slow_turn() {
  if (slow_.empty()) return;
  turn(false);  // what has become ready since the last one
  if (slow_.empty() || stops_ || (!again_.empty() && ++busy_rounds_ < busy_rounds_max)) return;
  busy_rounds_ = 0;
  SocketOwner* const next = slow_.front();
  slow_.pop_front();
  next->queued_ = false;
  next->on_turn();
}

void EventLoop::at_turn_end(Watcher& client) {
  for (const auto* const asked : {&at_end_, &ending_}) {
    if (std::find(asked->begin(), asked->end(), &client) != asked->end()) return;
  }
  at_end_.push_back(&client);
}

void EventLoop::end_turn() {
  ending_.swap(at_end_);
  for (size_t i = 0; i < ending_.size(); ++i) {
    if (Watcher* const next = std::exchange(ending_[i], nullptr)) next->on_turn_end();
  }
  ending_.clear();
}

// Timers are a heap, in which each knows its place.

// Moves the timer from a place of its own, or behind the last one, to where its time belongs.
void EventLoop::sift(Timer& timer, size_t place) {
  const auto put_at = [this](Timer& one, size_t where) {
    timers_[where] = &one;
    one.place_ = where;
  };
  for (; place > 0; place = (place - 1) / 2) {
    Timer& above = *timers_[(place - 1) / 2];
    if (above.at_ <= timer.at_) break;
    put_at(above, place);
  }
  for (;;) {
    size_t below = 2 * place + 1;
    if (below >= timers_.size()) break;
    if (below + 1 < timers_.size() && timers_[below + 1]->at_ < timers_[below]->at_) ++below;
    if (timer.at_ <= timers_[below]->at_) break;
    put_at(*timers_[below], place);
    place = below;
  }
  put_at(timer, place);
}

void EventLoop::put(Timer& timer) {
  if (!timer.is_set()) {
    timer.place_ = timers_.size();
    timers_.push_back(&timer);
  }
  sift(timer, timer.place_);
}

void EventLoop::take_out(Timer& timer) {
  const size_t place = std::exchange(timer.place_, Timer::nowhere);
  Timer& last = *timers_.back();
  timers_.pop_back();
  if (&last != &timer) sift(last, place);
}

// A ring that is set for an earlier time than the first timer's stays, so most timers that are set
// and cancelled again cost no system call.
void EventLoop::arm() {
  rings_at_ = timers_.front()->at_;
  // 0 would disarm it.
  const auto at = std::max(rings_at_.time_since_epoch(), Clock::duration(1));
  const auto seconds = std::chrono::floor<std::chrono::seconds>(at);
  itimerspec when{};
  when.it_value.tv_sec = seconds.count();
  when.it_value.tv_nsec = std::chrono::nanoseconds(at - seconds).count();
  ::timerfd_settime(alarm_, TFD_TIMER_ABSTIME, &when, nullptr);
}

void EventLoop::run_timers() {
  rang_ = false;
  rings_at_ = Clock::time_point::max();
  const Clock::time_point now = Clock::now();
  for (size_t most = timers_.size(); most > 0 && !timers_.empty(); --most) {
    Timer& first = *timers_.front();
    if (first.at_ > now || stops_.load(std::memory_order_relaxed)) return;
    take_out(first);
    first.on_due_();
  }
}

void Timer::set(Time at) {
  at_ = at;
  loop_.put(*this);
}

void Timer::cancel() {
  if (is_set()) loop_.take_out(*this);
}

}  // namespace sluice::net
