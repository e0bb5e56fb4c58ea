#include "libshard/check/shapes.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/check/layer_names.h"
#include "libshard/check/mixer_shapes.h"

namespace moepack {
namespace {

const TextMap<std::string_view, Module>& Modules() {
  static const auto* const kModules = new TextMap<std::string_view, Module>{
      {"gate_proj", Module::kGate},
      {"up_proj", Module::kUp},
      {"w1", Module::kGate},
      {"w3", Module::kUp},
      {"fc1", Module::kUp},
      {"v1", Module::kUp},
      {"gate_up_proj", Module::kFusedIn},
      {"up_gate_proj", Module::kFusedIn},
      {"input_linear", Module::kFusedIn},
      {"down_proj", Module::kDown},
      {"w2", Module::kDown},
      {"fc2", Module::kDown},
      {"output_linear", Module::kDown},
      {"q_proj", Module::kQuery},
      {"k_proj", Module::kKey},
      {"v_proj", Module::kKey},
      {"o_proj", Module::kAttentionOut},
      {"q_a_proj", Module::kQueryA},
      {"q_b_proj", Module::kQueryB},
      {"kv_a_proj_with_mqa", Module::kLatentA},
      {"kv_b_proj", Module::kLatentB},
      {"q_a_layernorm", Module::kQueryANorm},
      {"kv_a_layernorm", Module::kLatentNorm},
      {"input_layernorm", Module::kNorm},
      {"post_attention_layernorm", Module::kNorm},
      {"norm", Module::kNorm},
      {"norm_f", Module::kNorm},
      {"ffn_norm", Module::kNorm},
      {"operator_norm", Module::kNorm},
      {"attn_norm", Module::kNorm},
      {"final_layernorm", Module::kNorm},
      {"embedding_norm", Module::kNorm},
      {"enorm", Module::kNorm},
      {"hnorm", Module::kNorm},
      {"pre_ff_layernorm", Module::kNorm},
      {"output_norm", Module::kNorm},
      {"post_attention_norm", Module::kNorm},
      {"embed_tokens", Module::kVocabulary},
      {"word_embeddings", Module::kVocabulary},
      {"wte", Module::kVocabulary},
      {"embeddings", Module::kVocabulary},
      {"embed", Module::kVocabulary},
      {"lm_head", Module::kVocabulary},
      {"head", Module::kVocabulary},
      {"token_embd", Module::kVocabulary},
      {"output", Module::kVocabulary},
      {"eh_proj", Module::kJoin},
      {"ffn_gate", Module::kGate},
      {"ffn_up", Module::kUp},
      {"ffn_down", Module::kDown},
      {"ffn_gate_shexp", Module::kGate},
      {"ffn_up_shexp", Module::kUp},
      {"ffn_down_shexp", Module::kDown},
  };
  return *kModules;
}

}  // namespace

std::optional<Module> ModuleNamed(std::string_view name) {
  const auto known = Modules().find(name);
  return known == Modules().end() ? std::nullopt : std::optional(known->second);
}

std::optional<Module> ModuleOf(std::string_view role, std::string_view name) {
  if (role == "gate") return Module::kGate;
  if (role == "up") return Module::kUp;
  if (role == "gate_up") return Module::kFusedIn;
  if (role == "down") return Module::kDown;
  return ModuleNamed(name);
}

namespace {

using Expected = std::optional<Dims>;

class Reader {
 public:
  Reader(const ModelPromise& promise, bool latent) : promise_(promise), latent_(latent) {}

  Expected Of(const ShapeQuestion& question) const {
    const ModelTensor& tensor = question.tensor;
    const std::string& name = question.name;
    const std::string& role = tensor.rule->role;
    if (role == "vision" || role == "audio") return std::nullopt;
    if (tensor.part == Part::kRouter) return OfRouter(tensor, question.leaf);
    if (role == "shared_gate") return std::nullopt;
    const std::string_view module_name = ModuleName(name, tensor.leaf);
    const std::optional<Module> module = ModuleOf(role, module_name);
    if (!module) return std::nullopt;
    if (tensor.part == Part::kExpert) return OfExpert(tensor, *module, question.expert_count);
    if (tensor.part == Part::kShared) {
      return OfProjection(tensor, *module, promise_.shared_width, "width of the shared experts");
    }
    if (role == "dense_mlp") return OfDense(tensor, *module);
    if (role == "attention") return OfAttention(tensor, *module);
    return OfTrunk(tensor, *module, role);
  }

 private:
  static Expected Known(std::vector<uint64_t> sizes, const char* why) {
    return Dims{std::move(sizes), why};
  }

  // A linear layer [out, in]; its bias has one value per row.
  Expected Linear(const ModelTensor& tensor, uint64_t out, uint64_t in, const char* why) const {
    if (tensor.leaf == "bias") return Known({out}, why);
    return Known({out, in}, why);
  }

  Expected OfRouter(const ModelTensor& tensor, std::string_view leaf) const {
    // MoeModel::Open has already checked the expert axis.
    if (tensor.rule->role != "router" || !tensor.axis || leaf != "weight") {
      return std::nullopt;
    }
    return *tensor.axis == 0 ? Known({0, promise_.hidden}, "any, hidden_size")
                             : Known({promise_.hidden, 0}, "hidden_size, any");
  }

  Expected OfProjection(const ModelTensor& tensor, Module module, uint64_t width,
                        const char* why) const {
    const uint64_t hidden = promise_.hidden;
    if (module == Module::kGate || module == Module::kUp) return Linear(tensor, width, hidden, why);
    if (module == Module::kFusedIn) return Linear(tensor, 2 * width, hidden, why);
    if (module == Module::kDown) return Linear(tensor, hidden, width, why);
    return std::nullopt;
  }

  Expected OfExpert(const ModelTensor& tensor, Module module, uint32_t expert_count) const {
    constexpr const char* kWhy = "width of an expert and hidden size";
    const uint64_t width = promise_.ExpertWidthOf(tensor.layer), input = promise_.expert_input;
    const uint64_t out = module == Module::kDown      ? input
                         : module == Module::kFusedIn ? 2 * width
                                                      : width;
    const uint64_t in = module == Module::kDown ? width : input;
    if (tensor.expert) return Linear(tensor, out, in, kWhy);
    if (tensor.axis != 0u) return std::nullopt;
    // DBRX stacks its experts in one matrix, with the down projection transposed.
    if (tensor.rule->folded) return Known({expert_count * width, input}, kWhy);
    if (tensor.leaf == "bias") return Known({0, out}, kWhy);
    const bool transposed = promise_.facts.transposed && tensor.leaf.empty();
    return transposed ? Known({0, in, out}, kWhy) : Known({0, out, in}, kWhy);
  }

  Expected OfDense(const ModelTensor& tensor, Module module) const {
    // Blocks for multi-token prediction may have another width.
    if (tensor.mtp) return std::nullopt;
    const bool residual = tensor.rule->pattern.find("residual_mlp") != std::string::npos;
    return OfProjection(tensor, module, residual ? promise_.hidden : promise_.dense_width,
                        "width of the dense feed-forward part");
  }

  // Layers with linear attention beside others with latent attention (Ling 3.0, Kimi-K3) have
  // other sizes.
  bool IsLinear(const ModelTensor& tensor) const {
    const uint32_t layer = tensor.layer.value_or(UINT32_MAX);
    return layer < promise_.layers.size() && promise_.layers[layer].kind == LayerKind::kLinear;
  }

  Expected OfAttention(const ModelTensor& tensor, Module module) const {
    if (latent_ && IsLinear(tensor)) return std::nullopt;
    if (promise_.latent && latent_) return OfLatent(tensor, module, *promise_.latent);
    if (!promise_.heads || latent_) return std::nullopt;
    constexpr const char* kWhy = "heads and their size, hidden_size";
    const HeadsPromise& heads = *promise_.heads;
    const uint64_t query = heads.heads * heads.size, key = heads.key_heads * heads.size;
    const uint64_t gates = promise_.facts.gated_queries ? 2 : 1;
    if (module == Module::kQuery) return Linear(tensor, gates * query, promise_.hidden, kWhy);
    if (module == Module::kKey) return Linear(tensor, key, promise_.hidden, kWhy);
    if (module == Module::kAttentionOut) return Linear(tensor, promise_.hidden, query, kWhy);
    return std::nullopt;
  }

  Expected OfLatent(const ModelTensor& tensor, Module module, const LatentPromise& sizes) const {
    constexpr const char* kWhy = "sizes of latent attention";
    const uint64_t head = sizes.nope + sizes.rope, hidden = promise_.hidden;
    switch (module) {
      case Module::kQuery:
        return Linear(tensor, sizes.heads * head, hidden, kWhy);
      case Module::kQueryA:
        return Linear(tensor, sizes.query_rank, hidden, kWhy);
      case Module::kQueryB:
        return Linear(tensor, sizes.heads * head, sizes.query_rank, kWhy);
      case Module::kLatentA:
        return Linear(tensor, sizes.rank + sizes.rope, hidden, kWhy);
      case Module::kLatentB:
        return Linear(tensor, sizes.heads * (sizes.nope + sizes.value), sizes.rank, kWhy);
      case Module::kAttentionOut:
        return Linear(tensor, hidden, sizes.heads * sizes.value, kWhy);
      case Module::kQueryANorm:
        return Known({sizes.query_rank}, kWhy);
      case Module::kLatentNorm:
        return Known({sizes.rank}, kWhy);
      default:
        return std::nullopt;
    }
  }

  Expected OfTrunk(const ModelTensor& tensor, Module module, const std::string& role) const {
    const uint64_t hidden = promise_.hidden;
    if (module == Module::kNorm && role == "norm") return Known({hidden}, "hidden_size");
    if (module == Module::kJoin && role == "mtp") {
      return Linear(tensor, hidden, 2 * hidden, "hidden_size, twice");
    }
    if (module != Module::kVocabulary || (role != "embedding" && role != "head")) {
      return std::nullopt;
    }
    return Linear(tensor, promise_.vocabulary, hidden, "vocab_size, hidden_size");
  }

  const ModelPromise& promise_;
  const bool latent_;
};

}  // namespace

std::optional<Dims> ExpectedShapes::Of(const ShapeQuestion& question) const {
  return Reader(promise_, latent_).Of(question);
}

namespace {

bool IsInteger(const TensorEntry& entry) {
  constexpr std::array kIntegers = {"U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"};
  return std::find(kIntegers.begin(), kIntegers.end(), entry.dtype) != kIntegers.end();
}

bool Same(uint64_t found, uint64_t expected) { return expected == 0 || found == expected; }

// True if `values` numbers of 2 to 8 bits can take `words` words, of which the last may be padded.
bool PacksInto(uint64_t values, uint64_t words, uint64_t word_bits) {
  for (const uint64_t bits : {2, 3, 4, 5, 6, 8}) {
    uint64_t all = 0;
    if (__builtin_mul_overflow(values, bits, &all)) return false;
    if (all / word_bits + (all % word_bits != 0) == words) return true;
  }
  return false;
}

bool FitsPacked(const TensorEntry& entry, std::string_view leaf,
                const std::vector<uint64_t>& dims) {
  const std::vector<uint64_t>& shape = entry.shape;
  const size_t last = dims.size() - 1;
  // GPTQ packs along one axis and AWQ along the other; conversion checks them.
  if (leaf == "qweight") return true;
  if (leaf == "blocks") {
    constexpr uint64_t kBlockValues = 32, kBlockBytes = 16;  // MXFP4
    return shape.size() == dims.size() + 1 && shape.back() == kBlockBytes &&
           std::equal(dims.begin(), dims.end() - 1, shape.begin(),
                      [](auto a, auto b) { return Same(b, a); }) &&
           Same(shape[last] * kBlockValues, dims[last]);
  }
  if (shape.size() != dims.size()) return false;
  const uint64_t word_bits = entry.Elements() == 0 ? 8 : entry.bytes * 8 / entry.Elements();
  for (size_t i = 0; i < last; ++i) {
    if (!Same(shape[i], dims[i])) return false;
  }
  return dims[last] == 0 || PacksInto(dims[last], shape[last], word_bits);
}

bool Fits(const MoeModel& model, const ModelTensor& tensor, const std::vector<uint64_t>& dims) {
  const TensorEntry& entry = model.entry(tensor);
  if (!model.checkpoint().is_gguf() && IsInteger(entry)) {
    return FitsPacked(entry, tensor.leaf, dims);
  }
  return entry.shape.size() == dims.size() &&
         std::equal(dims.begin(), dims.end(), entry.shape.begin(),
                    [](uint64_t expected, uint64_t found) { return Same(found, expected); });
}

bool IsLatent(const MoeModel& model) {
  return std::any_of(model.tensors().begin(), model.tensors().end(), [&](const auto& tensor) {
    return ModuleNamed(ModuleName(model.entry(tensor).name, tensor.leaf)) == Module::kLatentA;
  });
}

class Shapes {
 public:
  Shapes(const MoeModel& model, const ModelPromise& promise)
      : model_(model), expected_(promise, IsLatent(model)), mixers_(model, promise) {}

  void Check(std::vector<CheckFinding>& findings) {
    for (const ModelTensor& tensor : model_.tensors()) {
      const std::string_view leaf = LeafOf(model_, tensor);
      if (UseOfLeaf(leaf) == LeafUse::kCompanion) continue;
      const MoeLayer* layer = model_.FindLayer(tensor.layer);
      std::optional<Dims> expected = expected_.Of(
          {tensor, model_.entry(tensor).name, leaf, layer == nullptr ? 0 : layer->expert_count});
      if (!expected) expected = mixers_.Of(tensor, leaf);
      if (expected && !Fits(model_, tensor, expected->sizes)) Note(tensor, *expected);
    }
    for (const auto& [key, misfit] : misfits_) findings.push_back(FindingOf(misfit));
  }

 private:
  struct Misfit {
    const ModelTensor* first;
    Dims expected;
    size_t count = 0;
  };

  // Notes a finding. Tensors of one row with the same shape share it.
  void Note(const ModelTensor& tensor, const Dims& expected) {
    const TensorEntry& entry = model_.entry(tensor);
    const std::string key =
        Cat(tensor.rule->pattern, " ", ModuleName(entry.name, tensor.leaf), " ", tensor.leaf, " ",
            FormatShape(entry.shape), FormatShape(expected.sizes));
    Misfit& misfit = misfits_.try_emplace(key, Misfit{&tensor, expected}).first->second;
    ++misfit.count;
  }

  CheckFinding FindingOf(const Misfit& misfit) const {
    const TensorEntry& entry = model_.entry(*misfit.first);
    std::string expected;
    for (const uint64_t size : misfit.expected.sizes) {
      expected += Cat(expected.empty() ? "[" : ", ", size == 0 ? "any" : Cat(size));
    }
    const bool packed = !model_.checkpoint().is_gguf() && IsInteger(entry);
    std::string what = Cat("tensor ", Quoted(entry.name));
    if (misfit.count > 1) what += Cat(" and ", misfit.count - 1, " like it");
    return {FindingKind::kMisshapen, std::move(what),
            Cat(expected, "] (", misfit.expected.why, packed ? ", packed" : "", ")"),
            packed ? Cat(FormatShape(entry.shape), " of ", entry.dtype) : FormatShape(entry.shape)};
  }

  const MoeModel& model_;
  const ExpectedShapes expected_;
  const MixerShapes mixers_;
  std::map<std::string, Misfit> misfits_;
};

}  // namespace

void CheckShapes(const MoeModel& model, const ModelPromise& promise,
                 std::vector<CheckFinding>& findings) {
  Shapes(model, promise).Check(findings);
}

}  // namespace moepack
