#include "libshard/base/text/byte_token.h"

#include <gtest/gtest.h>

namespace moepack {
namespace {

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
