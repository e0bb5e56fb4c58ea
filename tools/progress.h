// A progress line on a terminal: "packing  45%  1.2 GB of 2.6 GB  812 MB/s  0:02 left". Prints
// nothing when stderr is not a terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cli {

class Progress {
 public:
  explicit Progress(std::string title);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  // Clears the line, so that messages start on a clean one.
  ~Progress();

  // Cheap to call often: draws at most ten times a second. One thread at a time.
  void Update(uint64_t done, uint64_t total);
  // Since construction.
  double seconds() const;

 private:
  std::string title_;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_, last_;
};

// The line without its title; `seconds` is the time since the start.
std::string ProgressText(uint64_t done, uint64_t total, double seconds);
// "812 MB/s"; "-" when no time has passed.
std::string FormatRate(uint64_t bytes, double seconds);
// "0.29 s" below a minute, then as FormatDuration: for reports of what was done.
std::string FormatElapsed(double seconds);
// "0:02", "1:02:03".
std::string FormatDuration(double seconds);

}  // namespace cli
