#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/units.h"
#include "cli/admin_words.h"
#include "cli/inspect.h"
#include "cli/terminal.h"
#include "cli/top_picture.h"

namespace sluice::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* about_top =
    "Shows the actors that a running server denies most, or that ask most, over the last minutes: "
    "on a\n"
    "terminal live until you press q (d: by denied, a: by active, s: whom shadow rules would "
    "deny),\n"
    "else once.";

std::string footer_of_top() {
  return admin_footer(
      "Counts are of the last minutes, and of a busy server's rarer keys at most a little too "
      "high\n"
      "(error_max in JSON). REFUSES NOW: which of the counter's limits has nothing left.\n"
      "\n"
      "Examples:\n"
      "  sluice top\n"
      "  sluice top --by active --every 5s\n"
      "  sluice top --shadow\n"
      "  sluice top --once --limit 5\n"
      "  sluice top --rule cookies\n"
      "  sluice top --json",
      "shown", "the server refuses it");
}

constexpr size_t listed_min = 100, listed_more = 50, listed_max = 1000;
// The most counters of which the refusing limit is looked up; each needs a request.
constexpr size_t refusing_max = 50;
constexpr base::Duration every_min = base::milliseconds(100), every_max = base::seconds(3600);

struct TopFlags {
  AdminFlags admin;
  std::string by = "denied", rule, limit = "20", every = "1s", over = "500ms";
  bool once = false, shadow = false;
};

// The results of one refresh: the list, and the server's metrics.
struct Seen {
  Json answer;
  std::optional<Look> look;
};

// Which items to show: only those of rules whose names contain this text.
struct Wanted {
  std::string by, rule;
  size_t count;
};

void keep_rules(Json& answer, const std::string& text) {
  Json items = Json::array();
  for (const Json& item : list_field(answer, "items"))
    if (text_field(item, "rule").find(text) != std::string::npos) items.push_back(item);
  answer["items"] = std::move(items);
}

AdminPort::Reply see(AdminPort& port, const Wanted& wanted, Seen& seen,
                     std::span<const int> interrupts = {}) {
  // Many counters of a rule may come after those of all others, so the whole list is needed.
  const size_t count = wanted.rule.empty() ? wanted.count : listed_max;
  auto reply = port.get("/v1/top?by=" + wanted.by + "&limit=" + std::to_string(count), interrupts);
  if (!reply.is_done()) return reply;
  seen.answer = reply.json;
  if (!wanted.rule.empty()) keep_rules(seen.answer, wanted.rule);
  seen.look = look_at(port, reply, interrupts);
  return reply;
}

// Adds `refused_by` to the first items with denials: the limits of the counter that refuse now. A
// counter that cannot be read gets none.
void add_refusing(AdminPort& port, Json& answer, size_t count,
                  std::span<const int> interrupts = {}) {
  Json items = list_field(answer, "items");
  for (size_t i = 0; i < std::min(count, items.size()); ++i) {
    Json& item = items[i];
    if (integer_field(item, "denied") == 0 || true_field(item, "cut")) continue;
    const auto reply = port.get("/v1/counters/" + text_field(item, "path"), interrupts);
    if (reply.interrupted) return;
    Json refusing = Json::array();
    for (const Json& limit : list_field(reply.json, "limits"))
      if (!true_field(limit, "allowed")) refusing.push_back(limit);
    if (reply.is_done()) item["refused_by"] = std::move(refusing);
  }
  answer["items"] = std::move(items);
}

// The first items of the answer. More were requested so that the rates of items that move up are
// known.
Json first_items(const Json& answer, size_t count) {
  Json cut = answer;
  Json items = Json::array();
  for (const Json& item : list_field(answer, "items"))
    if (items.size() < count) items.push_back(item);
  cut["items"] = std::move(items);
  return cut;
}

int show_once(AdminPort& port, const TopFlags& asked, size_t count, std::chrono::microseconds over,
              config::CommandIo& io) {
  TopRates rates;
  const Wanted wanted{asked.by, asked.rule, std::clamp(count, listed_min, listed_max)};
  Seen seen;
  if (over.count() > 0) {
    const auto first = see(port, wanted, seen);
    if (!first.is_done()) return report_failure(first, asked.admin.json, io);
    rates.add(seen.answer, Clock::now());
    std::this_thread::sleep_for(over);
  }
  const std::optional<Look> before = std::move(seen.look);
  const auto reply = see(port, wanted, seen);
  if (!reply.is_done()) return report_failure(reply, asked.admin.json, io);
  rates.add(seen.answer, Clock::now());
  Json answer = first_items(seen.answer, count);
  add_refusing(port, answer, refusing_max);
  if (asked.admin.json) {
    io.out << to_text(answer) << std::flush;
    return config::exit_ok;
  }
  const ServerLines server = server_lines(port.name(), before, *seen.look);
  io.out << server.name << '\n' << server.figures << '\n';
  for (const std::string& trouble : server.troubles)
    io.out << config::paint(trouble, config::red, io.out_colour) << '\n';
  const Table table = table_of_top(answer);
  io.out << order_words(answer) << (table.rows() == 0 ? ": none\n" : "\n\n");
  if (table.rows() > 0) io.out << table.text(io);
  io.out.flush();
  return config::exit_ok;
}

class LiveTop {
 public:
  LiveTop(AdminPort& port, std::string by, std::string rule, std::chrono::microseconds every,
          bool coloured)
      : port_(port),
        by_(std::move(by)),
        rule_(std::move(rule)),
        every_(every),
        coloured_(coloured) {}

  // The first refresh, before the terminal is changed, so that errors are printed as usual.
  AdminPort::Reply begin() { return refresh(listed_min, {}); }

  void run() {
    Terminal terminal(STDIN_FILENO, STDOUT_FILENO);
    terminal.enter();
    auto due = Clock::now() + every_;
    for (;;) {
      const auto [columns, rows] = terminal.size();
      if (!terminal.draw(lines_of(picture_, columns, rows, coloured_))) return;
      const auto event = terminal.next(due);
      switch (event.kind) {
        case Terminal::Event::Kind::end:
          return;
        case Terminal::Event::Kind::redraw:
          continue;
        case Terminal::Event::Kind::key:
          if (event.key == 'q') return;
          if (event.key != 'd' && event.key != 'a' && event.key != 's' && event.key != ' ')
            continue;
          if (event.key != ' ')
            by_ = event.key == 'd' ? "denied" : event.key == 'a' ? "active" : "shadow_denied";
          break;
        case Terminal::Event::Kind::none:
          break;
      }
      // A key or a signal interrupts the request, which is repeated then. More items than the
      // window shows are requested, so that their rates are known when they move up.
      const size_t listed = std::clamp(rows + listed_more, listed_min, listed_max);
      if (refresh(listed, terminal.descriptors()).interrupted) continue;
      due = Clock::now() + every_;
    }
  }

 private:
  AdminPort::Reply refresh(size_t listed, std::span<const int> interrupts) {
    Seen seen;
    const auto reply = see(port_, {by_, rule_, listed}, seen, interrupts);
    if (reply.interrupted) return reply;
    picture_.problem = reply.is_done() ? "" : reply.problem;
    if (!reply.is_done()) return reply;
    rates_.add(seen.answer, Clock::now());
    add_refusing(port_, seen.answer, std::min(listed - listed_more, refusing_max), interrupts);
    picture_.server = server_lines(port_.name(), look_, *seen.look);
    picture_.answer = std::move(seen.answer);
    look_ = std::move(seen.look);
    return reply;
  }

  AdminPort& port_;
  std::string by_;
  const std::string rule_;
  const std::chrono::microseconds every_;
  const bool coloured_;
  TopRates rates_;
  std::optional<Look> look_;
  TopPicture picture_;
};

void add_flags(Arguments& arguments, TopFlags& asked) {
  arguments.add_option("--by", asked.by,
                       "The order: denied, active or shadow_denied; default denied",
                       "denied|active|shadow_denied");
  arguments.add_flag("--shadow", asked.shadow,
                     "Whom rules with mode: shadow would deny, as --by shadow_denied");
  arguments.add_option("--rule", asked.rule, "Only counters of rules whose name or pattern has it",
                       "TEXT");
  arguments.add_option("--every", asked.every,
                       "How often it is shown again, 100ms to 1h; default 1s", "DURATION");
  arguments.add_flag("--once", asked.once, "Show it once, also on a terminal");
  arguments.add_option("--limit", asked.limit, "Of once: how many, 1 to 1000; default 20", "N");
  add_over_flag(arguments, asked.over);
  add_admin_flags(arguments, asked.admin);
}

}  // namespace

int top(const Words& words, config::CommandIo& io) {
  Arguments arguments("sluice top [options]", about_top, footer_of_top());
  TopFlags asked;
  add_flags(arguments, asked);
  if (const auto ended = arguments.parse(words, io)) return *ended;
  if (const auto ended = arguments.refuse_words(io)) return *ended;
  if (asked.shadow) asked.by = "shadow_denied";
  if (asked.by != "denied" && asked.by != "active" && asked.by != "shadow_denied")
    return arguments.misused("--by must be denied, active or shadow_denied, not `" + asked.by + "`",
                             io);
  const auto count = base::parse_count(asked.limit);
  if (!count || *count < 1 || *count > listed_max)
    return arguments.misused("--limit must be 1 to 1000, not `" + asked.limit + "`", io);
  const auto every = base::parse_duration(asked.every);
  if (!every || *every < every_min || *every > every_max)
    return arguments.misused("--every must be 100ms to 1h, not `" + asked.every + "`", io);
  int ending = config::exit_ok;
  const auto over = over_of(asked.over, arguments, io, ending);
  if (!over) return ending;
  auto port = AdminPort::open(asked.admin, arguments, io, ending);
  if (!port) return ending;

  if (asked.once || asked.admin.json || !io.out_terminal)
    return show_once(*port, asked, *count, *over, io);
  LiveTop live(*port, asked.by, asked.rule, std::chrono::microseconds(every->us), io.out_colour);
  const auto first = live.begin();
  if (!first.is_done()) return report_failure(first, false, io);
  live.run();
  return config::exit_ok;
}

}  // namespace sluice::cli
