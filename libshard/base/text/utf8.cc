#include "libshard/base/text/utf8.h"

#include <algorithm>
#include <array>

namespace moepack {
namespace {

// The length in bytes of the character that starts with `lead`; 0 if it does not start one.
size_t LengthOf(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  if (byte < 0x80) return 1;
  // 0xc0 and 0xc1 only start overlong forms, and bytes above 0xf4 only code points above U+10FFFF.
  if (byte < 0xc2 || byte > 0xf4) return 0;
  return byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// Almost all names are printable ASCII, and a model has a hundred thousand of them.
size_t PlainBytes(std::string_view text) {
  const auto end =
      std::find_if_not(text.begin(), text.end(), [](char c) { return c >= 0x20 && c < 0x7f; });
  return static_cast<size_t>(end - text.begin());
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

}  // namespace

bool Character::IsControl() const {
  struct Range {
    char32_t first, last;
  };
  constexpr std::array<Range, 7> kControls = {{{0x00, 0x1f},
                                               {0x7f, 0x9f},
                                               {0x061c, 0x061c},
                                               {0x200e, 0x200f},
                                               {0x2028, 0x202e},
                                               {0x2066, 0x206f},
                                               {0xe0000, 0xe007f}}};
  return is_utf8 && std::any_of(kControls.begin(), kControls.end(), [&](const Range& range) {
           return code >= range.first && code <= range.last;
         });
}

Character FirstCharacter(std::string_view text) {
  const size_t length = LengthOf(text[0]);
  if (length == 0 || text.size() < length) return {};
  char32_t code = static_cast<unsigned char>(text[0]);
  if (length == 1) return {1, true, code};
  code &= 0x7fu >> length;
  for (size_t i = 1; i < length; ++i) {
    if (!IsContinuation(text[i])) return {};
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3f);
  }
  // The least code point of each length: a smaller one is an overlong form.
  constexpr std::array<char32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < kLeast[length] || code > 0x10ffff || surrogate) return {};
  return {length, true, code};
}

bool IsUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const Character character = FirstCharacter(text.substr(i));
    if (!character.is_utf8) return false;
    i += character.bytes;
  }
  return true;
}

bool HasControlCharacter(std::string_view text) {
  text.remove_prefix(PlainBytes(text));
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (character.IsControl()) return true;
    text.remove_prefix(character.bytes);
  }
  return false;
}

size_t CountCharacters(std::string_view text) {
  size_t count = PlainBytes(text);
  for (size_t i = count; i < text.size(); ++count) i += FirstCharacter(text.substr(i)).bytes;
  return count;
}

std::string_view WholeCharacters(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  for (size_t back = 1; back <= 3 && back <= limit; ++back) {
    const Character last = FirstCharacter(text.substr(limit - back));
    if (!last.is_utf8) continue;
    return text.substr(0, last.bytes > back ? limit - back : limit);
  }
  return text.substr(0, limit);
}

size_t UnfinishedBytes(std::string_view text) {
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const char lead = text[text.size() - back];
    if (!IsContinuation(lead)) return LengthOf(lead) > back ? back : 0;
  }
  return 0;
}

}  // namespace moepack
