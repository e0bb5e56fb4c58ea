// A progress line on a terminal: "packing  45%  1.2 GB of 2.6 GB  812 MB/s  0:02 left". Prints
// nothing if stderr is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "libshard/base/progress.h"

namespace moepack::cli {

// What is counted: "1.2 GB of 2.6 GB  812 MB/s", "1,200 of 2,600 tokens  95 tokens/s".
enum class ProgressUnit : uint8_t { kBytes, kTokens };

class Progress {
 public:
  explicit Progress(std::string title, ProgressUnit unit = ProgressUnit::kBytes);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Clears the line, so that messages start on a clean one.
  ~Progress();

  // Cheap to call often: draws at most ten times a second. Only for one thread at a time. If `done`
  // decreases or is 0, another step begins, and its rate is measured from there.
  void Update(uint64_t done, uint64_t total);
  // Calls Update; for the options of libraries. Borrows the line.
  OnProgress Shows() {
    return [this](uint64_t done, uint64_t total) { Update(done, total); };
  }
  // Removes the line, so that something else can be printed; the next Update draws it again.
  void Clear();
  // Since construction.
  double seconds() const;

 private:
  void Draw(const std::string& line);

  std::string title_;
  ProgressUnit unit_;
  bool terminal_, escapes_;
  bool drawn_ = false;
  size_t drawn_columns_ = 0;
  uint64_t done_ = 0;
  std::chrono::steady_clock::time_point start_, step_, last_;
};

// What a command did, and how long it took.
template <class Report>
struct Timed {
  Report report;
  double seconds = 0;
};

// Shows how much of some work is left; each finished piece is reported.
class ProgressCount {
 public:
  ProgressCount(std::string title, ProgressUnit unit, uint64_t total)
      : progress_(std::move(title), unit), total_(total) {
    Add(0);
  }
  void Add(uint64_t amount) {
    done_ += amount;
    if (!hidden_) progress_.Update(done_, total_);
  }
  // Hides the line for good.
  void Hide() {
    hidden_ = true;
    progress_.Clear();
  }

 private:
  Progress progress_;
  uint64_t total_, done_ = 0;
  bool hidden_ = false;
};

// The line without its title; `seconds` is the time since the start. As much of it as fits into so
// many columns: the rate is left out first, then the amount, then the time that is left.
std::string ProgressText(uint64_t done, uint64_t total, double seconds,
                         ProgressUnit unit = ProgressUnit::kBytes, size_t columns = SIZE_MAX);
// The same behind its title, which is left out where there is no room for more than the share.
std::string ProgressLine(std::string_view title, uint64_t done, uint64_t total, double seconds,
                         ProgressUnit unit, size_t columns);
// Whether a terminal with this value of TERM (nullptr: not set) understands escape sequences.
bool KnowsEscapes(const char* term);
// "812 MB/s"; "-" if no time has passed.
std::string FormatRate(uint64_t bytes, double seconds);
// "95 tokens/s", "0.4 tokens/s"; "-" if no time has passed.
std::string FormatTokenRate(uint64_t tokens, double seconds);
// "0.29 s" below a minute, otherwise as in FormatDuration: for reports on what was done.
std::string FormatElapsed(double seconds);
// "0:02", "1:02:03".
std::string FormatDuration(double seconds);

}  // namespace moepack::cli
