// The metadata of a GGUF model: ReadGgufConfig, ReadGgufRouting, the whole model, and ReadModelSpec
// of the runtime.
#include <cmath>
#include <initializer_list>

#include "fixtures/gguf_writer.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/limits.h"
#include "libshard/format/gguf.h"
#include "libshard/graph/model_spec.h"
#include "libshard/model/gguf_config.h"
#include "libshard/model/gguf_routing.h"
#include "libshard/model/model.h"
#include "tests/fuzz/gguf_structure.h"
#include "tests/fuzz/target.h"

namespace gguf_model_target {

using moepack::Cat;
using moepack::LayerSpec;
using moepack::ModelSpec;
using moepack::RopeSpec;

constexpr const char* kPath = "damaged.gguf";
constexpr uint32_t kLayers = 2;
constexpr uint32_t kF64 = 12;
constexpr uint64_t kOneAndAHalfF64 = 0x3ff8000000000000u, kHugeF64 = 0x7e37e43c8800759cu;  // 1e300

// What every family needs, with all the keys that some family reads.
fixtures::GgufFile ModelOf(const std::string& architecture) {
  fixtures::GgufFile file = fixtures::MiniGguf(architecture, kLayers, 4);
  const std::string a = architecture + ".";
  const auto add = [&](const char* key, uint32_t type, const std::string& value) {
    file.pairs.push_back({a + key, type, value});
  };
  const auto number = [&](const char* key, uint32_t value) {
    file.pairs.push_back(fixtures::GgufPairU32(a + key, value));
  };
  const auto fraction = [&](const char* key, float value) {
    add(key, fixtures::kGgufF32, fixtures::GgufFloat(value));
  };
  number("context_length", 64);
  number("vocab_size", 3);
  add("attention.head_count", fixtures::kGgufArray,
      fixtures::GgufList(fixtures::kGgufU32, kLayers,
                         fixtures::GgufNumber(2, 4) + fixtures::GgufNumber(4, 4)));
  number("attention.head_count_kv", 2);
  number("attention.key_length", 8);
  number("attention.value_length", 8);
  number("rope.dimension_count", 4);
  fraction("attention.layer_norm_rms_epsilon", 1e-6f);
  fraction("rope.freq_base", 10000);
  file.pairs.push_back(fixtures::GgufPairString(a + "rope.scaling.type", "yarn"));
  fraction("rope.scaling.factor", 4);
  number("expert_gating_func", 1);
  return file;
}

void AddNumbers(fixtures::GgufFile& file, const std::string& architecture,
                std::initializer_list<std::pair<const char*, uint32_t>> numbers) {
  for (const auto& [key, value] : numbers)
    file.pairs.push_back(fixtures::GgufPairU32(architecture + "." + key, value));
}

// Layers with windows have a rope of their own.
fixtures::GgufFile WindowedOf(const std::string& architecture) {
  fixtures::GgufFile file = ModelOf(architecture);
  file.pairs.push_back({architecture + ".attention.sliding_window_pattern", fixtures::kGgufArray,
                        fixtures::GgufList(fixtures::kGgufBool, kLayers, std::string("\1\0", 2))});
  file.pairs.push_back(
      {architecture + ".rope.freq_base_swa", fixtures::kGgufF32, fixtures::GgufFloat(1000)});
  AddNumbers(file, architecture,
             {{"attention.sliding_window", 16},
              {"attention.key_length_swa", 8},
              {"attention.value_length_swa", 8}});
  return file;
}

std::vector<std::string> Seeds() {
  std::vector<fixtures::GgufFile> files = {ModelOf("qwen3moe"), ModelOf("llama4"),
                                           WindowedOf("gemma4"), WindowedOf("mimo2"),
                                           WindowedOf("step35")};
  fixtures::GgufFile latent = ModelOf("deepseek2");
  AddNumbers(latent, "deepseek2",
             {{"attention.kv_lora_rank", 4},
              {"attention.key_length_mla", 6},
              {"attention.value_length_mla", 4},
              {"expert_group_count", 2},
              {"expert_group_used_count", 1}});
  fixtures::GgufFile delta = ModelOf("qwen3next");
  AddNumbers(delta, "qwen3next",
             {{"ssm.conv_kernel", 4},
              {"ssm.state_size", 2},
              {"ssm.group_count", 1},
              {"ssm.time_step_rank", 2},
              {"ssm.inner_size", 4}});
  fixtures::GgufFile granite = ModelOf("granitemoe");
  granite.pairs.push_back(
      {"granitemoe.logit_scale", fixtures::kGgufF32, fixtures::GgufFloat(0.5f)});
  // 64 bits instead of 32.
  granite.pairs.push_back(
      {"granitemoe.embedding_scale", kF64, fixtures::GgufNumber(kOneAndAHalfF64, 8)});
  files.insert(files.end(), {latent, delta, granite});
  std::vector<std::string> seeds;
  for (const fixtures::GgufFile& file : files) seeds.push_back(fixtures::GgufBytes(file));
  return seeds;
}

// Replaces the value of a key.
fixtures::GgufFile With(fixtures::GgufFile file, const char* key, uint32_t type,
                        const std::string& value) {
  const std::string name = Cat(file.pairs[0].value.substr(8), ".", key);
  std::erase_if(file.pairs, [&](const fixtures::GgufPair& pair) { return pair.key == name; });
  file.pairs.push_back({name, type, value});
  return file;
}

// Another key about experts, keys that are missing, an architecture that is unknown, and numbers
// that are finite until something is computed from them.
std::vector<std::string> Refused() {
  fixtures::GgufFile two = ModelOf("qwen3moe"), none = ModelOf("qwen3moe");
  AddNumbers(two, "qwen3moe", {{"expert_of_another_kind", 1}});
  none.pairs.resize(2);
  const std::string tiny = fixtures::GgufFloat(1e-40f), half = fixtures::GgufFloat(0.5f);
  std::vector<std::string> files;
  for (const fixtures::GgufFile& file :
       {two, none, ModelOf("no-such-architecture"),
        With(ModelOf("qwen3moe"), "rope.scaling.factor", fixtures::kGgufF32, tiny),
        With(ModelOf("granitemoe"), "logit_scale", fixtures::kGgufF32, tiny),
        With(ModelOf("llama"), "attention.scale", kF64, fixtures::GgufNumber(kHugeF64, 8)),
        With(WindowedOf("gemma4"), "rope.freq_base_swa", fixtures::kGgufF32, half),
        With(WindowedOf("step35"), "rope.dimension_count", fixtures::kGgufU32,
             fixtures::GgufNumber(2, 4))})
    files.push_back(fixtures::GgufBytes(file));
  return files;
}

std::string RopeProblem(const RopeSpec& rope, uint32_t head) {
  if (rope.dims == 0 || rope.dims % 2 != 0) return Cat("a rope of ", rope.dims, " values");
  if (rope.dims > head) return "a rope wider than a head";
  if (!(rope.base > 1) || !std::isfinite(rope.base)) return Cat("a rope of base ", rope.base);
  for (const float value : {rope.frequency_scale, rope.yarn_mix, rope.attention_factor})
    if (!std::isfinite(value)) return Cat("a rope scaled by ", value);
  return "";
}

std::string LayerProblem(const LayerSpec& layer) {
  if (layer.heads == 0 || layer.key_width == 0 || layer.value_width == 0) return "no heads";
  if (layer.key_heads > 0 && layer.heads % layer.key_heads != 0) return "keys for a part of a head";
  if (layer.key_heads == 0 && layer.mixes && !layer.recurrent) return "attention without keys";
  if (layer.router.expert_count == 0 || layer.router.top_k == 0) return "a router of nothing";
  const double scale = layer.router.scale.value_or(1);
  return scale > 0 && scale < 1e9 ? "" : Cat("weights scaled by ", scale);
}

std::string SpecProblem(const ModelSpec& spec) {
  if (spec.layers == 0 || spec.layers > moepack::kMaxLayers) return Cat(spec.layers, " layers");
  if (spec.layer.size() != spec.layers) return "another number of layers than stated";
  if (spec.width == 0 || spec.context == 0) return "no width or no context";
  for (const float value :
       {spec.norm_eps, spec.attention_scale, spec.value_scale, spec.embedding_scale,
        spec.residual_scale, spec.logit_scale, spec.logit_cap, spec.temperature})
    if (!std::isfinite(value)) return Cat("a scale of ", value);
  if (const std::string problem = RopeProblem(spec.rope, spec.key_width); !problem.empty())
    return problem;
  for (const LayerSpec& layer : spec.layer) {
    if (std::string problem = LayerProblem(layer); !problem.empty()) return problem;
    if (layer.recurrent && spec.recurrence().kernel == 0) return "a recurrence of no tokens";
    if (!layer.local_rope) continue;
    if (std::string problem = RopeProblem(spec.local_rope, layer.key_width); !problem.empty())
      return Cat(problem, " in layers with a window");
  }
  return "";
}

std::string ConfigProblem(const moepack::ModelConfig& config) {
  if (config.layers == 0 || config.layers + config.mtp_layers > moepack::kMaxLayers)
    return Cat(config.layers, " layers");
  if (config.expert_count == 0 || config.expert_count > moepack::kMaxModelCount)
    return Cat(config.expert_count, " experts");
  if (config.top_k > config.expert_count) return "more experts used than there are";
  for (const uint32_t width : {config.hidden_size, config.expert_intermediate_size})
    if (width > moepack::kMaxModelWidth) return Cat("a width of ", width);
  for (const uint32_t used : config.top_k_per_layer)
    if (used > config.top_k) return "top_k is not the maximum of its list";
  return "";
}

std::string ModelProblem(const std::string& input) {
  const auto tree = std::make_shared<moepack::MemoryTree>("damaged");
  tree->Add(kPath, std::make_shared<moepack::MemorySource>(kPath, input));
  const auto model = moepack::MoeModel::Open(moepack::Source{kPath, tree, kPath});
  if (!model) return fuzz::ErrorProblem(model.error(), kPath);
  if (model->layers().empty()) return "a model without layers of experts";
  for (const moepack::MoeLayer& layer : model->layers()) {
    if (layer.expert_count == 0 || layer.expert_count > model->max_experts())
      return Cat("a layer of ", layer.expert_count, " experts");
  }
  for (const moepack::ModelTensor& tensor : model->tensors()) {
    if (tensor.part != moepack::Part::kExpert) continue;
    const moepack::MoeLayer* layer = model->FindLayer(tensor.layer);
    if (layer == nullptr) return "an expert of no layer";
    if (tensor.axis && model->entry(tensor).shape.at(*tensor.axis) % layer->expert_count != 0)
      return "an expert axis of another length";
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto header = moepack::ParseGguf(kPath, std::as_bytes(std::span(input)), input.size());
  if (!header) return fuzz::ErrorProblem(header.error(), kPath);
  std::vector<std::string> warnings;
  const auto config = moepack::ReadGgufConfig(kPath, header->metadata, warnings);
  std::string problem = config ? ConfigProblem(*config) : fuzz::ErrorProblem(config.error(), kPath);
  if (!problem.empty()) return problem;
  for (const std::string& warning : warnings) {
    problem = fuzz::ErrorProblem({moepack::Code::kCorrupt, warning}, kPath);
    if (!problem.empty()) return problem;
  }
  const auto routing = moepack::RoutingOfGguf(kPath, header->metadata);
  if (!routing) problem = fuzz::ErrorProblem(routing.error(), kPath);
  if (!problem.empty()) return problem;
  const auto spec = moepack::ReadModelSpec(kPath, header->metadata);
  problem = spec ? SpecProblem(*spec) : fuzz::ErrorProblem(spec.error(), kPath);
  if (!problem.empty()) return Cat("runtime: ", problem);
  return ModelProblem(std::string(input));
}

bool Accepts(std::string_view input) {
  const auto header = moepack::ParseGguf(kPath, std::as_bytes(std::span(input)), input.size());
  if (!header) return false;
  std::vector<std::string> warnings;
  return moepack::ReadGgufConfig(kPath, header->metadata, warnings).has_value() &&
         moepack::ReadModelSpec(kPath, header->metadata).has_value();
}

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 5000,
                               .restructure = fuzz::ChangeGguf,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace gguf_model_target

FUZZ_STRUCTURE_TARGET(FuzzGgufModel, gguf_model_target::kTarget)
