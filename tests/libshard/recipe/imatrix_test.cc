#include "libshard/recipe/imatrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/digest.h"
#include "tests/libshard/recipe/recipe_model.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kGate = "blk.0.ffn_gate_exps.weight";
constexpr const char* kUp = "blk.0.ffn_up_exps.weight";
constexpr const char* kDown = "blk.0.ffn_down_exps.weight";
constexpr const char* kQuery = "blk.0.attn_q.weight";

// One layer of three experts, rows of two values.
GgufModel Model() {
  GgufModel model;
  for (const char* name : {kGate, kUp, kDown})
    model.tensors.push_back(RecipeTensor(name, {3, 2, 2}));
  model.tensors.push_back(RecipeTensor(kQuery, {2, 2}));
  model.tensors.push_back(RecipeTensor("token_embd.weight", {8, 2}));
  model.tensors.push_back(RecipeTensor("blk.0.ffn_gate_inp.weight", {3, 2}, "f32"));
  return model;
}

Imatrix Of(std::map<std::string, ImatrixEntry, std::less<>> entries) {
  Imatrix imatrix;
  imatrix.file = "im.gguf";
  imatrix.entries = std::move(entries);
  return imatrix;
}

struct Applied {
  GgufModel model = Model();
  ImatrixUse use;
  const std::vector<float>& Values(const char* name) const {
    return TensorOf(model, name).importance->values;
  }
};

Applied Apply(const Imatrix& imatrix) {
  Applied applied;
  auto use = ApplyImatrix(imatrix, applied.model);
  EXPECT_TRUE(use) << use.error().message;
  if (use) applied.use = *std::move(use);
  return applied;
}

TEST(Imatrix, DividesTheSumsOfEveryExpertByItsCount) {
  const Applied applied =
      Apply(Of({{kDown, {{2, 4, 9, 12, 5, 10}, {2, 3, 5}}}, {kQuery, {{1, 10}, {3}}}}));
  EXPECT_THAT(applied.Values(kDown), ElementsAre(1, 2, 3, 4, 1, 2));
  EXPECT_THAT(applied.Values(kQuery), ElementsAre(1.0F / 3.0F, 10.0F / 3.0F));
  const Importance& importance = *TensorOf(applied.model, kDown).importance;
  EXPECT_EQ(importance.row_values, 2u);
  EXPECT_THAT(importance.Row(1), ElementsAre(3, 4));
  EXPECT_EQ(importance.digest, Xxh3Hex(std::as_bytes(std::span(importance.values))));
  EXPECT_EQ(applied.use.used, 2u);
  EXPECT_THAT(applied.use.coverage, IsEmpty());
  EXPECT_THAT(applied.use.unknown, IsEmpty());
  EXPECT_EQ(TensorOf(applied.model, kUp).importance, nullptr);
}

TEST(Imatrix, UsesASingleCountForAllExperts) {
  const Applied applied = Apply(Of({{kDown, {{2, 4, 6, 8, 10, 12}, {2}}}}));
  EXPECT_THAT(applied.Values(kDown), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(applied.use.coverage, IsEmpty());
}

TEST(Imatrix, TakesARowPerMatrixOfAStackedWeight) {
  Applied applied;
  applied.model.tensors.push_back(RecipeTensor("blk.0.attn_k_b.weight", {2, 5, 3}));
  auto use =
      ApplyImatrix(Of({{"blk.0.attn_k_b.weight", {{1, 2, 3, 4, 5, 6}, {1}}}}), applied.model);
  ASSERT_TRUE(use) << use.error().message;
  const Importance& importance = *TensorOf(applied.model, "blk.0.attn_k_b.weight").importance;
  EXPECT_THAT(importance.Row(1), ElementsAre(4, 5, 6));
}

TEST(Imatrix, TakesTheSiblingsRowForAnExpertWithoutData) {
  const Applied applied =
      Apply(Of({{kGate, {{2, 2, 4, 4, 6, 6}, {1, 1, 1}}}, {kUp, {{3, 3, 0, 0, 5, 5}, {1, 0, 1}}}}));
  EXPECT_THAT(applied.Values(kUp), ElementsAre(3, 3, 4, 4, 5, 5));
  ASSERT_THAT(applied.use.coverage, SizeIs(1));
  const ImatrixCoverage& coverage = applied.use.coverage[0];
  EXPECT_EQ(coverage.tensor, kUp);
  EXPECT_EQ(coverage.layer, 0);
  EXPECT_EQ(coverage.expert_count, 3u);
  EXPECT_THAT(coverage.missing, ElementsAre(1));
  EXPECT_EQ(coverage.filled_from, kGate);
}

TEST(Imatrix, TakesTheMeanOfTheOtherExpertsIfTheSiblingHasNoDataEither) {
  const Applied applied =
      Apply(Of({{kGate, {{2, 2, 0, 0, 6, 8}, {1, 0, 1}}}, {kUp, {{1, 3, 0, 0, 3, 5}, {1, 0, 1}}}}));
  EXPECT_THAT(applied.Values(kGate), ElementsAre(2, 2, 4, 5, 6, 8));
  EXPECT_THAT(applied.Values(kUp), ElementsAre(1, 3, 2, 4, 3, 5));
  ASSERT_THAT(applied.use.coverage, SizeIs(2));
  EXPECT_EQ(applied.use.coverage[0].filled_from, "layer mean");
}

TEST(Imatrix, CombinesTheSiblingAndTheMean) {
  const Applied applied =
      Apply(Of({{kGate, {{2, 2, 0, 0, 0, 0}, {1, 0, 0}}}, {kUp, {{0, 0, 4, 8, 0, 0}, {0, 1, 0}}}}));
  EXPECT_THAT(applied.Values(kUp), ElementsAre(2, 2, 4, 8, 3, 5));
  EXPECT_EQ(applied.use.coverage[1].filled_from, std::string(kGate) + ", layer mean");
}

TEST(Imatrix, GivesNoImportanceToATensorWithoutAnyData) {
  const Applied applied =
      Apply(Of({{kDown, {{0, 0, 0, 0, 0, 0}, {0, 0, 0}}}, {kQuery, {{0, 0}, {0}}}}));
  EXPECT_EQ(TensorOf(applied.model, kDown).importance, nullptr);
  EXPECT_EQ(TensorOf(applied.model, kQuery).importance, nullptr);
  EXPECT_EQ(applied.use.used, 0u);
  ASSERT_THAT(applied.use.coverage, SizeIs(2));
  EXPECT_THAT(applied.use.coverage[0].missing, ElementsAre(0, 1, 2));
  EXPECT_EQ(applied.use.coverage[0].filled_from, "none");
}

TEST(Imatrix, TreatsOnesInTheLegacyFormatAsMissingExperts) {
  const Applied applied = Apply(Of({{kDown, {{4, 8, 2, 2, 8, 12}, {2}}}}));
  EXPECT_THAT(applied.Values(kDown), ElementsAre(2, 4, 3, 5, 4, 6));
  ASSERT_THAT(applied.use.coverage, SizeIs(1));
  EXPECT_THAT(applied.use.coverage[0].missing, ElementsAre(1));
}

// ikawrakow/ik_llama.cpp #1805
TEST(Imatrix, WeighsGateByTheEntryOfUpIfOnlyUpWasMeasured) {
  const Applied applied = Apply(Of({{kUp, {{2, 4, 9, 12, 5, 10}, {2, 3, 5}}}}));
  EXPECT_THAT(applied.Values(kUp), ElementsAre(1, 2, 3, 4, 1, 2));
  EXPECT_EQ(applied.Values(kGate), applied.Values(kUp)) << "both read the same input";
  EXPECT_EQ(TensorOf(applied.model, kDown).importance, nullptr);
  ASSERT_THAT(applied.use.loans, SizeIs(1));
  EXPECT_EQ(applied.use.loans[0].tensor, kGate);
  EXPECT_EQ(applied.use.loans[0].entry, kUp);
}

// ikawrakow/ik_llama.cpp #1419
TEST(Imatrix, WeighsGateAndUpByTheEntryOfAFusedMatrix) {
  const std::string fused = "blk.0.ffn_gate_up_exps.weight";
  const Applied applied = Apply(Of({{fused, {{2, 4, 9, 12, 5, 10}, {2, 3, 5}}}}));
  for (const char* name : {kGate, kUp})
    EXPECT_THAT(applied.Values(name), ElementsAre(1, 2, 3, 4, 1, 2)) << name;
  EXPECT_EQ(applied.use.used, 2u);
  EXPECT_THAT(applied.use.unknown, IsEmpty()) << "the fused entry was used";
}

TEST(Imatrix, WeighsAFusedMatrixByTheEntryOfGateOrUp) {
  const std::string fused = "blk.0.ffn_gate_up_exps.weight";
  Applied applied;
  applied.model.tensors.push_back(RecipeTensor(fused, {3, 4, 2}));
  const auto use = ApplyImatrix(Of({{kUp, {{2, 4, 9, 12, 5, 10}, {2, 3, 5}}}}), applied.model);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_THAT(applied.Values(fused.c_str()), ElementsAre(1, 2, 3, 4, 1, 2));
}

TEST(Imatrix, FindsEntriesByTheInputWhateverMatrixOfTheBlockCarriesThem) {
  const std::pair<const char*, const char*> cases[] = {{"attn_qkv", "attn_q"},
                                                       {"attn_q", "attn_qkv"},
                                                       {"attn_v", "attn_k"},
                                                       {"attn_kv_a_mqa", "attn_q_a"},
                                                       {"ffn_gate", "ffn_up"},
                                                       {"ffn_gate_shexp", "ffn_up_shexp"},
                                                       {"ffn_up_chexps", "ffn_gate_chexps"}};
  for (const auto& [matrix, measured] : cases) {
    const std::string tensor = std::string("blk.7.") + matrix + ".weight";
    GgufModel model;
    model.tensors.push_back(RecipeTensor(tensor, {2, 2}));
    const std::string entry = std::string("blk.7.") + measured + ".weight";
    const auto use = ApplyImatrix(Of({{entry, {{3, 6}, {3}}}}), model);
    ASSERT_TRUE(use) << use.error().message;
    ASSERT_NE(model.tensors[0].importance, nullptr) << matrix;
    EXPECT_THAT(model.tensors[0].importance->values, ElementsAre(1, 2));
  }
}

TEST(Imatrix, LendsNoEntryOfAnotherInputBlockOrLength) {
  for (const char* entry :
       {"blk.0.ffn_down_exps.weight", "blk.1.ffn_up_exps.weight", "blk.0.ffn_up_shexp.weight",
        "blk.0.ffn_up.weight", "blk.0.ffn_up_exps.bias"}) {
    GgufModel model;
    model.tensors.push_back(RecipeTensor(kGate, {3, 2, 2}));
    const auto use = ApplyImatrix(Of({{entry, {{1, 1, 1, 1, 1, 1}, {1, 1, 1}}}}), model);
    ASSERT_TRUE(use) << use.error().message;
    EXPECT_EQ(model.tensors[0].importance, nullptr) << entry;
    EXPECT_THAT(use->unknown, ElementsAre(entry));
  }
  GgufModel model;
  model.tensors.push_back(RecipeTensor(kGate, {3, 2, 2}));
  EXPECT_TRUE(ApplyImatrix(Of({{kUp, {{1, 1, 1}, {1, 1, 1}}}}), model));
  EXPECT_EQ(model.tensors[0].importance, nullptr) << "rows of another length";
}

TEST(Imatrix, NamesEntriesThatNoTensorHas) {
  const Applied applied =
      Apply(Of({{"blk.9.attn_q.weight", {{1, 1}, {1}}}, {kQuery, {{1, 1}, {1}}}}));
  EXPECT_THAT(applied.use.unknown, ElementsAre("blk.9.attn_q.weight"));
  EXPECT_EQ(applied.use.used, 1u);
}

TEST(Imatrix, SkipsTensorsThatKeepTheirType) {
  const Applied applied = Apply(Of({{"blk.0.ffn_gate_inp.weight", {{1, 1}, {1}}}}));
  EXPECT_EQ(TensorOf(applied.model, "blk.0.ffn_gate_inp.weight").importance, nullptr);
  EXPECT_EQ(applied.use.used, 0u);
  EXPECT_THAT(applied.use.unknown, IsEmpty());
}

TEST(Imatrix, RefusesAnEntryOfAnotherLength) {
  for (const ImatrixEntry& entry :
       {ImatrixEntry{{1, 1}, {1}}, ImatrixEntry{{1, 1, 1, 1, 1, 1}, {1, 1}},
        ImatrixEntry{{1, 1, 1, 1}, {1, 1}}}) {
    GgufModel model = Model();
    const auto use = ApplyImatrix(Of({{kDown, entry}}), model);
    ASSERT_FALSE(use);
    EXPECT_EQ(use.error().code, Code::kMismatch);
    EXPECT_THAT(
        use.error().message,
        HasSubstr(Cat("im.gguf: entry \"", kDown, "\": expected 6 sums with 1 or 3 counts, found ",
                      entry.sums.size(), " with ", entry.counts.size())));
  }
}

TEST(Imatrix, NamesTheFileWithItsDirectory) {
  GgufModel model = Model();
  Imatrix imatrix = Of({{kQuery, {{1, 1, 1}, {1}}}});
  imatrix.path = "measured/im.gguf";
  const auto use = ApplyImatrix(imatrix, model);
  ASSERT_FALSE(use);
  EXPECT_THAT(use.error().message,
              HasSubstr(Cat("measured/im.gguf: entry \"", kQuery,
                            "\": expected 2 sums with 1 count, found 3 with 1")));
}

TEST(Imatrix, OnlyWarnsAboutAnEmbeddingOfAnotherLength) {
  const Applied applied = Apply(Of({{"token_embd.weight", {{1, 1, 1}, {1}}}}));
  EXPECT_EQ(TensorOf(applied.model, "token_embd.weight").importance, nullptr);
  ASSERT_THAT(applied.model.warnings, SizeIs(1));
  EXPECT_THAT(applied.model.warnings[0], HasSubstr("\"token_embd.weight\": expected 2 sums"));
}

TEST(Imatrix, NotesWhatLlamaQuantizeNotes) {
  Imatrix imatrix = Of({{kQuery, {{1, 1}, {1}}}, {kDown, {{1}, {1}}}});
  imatrix.datasets = {"text.txt", "more.txt"};
  imatrix.chunks = 8;
  GgufMetadata metadata;
  NoteImatrix(imatrix, metadata);
  ASSERT_THAT(metadata.entries(), SizeIs(4));
  EXPECT_EQ(*metadata.Find("quantize.imatrix.file"), GgufValue::String("im.gguf"));
  EXPECT_EQ(*metadata.Find("quantize.imatrix.dataset"), GgufValue::String("text.txt"));
  EXPECT_EQ(*metadata.Find("quantize.imatrix.entries_count"), GgufValue::U32(2));
  EXPECT_EQ(*metadata.Find("quantize.imatrix.chunks_count"), GgufValue::U32(8));
}

TEST(Imatrix, NotesNothingThatItDoesNotKnow) {
  GgufMetadata metadata;
  NoteImatrix(Of({{kQuery, {{1, 1}, {1}}}}), metadata);
  EXPECT_EQ(metadata.Find("quantize.imatrix.dataset"), nullptr);
  EXPECT_EQ(metadata.Find("quantize.imatrix.chunks_count"), nullptr);
}

TEST(Imatrix, ShortensLongNamesBetweenCharacters) {
  Imatrix imatrix = Of({{kQuery, {{1, 1}, {1}}}});
  imatrix.datasets = {std::string(126, 'a').append("\xc3\xa9").append("b")};
  imatrix.file = std::string(200, 'f');
  GgufMetadata metadata;
  NoteImatrix(imatrix, metadata);
  EXPECT_EQ(metadata.String("quantize.imatrix.dataset"), std::string(126, 'a'));
  EXPECT_EQ(metadata.String("quantize.imatrix.file"), std::string(127, 'f'));
}

constexpr const char* kName = "blk.0.ffn_down_exps.weight";

// Four experts, rows of two values; the importance that ApplyImatrix set is 1 everywhere.
GgufTensor FourExperts() {
  GgufTensor tensor = RecipeTensor(kName, {4, 2, 2});
  tensor.expert_count = 4;
  auto importance = std::make_shared<Importance>();
  importance->row_values = 2;
  importance->values.assign(8, 1);
  tensor.importance = importance;
  return tensor;
}

Imatrix WithGroupEntry(ImatrixEntry entry) {
  Imatrix imatrix;
  imatrix.file = "im.gguf";
  imatrix.entries[GroupEntryName(1, kName)] = std::move(entry);
  return imatrix;
}

TEST(ImatrixGroups, PutTheGroupBeforeTheTensorName) {
  EXPECT_EQ(GroupEntryName(1, kName), "group.001.blk.0.ffn_down_exps.weight");
  EXPECT_TRUE(IsGroupEntry(GroupEntryName(12, kName)));
  EXPECT_FALSE(IsGroupEntry(kName));
}

TEST(ImatrixGroups, GiveTheExpertsOfAGroupTheirOwnRows) {
  const Imatrix imatrix = WithGroupEntry({{8, 16, 9, 3}, {4, 3}});
  const auto own = GroupImportance(imatrix, FourExperts(), {1, {0, 3}});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT((*own)->values, ElementsAre(2, 4, 1, 1, 1, 1, 3, 1));
  EXPECT_FALSE((*own)->digest.empty());
}

TEST(ImatrixGroups, FindTheGroupsEntryByTheInput) {
  Imatrix imatrix;
  imatrix.entries[GroupEntryName(1, "blk.0.ffn_up_exps.weight")] = {{8, 16, 9, 3}, {4, 3}};
  GgufTensor gate = FourExperts();
  gate.name = "blk.0.ffn_gate_exps.weight";
  const auto own = GroupImportance(imatrix, gate, {1, {0, 3}});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT((*own)->values, ElementsAre(2, 4, 1, 1, 1, 1, 3, 1));
}

TEST(ImatrixGroups, KeepTheModelsRowsForUnusedExpertsAndOtherGroups) {
  const Imatrix imatrix = WithGroupEntry({{0, 0, 9, 3}, {0, 3}});
  const GgufTensor tensor = FourExperts();
  const auto own = GroupImportance(imatrix, tensor, {1, {0, 3}});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_THAT((*own)->values, ElementsAre(1, 1, 1, 1, 1, 1, 3, 1));
  EXPECT_EQ(*GroupImportance(imatrix, tensor, {0, {1, 2}}), tensor.importance);
}

TEST(ImatrixGroups, NameAnEntryOfAnotherLength) {
  const Imatrix imatrix = WithGroupEntry({{8, 16, 9, 3}, {4, 3}});
  const auto wrong = GroupImportance(imatrix, FourExperts(), {1, {0, 1, 3}});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, Code::kMismatch);
  EXPECT_THAT(wrong.error().message,
              HasSubstr("im.gguf: entry \"group.001.blk.0.ffn_down_exps.weight\": expected 6 sums "
                        "with 3 counts, found 4 with 2"));
}

TEST(ImatrixGroups, AreNotReportedAsUnknownTensors) {
  GgufModel model;
  model.tensors.push_back(RecipeTensor(kName, {4, 2, 2}));
  const auto use = ApplyImatrix(WithGroupEntry({{8, 16, 9, 3}, {4, 3}}), model);
  ASSERT_TRUE(use) << use.error().message;
  EXPECT_THAT(use->unknown, IsEmpty());
}

}  // namespace

}  // namespace moepack
