#include "libshard/base/text/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

namespace moepack {
namespace {

constexpr const char* kHexDigits = "0123456789abcdef";

// Three significant digits and a unit: 1.23, 12.3, 123.
std::string ThreeDigits(double value) {
  std::array<char, 32> text;
  // These bounds are where rounding would add a digit: 9.995 would give 10.00.
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

}  // namespace

std::string FormatBytes(uint64_t bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return Cat(bytes, " B");
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < kUnits.size()) {
    value /= 1000;
    ++unit;
  }
  return Cat(ThreeDigits(value), " ", kUnits[unit]);
}

std::string FormatCount(uint64_t count) {
  std::string digits = std::to_string(count);
  for (size_t i = digits.size(); i > 3;) {
    i -= 3;
    digits.insert(i, 1, ',');
  }
  return digits;
}

std::string ExactBytes(uint64_t bytes) {
  if (bytes < 1000) return FormatBytes(bytes);
  return Cat(FormatBytes(bytes), " (", FormatCount(bytes), " bytes)");
}

std::string Plural(uint64_t count, std::string_view noun) {
  return Cat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string FormatParameters(uint64_t count) {
  struct Scale {
    double size;
    char letter;
  };
  constexpr std::array<Scale, 4> kScales = {{{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}}};
  for (const Scale& scale : kScales) {
    const double value = static_cast<double>(count) / scale.size;
    if (value < 0.9995) continue;
    // As model names do: 1.5B and 9.4B, but 30B and 235B; a trailing ".0" is dropped.
    std::array<char, 32> text;
    std::snprintf(text.data(), text.size(), "%.*f", value < 9.95 ? 1 : 0, value);
    std::string out = text.data();
    if (out.ends_with(".0")) out.resize(out.size() - 2);
    return out + scale.letter;
  }
  return std::to_string(count);
}

std::string FormatShare(double share) {
  const auto tenths = static_cast<uint64_t>(std::lround(share * 1000));
  return Cat(tenths / 10, ".", tenths % 10, " %");
}

std::string ZeroPadded(uint64_t number, size_t digits) {
  const std::string text = std::to_string(number);
  return text.size() < digits ? std::string(digits - text.size(), '0') + text : text;
}

std::string FormatShape(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

std::optional<uint64_t> ParseUint(std::string_view text) {
  if (text.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const auto digit = static_cast<uint64_t>(c - '0');
    if (value > (std::numeric_limits<uint64_t>::max() - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value;
}

namespace {

// The bytes of "MB", "GiB" and so on; no value for other text.
std::optional<uint64_t> UnitBytes(std::string_view text) {
  std::string unit = Lower(text);
  if (unit.starts_with(' ')) unit.erase(0, 1);
  if (unit.empty() || unit == "b") return 1;
  const size_t power = std::string_view("kmgtp").find(unit[0]);
  if (power == std::string_view::npos) return std::nullopt;
  const std::string rest = unit.substr(1);
  if (rest != "" && rest != "b" && rest != "i" && rest != "ib") return std::nullopt;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= rest.starts_with('i') ? 1024 : 1000;
  return bytes;
}

}  // namespace

std::optional<uint64_t> ParseBytes(std::string_view text) {
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  const size_t point = std::min(number.find('.'), number.size());
  const auto whole = ParseUint(number.substr(0, point));
  const auto unit = UnitBytes(text.substr(end));
  if (!whole || !unit) return std::nullopt;
  uint64_t bytes = 0, part = 0;
  if (__builtin_mul_overflow(*whole, *unit, &bytes)) return std::nullopt;
  if (point == number.size()) return bytes;
  // A fraction of at most three digits times the largest unit, 2^50, does not overflow.
  const std::string_view digits = number.substr(point + 1);
  const auto fraction = ParseUint(digits);
  if (!fraction || digits.size() > 3 || *unit == 1) return std::nullopt;
  part = *fraction * *unit;
  for (size_t i = 0; i < digits.size(); ++i) part /= 10;
  if (__builtin_add_overflow(bytes, part, &bytes)) return std::nullopt;
  return bytes;
}

std::string Lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += separator;
    out += parts[i];
  }
  return out;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> out;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i != text.size() && text[i] != separator) continue;
    out.emplace_back(text.substr(start, i - start));
    start = i + 1;
  }
  return out;
}

std::string FileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string Hex(const unsigned char* data, size_t size) {
  std::string out;
  out.reserve(2 * size);
  for (size_t i = 0; i < size; ++i) {
    out += kHexDigits[data[i] >> 4];
    out += kHexDigits[data[i] & 15];
  }
  return out;
}

}  // namespace moepack
