#include "libshard/import/reap.h"

#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ImportOptions WithBasis(ScoreBasis basis) {
  ImportOptions options;
  options.basis = basis;
  return options;
}

TEST(ReapColumns, EveryBasisMatchesTheProfile) {
  for (const ScoreBasis basis :
       {ScoreBasis::kCount, ScoreBasis::kGateMass, ScoreBasis::kWeightedNorm}) {
    EXPECT_EQ(SumOfScores(Imported("reap.json", WithBasis(basis))),
              SumOfScores(Imported("profile.json", WithBasis(basis))));
  }
  const ExpertScores scores = Imported("reap.json", ForTiny());
  EXPECT_EQ(scores.basis, ScoreBasis::kWeightedNorm);
  EXPECT_EQ(scores.sessions.at(0).tokens, 256u);
  EXPECT_THAT(scores.warnings, IsEmpty());
}

TEST(ReapColumns, MultipliesTheMeanByTheFrequency) {
  const ExpertScores scores =
      ImportedBytes(R"({"0": {"reap": [2, 3], "expert_frequency": [10, 20]}})");
  EXPECT_EQ(scores.basis, ScoreBasis::kWeightedNorm);
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(20, 60));
}

TEST(ReapColumns, WarnsOfAMeanWithoutFrequencies) {
  const ExpertScores scores = ImportedBytes(R"({"0": {"reap": [2, 3]}})");
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(2, 3));
  EXPECT_THAT(scores.warnings,
              ElementsAre("in: reap is a mean over the tokens of an expert; without "
                          "expert_frequency, experts that are rarely chosen rank too high"));
}

TEST(ReapColumns, IgnoresAColumnThatSomeLayersLack) {
  const ExpertScores scores = ImportedBytes(
      R"({"0": {"weighted_ean_sum": [1, 2], "expert_frequency": [5, 6]},
          "1": {"expert_frequency": [7, 8]}})");
  EXPECT_EQ(scores.basis, ScoreBasis::kCount);
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(5, 6, 7, 8));
  EXPECT_EQ(ImportError(R"({"0": {"reap": null, "ean_sum": [1]}})").message,
            "in: expected weighted_ean_sum, reap, weighted_expert_frequency_sum or "
            "expert_frequency in every layer, found none");
  EXPECT_EQ(
      ImportError(R"({"0": {"expert_frequency": [1]}})", WithBasis(ScoreBasis::kGateMass)).message,
      "in: expected scores of the kind gate in every layer, found none");
}

TEST(ReapColumns, AMissingBasisIsAnInvalidArgument) {
  const std::string counts = R"({"0": {"expert_frequency": [1]}})";
  EXPECT_EQ(ImportError(counts, WithBasis(ScoreBasis::kWeightedNorm)).code, Code::kInvalidArgument);
}

TEST(ReapColumns, TotalTokensMustBeACount) {
  const auto message = [](const std::string& tokens) {
    return ImportError(R"({"0": {"expert_frequency": [1, 2], "total_tokens": )" + tokens + "}}")
        .message;
  };
  const std::string expected =
      "in: layer 0: total_tokens: expected a whole number from 0 to 9007199254740992, found ";
  EXPECT_EQ(message("-5"), expected + "-5");
  EXPECT_EQ(message("1.5"), expected + "1.5");
  EXPECT_EQ(message("1e300"), expected + "1e+300");
  EXPECT_EQ(message("[3, 3]"), "in: layer 0: total_tokens: expected one number, found 2");
  EXPECT_EQ(message("3"), "was read");
}

TEST(ReapColumns, AcceptsLayersNestedUnderALayersKey) {
  const ExpertScores scores =
      ImportedBytes(R"({"model": "m", "layers": {"2": {"expert_frequency": [5, 6]}}})");
  EXPECT_THAT(scores.layers, ElementsAre(MoeLayerShape{2, 2, 0}));
}

TEST(ReapColumns, NamesTheFieldThatContradictsTheFormat) {
  EXPECT_EQ(ImportError(R"({"first": {"reap": [1]}})").message,
            "in: key: expected the number of a layer, found \"first\"");
  EXPECT_EQ(ImportError(R"({"0": {"reap": "x"}})").message,
            "in: layer 0: reap: expected a list of numbers, found \"x\"");
  EXPECT_EQ(ImportError(R"({"0": {"reap": [1, "x"]}})").message,
            "in: layer 0: reap: 1: expected a number, found \"x\"");
  EXPECT_EQ(ImportError(R"({"0": [1], "1": {"reap": [1]}})").message,
            "in: layer 0: expected an object of lists, found an array of 1 value");
  EXPECT_EQ(ImportError(R"({"0": {"reap": [1, 2], "expert_frequency": [1]}})").message,
            "in: layer 0: expert_frequency: expected 2 numbers, found 1");
  EXPECT_EQ(ImportError(R"({"layers": {}, "reap": 1})").message,
            "in: layers: expected at least one, found none");
  EXPECT_EQ(ImportError(R"({"0": {"reap": [1]}, "0": {"reap": [1]}})").code, Code::kCorrupt);
}

TEST(ReapColumns, FindsSuperExpertsByTheirLargestOutputs) {
  std::string columns;
  for (int layer = 0; layer < 4; ++layer) {
    std::string peaks, ones;
    for (int e = 0; e < 64; ++e) {
      peaks += (e > 0 ? "," : "") + std::string(layer == 1 && e == 5 ? "900" : "1");
      ones += (e > 0 ? "," : "") + std::string("1");
    }
    columns += (layer > 0 ? "," : "") + ("\"" + std::to_string(layer)) +
               R"(": {"expert_frequency": [)" + ones + R"(], "max_activations": [)" + peaks + "]}";
  }
  const ExpertScores scores = ImportedBytes("{" + columns + "}");
  ASSERT_EQ(scores.super_experts.size(), 1u);
  EXPECT_THAT(scores.super_experts.at(1), ElementsAre(5));
}

TEST(ReapTensors, TensorsHaveTheSameNumbers) {
  const ExpertScores tensors = Imported("reap.safetensors", ForTiny());
  const ExpertScores json = Imported("reap.json", ForTiny());
  EXPECT_EQ(tensors.basis, json.basis);
  EXPECT_EQ(tensors.sessions.at(0).scores, json.sessions.at(0).scores);
  EXPECT_EQ(tensors.sessions.at(0).tokens, 256u);
  const ExpertScores counts = Imported("reap.safetensors", WithBasis(ScoreBasis::kCount));
  EXPECT_EQ(SumOfScores(counts), ProfiledCounts());
}

std::string OneTensor(const std::string& name, const std::string& dtype, size_t bytes,
                      size_t elements) {
  const std::string header = R"({")" + name + R"(":{"dtype":")" + dtype + R"(","shape":[)" +
                             std::to_string(elements) + R"(],"data_offsets":[0,)" +
                             std::to_string(bytes) + "]}}";
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  return file + header + std::string(bytes, '\1');
}

TEST(ReapTensors, OtherTensorsAndTypesAreRefused) {
  EXPECT_EQ(ImportError(OneTensor("model.norm", "F32", 8, 2)).message,
            "in: tensor \"model.norm\": expected a name such as \"0.expert_frequency\", found "
            "another");
  EXPECT_EQ(ImportError(OneTensor("0.reap", "BF16", 4, 2)).message,
            "in: tensor \"0.reap\": expected F32, F64, I32 or I64, found BF16");
  EXPECT_EQ(ImportError(OneTensor("0.reap", "F64", 40000, 5000)).message,
            "in: tensor \"0.reap\": expected one number per expert, at most 32768 bytes, found "
            "40000");
  EXPECT_THAT(ImportError(OneTensor("0.ean_sum", "F32", 8, 2)).message,
              HasSubstr("layers: expected at least one, found none"));
}

}  // namespace
}  // namespace moepack
