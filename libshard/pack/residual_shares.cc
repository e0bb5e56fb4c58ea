#include "libshard/pack/residual_shares.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "libshard/base/text/text.h"
#include "libshard/model/block_name.h"
#include "libshard/pack/model_damage.h"
#include "libshard/pack/type_damage.h"

namespace moepack {
namespace {

enum class Block : uint8_t { kAttention, kExperts, kShared };

// The matrices that write to the residual stream, by what follows "blk.N.".
struct LastMatrix {
  std::string_view name;
  Block block;
};
constexpr std::array<LastMatrix, 5> kLastMatrices = {{
    {"attn_output.weight", Block::kAttention},
    {"ssm_out.weight", Block::kAttention},  // used instead of attention in hybrid models
    {"ffn_down_exps.weight", Block::kExperts},
    {"ffn_down_shexp.weight", Block::kShared},
    {"ffn_down.weight", Block::kShared},
}};

// "attn_output.weight" of "blk.7.attn_output.weight".
std::string_view LeafOf(std::string_view name) {
  const std::optional<BlockName> block = ParseBlockName(name);
  return block ? block->rest : name;
}

Block BlockOf(const GgufTensor& tensor) {
  if (tensor.part == Part::kExpert) return Block::kExperts;
  return LeafOf(tensor.name).starts_with("ffn_") ? Block::kShared : Block::kAttention;
}

class SharesOfLayers {
 public:
  SharesOfLayers(const TypedGguf& typed, std::span<const ByteSourcePtr> sources,
                 uint32_t sample_rows)
      : typed_(typed), sources_(sources), sample_rows_(sample_rows) {}

  Result<ResidualShares> Measure() {
    if (!typed_.imatrix) return ResidualShares();
    double stream = 0;
    std::map<uint32_t, std::array<double, 3>> energies;  // by layer, then block
    for (const GgufTensor& tensor : typed_.model.tensors) {
      if (tensor.name == "token_embd.weight") {
        SHARD_TRY(stream, RowEnergy(tensor));
        stream *= Squared("embedding_scale");
      }
      const auto last = std::find_if(
          kLastMatrices.begin(), kLastMatrices.end(),
          [&](const LastMatrix& matrix) { return matrix.name == LeafOf(tensor.name); });
      if (!tensor.layer || last == kLastMatrices.end()) continue;
      if (tensor.importance == nullptr) return ResidualShares();
      SHARD_TRY(const double energy, OutputEnergy(tensor));
      energies[*tensor.layer][static_cast<size_t>(last->block)] += energy;
    }
    return Shares(stream, energies);
  }

 private:
  // Attention writes first, then everything that takes the place of an MLP at once, so shared and
  // routed experts are shares of the same stream.
  static ResidualShares Shares(double stream,
                               const std::map<uint32_t, std::array<double, 3>>& energies) {
    ResidualShares shares;
    for (const auto& [layer, energy] : energies) {
      const auto [attention, experts, shared] = energy;
      const auto share = [&](double part) { return stream > 0 ? part / stream : 1; };
      stream += attention;
      LayerShares& own = shares[layer];
      own.attention = share(attention);
      stream += experts + shared;
      own.experts = share(experts);
      own.shared = share(shared);
    }
    return shares;
  }

  Result<double> RowEnergy(const GgufTensor& tensor) const {
    return MeasureRowEnergy(tensor, {sources_, SliceWeights(typed_, tensor), sample_rows_});
  }

  Result<double> OutputEnergy(const GgufTensor& tensor) const {
    SHARD_TRY(double energy, RowEnergy(tensor));
    // The energy of one output, times their number.
    energy *= static_cast<double>(tensor.shape[tensor.shape.size() - 2]);
    energy *= Squared("residual_scale");
    if (tensor.part != Part::kExpert) return energy;
    const auto top_k = typed_.model.metadata.Uint(Key("expert_used_count"));
    // k uncorrelated outputs with gates of 1 / k have k (1 / k)^2 = 1 / k of the energy of one.
    return energy * Squared("expert_weights_scale") /
           static_cast<double>(std::max<uint64_t>(top_k.value_or(1), 1));
  }

  std::string Key(const char* name) const {
    return Cat(typed_.model.metadata.String("general.architecture").value_or(""), ".", name);
  }

  // The square of one of the model's factors; 1 if it has none.
  double Squared(const char* name) const {
    const GgufValue* value = typed_.model.metadata.Find(Key(name));
    const double factor = value == nullptr ? 1 : value->AsFloat().value_or(1);
    return factor > 0 ? factor * factor : 1;
  }

  const TypedGguf& typed_;
  std::span<const ByteSourcePtr> sources_;
  uint32_t sample_rows_;
};

}  // namespace

Result<ResidualShares> MeasureResidualShares(const TypedGguf& typed,
                                             std::span<const ByteSourcePtr> sources,
                                             uint32_t sample_rows) {
  return SharesOfLayers(typed, sources, sample_rows).Measure();
}

double ShareOf(const ResidualShares& shares, const GgufTensor& tensor) {
  const auto found = tensor.layer ? shares.find(*tensor.layer) : shares.end();
  if (found == shares.end()) return 1;
  switch (BlockOf(tensor)) {
    case Block::kAttention:
      return found->second.attention;
    case Block::kExperts:
      return found->second.experts;
    case Block::kShared:
      return found->second.shared;
  }
  return 1;
}

}  // namespace moepack
