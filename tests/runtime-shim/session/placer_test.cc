#include "runtime-shim/session/placer.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/runtime-shim/placed_node.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

class PlacerOfTiny : public PlacedDistribution {
 protected:
  static std::unique_ptr<Placer> Opened() {
    auto placer = Placer::Open(path());
    EXPECT_TRUE(placer) << placer.error().message;
    return placer ? *std::move(placer) : nullptr;
  }
};

TEST_F(PlacerOfTiny, PlacesTokensByTheTableOfTheDistribution) {
  const auto placer = Opened();
  ASSERT_NE(placer, nullptr);
  EXPECT_EQ(placer->groups(), 3u);
  const auto answer = placer->Place(std::vector<uint32_t>{7, 102, 9, 101, 101});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->best, 1u);  // the fifth token is after the prefix
  EXPECT_EQ(answer->second, 2u);
  EXPECT_EQ(answer->margin, 0);
  EXPECT_FALSE(answer->sure);
  EXPECT_TRUE(placer->Place(std::vector<uint32_t>{102})->sure);
}

TEST_F(PlacerOfTiny, PlacesATextLikeItsTokens) {
  const auto placer = Opened();
  ASSERT_NE(placer, nullptr);
  const auto tokenizer = placer->tokenizer();
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  const std::string text = (*tokenizer)->Piece(102) + " and so on";
  const auto tokens = (*tokenizer)->Encode(text, {});
  ASSERT_TRUE(tokens);
  const auto of_text = placer->Place(std::string_view(text));
  const auto of_tokens = placer->Place(*tokens);
  ASSERT_TRUE(of_text && of_tokens);
  EXPECT_EQ(of_text->scores, of_tokens->scores);
}

// Only the beginning of a text is encoded.
TEST_F(PlacerOfTiny, ReadsOnlyTheBeginningOfALongText) {
  const auto placer = Opened();
  ASSERT_NE(placer, nullptr);
  std::string text(200u << 20, 'x');
  const auto answer = placer->Place(std::string_view(text));
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_EQ(answer->tokens, 4u);
}

TEST_F(PlacerOfTiny, RefusesAnEmptyListOfTokens) {
  const auto answer = Opened()->Place(std::span<const uint32_t>());
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kInvalidArgument);
  EXPECT_EQ(answer.error().message, "session: give at least one token");
}

TEST_F(PlacerOfTiny, NeedsOnlyTheManifestForIds) {
  const fixtures::TempDir dir;
  std::filesystem::copy(path() + "/distribution.json", dir / "distribution.json");
  const auto placer = Placer::Open(dir.path().string());
  ASSERT_TRUE(placer) << placer.error().message;
  EXPECT_EQ((*placer)->Place(std::vector<uint32_t>{102})->best, 2u);
  const auto text = (*placer)->Place(std::string_view("int"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kNotFound);
  EXPECT_THAT(text.error().message, HasSubstr("groups: expected the files of one, found none"));
}

TEST(PlacerOfIds, NeedsNoTokenizerThatCanBeConverted) {
  const fixtures::TempDir dir;
  std::filesystem::copy(tiny::kSource, dir / "ids");
  std::filesystem::remove(dir / "ids/tokenizer.json");
  const auto report = tiny::Write(dir / "out", tiny::Only(), dir / "ids");
  ASSERT_TRUE(report) << report.error().message;
  AddPlacement((dir / "out").string(), ThreeTokenTable());
  const auto placer = Placer::Open((dir / "out").string());
  ASSERT_TRUE(placer) << placer.error().message;
  // The token that begins every sequence is still known.
  EXPECT_EQ((*placer)->Place(std::vector<uint32_t>{1020, 102})->tokens, 1u);
  const auto text = (*placer)->Place(std::string_view("int"));
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::kNotFound);
  EXPECT_THAT(text.error().message, HasSubstr("tokenizer.json: expected the tokenizer"));
}

TEST(PlacerRefuses, APathThatIsNotADistribution) {
  const auto model = Placer::Open(tiny::kSource.string());
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kInvalidArgument);
  EXPECT_THAT(model.error().message,
              HasSubstr("expected a distribution, found no distribution.json"));
  const auto absent = Placer::Open("/no/such/place");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr("/no/such/place: "));
}

class PlacerWithoutTable : public TinyDistribution {};

TEST_F(PlacerWithoutTable, IsRefusedWithAHint) {
  const auto placer = Placer::Open(path());
  ASSERT_FALSE(placer);
  EXPECT_EQ(placer.error().code, Code::kInvalidArgument);
  EXPECT_EQ(placer.error().message, path() + ": placement: expected a table, found none");
  EXPECT_THAT(placer.error().hint, HasSubstr("--statistics"));
}

TEST(Bos, IsRemovedOnlyAtTheFront) {
  const std::vector<uint32_t> tokens = {1, 5, 1};
  EXPECT_EQ(WithoutBos(tokens, 1).size(), 2u);
  EXPECT_EQ(WithoutBos(tokens, 5).size(), 3u);
  EXPECT_EQ(WithoutBos(tokens, std::nullopt).size(), 3u);
  EXPECT_TRUE(WithoutBos({}, 1).empty());
}

}  // namespace
}  // namespace moepack::runtime
