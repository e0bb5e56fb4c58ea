#include "libshard/convert/tensor_map.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "libshard/convert/row_order.h"
#include "libshard/text.h"

namespace shard {
namespace {

constexpr std::string_view kOutput = "output.weight", kEmbedding = "token_embd.weight";
constexpr std::string_view kLeafToken = "{W}";
constexpr size_t kMaxDimensions = 4;  // of a GGUF tensor

// A row with {W} written out. Rows of one target share the rank of the first.
struct PlainRow {
  TensorRow row;
  size_t rank = 0;
};

// What is known of one target in one layer before its ranges are laid out.
struct Target {
  const PlainRow* row = nullptr;
  std::vector<const ModelTensor*> sources;
};

std::string Replaced(std::string text, std::string_view token, const std::string& by) {
  if (const size_t at = text.find(token); at != std::string::npos) {
    text.replace(at, token.size(), by);
  }
  return text;
}

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

// The name of the family's table, numbers of layer and expert replaced by their tokens.
std::string PatternOf(std::string_view name, const ModelTensor& tensor, const Family& family) {
  size_t prefix = 0;
  for (const std::string& candidate : family.prefixes) {
    if (name.starts_with(candidate)) prefix = std::max(prefix, candidate.size());
  }
  std::vector<std::string> parts = Split(name.substr(prefix), '.');
  const char* token = tensor.layer >= 0 ? "{L}" : tensor.expert >= 0 ? "{E}" : nullptr;
  for (std::string& part : parts) {
    if (token == nullptr || !ParseUint(part)) continue;
    part = token;
    token = token == std::string_view("{L}") && tensor.expert >= 0 ? "{E}" : nullptr;
  }
  return Join(parts, ".");
}

class Mapper {
 public:
  Mapper(const MoeModel& model, const TensorMapOptions& options)
      : model_(model), options_(options), rows_(WriteOut(options.rows)) {
    for (const PlainRow& row : rows_) by_source_.emplace(row.row.source, &row);
  }

  Result<std::vector<GgufTensor>> Map() {
    for (const ModelTensor& tensor : model_.tensors()) SHARD_CHECK(Assign(tensor));
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
  std::string Place(const ModelTensor& tensor) const {
    const TensorEntry& entry = model_.entry(tensor);
    return Cat(model_.checkpoint().files()[entry.file].path.string(), ": tensor ",
               Quoted(entry.name));
  }

  static bool IsDropped(const ModelTensor& tensor, std::string_view name) {
    const std::string& role = tensor.rule->role;
    return role == "vision" || role == "audio" ||
           EndsWithAny(name, {".rotary_emb.inv_freq", ".attention.masked_bias", ".attention.bias"});
  }

  Status Assign(const ModelTensor& tensor) {
    const TensorEntry& entry = model_.entry(tensor);
    if (IsDropped(tensor, entry.name)) return Ok();
    const auto [first, last] =
        by_source_.equal_range(PatternOf(entry.name, tensor, model_.family()));
    if (first == last) return Unmapped(tensor);
    if (tensor.layer >= static_cast<int>(options_.layers)) {
      return Error{Code::kUnsupported, Cat(Place(tensor), ": layer: expected one below ",
                                           options_.layers, ", found ", tensor.layer)};
    }
    SHARD_CHECK(CheckNumbers(tensor));
    for (auto row = first; row != last; ++row) {
      if (options_.tied && row->second->row.target == kOutput) continue;
      Target& target = targets_[{tensor.layer, row->second->rank}];
      if (target.row != nullptr && target.row != row->second) return Twice(tensor, *row->second);
      target.row = row->second;
      target.sources.push_back(&tensor);
    }
    return Ok();
  }

  Error Twice(const ModelTensor& tensor, const PlainRow& row) const {
    return {Code::kCorrupt, Cat(Place(tensor), ": expected one layout of ", row.row.target,
                                ", found two in layer ", tensor.layer)};
  }

  Error Unmapped(const ModelTensor& tensor) const {
    if (UseOfLeaf(tensor.leaf) != LeafUse::kValues && !tensor.leaf.empty()) {
      return Quantized(tensor, Cat(tensor.leaf, " of a quantized weight"));
    }
    return {Code::kUnsupported,
            Cat(Place(tensor), ": expected a tensor that the GGUF form of ", model_.family().name,
                " has, found another"),
            "safetensors output (--format safetensors) keeps every tensor"};
  }

  Error Quantized(const ModelTensor& tensor, const std::string& found) const {
    const std::string& method = model_.config().quant_method;
    return {Code::kUnsupported,
            Cat(Place(tensor), ": expected numbers in F32, F16 or BF16, found ", found,
                method.empty() ? "" : Cat(" (", Quoted(method), ")")),
            "this version converts checkpoints in floating point to GGUF; safetensors output "
            "(--format safetensors) still works"};
  }

  Status CheckNumbers(const ModelTensor& tensor) const {
    const TensorEntry& entry = model_.entry(tensor);
    const std::string_view name = entry.format == nullptr ? "" : entry.format->name;
    if (name != "f32" && name != "f16" && name != "bf16") return Quantized(tensor, entry.dtype);
    if (entry.bytes > 0 && !entry.shape.empty()) return Ok();
    return Error{Code::kCorrupt,
                 Cat(Place(tensor), ": expected values, found shape ", FormatShape(entry.shape))};
  }

  // Every target that the runtime asks for, in every layer.
  Status CheckComplete() const {
    for (const PlainRow& plain : rows_) {
      const TensorRow& row = plain.row;
      if (row.optional || (options_.tied && row.target == kOutput)) continue;
      const bool layered = row.target.find("{L}") != std::string::npos;
      for (int layer = layered ? 0 : -1; layer < (layered ? int(options_.layers) : 0); ++layer) {
        if (targets_.contains({layer, plain.rank})) continue;
        return Error{Code::kCorrupt,
                     Cat(model_.checkpoint().source().string(), ": ",
                         Replaced(row.target, "{L}", Cat(layer)), ": expected a source tensor ",
                         Quoted(Replaced(row.source, "{L}", Cat(layer))), ", found none")};
      }
    }
    return Ok();
  }

  Result<GgufTensor> Build(int layer, const Target& target, size_t index) const {
    std::vector<const ModelTensor*> sources = target.sources;
    std::sort(sources.begin(), sources.end(),
              [](const auto* a, const auto* b) { return a->expert < b->expert; });
    const ModelTensor& first = *sources.front();
    const TensorEntry& entry = model_.entry(first);
    const bool stacked = first.expert >= 0;
    if (!stacked && sources.size() > 1) return Twice(*sources[1], *target.row);
    if (first.axis > 0) {
      return Error{Code::kUnsupported,
                   Cat(Place(first), ": expert axis: expected 0, found ", first.axis)};
    }
    GgufTensor out;
    out.name = Replaced(target.row->row.target, "{L}", Cat(layer));
    out.stored = entry.format;
    out.part = first.part;
    out.layer = layer;
    out.source_tensor = stacked ? StackName(entry.name, first) : entry.name;
    const bool packed = !stacked && first.axis == 0;
    out.experts = static_cast<uint32_t>(stacked ? sources.size() : packed ? entry.shape[0] : 0);
    const RowLayout layout = {target.row->row.order, options_.heads, options_.kv_heads};
    for (size_t i = 0; i < sources.size(); ++i) {
      SHARD_CHECK(CheckAlike(first, *sources[i]));
      const uint64_t order = OrderOf(index, static_cast<uint32_t>(i));
      SHARD_TRY(out.shape, AppendRows(Place(*sources[i]), model_.entry(*sources[i]),
                                      {layout, packed, order}, out.sources));
    }
    if (stacked) out.shape.insert(out.shape.begin(), sources.size());
    if (out.shape.size() > kMaxDimensions || out.name.size() > 63) {
      return Error{Code::kUnsupported,
                   Cat(Place(first), ": shape: expected at most ", kMaxDimensions,
                       " dimensions, found ", FormatShape(out.shape))};
    }
    out.fixed = IsForcedF32(out.name, out.shape.size());
    out.type = out.fixed ? quant::FindFormat("f32") : out.stored;
    return out;
  }

  // Stands for the names of all experts: the id of the first becomes a star.
  static std::string StackName(std::string name, const ModelTensor& first) {
    const std::string id = Cat(".", first.expert, ".");
    return name.replace(name.rfind(id), id.size(), ".*.");
  }

  Status CheckAlike(const ModelTensor& first, const ModelTensor& tensor) const {
    const TensorEntry& entry = model_.entry(tensor);
    const TensorEntry& expected = model_.entry(first);
    if (entry.shape == expected.shape && entry.format == expected.format) return Ok();
    return Error{Code::kUnsupported,
                 Cat(Place(tensor), ": expected ", expected.dtype, " of shape ",
                     FormatShape(expected.shape), " as expert ", first.expert, " has, found ",
                     entry.dtype, " of shape ", FormatShape(entry.shape))};
  }

  static void CopyEmbedding(std::vector<GgufTensor>& tensors) {
    const auto embedding = std::find_if(tensors.begin(), tensors.end(),
                                        [](const auto& t) { return t.name == kEmbedding; });
    if (embedding == tensors.end()) return;
    GgufTensor head = *embedding;
    head.name = kOutput;
    for (SourceRange& range : head.sources) range.order = OrderOf(tensors.size(), 0);
    tensors.push_back(std::move(head));
  }

  const MoeModel& model_;
  const TensorMapOptions& options_;
  std::vector<PlainRow> rows_;
  std::unordered_multimap<std::string, const PlainRow*> by_source_;
  std::map<std::pair<int, size_t>, Target> targets_;  // by layer and rank
};

bool IsForced(std::string_view name) {
  return EndsWithAny(name, {"_norm.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight",
                            "ssm_conv1d.weight"}) ||
         !name.ends_with(".weight");
}

}  // namespace

bool IsForcedF32(std::string_view name, size_t dimensions) {
  return dimensions <= 1 || IsForced(name);
}

Result<std::vector<GgufTensor>> MapTensors(const MoeModel& model, const TensorMapOptions& options) {
  return Mapper(model, options).Map();
}

}  // namespace shard
