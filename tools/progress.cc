#include "tools/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "libshard/text.h"

namespace cli {
namespace {

constexpr auto kBetweenDraws = std::chrono::milliseconds(100);
constexpr const char* kClearLine = "\r\033[K";

}  // namespace

Progress::Progress(std::string title)
    : title_(std::move(title)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (drawn_) std::fputs(kClearLine, stderr);
}

double Progress::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

void Progress::Update(uint64_t done, uint64_t total) {
  if (!terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_ < kBetweenDraws) return;
  last_ = now;
  drawn_ = true;
  const std::string text = ProgressText(done, total, seconds());
  std::fprintf(stderr, "%s%s  %s", kClearLine, title_.c_str(), text.c_str());
}

std::string ProgressText(uint64_t done, uint64_t total, double seconds) {
  done = std::min(done, total);
  const double part = total == 0 ? 1 : static_cast<double>(done) / static_cast<double>(total);
  std::array<char, 16> percent;
  std::snprintf(percent.data(), percent.size(), "%3.0f%%", 100 * part);
  std::string text = shard::Cat(percent.data(), "  ", shard::FormatBytes(done), " of ",
                                shard::FormatBytes(total), "  ", FormatRate(done, seconds));
  if (done > 0) text += "  " + FormatDuration(seconds / part - seconds) + " left";
  return text;
}

std::string FormatRate(uint64_t bytes, double seconds) {
  if (seconds <= 0) return "-";
  return shard::FormatBytes(static_cast<uint64_t>(static_cast<double>(bytes) / seconds)) + "/s";
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

}  // namespace cli
