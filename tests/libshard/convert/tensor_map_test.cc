#include "libshard/convert/tensor_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>

#include "libshard/convert/row_reader.h"
#include "tests/libshard/convert/sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const GgufTensor& Find(const GgufModel& model, std::string_view name) {
  return *std::find_if(model.tensors.begin(), model.tensors.end(),
                       [&](const GgufTensor& tensor) { return tensor.name == name; });
}

Error TensorMapErrorOf(const ConvertSample& sample) {
  const auto model = sample.Convert();
  EXPECT_FALSE(model);
  return model ? Error{Code::kIo, "", ""} : model.error();
}

TEST(ForcedF32, HoldsForVectorsNormsRoutersAndNonWeights) {
  EXPECT_TRUE(IsForcedF32("blk.0.attn_norm.weight", 1));
  EXPECT_TRUE(IsForcedF32("blk.0.attn_q_norm.weight", 2)) << "norms of any shape are F32";
  EXPECT_TRUE(IsForcedF32("blk.0.ffn_gate_inp.weight", 2));
  EXPECT_TRUE(IsForcedF32("blk.0.ffn_gate_inp_shexp.weight", 2));
  EXPECT_TRUE(IsForcedF32("blk.0.ssm_conv1d.weight", 2));
  EXPECT_TRUE(IsForcedF32("blk.0.ffn_down_exps.bias", 2)) << "biases of two dimensions are F32";
  EXPECT_TRUE(IsForcedF32("blk.0.ssm_a", 2));
  EXPECT_FALSE(IsForcedF32("blk.0.ffn_gate_exps.weight", 3));
  EXPECT_FALSE(IsForcedF32("token_embd.weight", 2));
}

TEST(TensorMap, OrdersByLayerAndStacksExpertsById) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  // The file has expert 1 before expert 0.
  std::swap(sample.Tensor("model.layers.0.mlp.experts.0.up_proj.weight"),
            sample.Tensor("model.layers.0.mlp.experts.1.up_proj.weight"));
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->tensors[0].name, "token_embd.weight");
  EXPECT_EQ(model->tensors[3].name, "blk.0.attn_norm.weight");
  const GgufTensor& up = Find(*model, "blk.0.ffn_up_exps.weight");
  EXPECT_THAT(up.shape, ElementsAre(2, 2, 4));
  EXPECT_EQ(up.expert_count, 2u);
  EXPECT_EQ(up.part, Part::kExpert);
  EXPECT_EQ(up.layer, 0);
  EXPECT_EQ(up.source_tensor, "model.layers.0.mlp.experts.*.up_proj.weight");
  ASSERT_EQ(up.sources.size(), 2u);
  EXPECT_EQ(up.sources[0].order + 1, up.sources[1].order);
  std::vector<float> expected = sample.Values("model.layers.0.mlp.experts.0.up_proj.weight");
  for (float v : sample.Values("model.layers.0.mlp.experts.1.up_proj.weight")) {
    expected.push_back(v);
  }
  EXPECT_EQ(sample.Values(*model, up.name), expected);
}

TEST(TensorMap, GivesTheRouterARangePerExpert) {
  const ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Convert();
  const GgufTensor& router = Find(*model, "blk.0.ffn_gate_inp.weight");
  EXPECT_EQ(router.part, Part::kRouter);
  EXPECT_EQ(router.expert_count, 2u);
  EXPECT_EQ(router.sources.size(), 2u);
  EXPECT_TRUE(router.fixed);
}

TEST(TensorMap, ForcesF32WhereRequiredAndLeavesTheRestAsStored) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  for (auto& tensor : sample.tensors) {
    tensor.dtype = "BF16";
    tensor.bytes.resize(tensor.bytes.size() / 2);
  }
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufTensor& norm = Find(*model, "output_norm.weight");
  EXPECT_EQ(norm.stored->name, "bf16");
  EXPECT_EQ(norm.type->name, "f32");
  EXPECT_TRUE(norm.fixed);
  const GgufTensor& query = Find(*model, "blk.0.attn_q.weight");
  EXPECT_EQ(query.type->name, "bf16");
  EXPECT_FALSE(query.fixed);
}

TEST(TensorMap, NamesAnUnmappedTensorInTheError) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.Add("model.layers.0.self_attn.sinks", {2});
  const Error error = TensorMapErrorOf(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("model.safetensors: tensor \"model.layers.0.self_attn.sinks"
                                       "\": expected a tensor that the GGUF form of qwen3-moe"));
  EXPECT_THAT(error.hint, HasSubstr("--format safetensors"));
}

TEST(TensorMap, DropsTablesOfRotaryFrequencies) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto without = sample.Convert();
  sample.Add("model.layers.0.self_attn.rotary_emb.inv_freq", {1});
  const auto with = sample.Convert();
  ASSERT_TRUE(without && with);
  EXPECT_EQ(with->tensors.size(), without->tensors.size());
}

TEST(TensorMap, AMissingTensorIsNamedByBothNames) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.Remove("q_norm");
  const Error error = TensorMapErrorOf(sample);
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("blk.0.attn_q_norm.weight: expected a source tensor "
                                       "\"layers.0.self_attn.q_norm.weight\", found none"));
}

TEST(TensorMap, BiasesMayBeThereWhereTheRuntimeTakesThem) {
  ConvertSample qwen = ConvertSample::Qwen3Moe();
  qwen.Add("model.layers.0.self_attn.v_proj.bias", {2});
  EXPECT_THAT(TensorMapErrorOf(qwen).message, HasSubstr("v_proj.bias"));
  ConvertSample sample = ConvertSample::Mixtral();
  sample.Add("model.layers.0.self_attn.v_proj.bias", {4});
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_TRUE(Find(*model, "blk.0.attn_v.bias").fixed);
}

TEST(TensorMap, RefusesOtherNumbersWithTheirFormat) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  fixtures::RawTensor& query = sample.Tensor("model.layers.0.self_attn.q_proj.weight");
  query.dtype = "I8";
  query.bytes.resize(query.bytes.size() / 4);
  sample.config["quantization_config"] = {{"quant_method", "fp8"}};
  const Error error = TensorMapErrorOf(sample);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message,
              HasSubstr("q_proj.weight\": expected numbers in F32, F16, BF16, "
                        "F8_E4M3, packed integers, MXFP4 or NVFP4, found I8 (\"fp8\")"));
  EXPECT_THAT(error.hint, HasSubstr("safetensors output"));
  sample.config["quantization_config"] = {{"quant_method", "bitsandbytes"}};
  EXPECT_THAT(TensorMapErrorOf(sample).message, HasSubstr("quant_method: expected fp8"));
}

// Every weight of the experts and q_proj in F8_E4M3 with one scale of 2 for each row.
ConvertSample Scaled() {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["quantization_config"] = {{"quant_method", "fp8"}};
  std::vector<fixtures::RawTensor> scales;
  for (fixtures::RawTensor& tensor : sample.tensors) {
    if (tensor.name.find("experts") == std::string::npos &&
        tensor.name.find("q_proj") == std::string::npos) {
      continue;
    }
    tensor.dtype = "F8_E4M3";
    tensor.bytes.assign(tensor.bytes.size() / 4, 0x38);  // 1
    std::string twos;
    for (uint64_t row = 0; row < tensor.shape[0]; ++row) twos += std::string("\0\0\0\x40", 4);
    scales.push_back({tensor.name + "_scale_inv", "F32", {tensor.shape[0], 1}, twos});
  }
  sample.tensors.insert(sample.tensors.end(), scales.begin(), scales.end());
  return sample;
}

TEST(TensorMap, ReadsScaledWeightsAndStacksThemAsBf16) {
  const ConvertSample sample = Scaled();
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufTensor& up = Find(*model, "blk.0.ffn_up_exps.weight");
  EXPECT_THAT(up.shape, ElementsAre(2, 2, 4));
  EXPECT_EQ(up.stored->name, "bf16");
  EXPECT_EQ(up.type->name, "bf16");
  EXPECT_EQ(up.source_tensor, "model.layers.0.mlp.experts.*.up_proj.weight");
  ASSERT_EQ(up.rows.size(), 2u);
  EXPECT_EQ(up.rows[1], (RowRange{2, 2, up.rows[0].order + 1}));
  EXPECT_EQ(sample.Values(*model, up.name), std::vector<float>(16, 2.0f));
  EXPECT_NE(Find(*model, "blk.0.attn_q.weight").reader, nullptr);
  EXPECT_EQ(Find(*model, "blk.0.attn_k.weight").reader, nullptr)
      << "a plain weight is copied as ranges";
}

TEST(TensorMap, RefusesAScaleThatIsMissingOrStandsAlone) {
  ConvertSample sample = Scaled();
  sample.Remove("q_proj.weight_scale_inv");
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("q_proj.weight\": expected weight_scale_inv"));
  sample = Scaled();
  sample.Remove("experts.1.up_proj.weight_scale_inv");
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("expert 1: expected one tensor up.weight_scale_inv, found none"));
  sample = ConvertSample::Qwen3Moe();
  sample.Add("model.layers.0.self_attn.r_proj.weight_scale_inv", {1, 1});
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("r_proj.weight_scale_inv\": expected a tensor"));
}

TEST(TensorMap, LeavesOutBlocksForMultiTokenPredictionThatWereAnnounced) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["num_nextn_predict_layers"] = 1;
  sample.Add("model.layers.1.input_layernorm.weight", {4});
  EXPECT_TRUE(sample.Convert());
  sample.Add("model.layers.2.input_layernorm.weight", {4});
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("extra: layer 2: expected layers below 2 (num_hidden_layers and "
                        "announced blocks), found 1 tensor, "
                        "\"model.layers.2.input_layernorm.weight\""));
}

TEST(TensorMap, KeepsBlocksForMultiTokenPredictionOnRequest) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["num_nextn_predict_layers"] = 1;
  sample.Add("model.layers.1.input_layernorm.weight", {4});
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  TensorMapOptions options;
  options.layers = options.mtp_layers = 1;
  options.rows = {{"layers.{L}.input_layernorm.weight", "blk.{L}.attn_norm.weight"}};
  for (const ModelTensor& tensor : model->tensors()) {
    const std::string& name = model->entry(tensor).name;
    if (name.ends_with("input_layernorm.weight")) continue;
    std::string source = name.substr(name.starts_with("model.") ? 6 : 0);
    const size_t layer = source.find("layers.0.");
    if (layer != std::string::npos) source.replace(layer, 9, "layers.{L}.");
    const size_t expert = source.find("experts.");
    if (expert != std::string::npos) source.replace(expert + 8, 1, "{E}");
    options.rows.push_back({source, "x." + name, {}, true});
  }
  const auto tensors = MapTensors(*model, options);
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->back().name, "blk.1.attn_norm.weight");
  EXPECT_EQ(tensors->back().layer, 1);
  options.rows[0].mtp = true;
  EXPECT_FALSE(MapTensors(*model, options)) << "no row matches the tensor of layer 0";
  options.rows.push_back({"layers.{L}.input_layernorm.weight", "blk.{L}.norm.weight"});
  const auto missing = MapTensors(*model, options);
  ASSERT_TRUE(missing) << missing.error().message;
}

TEST(TensorMap, RefusesExpertsThatDiffer) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  fixtures::RawTensor& expert = sample.Tensor("model.layers.0.mlp.experts.1.up_proj.weight");
  expert.dtype = "BF16";
  expert.bytes.resize(expert.bytes.size() / 2);
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("expected F32 of shape [2, 4] as the first expert has, found BF16"));
}

// FP8 codes of 1, 2, ... 8 with a scale for each row.
void Scale(ConvertSample& sample, const std::string& module) {
  fixtures::RawTensor& weight = sample.Tensor(module + ".weight");
  weight.dtype = "F8_E4M3";
  weight.bytes = {0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50};
  // BF16 of 1 and 2.
  sample.tensors.push_back(
      {module + ".weight_scale", "BF16", {2, 1}, std::string("\x80\x3f\x00\x40", 4)});
  sample.config["quantization_config"] = {{"quant_method", "fp8"}};
}

TEST(TensorMap, StacksExpertsThatStayedAsTheyWereOnScaledOnes) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const std::string at = "model.layers.0.mlp.experts.";
  Scale(sample, at + "1.up_proj");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufTensor& up = Find(*model, "blk.0.ffn_up_exps.weight");
  EXPECT_EQ(up.stored->name, "f32") << "the plain expert has it";
  EXPECT_EQ(up.rows.size(), 2u);
  std::vector<float> expected = sample.Values(at + "0.up_proj.weight");
  for (const float value : {1.f, 2.f, 3.f, 4.f, 10.f, 12.f, 14.f, 16.f}) expected.push_back(value);
  EXPECT_EQ(sample.Values(*model, up.name), expected);
}

TEST(TensorMap, DecodesAScaledRouter) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  Scale(sample, "model.layers.0.mlp.gate");
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufTensor& router = Find(*model, "blk.0.ffn_gate_inp.weight");
  EXPECT_EQ(router.expert_count, 2u);
  EXPECT_EQ(router.rows.size(), 2u);
  EXPECT_TRUE(router.fixed);
  EXPECT_THAT(sample.Values(*model, router.name), ElementsAre(1, 2, 3, 4, 10, 12, 14, 16));
}

TEST(TensorMap, DecodesAPackedRouterWhoseScalesAreAcross) {
  ConvertSample sample = ConvertSample::Mixtral();
  const std::string at = "model.layers.0.block_sparse_moe.gate.";
  sample.Remove(at);
  // Codes 0 ... 7 for expert 0 and 8 ... 15 for expert 1, zeros of 0 and 8, scales of 1 and 2.
  const uint32_t codes[] = {0x76543210, 0xfedcba98}, zeros[] = {0x80};
  const float scales[] = {1, 2};
  const auto add = [&](const char* leaf, const char* dtype, std::vector<uint64_t> shape,
                       std::span<const std::byte> bytes) {
    const auto* text = reinterpret_cast<const char*>(bytes.data());
    sample.tensors.push_back({at + leaf, dtype, std::move(shape), {text, bytes.size()}});
  };
  add("qweight", "I32", {1, 2}, std::as_bytes(std::span(codes)));
  add("qzeros", "I32", {1, 1}, std::as_bytes(std::span(zeros)));
  add("scales", "F32", {1, 2}, std::as_bytes(std::span(scales)));
  sample.config["quantization_config"] = {{"quant_method", "auto-round"},
                                          {"bits", 4},
                                          {"group_size", 8},
                                          {"packing_format", "auto_round"}};
  const auto model = sample.Convert();
  ASSERT_TRUE(model) << model.error().message;
  const GgufTensor& router = Find(*model, "blk.0.ffn_gate_inp.weight");
  EXPECT_THAT(router.shape, ElementsAre(2, 8));
  EXPECT_EQ(router.expert_count, 2u);
  EXPECT_EQ(router.part, Part::kRouter);
  EXPECT_THAT(sample.Values(*model, router.name),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 2, 4, 6, 8, 10, 12, 14));
}

TEST(TensorMap, RefusesTwoLayoutsInOneLayer) {
  ConvertSample sample = ConvertSample::Mixtral();
  sample.Add("model.layers.0.mlp.gate.weight", {2, 8});
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("expected one layout of blk.{L}.ffn_gate_inp.weight, found two"));
}

TEST(TensorMap, RefusesALayerBeyondTheLast) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.Add("model.layers.1.input_layernorm.weight", {4});
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("extra: layer 1: expected layers below 1 (num_hidden_layers), found 1 "
                        "tensor, \"model.layers.1.input_layernorm.weight\""));
}

TEST(TensorMap, ATiedHeadIsNotWritten) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  sample.config["tie_word_embeddings"] = true;
  sample.Tensor("lm_head.weight").bytes = sample.Tensor("model.embed_tokens.weight").bytes;
  const auto with_head = sample.Convert();
  ASSERT_TRUE(with_head) << with_head.error().message;
  EXPECT_EQ(with_head->tensors.size(), 14u);
  sample.Remove("lm_head");
  EXPECT_TRUE(sample.Convert());
  sample.config.erase("tie_word_embeddings");
  EXPECT_TRUE(sample.Convert()) << "without a head and without the key, the head is tied";
  sample.config["tie_word_embeddings"] = false;
  EXPECT_THAT(TensorMapErrorOf(sample).message,
              HasSubstr("missing: head: expected a tensor like \"lm_head.{W}\", as "
                        "tie_word_embeddings is false, found none"));
}

TEST(TensorMap, CopiesTheEmbeddingWhereTheRuntimeAsksForAHead) {
  ConvertSample sample = ConvertSample::Qwen3Moe();
  const auto model = sample.Open();
  ASSERT_TRUE(model) << model.error().message;
  TensorMapOptions options;
  options.layers = 1;
  options.rows = {{"embed_tokens.weight", "token_embd.weight"}};
  for (const ModelTensor& tensor : model->tensors()) {
    const std::string& name = model->entry(tensor).name;
    if (name == "model.embed_tokens.weight") continue;
    options.rows.push_back({name.substr(name.starts_with("model.") ? 6 : 0), name, {}, true});
  }
  for (TensorRow& row : options.rows) {
    const size_t layer = row.source.find("layers.0.");
    if (layer != std::string::npos) row.source.replace(layer, 9, "layers.{L}.");
    const size_t expert = row.source.find("experts.");
    if (expert != std::string::npos) row.source.replace(expert + 8, 1, "{E}");
  }
  options.tied = options.needs_output = true;
  const auto tensors = MapTensors(*model, options);
  ASSERT_TRUE(tensors) << tensors.error().message;
  EXPECT_EQ(tensors->back().name, "output.weight");
  EXPECT_THAT(tensors->back().shape, ElementsAre(5, 4));
  EXPECT_EQ(tensors->back().sources[0].offset, tensors->front().sources[0].offset);
  EXPECT_EQ(tensors->back().sources[0].order, OrderOf(tensors->size() - 1, 0));
}

}  // namespace
}  // namespace moepack
