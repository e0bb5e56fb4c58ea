#include "libshard/model/gguf_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::string kWhere = "f.gguf";

GgufMetadata KeySample() {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String("llama"));
  metadata.Set("llama.one", GgufValue::U32(7));
  metadata.Set("llama.list", GgufValue::U32s(std::vector<uint32_t>{1, 5, 2}));
  metadata.Set("llama.text", GgufValue::String("7"));
  metadata.Set("llama.vocab_size", GgufValue::U32(9));
  return metadata;
}

TEST(GgufKeys, ReadsNumbersAndListsOfThem) {
  const GgufMetadata metadata = KeySample();
  const GgufKeys keys(kWhere, metadata);
  EXPECT_EQ(keys.Number("one", 7).value(), 7u);
  EXPECT_EQ(keys.Number("none", 7).value(), 0u);
  EXPECT_THAT(keys.Numbers("list", 5).value(), ElementsAre(1, 5, 2));
  EXPECT_THAT(keys.Numbers("none", 5).value(), IsEmpty());
  EXPECT_EQ(keys.Largest("list", 5).value(), 5u);
  EXPECT_EQ(keys.Largest("none", 5).value(), 0u);
}

TEST(GgufKeys, NamesTheKeyThatIsWrong) {
  const GgufMetadata metadata = KeySample();
  const GgufKeys keys(kWhere, metadata);
  EXPECT_EQ(keys.Number("one", 6).error().message,
            "f.gguf: key \"llama.one\": expected a whole number from 0 to 6, found 7");
  EXPECT_EQ(keys.Number("text", 6).error().message,
            "f.gguf: key \"llama.text\": expected a whole number from 0 to 6, found a value of "
            "type string");
  EXPECT_EQ(keys.Numbers("list", 4).error().code, Code::kCorrupt);
}

TEST(GgufKeys, CountsTheTokensBeforeItBelievesTheSizeOfTheVocabulary) {
  GgufMetadata metadata = KeySample();
  EXPECT_EQ(GgufKeys(kWhere, metadata).Vocabulary().value(), 9u);
  metadata.Set("tokenizer.ggml.tokens", GgufValue::Strings({"a", "b"}));
  EXPECT_EQ(GgufKeys(kWhere, metadata).Vocabulary().value(), 2u);
}

TEST(BlockName, HasTheNumberAndWhatFollowsIt) {
  const auto name = ParseBlockName("blk.12.ffn_gate.3.weight");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->block, 12u);
  EXPECT_EQ(name->rest, "ffn_gate.3.weight");
}

TEST(BlockName, SaturatesWhereANumberIsTooLarge) {
  const auto name = ParseBlockName("blk.99999999999999999999.attn_q.weight");
  ASSERT_TRUE(name);
  EXPECT_EQ(name->block, UINT64_MAX);
  EXPECT_EQ(name->rest, "attn_q.weight");
}

TEST(BlockName, IsNoneOutsideBlocks) {
  for (const char* name : {"", "blk", "blk.", "blk..x", "blk.1", "blk.-1.x", "blk.1a.x", "blk.+1.x",
                           "output.weight", "model.blk.1.x", "BLK.1.x"}) {
    EXPECT_FALSE(ParseBlockName(name)) << name;
  }
}

}  // namespace

}  // namespace moepack
