#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/tokenizer_model.h"
#include "libshard/convert/tokenizers/sentencepiece.h"

namespace moepack {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

std::string ProtoError(const std::string& bytes) {
  const auto pieces = ParseSentencePieces("tokenizer.model", bytes);
  if (pieces) return "";
  EXPECT_EQ(pieces.error().code, Code::kCorrupt);
  return pieces.error().message;
}

TEST(SentencePieces, AreReadInOrder) {
  const auto pieces = ParseSentencePieces(
      "m", fixtures::TokenizerModel({{"<unk>", 0, 2}, {"\u2581the", -3.25f}, {"<0x0A>", 0, 6}}));
  ASSERT_TRUE(pieces) << pieces.error().message;
  ASSERT_EQ(pieces->size(), 3u);
  EXPECT_EQ((*pieces)[0].type, 2u);
  EXPECT_EQ((*pieces)[1].text, "\u2581the");
  EXPECT_EQ((*pieces)[1].score, -3.25f);
  EXPECT_EQ((*pieces)[1].type, 1u);
  EXPECT_EQ((*pieces)[2].type, 6u);
}

TEST(SentencePieces, OtherFieldsAreSkippedWhateverTheirWireType) {
  // Field 2 as bytes, 15 as a number, 9 as 32 bits, 10 as 64 bits, around the piece "a".
  const std::string bytes = "\x12\x02zz\x78\x96\x01\x0a\x03\x0a\x01"s + "a"s +
                            "\x4d\x01\x02\x03\x04\x51\x01\x02\x03\x04\x05\x06\x07\x08"s;
  const auto pieces = ParseSentencePieces("m", bytes);
  ASSERT_TRUE(pieces) << pieces.error().message;
  ASSERT_EQ(pieces->size(), 1u);
  EXPECT_EQ((*pieces)[0].text, "a");
}

TEST(SentencePieces, DoesNotReadAFieldOfAnotherWireTypeAsAPiece) {
  EXPECT_THAT(ProtoError("\x08\x01"s), HasSubstr("expected pieces, found none"));
}

TEST(SentencePieces, RefusesATruncationExceptBetweenFields) {
  const std::string whole = fixtures::TokenizerModel({{"ab", 1.5f, 1}, {"c", 2.5f, 3}});
  size_t read = 0;
  for (size_t length = 0; length < whole.size(); ++length) {
    const auto pieces = ParseSentencePieces("m", std::string_view(whole).substr(0, length));
    if (pieces) {
      ++read;
    } else {
      EXPECT_EQ(pieces.error().code, Code::kCorrupt) << length;
    }
  }
  EXPECT_LE(read, 3u) << "after the first piece, after the second, and before the normalizer";
}

TEST(SentencePieces, RefusesWrongLengths) {
  EXPECT_EQ(ProtoError("\x0a\x05zz"s),
            "tokenizer.model: SentencePiece model: byte 2: expected at "
            "most 2 bytes, found 5");
  EXPECT_THAT(ProtoError("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s),
              HasSubstr("at most 0 bytes, found 18446744073709551615"));
  EXPECT_THAT(ProtoError("\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01"s),
              HasSubstr("the end of a number, found more digits"));
  EXPECT_THAT(ProtoError("\x0a\x80"s), HasSubstr("found the end of the message"));
}

TEST(SentencePieces, RefusesInvalidTags) {
  EXPECT_THAT(ProtoError("\x03"s), HasSubstr("a field number, found 0"));
  EXPECT_THAT(ProtoError("\x0b"s), HasSubstr("wire type 0, 1, 2 or 5, found 3"));
  EXPECT_THAT(ProtoError("\x0f"s), HasSubstr("found 7"));
}

TEST(SentencePieces, RefusesInvalidTypes) {
  EXPECT_THAT(ProtoError("\x0a\x02\x18\x07"s), HasSubstr("type: expected 1 to 6, found 7"));
  EXPECT_THAT(ProtoError("\x0a\x02\x18\x00"s), HasSubstr("found 0"));
  EXPECT_THAT(ProtoError(""), HasSubstr("expected pieces, found none"));
}

}  // namespace
}  // namespace moepack
