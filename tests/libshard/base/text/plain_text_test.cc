#include "libshard/base/text/plain_text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

TEST(PlainText, IsWhatNamesAreMadeOf) {
  EXPECT_TRUE(IsPlainText(""));
  EXPECT_TRUE(IsPlainText("model.layers.0.mlp.experts.7.up_proj.weight"));
  EXPECT_TRUE(IsPlainText("[2, 3] ~'<&>/$`%"));
}

TEST(PlainText, IsNotWhatAnOutputEscapes) {
  for (const char* text : {"\x1b", "a\x7f", "\t", "a\n", "\u00e9", "\u202e", "\x9b", "a\"", "\\",
                           "::error::x", " ::x", "a ##[error]x"}) {
    EXPECT_FALSE(IsPlainText(text)) << text;
  }
}

TEST(PlainText, NeedsNoEscape) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(3, static_cast<char>(byte));
    if (!IsPlainText(text)) continue;
    EXPECT_EQ(Shown(text), text) << byte;
    EXPECT_EQ(nlohmann::json(text).dump(), '"' + text + '"') << byte;
    EXPECT_EQ(CountCharacters(text), text.size()) << byte;
  }
}

}  // namespace
}  // namespace moepack
