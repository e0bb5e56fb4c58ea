#include "libshard/base/text/byte_alphabet.h"

#include <gtest/gtest.h>

#include <set>

namespace moepack {
namespace {

TEST(ByteAlphabet, EveryByteHasACharacterOfItsOwn) {
  const std::set<std::string> distinct(ByteAlphabet().begin(), ByteAlphabet().end());
  EXPECT_EQ(distinct.size(), 256u);
  EXPECT_EQ(SpellBytes(" a\n"), "\u0120a\u010a");
  EXPECT_EQ(SpellBytes("\xad\xff\x7f"), "\u0143\u00ff\u0121");
}

TEST(ByteAlphabet, UnspellingRestoresTheBytes) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  EXPECT_EQ(UnspellBytes(SpellBytes(bytes)), bytes);
}

TEST(ByteAlphabet, OtherCharactersStayUnchanged) {
  EXPECT_EQ(UnspellBytes("\u4e2d \u0144"), "\u4e2d \u0144");
  EXPECT_EQ(UnspellBytes("a\xc4"), "a\xc4");
}

}  // namespace
}  // namespace moepack
