#include "libshard/pack/type_budget.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>

#include "libshard/base/parallel.h"
#include "libshard/base/text/regex.h"
#include "libshard/base/text/text.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/pack/model_damage.h"
#include "libshard/recipe/bit_budget.h"
#include "libshard/recipe/recipe.h"
#include "libshard/recipe/recipe_types.h"

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

namespace {

constexpr std::array kTrunkTypes = {"q4_K", "q5_K", "q6_K", "q8_0"};

bool Has(const GgufTensor& tensor, std::string_view piece) {
  return tensor.name.find(piece) != std::string::npos;
}

const char* PartOf(const GgufTensor& tensor) {
  if (tensor.part == Part::kExpert) return Has(tensor, "ffn_down") ? "down" : "gate, up";
  if (!tensor.layer) return tensor.name == "token_embd.weight" ? "embedding" : "output";
  if (tensor.part == Part::kShared || Has(tensor, "_shexp")) return "shared";
  return Has(tensor, ".ffn_") ? "dense" : "attention";
}

// Tensors that share a type, and the types that they may have.
struct BudgetGroup {
  std::optional<uint32_t> layer;
  std::string part;
  std::vector<size_t> tensors;
  std::vector<const quant::Format*> types;
  std::vector<std::vector<double>> damages;  // by tensor, then type
};

std::vector<const quant::Format*> KnownTypes(std::span<const char* const> names) {
  std::vector<const quant::Format*> types;
  for (const char* name : names) types.push_back(KnownType(name));
  return types;
}

std::vector<BudgetGroup> GroupsOf(const GgufModel& model,
                                  const std::vector<const quant::Format*>& expert_types) {
  std::map<std::tuple<bool, uint32_t, std::string>, BudgetGroup> groups;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const GgufTensor& tensor = model.tensors[i];
    if (!MayChange(tensor)) continue;
    const char* part = PartOf(tensor);
    BudgetGroup& group = groups[{tensor.layer.has_value(), tensor.layer.value_or(0), part}];
    if (group.tensors.empty()) {
      group.layer = tensor.layer;
      group.part = part;
      group.types = tensor.part == Part::kExpert ? expert_types : KnownTypes(kTrunkTypes);
    }
    // The recipe's own choice stays possible.
    if (tensor.type->encode != nullptr && tensor.type->decode != nullptr &&
        std::find(group.types.begin(), group.types.end(), tensor.type) == group.types.end())
      group.types.push_back(tensor.type);
    group.tensors.push_back(i);
  }
  std::vector<BudgetGroup> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

// How many of a layer's experts the largest node may pick from, by layer; empty without a plan.
std::map<uint32_t, uint64_t> HeldByLargest(const Plan* plan) {
  std::map<uint32_t, uint64_t> held;
  if (plan == nullptr) return held;
  for (const auto& [layer, experts] : plan->layers) {
    for (size_t group = 0; group < plan->groups.size(); ++group)
      held[layer] = std::max<uint64_t>(held[layer], Eligible(*plan, group, layer).size());
  }
  return held;
}

class TypeSpending {
 public:
  TypeSpending(const MoeModel& model, const TypedGguf& base, const TypeBudgetOptions& options)
      : model_(model),
        base_(base),
        options_(options),
        groups_(GroupsOf(base.model, options.expert_types.empty() ? KnownTypes(kExpertTypes)
                                                                  : options.expert_types)),
        held_(HeldByLargest(options.plan)) {}

  Result<TypeBudget> Spend() {
    SHARD_TRY(sources_, OpenWeights(model_));
    uint64_t kept = 0;
    for (const GgufTensor& tensor : base_.model.tensors) {
      if (!MayChange(tensor)) kept += BytesAs(tensor, tensor.type);
    }
    // Before measuring, which reads and encodes rows of every matrix.
    SHARD_CHECK(CheckTypes());
    SHARD_CHECK(CheckSmallest(kept));
    SHARD_TRY(shares_, MeasureResidualShares(base_, sources_, options_.sample_rows));
    SHARD_CHECK(Measure());
    SHARD_TRY(const BitPlan plan, SpendBits(Items(), options_.bytes - kept));
    TypeBudget budget;
    budget.bytes = kept + plan.bytes;
    budget.damage = plan.damage;
    budget.bound = plan.bound;
    for (size_t i = 0; i < groups_.size(); ++i) AddPart(i, plan.chosen[i], budget);
    AddRules(plan, budget);
    return budget;
  }

 private:
  const GgufTensor& At(size_t index) const { return base_.model.tensors[index]; }

  // The size of the tensor as a node has it: only the experts and router rows that it may pick.
  uint64_t BytesAs(const GgufTensor& tensor, const quant::Format* type) const {
    GgufTensor stored;
    stored.shape = tensor.shape;
    stored.type = FallbackFor(type, tensor.row_values());
    const auto held = tensor.layer ? held_.find(*tensor.layer) : held_.end();
    if (held != held_.end() && tensor.expert_count > 0) stored.shape[0] = held->second;
    return stored.bytes();
  }

  Status CheckTypes() const {
    for (const BudgetGroup& group : groups_) {
      for (const quant::Format* type : group.types) {
        for (const size_t index : group.tensors)
          SHARD_CHECK(CheckImportance(base_.model, At(index), type, "--budget", ""));
      }
    }
    return Ok();
  }

  Status CheckSmallest(uint64_t kept) const {
    uint64_t smallest = kept;
    for (const BudgetGroup& group : groups_) {
      uint64_t least = UINT64_MAX;
      for (const quant::Format* type : group.types)
        least = std::min(least, GroupBytes(group, type));
      smallest += least;
    }
    if (smallest <= options_.bytes) return Ok();
    return Error{Code::kInvalidArgument,
                 Cat("budget: expected at least ", FormatCount(smallest),
                     " bytes for the smallest types, found ", FormatCount(options_.bytes))};
  }

  uint64_t GroupBytes(const BudgetGroup& group, const quant::Format* type) const {
    uint64_t bytes = 0;
    for (const size_t index : group.tensors) bytes += BytesAs(At(index), type);
    return bytes;
  }

  Status Measure() {
    return ParallelFor(groups_.size(), options_.jobs, [&](size_t g) -> Status {
      BudgetGroup& group = groups_[g];
      for (const size_t index : group.tensors) {
        SHARD_CHECK(CheckInterrupt());
        const GgufTensor& tensor = At(index);
        std::vector<const quant::Format*> types;
        for (const quant::Format* type : group.types)
          types.push_back(FallbackFor(type, tensor.row_values()));
        SHARD_TRY(std::vector<double> damage,
                  MeasureDamage(tensor, types,
                                {sources_, SliceWeights(base_, tensor), options_.sample_rows}));
        for (double& each : damage) each *= ShareOf(shares_, tensor);
        group.damages.push_back(std::move(damage));
      }
      return Ok();
    });
  }

  BitChoice ChoiceOf(const BudgetGroup& group, size_t type) const {
    BitChoice choice{GroupBytes(group, group.types[type]), 0};
    for (const std::vector<double>& damages : group.damages) choice.damage += damages[type];
    return choice;
  }

  std::vector<BitItem> Items() const {
    std::vector<BitItem> items;
    for (const BudgetGroup& group : groups_) {
      items.emplace_back();
      for (size_t type = 0; type < group.types.size(); ++type)
        items.back().push_back(ChoiceOf(group, type));
    }
    return items;
  }

  void AddPart(size_t index, size_t type, TypeBudget& budget) const {
    const BudgetGroup& group = groups_[index];
    const BitChoice choice = ChoiceOf(group, type);
    budget.parts.push_back({group.layer, group.part, std::string(group.types[type]->name),
                            choice.bytes, choice.damage});
  }

  // One rule for all layers in which tensors of one kind have one type:
  // ^blk\.(0|3)\.ffn_up_exps\.weight$=q4_K
  void AddRules(const BitPlan& plan, TypeBudget& budget) const {
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> layers;
    for (size_t i = 0; i < groups_.size(); ++i) {
      const std::string type(groups_[i].types[plan.chosen[i]]->name);
      for (const size_t index : groups_[i].tensors) {
        const GgufTensor& tensor = At(index);
        const std::string block = tensor.layer ? Cat("blk.", *tensor.layer, ".") : "";
        const bool in_block = !block.empty() && tensor.name.starts_with(block);
        auto& list = layers[{tensor.name.substr(in_block ? block.size() : 0), type}];
        if (in_block) list.push_back(Cat(*tensor.layer));
      }
    }
    for (const auto& [key, list] : layers) {
      std::string pattern = "^";
      if (!list.empty()) pattern += Cat("blk\\.(", Join(list, "|"), ")\\.");
      budget.tensor_types.push_back(Cat(pattern, Regex::Literal(key.first), "$=", key.second));
    }
  }

  const MoeModel& model_;
  const TypedGguf& base_;
  const TypeBudgetOptions& options_;
  std::vector<BudgetGroup> groups_;
  std::map<uint32_t, uint64_t> held_;
  std::vector<ByteSourcePtr> sources_;
  ResidualShares shares_;
};

}  // namespace

Result<TypeBudget> SpendTypes(const MoeModel& model, const TypedGguf& base,
                              const TypeBudgetOptions& options) {
  return TypeSpending(model, base, options).Spend();
}

}  // namespace moepack
