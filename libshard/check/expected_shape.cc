#include "libshard/check/expected_shape.h"

#include "libshard/check/layer_names.h"
#include "libshard/check/module.h"

namespace moepack {
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
    const uint64_t width = promise_.expert_width, input = promise_.expert_input;
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

  Expected OfAttention(const ModelTensor& tensor, Module module) const {
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

}  // namespace moepack
