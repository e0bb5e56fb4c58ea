#include "libshard/model/family_find.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"

namespace moepack {
namespace {

Result<const Family*> Find(std::string_view text) {
  const Result<ModelConfig> config = ParseModelConfig("config.json", text);
  if (!config) return config.error();
  return FindFamily("config.json", *config);
}

TEST(FindFamily, GoesByArchitectureThenByModelType) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("architectures": ["Qwen3MoeForCausalLM"])", "qwen3-moe"},
      {R"("architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2")", "deepseek-v3"},
      {R"("architectures": ["DeepseekOCRForCausalLM"],
          "language_config": {"architectures": ["DeepseekV2ForCausalLM"]})",
       "deepseek-ocr"},
      {R"("architectures": ["Wrapper"],
          "llm_config": {"architectures": ["BailingMoeForCausalLM"]})",
       "bailing-moe"},
      {R"("architectures": ["Mistral3ForConditionalGeneration"],
          "text_config": {"model_type": "mistral4"})",
       "mistral4"},
      {R"("model_type": "olmoe")", "olmoe"}};
  for (const auto& [fields, name] : cases) {
    const Result<const Family*> family = Find(Cat("{\"num_experts\": 8, ", fields, "}"));
    ASSERT_TRUE(family) << family.error().message;
    EXPECT_EQ((*family)->name, name);
  }
}

TEST(FindFamily, SaysWhyThereIsNothingToSplit) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"architectures": ["LlamaForCausalLM"]})", "Llama before version 4 is a dense model"},
      {R"({"architectures": ["MistralForCausalLM"]})", "Mistral is a dense model"},
      {R"({"architectures": ["Qwen3ForCausalLM"]})", "this Qwen is a dense model"},
      {R"({"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"})",
       "Qwen3.5 without experts is a dense model"},
      {R"({"architectures": ["Gemma4ForConditionalGeneration"], "num_experts": null})",
       "this Gemma is a dense model"},
      {R"({"architectures": ["RWKV6ForCausalLM"]})", "RWKV is a recurrent model"},
      {R"({"architectures": ["FalconMambaForCausalLM"]})", "Mamba is a state-space model"},
      {R"({"architectures": ["GPT2LMHeadModel"]})", "names no routed experts"},
      {R"({})", "names no routed experts"}};
  for (const auto& [text, reason] : cases) {
    const Result<const Family*> family = Find(text);
    ASSERT_FALSE(family) << text;
    EXPECT_EQ(family.error().code, Code::kUnsupported);
    EXPECT_NE(family.error().message.find("nothing to split"), std::string::npos);
    EXPECT_NE(family.error().message.find(reason), std::string::npos) << family.error().message;
  }
}

TEST(FindFamily, PointsToFamilyFilesForAnUnknownArchitecture) {
  const Result<const Family*> family =
      Find(R"({"architectures": ["NewMoeForCausalLM"], "num_experts": 64})");
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kUnsupported);
  EXPECT_EQ(family.error().message,
            "config.json: expected an architecture of a known family, found "
            "\"NewMoeForCausalLM\" with 64 experts (num_experts)");
  EXPECT_NE(family.error().hint.find("--family"), std::string::npos);
}

TEST(FindFamily, SuggestsTheClosestNameForOneThatIsNearlyKnown) {
  const Result<const Family*> family =
      Find(R"({"architectures": ["Qwen4MoeForCausalLM"], "num_experts": 64})");
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().message,
            "config.json: expected an architecture of a known family, found "
            "\"Qwen4MoeForCausalLM\" with 64 experts (num_experts); the closest known name is "
            "\"Qwen2MoeForCausalLM\" of family qwen2-moe");
}

TEST(FindFamilyByNames, TakesTheFamilyThatKnowsEveryName) {
  const std::vector<std::string_view> names = {
      "model.embed_tokens.weight", "model.layers.0.block_sparse_moe.gate.weight",
      "model.layers.0.block_sparse_moe.experts.0.w1.weight"};
  const Result<const Family*> family = FindFamilyByNames("x", names);
  ASSERT_TRUE(family) << family.error().message;
  EXPECT_EQ((*family)->name, "mixtral");
}

TEST(FindFamilyByNames, NamesTheTensorThatNoFamilyKnows) {
  const std::vector<std::string_view> names = {
      "model.embed_tokens.weight", "model.layers.0.block_sparse_moe.experts.0.w1.weight",
      "model.layers.0.block_sparse_moe.magic"};
  const Result<const Family*> family = FindFamilyByNames("x.safetensors", names);
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kUnsupported);
  EXPECT_EQ(family.error().message,
            "x.safetensors: expected the tensor names of a known family, found "
            "\"model.layers.0.block_sparse_moe.magic\", which even the closest, mixtral, has not");
  EXPECT_NE(family.error().hint.find("--family"), std::string::npos);
}

TEST(FindFamilyByNames, RefusesNamesWithoutAnyExpert) {
  const std::vector<std::string_view> names = {"model.embed_tokens.weight",
                                               "model.layers.0.mlp.up_proj.weight"};
  const Result<const Family*> family = FindFamilyByNames("x", names);
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kUnsupported);
  EXPECT_EQ(family.error().message,
            "x: nothing to split: no tensor belongs to a routed expert, so this is a dense model");
}

class FamilyFile : public ::testing::Test {
 protected:
  Result<Family> Read(const std::string& text) {
    std::ofstream(path_, std::ios::binary) << text;
    return ReadFamilyFile(path_.string());
  }

  // The message without the path.
  std::string Problem(const std::string& text) {
    const Result<Family> family = Read(text);
    EXPECT_FALSE(family) << text;
    if (family) return "";
    EXPECT_EQ(family.error().code, Code::kCorrupt);
    EXPECT_TRUE(family.error().message.starts_with(path_.string() + ": "));
    return family.error().message.substr(path_.string().size() + 2);
  }

  // A file with one good row of an expert and `row`.
  static std::string WithRow(const std::string& row) {
    return R"({"name": "x", "rules": [
      {"pattern": "l.{L}.e.{E}.{W}", "part": "expert", "role": "up"}, )" +
           row + "]}";
  }

  void TearDown() override { std::filesystem::remove(path_); }

  std::filesystem::path path_ =
      std::filesystem::path(::testing::TempDir()) /
      (std::string("family_") + ::testing::UnitTest::GetInstance()->current_test_info()->name() +
       ".json");
};

TEST_F(FamilyFile, ReadsATable) {
  const Result<Family> family = Read(R"({
    "name": "acme-moe",
    "architectures": ["AcmeMoeForCausalLM"],
    "model_types": ["acme_moe"],
    "prefixes": ["model."],
    "routing": {"gating": "sigmoid", "normalize": false},
    "rules": [
      {"pattern": "layers.{L}.moe.router.weight", "part": "router", "role": "router",
       "expert_axis": -1},
      {"pattern": "layers.{L}.moe.ids", "part": "router", "role": "expert_ids",
       "holds_expert_ids": true},
      {"pattern": "layers.{L}.moe.w1.{W}", "part": "expert", "role": "gate", "expert_axis": 0,
       "folded": true},
      {"pattern": "{**}", "part": "trunk", "role": "rest"}
    ]})");
  ASSERT_TRUE(family) << family.error().message;
  EXPECT_EQ(family->name, "acme-moe");
  EXPECT_EQ(family->architectures, std::vector<std::string>{"AcmeMoeForCausalLM"});
  EXPECT_EQ(family->model_types, std::vector<std::string>{"acme_moe"});
  EXPECT_EQ(family->routing.gating, Gating::kSigmoid);
  EXPECT_FALSE(family->routing.normalize);
  ASSERT_EQ(family->rules.size(), 4u);
  EXPECT_EQ(family->rules[0].expert_axis, -1);
  EXPECT_TRUE(family->rules[1].holds_expert_ids);
  EXPECT_TRUE(family->rules[2].folded);
  EXPECT_FALSE(family->rules[3].expert_axis);

  FamilyMatcher matcher(*family, 10);
  const TensorClass found = matcher.Classify("model.layers.4.moe.w1.weight");
  ASSERT_EQ(found.rule, &family->rules[2]);
  EXPECT_EQ(found.layer, 4);
}

TEST_F(FamilyFile, ReadsTheExampleOfTheDocumentation) {
  const std::string page = fixtures::ReadFile(MOEPACK_SOURCE_DIR "/docs/families.md");
  const size_t start = page.find("```json\n");
  ASSERT_NE(start, std::string::npos);
  const size_t end = page.find("```", start + 8);
  const Result<Family> family = Read(page.substr(start + 8, end - start - 8));
  ASSERT_TRUE(family) << family.error().message;
  const TensorClass found =
      FamilyMatcher(*family, 10).Classify("model.layers.4.moe.experts.17.w_in.weight_scale");
  ASSERT_EQ(found.rule, &family->rules.at(7));
  EXPECT_EQ(found.rule->role, "gate_up");
  EXPECT_EQ(found.layer, 4);
  EXPECT_EQ(found.expert, 17);
}

TEST_F(FamilyFile, FillsInWhatIsLeftOut) {
  const Result<Family> family = Read(WithRow(R"({"pattern": "x", "part": "trunk", "role": "y"})"));
  ASSERT_TRUE(family) << family.error().message;
  EXPECT_TRUE(family->prefixes.empty());
  EXPECT_EQ(family->routing.gating, Gating::kSoftmax);
  EXPECT_TRUE(family->routing.normalize);
}

TEST_F(FamilyFile, RefusesMisspeltKeys) {
  EXPECT_EQ(Problem(R"({"name": "x", "rows": []})"),
            "expected one of name, architectures, model_types, prefixes, routing, rules, found "
            "\"rows\"");
  EXPECT_EQ(Problem(WithRow(R"({"pattern": "x", "part": "trunk", "role": "y", "axis": 0})")),
            "rules[1]: expected one of pattern, part, role, expert_axis, folded, "
            "holds_expert_ids, found \"axis\"");
  EXPECT_EQ(Problem(R"({"name": "x", "routing": {"norm": true}, "rules": []})"),
            "routing: expected one of gating, normalize, found \"norm\"");
}

TEST_F(FamilyFile, NamesTheFieldAtFault) {
  EXPECT_EQ(Problem("[]"), "expected an object, found an array of 0 values");
  EXPECT_EQ(Problem(R"({"rules": []})"), "name: expected a string, found nothing");
  EXPECT_EQ(Problem(R"({"name": "x"})"), "rules: expected an array, found nothing");
  EXPECT_EQ(Problem(R"({"name": "x", "prefixes": ["a.", ""], "rules": []})"),
            "prefixes: expected a list of names, found an array of 2 values");
  EXPECT_EQ(Problem(R"({"name": "x", "prefixes": ["a#."], "rules": []})"),
            "prefixes: expected names without '#', which stands for a number, found an array of 1 "
            "value");
  EXPECT_EQ(Problem(R"({"name": "x", "routing": {"gating": "magic"}, "rules": []})"),
            "routing: gating: expected softmax, sigmoid, softmax-after-topk, sigmoid-after-topk, "
            "sqrtsoftplus, found \"magic\"");
  EXPECT_EQ(Problem(WithRow("3")), "rules[1]: expected a row, found 3");
  EXPECT_EQ(Problem(WithRow(R"({"part": "trunk", "role": "y"})")),
            "rules[1]: pattern: expected a string, found nothing");
  EXPECT_EQ(Problem(WithRow(R"({"pattern": "x", "part": "head", "role": "y"})")),
            "rules[1]: part: expected trunk, router, shared or expert, found \"head\"");
  EXPECT_EQ(Problem(WithRow(R"({"pattern": "x", "part": "trunk"})")),
            "rules[1]: role: expected a string, found nothing");
}

TEST_F(FamilyFile, RefusesImpossibleAxes) {
  for (const std::string axis : {"-2", "8", "0.5", "\"0\"", "18446744073709551615"}) {
    EXPECT_EQ(Problem(WithRow(R"({"pattern": "l.{L}.x", "part": "router", "role": "y",
                                  "expert_axis": )" +
                              axis + "}")),
              "rules[1]: expert_axis: expected a dimension from 0, or -1 for the last one, found " +
                  axis);
  }
}

TEST_F(FamilyFile, RefusesInvalidPatterns) {
  EXPECT_EQ(Problem(WithRow(R"({"pattern": "a.{X}", "part": "trunk", "role": "y"})")),
            "rules[1]: pattern \"a.{X}\": an unknown {} token");
  EXPECT_EQ(Problem(WithRow(R"({"pattern": "l.{L}.x", "part": "expert", "role": "y"})")),
            "rules[1]: pattern \"l.{L}.x\": an expert without {E} or axis");
  EXPECT_EQ(Problem(WithRow("{\"pattern\": \"" + std::string(1001, 'x') +
                            "\", \"part\": \"trunk\", \"role\": \"y\"}"))
                .substr(0, 53),
            "rules[1]: pattern: expected at most 1000 characters, ");
}

TEST_F(FamilyFile, NeedsAnExpertRow) {
  EXPECT_EQ(Problem(R"({"name": "x", "rules": [{"pattern": "x", "part": "trunk", "role": "y"}]})"),
            "rules: expected a row of part expert, found none");
}

TEST_F(FamilyFile, IsReadFromAFileThatExists) {
  const Result<Family> family = ReadFamilyFile("/nowhere/family.json");
  ASSERT_FALSE(family);
  EXPECT_EQ(family.error().code, Code::kNotFound);
  EXPECT_EQ(family.error().message.find("/nowhere/family.json: "), 0u) << family.error().message;
}

TEST_F(FamilyFile, LimitsTheLengthOfAListOfNames) {
  std::string prefixes = "\"a.\"";
  for (int i = 0; i < 1000; ++i) prefixes += ", \"a.\"";
  const std::string text = R"({"name": "x", "prefixes": [)" + prefixes + R"(], "rules": []})";
  EXPECT_NE(Problem(text).find("prefixes: expected at most 1000 names"), std::string::npos);
}

}  // namespace

}  // namespace moepack
