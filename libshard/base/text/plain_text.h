// Quick answers about whole texts. Almost all names of tensors are plain, and a large model has a
// hundred thousand of them.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace moepack {

// For each byte, whether it is printable ASCII that JSON does not escape, and that begins no
// workflow command ("::", "##[").
inline constexpr std::array<bool, 256> kIsPlain = [] {
  std::array<bool, 256> plain = {};
  for (size_t c = ' '; c <= '~'; ++c) plain[c] = true;
  for (const char c : {'"', '\\', ':', '#'}) plain[static_cast<size_t>(c)] = false;
  return plain;
}();

// If it is true, Shown(text) is `text`, a JSON document has it between quotes as it is, and it has
// as many characters as bytes. The reverse need not hold.
inline bool IsPlainText(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return kIsPlain[static_cast<unsigned char>(c)]; });
}

// Whether a text, that of a file for instance, has nothing but blanks and ends of lines.
inline bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

}  // namespace moepack
