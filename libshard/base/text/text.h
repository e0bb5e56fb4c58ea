// Text for messages and tables: sizes and ranges of digits. It includes Cat and Quoted, which
// nearly every message uses.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/text/cat.h"
#include "libshard/base/text/quote.h"

namespace moepack {

// 1536 -> "1.5 kB". Powers of 1000, as disks and registries count; three digits.
std::string FormatBytes(uint64_t bytes);
// 1234567 -> "1,234,567".
std::string FormatCount(uint64_t count);
// For sizes that people may compare: "12.3 MB (12,345,678 bytes)".
std::string ExactBytes(uint64_t bytes);
// "1 file", "3 files".
std::string Plural(uint64_t count, std::string_view noun);
// 235093634560 -> "235B", 1030000000000 -> "1T", 22190000 -> "22M": as model names spell parameter
// counts.
std::string FormatParameters(uint64_t count);
// 0.9312 -> "93.1 %".
std::string FormatShare(double share);
// 7 with 3 digits -> "007".
std::string ZeroPadded(uint64_t number, size_t digits);
// {1, 2, 48} -> the text of the shape [1, 2, 48].
std::string FormatShape(const std::vector<uint64_t>& shape);

// "64M", "64MB", "64MiB", "1.5g", "4096" -> bytes; M and MB are 1000^2, MiB is 1024^2. At most
// three digits may follow a point; fractions of a byte are dropped. No value for text that is not a
// size.
std::optional<uint64_t> ParseBytes(std::string_view text);
// Accepts decimal digits only, without a sign; no value on overflow.
std::optional<uint64_t> ParseUint(std::string_view text);

std::string Lower(std::string_view text);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);
std::vector<std::string> Split(std::string_view text, char separator);
// Hexadecimal, lower case, two digits per byte. The last part of a path: "c" of "a/b/c".
std::string FileName(const std::string& path);
std::string Hex(const unsigned char* data, size_t size);

}  // namespace moepack
