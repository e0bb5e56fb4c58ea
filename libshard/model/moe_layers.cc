#include "libshard/model/moe_layers.h"

#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/model/layer_fields.h"
#include "libshard/model/layer_kind.h"

namespace moepack {
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
  Result<bool> ReadFlags() { return ReadList(fields::kMoeFrequency, "1"); }

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
