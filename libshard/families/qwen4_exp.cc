// Qwen3.8-Flash-Next: linear attention and experts as in Qwen3.5, but hyper-connections (several
// residual streams) in place of all layer norms, an indexer beside full attention, and in one layer
// an embedding of n-grams (PLE), whose table is stored in pieces. Names: a census of the released
// files, llama.cpp's converter.
#include <algorithm>
#include <set>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/families/families.h"
#include "libshard/families/mixed_layers.h"
#include "libshard/families/name_rows.h"
#include "libshard/families/qwen_rows.h"
#include "libshard/model/layer_fields.h"

namespace moepack::qwen4_exp {
namespace {

constexpr const char* kGraph = "qwen4exp";  // general.architecture
constexpr const char* kTable = "per_layer_token_embd.weight";
constexpr const char* kHash = "layers.{L}.ple.ple_embedding.";

constexpr uint32_t kMostPieces = 1u << 16;
constexpr uint64_t kMostConstants = 1024;

// Constants of the hash that the GGUF has as keys.
struct Constants {
  const char* source;
  const char* key;
};
constexpr Constants kConstants[] = {{"layer_multipliers", "ple.layer_multipliers"},
                                    {"ngram_heads_offsets", "ple.head_offsets"},
                                    {"ngram_heads_vocab_sizes", "ple.head_vocab_sizes"}};

Family Table() {
  Family family;
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.all_moe = true, .gated_queries = true};
  AddTrunk(family, "embedding", {"embed_tokens.{W}"});
  AddTrunk(family, "head", {"lm_head.{W}"});
  AddTrunk(family, "residual", {"hyper_connection_mixer.{**}"});
  AddQwenMtp(family);
  AddTrunk(family, "mtp",
           {"mtp.fc_embedding.{W}", "mtp.fc_hidden.{W}", "mtp.hyper_connection_mixer.{**}"});
  for (const std::string at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddTrunk(family, "residual",
             {at + "attn_hyper_connection.{**}", at + "mlp_hyper_connection.{**}"});
    AddTrunk(family, "attention", {at + "self_attn.{**}"});
    AddQwenMoe(family, at);
  }
  AddTrunk(family, "attention", {"layers.{L}.linear_attn.{**}"});
  AddTrunk(family, "layer_embedding", {"layers.{L}.ple.{**}"});
  AddTowers(family);
  family.promise = {.packed = true};
  return family;
}

// The layer that has the embedding of n-grams, counted from 0; none without one.
Result<std::optional<uint32_t>> EmbeddingLayer(const HfConfig& config, const HfShape& shape) {
  const ConfigKeys field = {"ple_layer_ids"};
  SHARD_TRY(const std::vector<uint32_t> ids, config.FindU32s(field));
  if (ids.empty()) return std::optional<uint32_t>();
  if (ids.size() > 1)
    return CannotHold(config, Cat("ple_layer_ids: expected one layer, the only number that the ",
                                  "runtime has, found ", ids.size()));
  if (ids[0] == 0 || ids[0] > shape.layers)
    return config.Wrong(*config.Find(field), Cat("a layer from 1 to ", shape.layers));
  return std::optional(ids[0] - 1);
}

Status AddEmbeddingKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(const std::optional<uint32_t> layer, EmbeddingLayer(config, shape));
  if (!layer) return Ok();
  const ConfigKeys end = {"eos_token_id"};
  SHARD_TRY(const uint32_t size, config.U32({"ngram_size"}));
  SHARD_TRY(const uint32_t heads, config.U32({"heads_per_ngram"}));
  SHARD_TRY(const uint32_t kernel, config.U32({"ple_conv_kernel_size"}));
  SHARD_TRY(const std::vector<uint32_t> ends, config.FindU32s(end));
  SHARD_TRY(const std::optional<uint32_t> image, config.FindU32({"image_token_id"}));
  if (ends.empty()) return config.Missing(end, "the token that ends n-grams");
  const int32_t layers[] = {static_cast<int32_t>(*layer)};
  keys.I32s("ple.layers", layers);
  keys.U32("ple.ngram_size", size);
  keys.U32("ple.heads_per_ngram", heads);
  keys.U32("ple.conv_kernel", kernel);
  keys.U32("ple.eos_token_id", ends.back());
  if (image) keys.U32("ple.image_token_id", *image);
  return Ok();
}

Status AddKeys(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_CHECK(AddQwenHybridKeys(config, shape, keys));
  SHARD_CHECK(CheckWord(config, {"output_gate_type"}, {"sigmoid"}));
  const std::pair<const char*, const char*> rows[] = {
      {"hc_count", "hyper_connection.count"},
      {"hc_lowrank", "hyper_connection.low_rank"},
      {"indexer_n_heads", "attention.indexer.head_count"},
      {"indexer_head_dim", "attention.indexer.key_length"},
      {"indexer_budget", "attention.indexer.top_k"}};
  for (const auto& [field, key] : rows) {
    SHARD_TRY(const uint32_t number, config.U32({field}));
    keys.U32(key, number);
  }
  SHARD_TRY(const uint32_t ratio, config.U32({"indexer_compress_ratio"}));
  SHARD_TRY(
      const std::vector<LayerKind> kinds,
      ReadBlockKinds(config, shape, fields::kLayerTypes, {LayerKind::kLinear, LayerKind::kFull}));
  std::vector<int32_t> ratios;
  for (const LayerKind kind : kinds)
    ratios.push_back(kind == LayerKind::kFull ? static_cast<int32_t>(ratio) : 0);
  keys.I32s("attention.compress_ratios", ratios);
  return AddEmbeddingKeys(config, shape, keys);
}

Status ReadHeads(const HfConfig& config, HeadShape& shape) {
  SHARD_CHECK(ReadQwenHybridHeads(config, shape));
  SHARD_TRY(shape.index_heads, config.U32({"indexer_n_heads"}));
  SHARD_TRY(shape.index_size, config.U32({"indexer_head_dim"}));
  return Ok();
}

Result<std::vector<uint64_t>> ReadConstants(const MoeModel& model, const TensorEntry& entry) {
  const SourceFile& file = model.checkpoint().files()[entry.file];
  const auto wrong = [&](const std::string& expected, const std::string& found) {
    return Error{Code::kCorrupt, Cat(file.path.string(), ": tensor ", Quoted(entry.name),
                                     ": expected ", expected, ", found ", found)};
  };
  if (entry.dtype != "I64" || entry.shape.size() != 1 || entry.shape[0] > kMostConstants)
    return wrong(Cat("a list of I64, at most ", kMostConstants),
                 Cat(entry.dtype, " of shape ", FormatShape(entry.shape)));
  SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(file));
  std::vector<std::byte> bytes(entry.bytes);
  SHARD_CHECK(source->ReadAt(entry.offset, bytes));
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < entry.shape[0]; ++i) {
    const auto number = LoadLe<int64_t>(std::span(bytes).subspan(i * sizeof(int64_t)));
    if (number < 0) return wrong("no negative number", Cat(number));
    numbers.push_back(static_cast<uint64_t>(number));
  }
  return numbers;
}

// The runtime reads rows of the table at offset + hash % size.
Status CheckTable(const HfConfig& config, const GgufTensor& table,
                  const std::vector<std::vector<uint64_t>>& constants) {
  const auto& [multipliers, offsets, sizes] = std::tie(constants[0], constants[1], constants[2]);
  SHARD_TRY(const uint32_t ngram, config.U32({"ngram_size"}));
  SHARD_TRY(const uint32_t per_ngram, config.U32({"heads_per_ngram"}));
  const uint64_t heads = ngram < 2 ? 0 : uint64_t{ngram - 1} * per_ngram;
  const auto wrong = [&](const char* what, const std::string& expected, uint64_t found) {
    return Error{Code::kCorrupt,
                 Cat(config.where(), ": ", what, ": expected ", expected, ", found ", found)};
  };
  if (multipliers.size() != ngram || heads == 0)
    return wrong("ngram_size", Cat(multipliers.size(), " as layer_multipliers, at least 2"), ngram);
  for (const auto* list : {&offsets, &sizes}) {
    if (list->size() != heads)
      return wrong("heads of n-grams", Cat(heads, " offsets and sizes"), list->size());
  }
  for (size_t i = 0; i < heads; ++i) {
    const uint64_t rows = table.shape[0];
    if (sizes[i] > 0 && offsets[i] <= rows && sizes[i] <= rows - offsets[i]) continue;
    return wrong("rows of the n-gram table",
                 Cat("those from ", offsets[i], " on of head ", i, ", which has ", sizes[i]), rows);
  }
  return Ok();
}

Status AddTensorKeys(const MoeModel& model, const HfConfig& config,
                     const std::vector<GgufTensor>& tensors, ArchKeys& keys) {
  const auto table = std::find_if(tensors.begin(), tensors.end(),
                                  [](const GgufTensor& one) { return one.name == kTable; });
  if (table == tensors.end()) return Ok();
  std::vector<std::vector<uint64_t>> constants;
  for (const Constants& row : kConstants) {
    const std::string end = Cat(".ple.ple_embedding.", row.source);
    const auto found =
        std::find_if(model.tensors().begin(), model.tensors().end(),
                     [&](const ModelTensor& one) { return model.entry(one).name.ends_with(end); });
    if (found == model.tensors().end())
      return Error{
          Code::kCorrupt,
          Cat(model.checkpoint().source().string(), ": ", keys.architecture(), ".", row.key,
              ": expected a source tensor that ends in ", Quoted(end), ", found none")};
    SHARD_TRY(std::vector<uint64_t> numbers, ReadConstants(model, model.entry(*found)));
    constants.push_back(std::move(numbers));
  }
  SHARD_CHECK(CheckTable(config, *table, constants));
  keys.U32("embedding_length_per_layer_input", static_cast<uint32_t>(table->row_values()));
  for (size_t i = 0; i < std::size(kConstants); ++i) keys.U64s(kConstants[i].key, constants[i]);
  return Ok();
}

// Suffixes of the tensors of a layer with full attention, and of the one with the embedding of
// n-grams, that other layers lack.
constexpr const char* kIndexerNames[] = {"indexer.q_proj", "indexer.k_proj", "indexer.q_norm",
                                         "indexer.k_norm"};
constexpr const char* kEmbeddingNames[] = {"ple_key",        "ple_value",     "ple_norm_key",
                                           "ple_norm_query", "ple_norm_conv", "ple_conv1d"};

Status CheckTensors(const HfConfig& config, const HfShape& shape,
                    const std::vector<GgufTensor>& tensors) {
  SHARD_CHECK(CheckQwenHybridBlocks(config, shape, tensors));
  SHARD_TRY(const std::optional<uint32_t> embedding, EmbeddingLayer(config, shape));
  SHARD_TRY(
      const std::vector<LayerKind> kinds,
      ReadBlockKinds(config, shape, fields::kLayerTypes, {LayerKind::kLinear, LayerKind::kFull}));
  std::set<std::string_view> names;
  for (const GgufTensor& tensor : tensors) names.insert(tensor.name);
  const auto check = [&](uint32_t layer, const char* part, bool expected) -> Status {
    const std::string name = Cat("blk.", layer, ".", part, ".weight");
    if (names.contains(name) == expected) return Ok();
    return Error{Code::kCorrupt,
                 Cat(config.where(), ": layer ", layer, ": expected ", expected ? "" : "no ", name,
                     " as the config has it, found ", expected ? "none" : "one")};
  };
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (const char* part : kIndexerNames)
      SHARD_CHECK(check(layer, part, kinds[layer] == LayerKind::kFull));
    for (const char* part : kEmbeddingNames) SHARD_CHECK(check(layer, part, embedding == layer));
  }
  if (!embedding || kinds[*embedding] == LayerKind::kLinear) return Ok();
  return CannotHold(config,
                    Cat("ple_layer_ids: expected a layer with linear attention, whose cache ",
                        "the runtime uses, found ", *embedding + 1));
}

void AddNormRow(HfFamily& family, const std::string& source, const std::string& target,
                bool optional) {
  family.rows.push_back(
      {source + ".weight", target + ".weight", RowOrder::kAsIs, optional, ValueRule::kPlusOne});
}

// A residual stream's mixing before a part of a layer, or at the end, where nothing is injected.
void AddStreamRows(HfFamily& family, const std::string& from, const std::string& to) {
  AddNormRow(family, from + ".hc_norm", to + "_norm", /*optional=*/false);
  for (const char* part : {"down", "up"})
    family.rows.push_back(
        {Cat(from, ".input_mix_weight_", part, ".weight"), Cat(to, "_", part, ".weight")});
}

void AddIndexerRows(HfFamily& family) {
  const std::string from = "layers.{L}.self_attn.indexer.", to = "blk.{L}.indexer.";
  const std::string joined = from + "index_qk_proj.weight";
  family.rows.push_back({joined, to + "q_proj.weight", RowOrder::kIndexQuery, /*optional=*/true});
  family.rows.push_back({joined, to + "k_proj.weight", RowOrder::kIndexKey, /*optional=*/true});
  for (const char* part : {"q", "k"})
    AddNormRow(family, Cat(from, part, "_layernorm"), Cat(to, part, "_norm"), /*optional=*/true);
}

void AddEmbeddingRows(HfFamily& family, uint32_t pieces) {
  const std::string from = "layers.{L}.ple.", to = "blk.{L}.ple_";
  AddOptionalRow(family, from + "key_proj.weight", to + "key.weight");
  AddOptionalRow(family, from + "value_proj.weight", to + "value.weight");
  for (const char* part : {"norm_key", "norm_query", "norm_conv"})
    AddNormRow(family, from + part, to + part, /*optional=*/true);
  AddOptionalRow(family, from + "conv1d.weight", to + "conv1d.weight");
  family.rows.back().rule = ValueRule::kSqueeze;
  for (uint32_t piece = 0; piece < pieces; ++piece) {
    family.rows.push_back({.source = Cat(kHash, "ngram_embedding.shard_", piece, ".weight"),
                           .target = kTable,
                           .piece = piece});
  }
  for (const Constants& row : kConstants)
    family.rows.push_back({.source = Cat(kHash, row.source), .target = row.key, .key = true});
}

// How many pieces the table of n-grams has.
Result<uint32_t> PiecesOf(const MoeModel& model) {
  SHARD_TRY(const HfConfig config,
            HfConfig::Parse(model.config_path().string(), model.config_text()));
  SHARD_TRY(const std::vector<uint32_t> layers, config.FindU32s({"ple_layer_ids"}));
  if (layers.empty()) return 0u;
  const ConfigKeys field = {"split_ngram_parts"};
  SHARD_TRY(const uint32_t pieces, config.U32(field));
  if (pieces > 0 && pieces <= kMostPieces) return pieces;
  return config.Wrong(*config.Find(field), Cat("a number from 1 to ", kMostPieces));
}

Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options) {
  SHARD_TRY(const uint32_t pieces, PiecesOf(model));
  HfFamily family;
  family.architecture = kGraph;
  family.pre = "qwen35";
  family.heads = ReadHeads;
  family.keys = AddKeys;
  family.tensor_keys = AddTensorKeys;
  family.check = CheckTensors;
  const std::string at = "layers.{L}.", to = "blk.{L}.";
  family.rows.push_back({"embed_tokens.weight", "token_embd.weight"});
  family.rows.push_back({"lm_head.weight", "output.weight"});
  AddStreamRows(family, "hyper_connection_mixer", "output_hc");
  for (const auto& [from, part] : {std::pair("attn", "attn"), std::pair("mlp", "ffn")}) {
    const std::string module = Cat(at, from, "_hyper_connection"), stream = Cat(to, "hc_", part);
    AddStreamRows(family, module, stream);
    family.rows.push_back({module + ".block_inject_weight.weight", stream + "_inject.weight"});
  }
  AddQwenAttentionRows(family, at);
  AddIndexerRows(family);
  AddQwenTiledRows(family);
  AddQwenMoeRows(family, at);
  AddEmbeddingRows(family, pieces);
  return ConvertHf(model, family, options);
}

constexpr std::string_view kArchitectures[] = {"Qwen4ExpForConditionalGeneration",
                                               "Qwen4ExpForCausalLM"};
constexpr std::string_view kModelTypes[] = {"qwen4_exp", "qwen4_exp_text"};

constexpr ConfigDefault kDefaults[] = {
    {kQwenHybrid},
};

constexpr GgufArchitecture kGraphs[] = {
    {.name = kGraph, .routing = kSoftmaxNormalized, .derives_width = true, .full_interval = 4},
};

void FillIndexer(SpecKeys& keys, ModelSpec& spec) {
  const std::vector<uint32_t> ratios = keys.PerLayer("attention.compress_ratios", spec.layers, 0);
  BlockShape& blocks = spec.blocks;
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.layer[layer].recurrent || ratios[layer] == 0) continue;
    if (blocks.block != 0 && blocks.block != ratios[layer])
      keys.Decline("indexers whose blocks differ by layer do not run in the runtime shim");
    blocks.block = ratios[layer];
    spec.layer[layer].picks_blocks = true;
  }
  if (blocks.block == 0)
    return keys.Decline("attention without indexers does not run in the runtime shim");
  const uint32_t keys_seen = keys.Required("attention.indexer.top_k");
  if (keys_seen % blocks.block != 0)
    keys.Decline(Cat("an indexer that picks ", keys_seen, " keys in blocks of ", blocks.block,
                     " does not run in the runtime shim"));
  blocks.heads = keys.Required("attention.indexer.head_count");
  blocks.width = keys.Required("attention.indexer.key_length");
  blocks.picked = keys_seen / blocks.block;
  blocks.pooled = true;
  if (keys.status() && spec.rope.dims > blocks.width)
    keys.Refuse("rope.dimension_count", Cat("at most ", blocks.width, ", as the indexer has"),
                Cat(spec.rope.dims));
}

// The hash's numbers of the part of the table; the table itself is read later.
void FillNgrams(SpecKeys& keys, ModelSpec& spec) {
  if (!keys.Has("ple.layers")) return;
  const std::vector<uint64_t> layers = keys.Uints("ple.layers", 0);
  if (layers.empty()) return;
  if (layers.size() > 1 || layers[0] >= spec.layers || !spec.layer[layers[0]].recurrent)
    return keys.Refuse("ple.layers", "one layer with linear attention",
                       layers.size() > 1 ? Cat(layers.size()) : Cat("layer ", layers[0]));
  NgramShape& ngrams = spec.ngrams;
  ngrams.size = keys.Required("ple.ngram_size");
  ngrams.heads = keys.Required("ple.heads_per_ngram");
  ngrams.width = keys.Required("embedding_length_per_layer_input");
  ngrams.kernel = keys.Required("ple.conv_kernel");
  ngrams.end = keys.Uint("ple.eos_token_id", 0);
  ngrams.channels = spec.hidden_width();
  constexpr uint32_t kMostNumbers = 1024;  // of each, as in the conversion
  if (ngrams.size < 2 || ngrams.size > kMostNumbers)
    return keys.Refuse("ple.ngram_size", Cat("a number from 2 to ", kMostNumbers),
                       Cat(ngrams.size));
  if (ngrams.heads > kMostNumbers || ngrams.picks() > kMostNumbers)
    return keys.Refuse("ple.heads_per_ngram", Cat("at most ", kMostNumbers, " in all"),
                       Cat(ngrams.heads));
  if (ngrams.kernel > kMostNumbers)
    return keys.Refuse("ple.conv_kernel", Cat("at most ", kMostNumbers), Cat(ngrams.kernel));
  ngrams.multipliers = keys.Uints("ple.layer_multipliers", ngrams.size);
  ngrams.offsets = keys.Uints("ple.head_offsets", ngrams.picks());
  ngrams.rows = keys.Uints("ple.head_vocab_sizes", ngrams.picks());
  spec.layer[layers[0]].embeds_ngrams = true;
}

void Fill(SpecKeys& keys, ModelSpec& spec) {
  FillQwenHybrid(keys, spec);
  spec.delta.tiled = spec.delta.sigmoid_gate = true;
  constexpr uint32_t kMostStreams = 64;
  spec.streams.count = keys.Required("hyper_connection.count");
  spec.streams.low_rank = keys.Required("hyper_connection.low_rank");
  if (spec.streams.count > kMostStreams)
    keys.Refuse("hyper_connection.count", Cat("at most ", kMostStreams), Cat(spec.streams.count));
  if (!keys.status()) return;
  FillIndexer(keys, spec);
  FillNgrams(keys, spec);
}

constexpr RuntimeFamily kRuns[] = {
    {kGraph, "Qwen3.8-Flash-Next", Fill},
};

}  // namespace

constinit const FamilyEntry kFamily = {
    .names = {"qwen4-exp", kArchitectures, kModelTypes},
    .table = Table,
    .defaults = kDefaults,
    .graphs = kGraphs,
    .architecture = kGraph,
    .convert = Convert,
    .runs = kRuns,
};

}  // namespace moepack::qwen4_exp
