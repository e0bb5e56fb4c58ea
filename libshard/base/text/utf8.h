// UTF-8, read one character at a time. Nothing else in the tree takes its bytes apart.
#pragma once

#include <cstddef>
#include <string_view>

namespace moepack {

// The character at the start of `text`, which is not empty.
struct Character {
  size_t bytes = 1;      // 1 if it is no UTF-8
  bool is_utf8 = false;  // false for a byte that starts no character, and for what is cut off
  char32_t code = 0;
  // A terminal or a viewer acts on it: C0 and DEL, C1, line and paragraph separators, and the marks
  // that turn the direction of text.
  bool IsControl() const;
};
Character FirstCharacter(std::string_view text);

// Whether all of `text` can stand in a JSON document as it is.
bool IsUtf8(std::string_view text);

// A byte that a terminal acts on (C0, DEL), or in UTF-8 a C1 control or a character that turns the
// direction of text.
bool HasControlCharacter(std::string_view text);

// How many characters there are; a byte that is no UTF-8 counts as one.
size_t CountCharacters(std::string_view text);

// The longest start of `text` of at most `limit` bytes that does not cut a character through.
std::string_view WholeCharacters(std::string_view text, size_t limit);

// Bytes at the end that begin a character and do not end it: 0 to 3.
size_t UnfinishedBytes(std::string_view text);

}  // namespace moepack
