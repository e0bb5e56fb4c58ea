#include "tools/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"

namespace moepack::cli {
namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr const char* kClearLine = "\r\033[K";
constexpr size_t kUsualColumns = 80;
// Below this rate, a tenth of a token per second is worth a digit.
constexpr double kSlowTokens = 10;

double SecondsBetween(std::chrono::steady_clock::time_point from,
                      std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// "1.2 GB of 2.6 GB"
std::string AmountText(uint64_t done, uint64_t total, ProgressUnit unit) {
  if (unit == ProgressUnit::kTokens) return Cat(FormatCount(done), " of ", Plural(total, "token"));
  return Cat(FormatBytes(done), " of ", FormatBytes(total));
}

std::string RateText(uint64_t done, double seconds, ProgressUnit unit) {
  return unit == ProgressUnit::kTokens ? FormatTokenRate(done, seconds) : FormatRate(done, seconds);
}

// Columns that a line may have. The last one stays free, because some terminals begin a new line
// once it is used.
size_t UsableColumns() {
  winsize size = {};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return (known ? size.ws_col : kUsualColumns) - 1;
}

}  // namespace

Progress::Progress(std::string title, ProgressUnit unit)
    : title_(std::move(title)),
      unit_(unit),
      terminal_(!IsQuiet() && isatty(STDERR_FILENO) == 1),
      escapes_(KnowsEscapes(std::getenv("TERM"))),
      start_(std::chrono::steady_clock::now()),
      step_(start_),
      last_(start_) {}

Progress::~Progress() { Clear(); }

void Progress::Clear() {
  if (!drawn_) return;
  Draw("");
  drawn_ = false;
}

// Spaces cover what a terminal without escape sequences still shows of the line before.
void Progress::Draw(const std::string& line) {
  if (escapes_) {
    std::fprintf(stderr, "%s%s", kClearLine, line.c_str());
    return;
  }
  const std::string blank(drawn_columns_ - std::min(line.size(), drawn_columns_), ' ');
  std::fprintf(stderr, "\r%s%s%s", line.c_str(), blank.c_str(), line.empty() ? "\r" : "");
  drawn_columns_ = line.size();
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
  Draw(ProgressLine(title_, done, total, SecondsBetween(step_, now), unit_, UsableColumns()));
}

bool KnowsEscapes(const char* term) {
  const std::string_view name = term == nullptr ? "" : term;
  return !name.empty() && name != "dumb";
}

std::string ProgressLine(std::string_view title, uint64_t done, uint64_t total, double seconds,
                         ProgressUnit unit, size_t columns) {
  const std::string begin = Cat(title, "  ");
  const size_t left = columns - std::min(columns, begin.size());
  const std::string text = ProgressText(done, total, seconds, unit, left);
  if (!text.empty()) return begin + text;
  return ProgressText(done, total, seconds, unit, columns);
}

std::string ProgressText(uint64_t done, uint64_t total, double seconds, ProgressUnit unit,
                         size_t columns) {
  done = std::min(done, total);
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::array<char, 16> percent;
  std::snprintf(percent.data(), percent.size(), "%3.0f%%", 100 * part);
  const std::string amount = Cat("  ", AmountText(done, total, unit));
  const std::string rate = Cat("  ", RateText(done, seconds, unit));
  const std::string left =
      done > 0 ? Cat("  ", FormatDuration(seconds / part - seconds), " left") : "";
  const std::string share = percent.data();
  for (const std::string& text :
       {share + amount + rate + left, share + amount + left, share + left, share}) {
    if (text.size() <= columns) return text;
  }
  return "";
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
