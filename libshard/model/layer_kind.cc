#include "libshard/model/layer_kind.h"

#include <algorithm>
#include <span>

#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

struct KindWord {
  std::string_view word;
  LayerKind kind;
};

// The first word of a kind is its name.
constexpr KindWord kKindWords[] = {
    {"full_attention", LayerKind::kFull},
    {"attention", LayerKind::kFull},
    {"sliding_attention", LayerKind::kWindow},
    {"chunked_attention", LayerKind::kChunked},
    {"linear_attention", LayerKind::kLinear},
    {"mamba", LayerKind::kMamba},
    {"conv", LayerKind::kConvolution},
    {"moe", LayerKind::kExperts},
    {"mlp", LayerKind::kDense},
};
// Nemotron-H.
constexpr KindWord kBlockKindWords[] = {
    {"M", LayerKind::kMamba},        {"*", LayerKind::kFull},
    {"E", LayerKind::kExperts},      {"-", LayerKind::kDense},
    {"mamba", LayerKind::kMamba},    {"linear_attention", LayerKind::kMamba},
    {"attention", LayerKind::kFull}, {"full_attention", LayerKind::kFull},
    {"moe", LayerKind::kExperts},    {"mlp", LayerKind::kDense},
};
// MiniMax; its 0 is lightning attention.
constexpr KindWord kTypeNumbers[] = {{"1", LayerKind::kFull}};
// MiMo-V2.
constexpr KindWord kWindowNumbers[] = {{"0", LayerKind::kFull}, {"1", LayerKind::kWindow}};

// A list with an entry per layer, and what its entries mean.
struct KindList {
  ConfigKeys keys;
  std::span<const KindWord> words;
  bool letters = false;
  bool alone = false;  // what lists after it say does not count
};
// DeepSeek-V4's ratios of compression only tell its layers apart.
constexpr KindList kKindLists[] = {{fields::kBlockKinds, kBlockKindWords, true, true},
                                   {fields::kLayerTypes, kKindWords},
                                   {fields::kAttentionTypes, kTypeNumbers},
                                   {fields::kWindowPattern, kWindowNumbers},
                                   {fields::kCompressRatios, {}}};

LayerKind KindOfWord(std::span<const KindWord> words, std::string_view word) {
  const auto found = std::find_if(words.begin(), words.end(),
                                  [&](const KindWord& row) { return row.word == word; });
  return found == words.end() ? LayerKind::kOther : found->kind;
}

// Notes what one more list says about a layer.
void AddKind(const KindList& list, const std::string& word, NamedKind& layer) {
  const LayerKind kind = KindOfWord(list.words, word);
  const bool first = layer.kind == LayerKind::kUnnamed;
  layer.kind = first || layer.kind == kind ? kind : LayerKind::kOther;
  layer.words += (first ? "" : " ") + word;
}

// Every interval-th layer of Qwen's hybrid models has full attention.
Status FollowInterval(const HfConfig& config, size_t layers, LayerKinds& out,
                      ConfigFaults& faults) {
  SHARD_TRY(const auto interval, ReadLayerStep(config, fields::kFullInterval, faults));
  if (!interval || config.Has(fields::kLayerTypes) || !out.field.empty()) return Ok();
  out.field = config.Find(fields::kFullInterval)->path;
  for (size_t layer = 0; layer < layers; ++layer) {
    const bool full = (layer + 1) % *interval == 0;
    NamedKind& named = out.layers[layer];
    named.kind = full ? LayerKind::kFull : LayerKind::kLinear;
    named.words = LayerKindName(named.kind);
  }
  return Ok();
}

// One layer of each of Jamba's periods has attention. These layers have no words of their own.
Status FollowPeriod(const HfConfig& config, size_t layers, LayerKinds& out, ConfigFaults& faults) {
  SHARD_TRY(const auto period, ReadLayerStep(config, fields::kAttentionPeriod, faults));
  SHARD_TRY(const auto offset, config.FindU32(fields::kAttentionOffset));
  if (!period || !out.field.empty()) return Ok();
  out.field = config.Find(fields::kAttentionPeriod)->path;
  for (size_t layer = 0; layer < layers; ++layer) {
    const bool full = layer % *period == offset.value_or(0);
    out.layers[layer].kind = full ? LayerKind::kFull : LayerKind::kMamba;
  }
  return Ok();
}

}  // namespace

std::string_view LayerKindName(LayerKind kind) {
  const auto found = std::find_if(std::begin(kKindWords), std::end(kKindWords),
                                  [&](const KindWord& row) { return row.kind == kind; });
  return found == std::end(kKindWords) ? "another kind" : found->word;
}

LayerKind KindOfBlock(std::string_view word) { return KindOfWord(kBlockKindWords, word); }

Result<LayerKinds> ReadLayerKinds(const HfConfig& config, const BlockCounts& counts,
                                  ConfigFaults& faults) {
  LayerKinds out;
  out.layers.resize(counts.layers);
  for (const KindList& list : kKindLists) {
    const std::optional<LayerList> read =
        ReadLayerList(config, list.keys, counts, faults, list.letters);
    if (!read) continue;
    if (out.field.empty()) out.field = read->field;
    out.layers.resize(std::max(out.layers.size(), read->entries.size()));
    for (size_t i = 0; i < read->entries.size(); ++i)
      AddKind(list, read->entries[i], out.layers[i]);
    if (list.alone) break;
  }
  SHARD_CHECK(FollowInterval(config, counts.layers, out, faults));
  SHARD_CHECK(FollowPeriod(config, counts.layers, out, faults));
  return out;
}

}  // namespace moepack
