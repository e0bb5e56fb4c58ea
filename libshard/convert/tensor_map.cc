#include "libshard/convert/tensor_map.h"

#include <algorithm>
#include <map>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/convert/row_order.h"
#include "libshard/convert/weights/weight_ids.h"
#include "libshard/convert/weights/weight_layout.h"
#include "libshard/convert/weights/weight_modules.h"
#include "libshard/format/gguf.h"
#include "libshard/model/family_match.h"

namespace moepack {
namespace {

constexpr std::string_view kOutput = "output.weight", kEmbedding = "token_embd.weight";
constexpr std::string_view kLeafToken = "{W}", kNumberToken = "{N}";

// A row with {W} replaced. All rows of one target share the rank of the first.
struct PlainRow {
  TensorRow row;
  size_t rank = 0;
};

// One of the sources of a target, and its place among them: the expert, or the number of the piece.
struct NumberedSource {
  const WeightModule* module = nullptr;
  uint32_t number = 0;
};

// What is known about one target in one layer before its rows are laid out.
struct Target {
  const PlainRow* row = nullptr;
  std::vector<NumberedSource> sources;
};

bool IsLayered(const TensorRow& row) { return row.target.find("{L}") != std::string::npos; }

std::string Replaced(std::string text, std::string_view token, const std::string& by) {
  if (const size_t at = text.find(token); at != std::string::npos) {
    text.replace(at, token.size(), by);
  }
  return text;
}

// The last component of a name that is a number: where it begins, and its digits.
struct NamePart {
  size_t at = 0;
  std::string_view digits;
};
std::optional<NamePart> LastNumber(std::string_view name) {
  for (size_t end = name.size();;) {
    const size_t dot = name.rfind('.', end == 0 ? 0 : end - 1);
    const size_t begin = dot == std::string_view::npos ? 0 : dot + 1;
    const std::string_view part = name.substr(begin, end - begin);
    if (ParseUint(part)) return NamePart{begin, part};
    if (begin == 0) return std::nullopt;
    end = dot;
  }
}

// The name with {N} for that number; "" if there is none.
std::string Numbered(const std::string& pattern) {
  const std::optional<NamePart> number = LastNumber(pattern);
  if (!number) return "";
  return std::string(pattern).replace(number->at, number->digits.size(), kNumberToken);
}

bool IsNumbered(const TensorRow& row) { return row.source.find(kNumberToken) != row.source.npos; }

std::vector<PlainRow> WriteOut(const std::vector<TensorRow>& rows) {
  std::vector<PlainRow> out;
  std::map<std::string, size_t> ranks;
  const auto add = [&](TensorRow row) {
    const size_t rank = ranks.try_emplace(row.target, ranks.size()).first->second;
    out.push_back({std::move(row), rank});
  };
  for (const TensorRow& row : rows) {
    if (!row.source.ends_with(kLeafToken)) {
      add(row);
      continue;
    }
    for (const char* leaf : {"weight", "bias"}) {
      TensorRow plain = row;
      plain.source = Replaced(row.source, kLeafToken, leaf);
      plain.target = Replaced(row.target, kLeafToken, leaf);
      plain.optional = row.optional || plain.source.ends_with("bias");
      add(std::move(plain));
    }
  }
  return out;
}

bool EndsWithAny(std::string_view name, std::initializer_list<std::string_view> ends) {
  return std::any_of(ends.begin(), ends.end(), [&](auto end) { return name.ends_with(end); });
}

// Turns a one-row matrix into a vector; `flat` is its entry from then on.
Status Flatten(const WeightSource& source, TensorEntry& flat, Weight& weight) {
  if (weight.plain == nullptr || weight.shape.size() != 2 || weight.shape[0] != 1) {
    return Error{Code::kCorrupt, Cat(source.Where(*weight.main), ": shape: expected one row of ",
                                     "plain numbers, found ", FormatShape(weight.shape))};
  }
  flat = *weight.plain;
  flat.shape = weight.shape = {weight.shape[1]};
  weight.plain = &flat;
  return Ok();
}

// The codes of a router, whose rows are experts once they are unpacked.
bool IsPackedRouter(const ModelTensor& tensor) {
  return tensor.part == Part::kRouter &&
         UseOfLeaf(LeafOf(*tensor.rule, tensor.leaf)) == LeafUse::kPacked;
}

class Mapper {
 public:
  Mapper(const MoeModel& model, const TensorMapOptions& options)
      : model_(model),
        options_(options),
        source_{model.checkpoint(), options.weights},
        rows_(WriteOut(options.rows)) {
    for (const PlainRow& row : rows_) by_source_[row.row.source].push_back(&row);
  }

  Result<std::vector<GgufTensor>> Map() {
    SHARD_TRY(modules_, CollectWeights(model_));
    for (const WeightModule& module : modules_) SHARD_CHECK(Assign(module));
    SHARD_CHECK(CheckComplete());
    std::vector<GgufTensor> out;
    for (const auto& [place, target] : targets_) {
      SHARD_TRY(GgufTensor made, Build(place.first, target, out.size()));
      out.push_back(std::move(made));
    }
    if (options_.tied && options_.needs_output) CopyEmbedding(out);
    return out;
  }

 private:
  std::string Place(const WeightModule& module) const {
    return source_.Where(model_.entry(*module.tensor));
  }

  uint32_t layers() const { return options_.layers; }
  // The blocks of the GGUF, including those for multi-token prediction.
  uint32_t blocks() const { return options_.layers + options_.mtp_layers; }

  bool IsDropped(const ModelTensor& tensor) const {
    const std::string& role = tensor.rule->role;
    if (role == "vision" || role == "audio") return true;
    if (EndsWithAny(model_.entry(tensor).name,
                    {".rotary_emb.inv_freq", ".attention.masked_bias", ".attention.bias"})) {
      return true;
    }
    if (!tensor.mtp) return false;
    if (!tensor.layer) return options_.mtp_layers == 0;
    // An extra layer that the config does not announce is not such a block; then the config is
    // wrong.
    const uint32_t announced = options_.layers + model_.config().mtp_layers;
    const bool numbered = tensor.rule->pattern.find("{M}") != std::string::npos;
    return *tensor.layer >= blocks() && (*tensor.layer < announced || numbered);
  }

  Status Assign(const WeightModule& module) {
    const ModelTensor& tensor = *module.tensor;
    if (IsDropped(tensor)) return Ok();
    if (tensor.layer && *tensor.layer >= blocks()) {
      return Error{Code::kUnsupported, Cat(Place(module), ": layer: expected one below ", blocks(),
                                           ", found ", *tensor.layer)};
    }
    bool mapped = false;
    std::vector<std::string> patterns = PatternsOf(model_, module);
    for (size_t i = 0, plain = patterns.size(); i < plain; ++i)
      patterns.push_back(Numbered(patterns[i]));
    for (const std::string& pattern : patterns) {
      if (mapped) break;
      const auto rows = by_source_.find(pattern);
      if (rows == by_source_.end()) continue;
      for (const PlainRow* row : rows->second) {
        SHARD_TRY(const bool taken, AddTo(*row, module));
        mapped = mapped || taken;
      }
    }
    return mapped ? Ok() : Unmapped(module);
  }

  // Where the module is among the sources of its target.
  uint32_t NumberOf(const WeightModule& module, const TensorRow& row) const {
    if (row.piece) return *row.piece;
    if (!IsNumbered(row)) return module.tensor->expert.value_or(0);
    const std::string& name = model_.entry(*module.tensor).name;
    return static_cast<uint32_t>(*ParseUint(LastNumber(name)->digits));  // six digits at most
  }

  // Returns false for a row that does not apply to the module's layer.
  Result<bool> AddTo(const PlainRow& row, const WeightModule& module) {
    std::optional<uint32_t> layer = module.tensor->layer;
    if (row.row.mtp && !layer) layer = layers();
    if (row.row.mtp && *layer < layers()) return false;
    if (layer && !row.row.blocks.Has(*layer)) return false;
    if (row.row.key || row.row.target.empty()) return true;
    if (options_.tied && row.row.target == kOutput) return true;
    if (!IsLayered(row.row)) layer.reset();
    Target& target = targets_[{layer, row.rank}];
    const bool factor = row.row.rule == ValueRule::kFactor;
    const bool pieces = row.row.piece && target.row != nullptr && target.row->row.piece;
    const bool several = factor || pieces;
    if (target.row != nullptr && target.row != &row && !several) return Twice(module, row);
    target.row = &row;
    target.sources.push_back({&module, NumberOf(module, row.row)});
    return true;
  }

  Error Twice(const WeightModule& module, const PlainRow& row) const {
    return {Code::kCorrupt,
            Cat(Place(module), ": expected one layout of ", row.row.target, ", found two",
                module.tensor->layer ? Cat(" in layer ", *module.tensor->layer) : "")};
  }

  // The name that tells most about whose the module is: of MLX's quantization, the biases.
  const std::string& NameOf(const WeightModule& module) const {
    constexpr std::string_view kScales = ".scales";
    const std::string& name = model_.entry(*module.tensor).name;
    if (!name.ends_with(kScales)) return name;
    const std::string stem = name.substr(0, name.size() - kScales.size());
    const TensorEntry* const biases = model_.checkpoint().Find(stem + ".biases");
    return biases == nullptr ? name : biases->name;
  }

  Error Unmapped(const WeightModule& module) const {
    return {Code::kUnsupported,
            Cat(Place(module), ": expected a tensor that the GGUF form of ", model_.family().name,
                " has, found another", WhoseName(NameOf(module))),
            "safetensors output (--format safetensors) keeps every tensor"};
  }

  // Checks that every target that the runtime requires is there, in every layer of its row.
  Status CheckComplete() const {
    for (const PlainRow& plain : rows_) {
      const TensorRow& row = plain.row;
      if (row.optional || row.key || row.target.empty()) continue;
      if (options_.tied && row.target == kOutput) continue;
      if (!IsLayered(row)) {
        SHARD_CHECK(CheckThere(plain, std::nullopt));
        continue;
      }
      for (uint32_t layer = row.mtp ? layers() : 0; layer < blocks(); ++layer) {
        if (row.blocks.Has(layer)) SHARD_CHECK(CheckThere(plain, layer));
      }
    }
    return Ok();
  }

  Status CheckThere(const PlainRow& plain, std::optional<uint32_t> layer) const {
    const auto target = targets_.find({layer, plain.rank});
    const auto is_it = [&](const NumberedSource& source) {
      return source.number == *plain.row.piece;
    };
    if (target != targets_.end() &&
        (!plain.row.piece ||
         std::any_of(target->second.sources.begin(), target->second.sources.end(), is_it))) {
      return Ok();
    }
    const std::string number = layer ? Cat(*layer) : "*";
    return Error{Code::kCorrupt,
                 Cat(model_.checkpoint().source().string(), ": ",
                     Replaced(plain.row.target, "{L}", number), ": expected a source tensor ",
                     Quoted(Replaced(plain.row.source, "{L}", number)), ", found none")};
  }

  Result<GgufTensor> Build(std::optional<uint32_t> layer, const Target& target,
                           size_t index) const {
    std::vector<NumberedSource> sources = target.sources;
    std::sort(sources.begin(), sources.end(),
              [](const NumberedSource& a, const NumberedSource& b) { return a.number < b.number; });
    const bool numbered = IsNumbered(target.row->row);
    if (numbered) SHARD_CHECK(CheckNumbers(sources));
    const ModelTensor& first = *sources.front().module->tensor;
    const std::string& name = model_.entry(first).name;
    const bool stacked = first.expert.has_value() || numbered;
    const bool joined = target.row->row.piece.has_value();
    const ValueRule rule = target.row->row.rule;
    const bool factor = rule == ValueRule::kFactor;
    for (size_t i = 1; i < sources.size() && !stacked; ++i) {
      const bool same = sources[i].number == sources[i - 1].number;
      if (factor ? i > 1 : !joined || same) return Twice(*sources[i].module, *target.row);
    }
    const bool flat = rule == ValueRule::kFlatten;
    if (first.axis && *first.axis > (flat ? 1 : 0)) {
      return Error{Code::kUnsupported,
                   Cat(Place(*sources[0].module), ": expert axis: expected 0, found ",
                       uint32_t{*first.axis})};
    }
    std::vector<Weight> weights;
    weights.reserve(sources.size());
    TensorEntry flattened;  // of the one source that a flattened target has
    for (const NumberedSource& source : sources) {
      const StoredWeight& entry = source.module->weight;
      SHARD_TRY(Weight weight, rule == ValueRule::kExpertIds
                                   ? ReadExpertIds(source_, entry, model_.max_experts())
                                   : ReadWeight(source_, entry));
      if (flat) SHARD_CHECK(Flatten(source_, flattened, weight));
      weights.push_back(std::move(weight));
    }
    GgufTensor out;
    out.name = Replaced(target.row->row.target, "{L}", layer ? Cat(*layer) : "");
    out.part = target.row->row.part.value_or(first.part);
    out.layer = layer;
    out.source_tensor = stacked ? StackName(name) : name;
    const WeightLayout layout{.rows = {target.row->row.order, options_.shape},
                              .rule = rule,
                              .packed = !stacked && (first.axis || IsPackedRouter(first)),
                              .stacked = stacked,
                              .joined = joined,
                              .index = index};
    SHARD_CHECK(LayOutWeights(source_, weights, layout, out));
    if (numbered) out.expert_count = 0;  // a stack of something else
    if (out.shape.size() > kMaxGgufDimensions || out.name.size() > kMaxGgufTensorName) {
      return Error{Code::kUnsupported,
                   Cat(Place(*sources[0].module), ": shape: expected at most ", kMaxGgufDimensions,
                       " dimensions, found ", FormatShape(out.shape))};
    }
    SetType(weights[0], target.row->row.f32, out);
    return out;
  }

  void SetType(const Weight& weight, bool f32, GgufTensor& out) const {
    const size_t dimensions = out.shape.size();
    const bool matrix = dimensions > 1 && out.name.ends_with(".weight");
    out.fixed = f32 || (options_.own_types ? !matrix : IsForcedF32(out.name, dimensions));
    out.type = out.fixed ? quant::FindFormat("f32") : out.stored;
    const bool fp8 = weight.main->dtype == "F8_E4M3";
    if (options_.own_types && matrix && fp8) out.type = quant::FindFormat("q8_0");
  }

  // The numbers of a stack have to be 0, 1, 2, ...
  Status CheckNumbers(const std::vector<NumberedSource>& sources) const {
    for (size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].number == i) continue;
      return Error{Code::kCorrupt, Cat(Place(*sources[i].module), ": expected number ", i,
                                       " of such tensors, found ", sources[i].number)};
    }
    return Ok();
  }

  // Returns a name for all tensors of a stack, with a star in place of the first one's number.
  static std::string StackName(std::string name) {
    const std::optional<NamePart> number = LastNumber(name);
    return name.replace(number->at, number->digits.size(), "*");
  }

  static void CopyEmbedding(std::vector<GgufTensor>& tensors) {
    const auto embedding = std::find_if(tensors.begin(), tensors.end(),
                                        [](const auto& t) { return t.name == kEmbedding; });
    if (embedding == tensors.end()) return;
    GgufTensor head = *embedding;
    head.name = kOutput;
    for (SourceRange& range : head.sources) range.order = OrderOf(tensors.size(), 0);
    for (RowRange& range : head.rows) range.order = OrderOf(tensors.size(), 0);
    tensors.push_back(std::move(head));
  }

  const MoeModel& model_;
  const TensorMapOptions& options_;
  const WeightSource source_;
  std::vector<WeightModule> modules_;
  std::vector<PlainRow> rows_;
  TextMap<std::string, std::vector<const PlainRow*>> by_source_;
  std::map<std::pair<std::optional<uint32_t>, size_t>, Target> targets_;  // by layer and rank
};

bool IsForced(std::string_view name) {
  return EndsWithAny(name,
                     {"_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight",
                      "ssm_conv1d.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight",
                      "ssm_conv1d_v.weight", "shortconv.conv.weight", "indexer.proj.weight"}) ||
         !name.ends_with(".weight");
}

}  // namespace

bool IsForcedF32(std::string_view name, size_t dimensions) {
  return dimensions <= 1 || IsForced(name);
}

Result<std::vector<GgufTensor>> MapTensors(const MoeModel& model, const TensorMapOptions& options) {
  return Mapper(model, options).Map();
}

}  // namespace moepack
