// Finds out which layers have experts and which kind of attention each has. Configs say this in
// many ways: by a list with an entry per layer, a list of layer numbers, or a number from which
// each layer's kind follows.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// Lists with one entry per layer whose entries name kinds of attention (and of whole layers).
constexpr ConfigKeys kAttentionLists[] = {fields::kLayerTypes, fields::kBlockKinds,
                                          fields::kAttentionTypes, fields::kWindowPattern,
                                          fields::kCompressRatios};
constexpr size_t kMaxKindLength = 64;

// A list with an entry per layer in which a word, letter or number stands for layers with experts.
struct MoeList {
  ConfigKeys keys;
  std::string_view moe;
  std::string_view letter = {};  // where the list is a string of letters
  bool mixers = false;           // the entries are all that a layer has
};
constexpr MoeList kMoeLists[] = {
    {fields::kMlpTypes, "sparse"},
    {.keys = fields::kBlockKinds, .moe = "moe", .letter = "E", .mixers = true},
    {fields::kMoeFrequency, "1"}};

std::string EntryText(const Json& entry) {
  if (entry.is_string()) return entry.get<std::string>().substr(0, kMaxKindLength);
  return entry.dump().substr(0, kMaxKindLength);
}

class LayerKinds {
 public:
  LayerKinds(const HfConfig& raw, const HfConfig& config, ModelPromise& promise,
             std::vector<CheckFinding>& findings)
      : raw_(raw), config_(config), promise_(promise), findings_(findings) {}

  Status Read() {
    SHARD_CHECK(ReadAttention());
    SHARD_TRY(const bool listed, ReadMoeLists());
    return listed ? Ok() : ReadMoeNumbers();
  }

 private:
  size_t layers() const { return promise_.layers.size(); }

  // Adds a finding only once, because lists of whole layers are read twice, for experts and for
  // attention.
  void Say(const std::string& field, const std::string& expected, const std::string& found) {
    const CheckFinding finding = {FindingKind::kConfig, field, expected, found};
    if (std::find(findings_.begin(), findings_.end(), finding) != findings_.end()) return;
    findings_.push_back(finding);
  }

  // Returns the entries of a list or of a string of letters. Blocks for multi-token prediction may
  // have entries after those of the layers. The result is empty when the field is absent or no
  // list, and when its length is wrong, which is a finding.
  std::vector<std::string> Entries(ConfigKeys keys) {
    std::vector<std::string> entries;
    const std::optional<HfConfig::Field> field = raw_.Find(keys);
    if (!field || !(field->value->is_array() || field->value->is_string())) return entries;
    if (field->value->is_string()) {
      for (const char letter : field->value->get_ref<const std::string&>()) {
        entries.emplace_back(1, letter);
      }
    } else {
      for (const Json& entry : *field->value) entries.push_back(EntryText(entry));
    }
    if (entries.size() != layers() && entries.size() != layers() + promise_.mtp.value_or(0)) {
      Say(field->path, Cat("one entry per layer (", layers(), ")"), Cat(entries.size()));
      return {};
    }
    entries.resize(layers());
    return entries;
  }

  Status ReadAttention() {
    for (const ConfigKeys keys : kAttentionLists) {
      const std::vector<std::string> entries = Entries(keys);
      for (size_t layer = 0; layer < entries.size(); ++layer) {
        std::string& kind = promise_.layers[layer].attention;
        kind += (kind.empty() ? "" : " ") + entries[layer];
      }
    }
    SHARD_TRY(const auto interval, Step(fields::kFullInterval));
    for (size_t layer = 0; interval && !raw_.Has(fields::kLayerTypes) && layer < layers();
         ++layer) {
      promise_.layers[layer].attention =
          (layer + 1) % *interval == 0 ? "full_attention" : "linear_attention";
    }
    // DeepSeek-V4's first layers choose experts by the token's id.
    SHARD_TRY(const auto hashed, config_.FindU32({"num_hash_layers"}));
    for (size_t layer = 0; hashed && layer < std::min<size_t>(*hashed, layers()); ++layer) {
      promise_.layers[layer].attention += " hash";
    }
    return Ok();
  }

  // Reads the distance, in layers, between two layers of a kind.
  Result<std::optional<uint32_t>> Step(ConfigKeys keys) {
    SHARD_TRY(const std::optional<uint32_t> step, config_.FindU32(keys));
    if (step != 0u) return step;
    Say(config_.Find(keys)->path, "at least 1", "0");
    return std::optional<uint32_t>();
  }

  // Returns the name under which the config has a field, without the configs around it.
  std::string NameOf(ConfigKeys keys) const {
    const std::optional<HfConfig::Field> field = config_.Find(keys);
    return field ? field->path.substr(field->path.rfind('.') + 1) : *keys.begin();
  }

  template <class Rule>
  void Set(const std::string& key, Rule rule) {
    promise_.moe_key = key;
    for (size_t layer = 0; layer < layers(); ++layer) promise_.layers[layer].moe = rule(layer);
  }

  Result<bool> ReadMoeLists() {
    for (const MoeList& list : kMoeLists) {
      const std::vector<std::string> entries = Entries(list.keys);
      if (entries.empty()) continue;
      promise_.mixers = list.mixers;
      Set(NameOf(list.keys), [&](size_t layer) {
        return entries[layer] == list.moe || (list.mixers && entries[layer] == list.letter);
      });
      return true;
    }
    // The numbers of the layers with experts: a list in Llama-4, the text "3,4,5" in Step.
    const auto list = raw_.Find({"moe_layers"});
    if (list && list->value->is_array()) {
      SHARD_TRY(const std::vector<uint32_t> numbers, raw_.FindU32s({"moe_layers"}));
      SetMoe("moe_layers", {numbers.begin(), numbers.end()});
      return true;
    }
    SHARD_TRY(const auto text, raw_.FindString({"moe_layers_enum"}));
    if (!text) return false;
    std::set<uint64_t> numbers;
    for (const std::string& number : Split(*text, ',')) {
      numbers.insert(ParseUint(number).value_or(UINT64_MAX));
    }
    SetMoe("moe_layers_enum", numbers);
    return true;
  }

  void SetMoe(const char* key, const std::set<uint64_t>& numbers) {
    CheckLayerNumbers(key, numbers);
    Set(key, [&](size_t layer) { return numbers.contains(layer); });
  }

  void CheckLayerNumbers(const char* key, const std::set<uint64_t>& numbers) {
    if (numbers.empty() || *numbers.rbegin() < layers() + promise_.mtp.value_or(0)) return;
    Say(key, Cat("numbers of layers below ", layers()), Cat(*numbers.rbegin()));
  }

  // Each of these reads one way to specify it. The first that the config uses decides.
  Status ReadMoeNumbers() {
    for (const auto read :
         {&LayerKinds::ReadInterleaved, &LayerKinds::ReadPeriod, &LayerKinds::ReadRange,
          &LayerKinds::ReadLeadingDense, &LayerKinds::ReadSparseStep}) {
      SHARD_TRY(const bool done, (this->*read)());
      if (done) return Ok();
    }
    if (promise_.facts.all_moe) Set("the family", [](size_t) { return true; });
    return Ok();
  }

  // Llama-4 and Arctic: the last layer of each run of this many has experts.
  Result<bool> ReadInterleaved() {
    SHARD_TRY(const auto step, Step(fields::kInterleaved));
    if (!step) return false;
    Set(NameOf(fields::kInterleaved), [&](size_t layer) { return (layer + 1) % *step == 0; });
    return true;
  }

  // Jamba: one layer of each period has experts.
  Result<bool> ReadPeriod() {
    SHARD_TRY(const auto period, Step({"expert_layer_period"}));
    SHARD_TRY(const auto offset, config_.FindU32({"expert_layer_offset"}));
    if (!period || !offset) return false;
    Set("expert_layer_period", [&](size_t layer) { return layer % *period == *offset; });
    return true;
  }

  // ERNIE: a range of layers; an end of -1 means the last layer.
  Result<bool> ReadRange() {
    SHARD_TRY(const auto start, config_.FindU32(fields::kMoeStart));
    if (!start) return false;
    SHARD_TRY(const auto interval, Step(fields::kMoeInterval));
    const auto end = config_.Find({"moe_layer_end_index"});
    const bool open = !end || (end->value->is_number_integer() && *end->value == -1);
    uint64_t last = UINT64_MAX;
    if (!open) {
      SHARD_TRY(const auto number, config_.FindU32({"moe_layer_end_index"}));
      last = *number;
    }
    Set(NameOf(fields::kMoeStart), [&](size_t layer) {
      return layer >= *start && layer <= last && (layer + 1) % interval.value_or(1) == 0;
    });
    return true;
  }

  // DeepSeek and all that adopted its config: the first layers are dense. LFM2 and Hunyuan use
  // other field names.
  Result<bool> ReadLeadingDense() {
    SHARD_TRY(const auto dense, config_.FindU32(fields::kLeadingDense));
    if (!dense) return false;
    if (*dense > layers()) {
      Say(config_.Find(fields::kLeadingDense)->path, Cat("at most ", layers()), Cat(*dense));
    }
    const auto field = config_.Find(fields::kMoeFrequency);
    std::optional<uint32_t> step;
    if (field && !field->value->is_array()) {
      SHARD_TRY(step, Step(fields::kMoeFrequency));
    }
    Set(NameOf(fields::kLeadingDense),
        [&](size_t layer) { return layer >= *dense && layer % step.value_or(1) == 0; });
    return true;
  }

  // The Qwen models: every n-th layer has experts, except for listed ones.
  Result<bool> ReadSparseStep() {
    if (!config_.Has({"decoder_sparse_step"}) && !config_.Has({"mlp_only_layers"})) return false;
    SHARD_TRY(const auto step, Step({"decoder_sparse_step"}));
    SHARD_TRY(const std::vector<uint32_t> listed, config_.FindU32s({"mlp_only_layers"}));
    const std::set<uint64_t> dense(listed.begin(), listed.end());
    CheckLayerNumbers("mlp_only_layers", dense);
    Set(dense.empty() ? "decoder_sparse_step" : "mlp_only_layers", [&](size_t layer) {
      return !dense.contains(layer) && (layer + 1) % step.value_or(1) == 0;
    });
    return true;
  }

  const HfConfig& raw_;
  const HfConfig& config_;
  ModelPromise& promise_;
  std::vector<CheckFinding>& findings_;
};

}  // namespace

Status ReadLayerKinds(const HfConfig& raw, const HfConfig& config, ModelPromise& promise,
                      std::vector<CheckFinding>& findings) {
  return LayerKinds(raw, config, promise, findings).Read();
}

}  // namespace moepack
