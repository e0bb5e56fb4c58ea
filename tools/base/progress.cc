#include "tools/base/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"

namespace moepack::cli {
namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr const char* kClearLine = "\r\033[K";
// Below this rate, a tenth of a token per second is worth a digit.
constexpr double kSlowTokens = 10;

double SecondsBetween(std::chrono::steady_clock::time_point from,
                      std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// "1.2 GB of 2.6 GB  812 MB/s"
std::string AmountText(uint64_t done, uint64_t total, double seconds, ProgressUnit unit) {
  if (unit == ProgressUnit::kTokens)
    return Cat(FormatCount(done), " of ", FormatCount(total), " tokens  ",
               FormatTokenRate(done, seconds));
  return Cat(FormatBytes(done), " of ", FormatBytes(total), "  ", FormatRate(done, seconds));
}

}  // namespace

Progress::Progress(std::string title, ProgressUnit unit)
    : title_(std::move(title)),
      unit_(unit),
      terminal_(!IsQuiet() && isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      step_(start_),
      last_(start_) {}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  if (drawn_) std::fputs(kClearLine, stderr);
  drawn_ = false;
}

double Progress::seconds() const {
  return SecondsBetween(start_, std::chrono::steady_clock::now());
}

void Progress::Update(uint64_t done, uint64_t total) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (done == 0 || done < done_) step_ = now;
  done_ = done;
  if (drawn_ && now - last_ < kBetweenDraws) return;
  last_ = now;
  drawn_ = true;
  const std::string text = ProgressText(done, total, SecondsBetween(step_, now), unit_);
  std::fprintf(stderr, "%s%s  %s", kClearLine, title_.c_str(), text.c_str());
}

std::string ProgressText(uint64_t done, uint64_t total, double seconds, ProgressUnit unit) {
  done = std::min(done, total);
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::array<char, 16> percent;
  std::snprintf(percent.data(), percent.size(), "%3.0f%%", 100 * part);
  std::string text = Cat(percent.data(), "  ", AmountText(done, total, seconds, unit));
  if (done > 0) text += "  " + FormatDuration(seconds / part - seconds) + " left";
  return text;
}

std::string FormatRate(uint64_t bytes, double seconds) {
  if (seconds <= 0) return "-";
  return FormatBytes(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)) + "/s";
}

std::string FormatTokenRate(uint64_t tokens, double seconds) {
  if (seconds <= 0) return "-";
  const double rate = static_cast<double>(tokens) / seconds;
  std::array<char, 32> slow;
  std::snprintf(slow.data(), slow.size(), "%.1f", rate);
  return Cat(
      rate < kSlowTokens ? std::string(slow.data()) : FormatCount(static_cast<uint64_t>(rate)),
      " tokens/s");
}

std::string FormatElapsed(double seconds) {
  if (seconds >= 60) return FormatDuration(seconds);
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "%.2f s", std::max(seconds, 0.0));
  return text.data();
}

std::string FormatDuration(double seconds) {
  const auto whole = static_cast<uint64_t>(std::clamp(seconds + 0.5, 0.0, 3600.0 * 9999));
  std::array<char, 48> text;
  if (whole < 3600) {
    std::snprintf(text.data(), text.size(), "%u:%02u", static_cast<unsigned>(whole / 60),
                  static_cast<unsigned>(whole % 60));
  } else {
    std::snprintf(text.data(), text.size(), "%u:%02u:%02u", static_cast<unsigned>(whole / 3600),
                  static_cast<unsigned>(whole / 60 % 60), static_cast<unsigned>(whole % 60));
  }
  return text.data();
}

}  // namespace moepack::cli
