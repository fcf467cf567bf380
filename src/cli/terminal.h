#pragma once
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "base/progress.h"
#include "base/thread_pool.h"

namespace cortiq::cli {

/// True if a person looks at the stream.
bool is_terminal(std::FILE* stream);

/// ANSI styles for a terminal, empty strings elsewhere and with NO_COLOR.
struct Style {
  std::string bold, dim, green, red, yellow, reset;
};
Style style_of(std::FILE* stream);

/// Rows of text with aligned columns; a column whose cells all look like numbers is set right.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) : rows_{std::move(heading)} {}
  void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void print(std::FILE* to) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

/// "4.1 GB", "17.0 MB", "512 bytes"; powers of ten, as disks and bandwidths count.
std::string human_bytes(uint64_t bytes);
/// "1,234,567"
std::string with_commas(uint64_t value);

/// A bar with item, rate and time left on a terminal's stderr; Progress::none() elsewhere or when quiet.
std::unique_ptr<Progress> terminal_progress(bool quiet);

/// A sentence as one line of valid UTF-8, whatever paths and names it quotes.
std::string one_line(std::string_view sentence);

/// `warning: sentence` on stderr. Not for --json, whose document carries the warnings.
void warn(std::string_view sentence);

/// The wish to stop that SIGINT and SIGTERM set. The second signal removes unfinished files and leaves at once.
Cancellation& interruption();
void watch_signals();

/// A pool of the threads asked for (0: what the machine and its control groups allow).
std::unique_ptr<ThreadPool> make_pool(uint64_t threads);

/// Standard input until its end; Io if it is more than `limit` bytes.
std::string read_stdin(uint64_t limit = uint64_t{1} << 30);

}  // namespace cortiq::cli
