#include "libshard/model/config_layers.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <span>

#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

constexpr size_t kMaxEntryLength = 64;

std::string EntryText(const Json& entry) {
  const std::string text = entry.is_string() ? entry.get<std::string>() : entry.dump();
  return std::string(WholeCharacters(text, kMaxEntryLength));
}

}  // namespace

void AddFault(ConfigFaults& faults, ConfigFault fault) {
  if (std::find(faults.begin(), faults.end(), fault) == faults.end()) {
    faults.push_back(std::move(fault));
  }
}

Status CheckFaults(const HfConfig& config, const ConfigFaults& faults) {
  if (faults.empty()) return Ok();
  const ConfigFault& first = faults.front();
  return Error{Code::kCorrupt, Cat(config.where(), ": ", first.field, ": expected ", first.expected,
                                   ", found ", first.found)};
}

std::optional<LayerList> ReadLayerList(const HfConfig& config, ConfigKeys keys,
                                       const BlockCounts& counts, ConfigFaults& faults,
                                       bool letters) {
  const std::optional<HfConfig::Field> field = config.Find(keys);
  if (!field) return std::nullopt;
  const Json& value = *field->value;
  LayerList list{field->path, {}};
  if (value.is_array()) {
    for (const Json& entry : value) {
      if (!entry.is_primitive() || entry.is_null()) {
        AddFault(faults, {Cat(field->path, "[", list.entries.size(), "]"), "a word or a number",
                          DescribeJson(entry)});
        return std::nullopt;
      }
      list.entries.push_back(EntryText(entry));
    }
  } else if (value.is_string() && letters) {
    for (const char letter : value.get_ref<const std::string&>()) {
      list.entries.emplace_back(1, letter);
    }
  } else {
    if (!value.is_number()) {
      AddFault(faults, {field->path, Cat("a list with one entry per layer (", counts.layers, ")"),
                        DescribeJson(value)});
    }
    return std::nullopt;
  }
  const size_t found = list.entries.size();
  if (found == counts.layers || found == counts.layers + counts.mtp) return list;
  AddFault(faults, {field->path, Cat("one entry per layer (", counts.layers, ")"), Cat(found)});
  return std::nullopt;
}

Result<std::optional<uint32_t>> ReadLayerStep(const HfConfig& config, ConfigKeys keys,
                                              ConfigFaults& faults) {
  SHARD_TRY(const std::optional<uint32_t> step, config.FindU32(keys));
  if (step != 0u) return step;
  AddFault(faults, {config.Find(keys)->path, "at least 1", "0"});
  return std::optional<uint32_t>();
}

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
// MiMo-V2, SmallThinker.
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

void NameKind(bool full, NamedKind& named) {
  named.kind = full ? LayerKind::kFull : LayerKind::kLinear;
  named.words = LayerKindName(named.kind);
}

// Every interval-th layer of Qwen's hybrid models has full attention.
Status FollowInterval(const HfConfig& config, size_t layers, LayerKinds& out,
                      ConfigFaults& faults) {
  SHARD_TRY(const auto interval, ReadLayerStep(config, fields::kFullInterval, faults));
  if (!interval || config.Has(fields::kLayerTypes) || !out.field.empty()) return Ok();
  out.field = config.Find(fields::kFullInterval)->path;
  for (size_t layer = 0; layer < layers; ++layer) {
    NameKind((layer + 1) % *interval == 0, out.layers[layer]);
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

// Ling: the last layer of each group has latent attention, and so have the layers after the last
// whole group.
Status FollowGroups(const HfConfig& config, size_t layers, LayerKinds& out, ConfigFaults& faults) {
  SHARD_TRY(const auto group, ReadLayerStep(config, fields::kLayerGroup, faults));
  if (!group || !out.field.empty()) return Ok();
  out.field = config.Find(fields::kLayerGroup)->path;
  const size_t grouped = layers / *group * *group;
  for (size_t layer = 0; layer < layers; ++layer)
    NameKind(layer >= grouped || (layer + 1) % *group == 0, out.layers[layer]);
  return Ok();
}

// Kimi: two lists of layer numbers, which together name every layer once.
Status FollowNumbers(const HfConfig& config, size_t layers, LayerKinds& out, ConfigFaults& faults) {
  if (!config.Has(fields::kLinearSettings) || !out.field.empty()) return Ok();
  SHARD_TRY(const HfConfig inner, config.Within(*fields::kLinearSettings.begin()));
  for (const ConfigKeys keys : {fields::kFullNumbers, fields::kLinearNumbers}) {
    if (!inner.Has(keys)) return Ok();
    const std::string path = inner.Find(keys)->path;
    SHARD_TRY(const std::vector<uint32_t> numbers, inner.FindU32s(keys));
    for (const uint32_t number : numbers) {
      const bool there = number > 0 && number <= layers;
      if (there && out.layers[number - 1].kind == LayerKind::kUnnamed) {
        NameKind(*keys.begin() == *fields::kFullNumbers.begin(), out.layers[number - 1]);
        continue;
      }
      AddFault(faults, {path, Cat("numbers from 1 to ", layers, ", each in one list"),
                        Cat(number, there ? " twice" : "")});
    }
    out.field = path;
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
  SHARD_CHECK(FollowGroups(config, counts.layers, out, faults));
  SHARD_CHECK(FollowNumbers(config, counts.layers, out, faults));
  return out;
}

std::vector<bool> ReadIndexers(const HfConfig& config, const BlockCounts& counts,
                               ConfigFaults& faults) {
  const std::optional<LayerList> list = ReadLayerList(config, {"indexer_types"}, counts, faults);
  std::vector<bool> own;
  for (size_t layer = 0; list && layer < list->entries.size(); ++layer) {
    const std::string& word = list->entries[layer];
    own.push_back(word == "full");
    if (own.back() || (word == "shared" && layer > 0)) continue;
    AddFault(faults, {Cat(list->field, "[", layer, "]"),
                      layer == 0 ? "full, since no layer comes before it" : "full or shared",
                      word.empty() ? "no word" : word});
    return {};
  }
  return own;
}

namespace {

class MoeLayerReader {
 public:
  MoeLayerReader(const HfConfig& config, const BlockCounts& counts, ConfigFaults& faults)
      : config_(config), counts_(counts), faults_(faults) {}

  // The first field that the config has decides.
  Result<MoeLayers> Read() {
    for (const auto read :
         {&MoeLayerReader::ReadTypes, &MoeLayerReader::ReadBlocks, &MoeLayerReader::ReadFlags,
          &MoeLayerReader::ReadNumbers, &MoeLayerReader::ReadText, &MoeLayerReader::ReadInterleaved,
          &MoeLayerReader::ReadPeriod, &MoeLayerReader::ReadRange,
          &MoeLayerReader::ReadLeadingDense, &MoeLayerReader::ReadSparseStep}) {
      SHARD_TRY(const bool done, (this->*read)());
      if (done) break;
    }
    return std::move(out_);
  }

 private:
  Result<std::optional<uint32_t>> Step(ConfigKeys keys) {
    return ReadLayerStep(config_, keys, faults_);
  }

  template <class Rule>
  void Set(ConfigKeys keys, Rule rule) {
    const std::optional<HfConfig::Field> field = config_.Find(keys);
    out_.key = field ? field->path.substr(field->path.rfind('.') + 1) : *keys.begin();
    for (size_t layer = 0; layer < counts_.layers; ++layer) out_.moe.push_back(rule(layer));
  }

  void SetNumbers(ConfigKeys keys, const std::set<uint64_t>& numbers) {
    CheckNumbers(keys, numbers);
    Set(keys, [&](size_t layer) { return numbers.contains(layer); });
  }

  void CheckNumbers(ConfigKeys keys, const std::set<uint64_t>& numbers) {
    if (numbers.empty() || *numbers.rbegin() < counts_.layers + counts_.mtp) return;
    const std::optional<HfConfig::Field> field = config_.Find(keys);
    AddFault(faults_, {field ? field->path : *keys.begin(),
                       Cat("numbers of layers below ", counts_.layers), Cat(*numbers.rbegin())});
  }

  // Reads a list with an entry per layer, of which one stands for layers with experts.
  bool ReadList(ConfigKeys keys, std::string_view moe) {
    const auto list = ReadLayerList(config_, keys, counts_, faults_);
    if (!list) return false;
    Set(keys, [&](size_t layer) { return list->entries[layer] == moe; });
    return true;
  }

  Result<bool> ReadTypes() { return ReadList(fields::kMlpTypes, "sparse"); }
  Result<bool> ReadFlags() {
    return ReadList(fields::kMoeFrequency, "1") || ReadList({"is_moe_layer"}, "true");
  }

  // Nemotron-H: experts are layers of their own.
  Result<bool> ReadBlocks() {
    const auto list =
        ReadLayerList(config_, fields::kBlockKinds, counts_, faults_, /*letters=*/true);
    if (!list) return false;
    out_.mixers = true;
    Set(fields::kBlockKinds,
        [&](size_t layer) { return KindOfBlock(list->entries[layer]) == LayerKind::kExperts; });
    return true;
  }

  // Llama-4: the numbers of the layers with experts.
  Result<bool> ReadNumbers() {
    const std::optional<HfConfig::Field> field = config_.Find(fields::kMoeNumbers);
    if (!field || !field->value->is_array()) return false;
    SHARD_TRY(const std::vector<uint32_t> numbers, config_.FindU32s(fields::kMoeNumbers));
    SetNumbers(fields::kMoeNumbers, {numbers.begin(), numbers.end()});
    return true;
  }

  // Step: the same as text, "3,4,5".
  Result<bool> ReadText() {
    SHARD_TRY(const auto text, config_.FindString(fields::kMoeNumbersText));
    if (!text) return false;
    std::set<uint64_t> numbers;
    for (const std::string& number : Split(*text, ',')) {
      numbers.insert(ParseUint(number).value_or(UINT64_MAX));
    }
    SetNumbers(fields::kMoeNumbersText, numbers);
    return true;
  }

  // Llama-4 and Arctic: the last layer of each run of this many has experts.
  Result<bool> ReadInterleaved() {
    SHARD_TRY(const auto step, Step(fields::kInterleaved));
    if (!step) return false;
    Set(fields::kInterleaved, [&](size_t layer) { return (layer + 1) % *step == 0; });
    return true;
  }

  // Jamba: one layer of each period has experts.
  Result<bool> ReadPeriod() {
    SHARD_TRY(const auto period, Step(fields::kMoePeriod));
    SHARD_TRY(const auto offset, config_.FindU32(fields::kMoeOffset));
    if (!period || !offset) return false;
    Set(fields::kMoePeriod, [&](size_t layer) { return layer % *period == *offset; });
    return true;
  }

  // ERNIE: a range of layers; an end of -1 means the last layer.
  Result<bool> ReadRange() {
    SHARD_TRY(const auto start, config_.FindU32(fields::kMoeStart));
    if (!start) return false;
    SHARD_TRY(const auto interval, Step(fields::kMoeInterval));
    const auto end = config_.Find(fields::kMoeEnd);
    const bool open = !end || (end->value->is_number_integer() && *end->value == -1);
    uint64_t last = UINT64_MAX;
    if (!open) {
      SHARD_TRY(const auto number, config_.FindU32(fields::kMoeEnd));
      last = *number;
    }
    const bool ends = last < counts_.layers && last + 1 < counts_.layers;
    Set(ends ? fields::kMoeEnd : fields::kMoeStart, [&](size_t layer) {
      return layer >= *start && layer <= last && (layer + 1) % interval.value_or(1) == 0;
    });
    return true;
  }

  // DeepSeek and all that adopted its config: the first layers are dense. LFM2 and Hunyuan use
  // other field names.
  Result<bool> ReadLeadingDense() {
    SHARD_TRY(const auto dense, config_.FindU32(fields::kLeadingDense));
    if (!dense) return false;
    if (*dense > counts_.layers) {
      AddFault(faults_, {config_.Find(fields::kLeadingDense)->path, Cat("at most ", counts_.layers),
                         Cat(*dense)});
    }
    const auto field = config_.Find(fields::kMoeFrequency);
    std::optional<uint32_t> step;
    if (field && !field->value->is_array()) {
      SHARD_TRY(step, Step(fields::kMoeFrequency));
    }
    Set(fields::kLeadingDense,
        [&](size_t layer) { return layer >= *dense && layer % step.value_or(1) == 0; });
    return true;
  }

  // The Qwen models: every n-th layer has experts, except for listed ones.
  Result<bool> ReadSparseStep() {
    if (!config_.Has(fields::kSparseStep) && !config_.Has(fields::kDenseNumbers)) return false;
    SHARD_TRY(const auto step, Step(fields::kSparseStep));
    SHARD_TRY(const std::vector<uint32_t> listed, config_.FindU32s(fields::kDenseNumbers));
    const std::set<uint64_t> dense(listed.begin(), listed.end());
    CheckNumbers(fields::kDenseNumbers, dense);
    Set(dense.empty() ? fields::kSparseStep : fields::kDenseNumbers, [&](size_t layer) {
      return !dense.contains(layer) && (layer + 1) % step.value_or(1) == 0;
    });
    return true;
  }

  const HfConfig& config_;
  const BlockCounts& counts_;
  ConfigFaults& faults_;
  MoeLayers out_;
};

}  // namespace

Result<MoeLayers> ReadMoeLayers(const HfConfig& config, const BlockCounts& counts,
                                ConfigFaults& faults) {
  return MoeLayerReader(config, counts, faults).Read();
}

}  // namespace moepack
