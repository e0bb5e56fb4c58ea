#include "libshard/base/text/byte_spelling.h"

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

TEST(ByteToken, EveryByteIsReadAsItIsSpelled) {
  EXPECT_EQ(SpellByteToken(0x1f), "<0x1F>");
  EXPECT_EQ(SpellByteToken(0), "<0x00>");
  for (unsigned byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(ReadByteToken(SpellByteToken(static_cast<uint8_t>(byte))), std::optional(byte));
  }
}

TEST(ByteToken, DigitsMayBeOfEitherCase) {
  EXPECT_EQ(ReadByteToken("<0xfE>"), std::optional(0xfe));
}

TEST(ByteToken, OtherTextsAreNoByteTokens) {
  for (const char* text : {"", "<0x1>", "<0x1F", "<0x1G>", "<0X1F>", "<0x-1>", "<0x+1>", "<0x 1>",
                           "<0x1F>>", "0x1F", "[0x1F]"}) {
    EXPECT_FALSE(ReadByteToken(text)) << text;
  }
}

}  // namespace

}  // namespace moepack
