// UTF-8, read one character at a time. No other code in the tree decodes UTF-8 bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace moepack {

// The character at the start of `text`, which is not empty.
struct Character {
  size_t bytes = 1;      // 1 if it is not UTF-8
  bool is_utf8 = false;  // false for a byte that starts no character, and for a truncated one
  char32_t code = 0;
  // Whether a terminal or viewer acts on it: C0 and DEL, C1, line and paragraph separators, and
  // marks that change the text direction.
  bool IsControl() const;
};
Character FirstCharacter(std::string_view text);

// Whether all of `text` can be put in a JSON document as it is.
bool IsUtf8(std::string_view text);

// Whether there is a byte that a terminal acts on (C0, DEL) or, in UTF-8, a C1 control or a
// character that changes the text direction.
bool HasControlCharacter(std::string_view text);

// How many characters there are; a byte that is not UTF-8 counts as one.
size_t CountCharacters(std::string_view text);

// The longest prefix of `text` of at most `limit` bytes that does not split a character.
std::string_view WholeCharacters(std::string_view text, size_t limit);

// The number of bytes at the end that begin a character but do not complete it: 0 to 3.
size_t UnfinishedBytes(std::string_view text);

}  // namespace moepack
