#include "cli/terminal.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.h"
#include "base/file_system.h"
#include "base/utf8.h"

namespace cortiq::cli {

bool is_terminal(std::FILE* stream) { return ::isatty(::fileno(stream)) != 0; }

Style style_of(std::FILE* stream) {
  const char* no_color = std::getenv("NO_COLOR");
  if (!is_terminal(stream) || (no_color != nullptr && *no_color != 0)) return {};
  return {"\033[1m", "\033[2m", "\033[32m", "\033[31m", "\033[33m", "\033[0m"};
}

namespace {

// Columns a text takes: code points, which is right for all that these tables hold.
size_t display_width(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool looks_numeric(std::string_view cell) {
  return cell.empty() || cell == "-" || (cell[0] >= '0' && cell[0] <= '9') ||
         (cell[0] == '-' && cell.size() > 1 && cell[1] >= '0' && cell[1] <= '9');
}

}  // namespace

void Table::print(std::FILE* to) const {
  const size_t columns = rows_.front().size();
  std::vector<size_t> width(columns, 0);
  std::vector<bool> right(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      width[c] = std::max(width[c], display_width(rows_[r][c]));
      if (r > 0 && !looks_numeric(rows_[r][c])) right[c] = false;
    }
  }
  const Style style = style_of(to);
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string space(width[c] - display_width(rows_[r][c]), ' ');
      line += right[c] ? space + rows_[r][c] : rows_[r][c] + space;
      line += c + 1 < columns ? "  " : "";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    fmt::print(to, "{}{}{}\n", r == 0 ? style.dim : "", line, r == 0 ? style.reset : "");
  }
}

std::string human_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  while (value >= 999.5 && unit < 3) {
    value /= 1000;
    ++unit;
  }
  return fmt::format("{:.{}f} {}", value, value < 100 ? 1 : 0, kUnits[unit]);
}

std::string with_commas(uint64_t value) {
  std::string digits = std::to_string(value);
  for (size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

namespace {

class Bar final : public Progress {
 public:
  ~Bar() override { end(); }

  void begin(std::string_view what, uint64_t total) override {
    what_ = what;
    total_ = total;
    done_ = 0;
    start_ = last_ = Clock::now();
    shown_ = false;
  }
  void item(std::string_view name) override {
    item_ = name;
    draw(false);
  }
  void advance(uint64_t bytes) override {
    done_ += bytes;
    draw(false);
  }
  void end() override {
    if (shown_) std::fputs("\r\033[K", stderr);
    shown_ = false;
  }

 private:
  using Clock = std::chrono::steady_clock;

  void draw(bool force) {
    const auto now = Clock::now();
    if (!force && now - last_ < std::chrono::milliseconds(100)) return;
    last_ = now;
    shown_ = true;
    winsize size = {};
    const size_t columns = ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 40 ? size.ws_col : 80;
    const double seconds = std::chrono::duration<double>(now - start_).count();
    const double share = total_ == 0 ? 0 : std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_));
    const double rate = static_cast<double>(done_) / std::max(seconds, 1e-6);
    const double left = rate > 0 ? (static_cast<double>(total_) - static_cast<double>(done_)) / rate : 0;
    constexpr size_t kWidth = 24;
    const auto filled = static_cast<size_t>(share * kWidth);
    std::string bar;
    for (size_t i = 0; i < kWidth; ++i) bar += i < filled ? "━" : "─";
    const std::string facts =
        fmt::format("{} {} {:3.0f}%  {}/s  {}:{:02} left  ", what_, bar, share * 100,
                    human_bytes(static_cast<uint64_t>(rate)), static_cast<int>(left) / 60, static_cast<int>(left) % 60);
    const size_t used = display_width(facts);
    const std::string name = used + 4 < columns ? printable(item_, columns - used - 2) : "";
    fmt::print(stderr, "\r\033[K{}{}", facts, name);
    std::fflush(stderr);
  }

  std::string what_, item_;
  uint64_t total_ = 0, done_ = 0;
  Clock::time_point start_, last_;
  bool shown_ = false;
};

}  // namespace

std::unique_ptr<Progress> terminal_progress(bool quiet) {
  if (quiet || !is_terminal(stderr)) return std::make_unique<Progress>();
  return std::make_unique<Bar>();
}

std::string one_line(std::string_view sentence) {
  std::string line = replace_invalid_utf8(sentence);
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c == '\n' || c == '\r'; }, ' ');
  return line;
}

void warn(std::string_view sentence) {
  const Style style = style_of(stderr);
  fmt::print(stderr, "{}warning:{} {}\n", style.yellow, style.reset, one_line(sentence));
}

Cancellation& interruption() {
  static Cancellation wish;
  return wish;
}

namespace {

void on_signal(int) {
  if (interruption().requested()) {
    remove_unfinished_files();
    if (::isatty(1)) {
      const ssize_t ignored = ::write(1, "\033[0m\n", 5);
      (void)ignored;
    }
    ::_exit(130);
  }
  interruption().request();
}

}  // namespace

void watch_signals() {
  interruption();
  struct sigaction action = {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, reported as such
}

std::unique_ptr<ThreadPool> make_pool(uint64_t threads) {
  const size_t usable = usable_threads();
  if (threads > 1024) fail(ErrorKind::Usage, "--threads {}: at most 1024", threads);
  if (threads > usable) warn(fmt::format("{} threads on {} usable processors will not be faster", threads, usable));
  return std::make_unique<ThreadPool>(threads == 0 ? usable : threads);
}

std::string read_stdin(uint64_t limit) {
  std::string all;
  char buffer[65536];
  size_t got;
  while ((got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0) {
    all.append(buffer, got);
    interruption().check();
    if (all.size() > limit) fail(ErrorKind::Io, "standard input: more than the {} bytes taken at most", limit);
  }
  interruption().check();  // a signal ends the wait like the end of the input
  return all;
}

}  // namespace cortiq::cli
