#include "libshard/model/gguf_config.h"

#include <algorithm>

#include "libshard/base/limits.h"
#include "libshard/base/text.h"
#include "libshard/model/gguf_architectures.h"

namespace shard {
namespace {

constexpr uint64_t kMaxCount = 1u << 20;  // layers, experts; as in config.cc
constexpr uint64_t kMaxWidth = 1u << 30;

// How an architecture routes: llama.cpp, src/models. "" and none: as the keys say.
struct RoutingRow {
  std::string_view architecture;
  std::string_view gating;  // built in, or the default when `keys`
  bool normalize;           // likewise
  bool keys;                // reads expert_gating_func, expert_weights_norm, _scale
};
constexpr RoutingRow kRouting[] = {
    {"llama", "softmax", true, false},
    {"qwen2moe", "softmax", false, false},
    {"qwen3moe", "softmax", true, false},
    {"qwen3vlmoe", "softmax", true, false},
    {"qwen3next", "softmax", true, false},
    {"qwen35moe", "softmax", true, false},
    {"olmoe", "softmax", false, false},
    {"granitemoe", "softmax", true, false},
    {"granitehybrid", "softmax", true, false},
    {"phimoe", "softmax", true, false},
    {"dbrx", "softmax", true, false},
    {"deepseek2", "softmax", false, true},
    {"glm4moe", "sigmoid", false, true},
    {"gpt-oss", "softmax-after-topk", true, false},
    {"llama4", "sigmoid-after-topk", false, false},
};

// Ids of expert_gating_func.
constexpr const char* kGatings[] = {"", "softmax", "sigmoid", "softmax-after-topk", "sqrtsoftplus"};

const RoutingRow* FindRouting(std::string_view architecture) {
  for (const RoutingRow& row : kRouting) {
    if (row.architecture == architecture) return &row;
  }
  return nullptr;
}

class ConfigReader {
 public:
  ConfigReader(const std::string& where, const GgufMetadata& metadata,
               std::vector<std::string>& warnings)
      : where_(where), metadata_(metadata), warnings_(warnings) {}

  Result<ModelConfig> Read();

 private:
  std::string Key(std::string_view name) const { return Cat(architecture_, ".", name); }
  Error Wrong(std::string_view key, const std::string& expected) const;
  // 0 when the key is absent.
  Result<uint32_t> Number(std::string_view key, uint64_t limit) const;
  // The numbers of a key that has one, or one per layer; empty when it is absent.
  Result<std::vector<uint32_t>> Numbers(std::string_view key, uint64_t limit) const;
  Result<uint32_t> Largest(std::string_view key, uint64_t limit) const;

  Status ReadSizes();
  Status ReadExperts();
  Status ReadWidth();
  Status ReadShared();
  Status ReadRouting();
  Status ReadGating(const RoutingRow* row);
  std::string DefaultGating(const RoutingRow* row) const;

  const std::string& where_;
  const GgufMetadata& metadata_;
  std::vector<std::string>& warnings_;
  std::string architecture_;
  ModelConfig out_;
};

Error ConfigReader::Wrong(std::string_view key, const std::string& expected) const {
  const GgufValue* value = metadata_.Find(key);
  std::string found = "none";
  if (value != nullptr) {
    const auto number = value->AsUint();
    found = number ? Cat(*number) : Cat("a value of type ", GgufTypeName(value->type));
  }
  return {Code::kCorrupt,
          Cat(where_, ": key ", Quoted(key), ": expected ", expected, ", found ", found)};
}

Result<std::vector<uint32_t>> ConfigReader::Numbers(std::string_view key, uint64_t limit) const {
  const GgufValue* value = metadata_.Find(key);
  if (value == nullptr) return std::vector<uint32_t>();
  const auto numbers = value->AsUints();
  if (!numbers || numbers->size() > kMaxCount ||
      std::any_of(numbers->begin(), numbers->end(), [&](uint64_t n) { return n > limit; })) {
    return Wrong(key, Cat("whole numbers from 0 to ", limit));
  }
  return std::vector<uint32_t>(numbers->begin(), numbers->end());
}

Result<uint32_t> ConfigReader::Number(std::string_view key, uint64_t limit) const {
  const GgufValue* value = metadata_.Find(key);
  if (value == nullptr) return 0u;
  const auto number = value->AsUint();
  if (!number || *number > limit) return Wrong(key, Cat("a whole number from 0 to ", limit));
  return static_cast<uint32_t>(*number);
}

Result<uint32_t> ConfigReader::Largest(std::string_view key, uint64_t limit) const {
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(key, limit));
  return numbers.empty() ? 0u : *std::max_element(numbers.begin(), numbers.end());
}

Status ConfigReader::ReadSizes() {
  SHARD_TRY(const uint32_t blocks, Number(Key("block_count"), kMaxLayers));
  SHARD_TRY(out_.mtp_layers, Number(Key("nextn_predict_layers"), kMaxCount));
  if (blocks == 0) return Wrong(Key("block_count"), "at least one layer");
  if (out_.mtp_layers >= blocks) {
    return Wrong(Key("nextn_predict_layers"), Cat("fewer than the ", blocks, " blocks"));
  }
  out_.layers = blocks - out_.mtp_layers;
  SHARD_TRY(out_.hidden_size, Number(Key("embedding_length"), kMaxWidth));
  SHARD_TRY(out_.vocab_size, Number(Key("vocab_size"), kMaxWidth));
  const GgufValue* tokens = metadata_.Find("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->type != GgufType::kArray) return Ok();
  out_.vocab_size = static_cast<uint32_t>(tokens->Count());  // at most 2^30
  return Ok();
}

Status ConfigReader::ReadExperts() {
  out_.expert_count_key = Key("expert_count");
  const GgufValue* count = metadata_.Find(out_.expert_count_key);
  if (count != nullptr && count->type == GgufType::kArray) {
    return Error{Code::kUnsupported, Cat(where_, ": key ", Quoted(out_.expert_count_key),
                                         ": expected one number for all layers, found a list")};
  }
  SHARD_TRY(out_.experts, Number(out_.expert_count_key, kMaxCount));
  if (out_.experts == 0) {
    return Error{Code::kUnsupported,
                 Cat(where_, ": key ", Quoted(out_.expert_count_key),
                     ": expected routed experts, found ", count == nullptr ? "none" : "0", ", so ",
                     Quoted(architecture_), " is a dense model here"),
                 "there is nothing to split in a dense model"};
  }
  SHARD_TRY(const std::vector<uint32_t> used, Numbers(Key("expert_used_count"), kMaxCount));
  if (used.empty()) return Ok();
  out_.top_k = *std::max_element(used.begin(), used.end());
  if (out_.top_k > out_.experts) {
    return Error{Code::kCorrupt,
                 Cat(where_, ": key ", Quoted(Key("expert_used_count")), ": expected at most ",
                     out_.experts, " (the experts), found ", out_.top_k)};
  }
  if (metadata_.Find(Key("expert_used_count"))->type != GgufType::kArray) return Ok();
  if (used.size() != out_.layers + out_.mtp_layers) {
    return Error{Code::kCorrupt, Cat(where_, ": key ", Quoted(Key("expert_used_count")),
                                     ": expected one number per block (",
                                     out_.layers + out_.mtp_layers, "), found ", used.size())};
  }
  out_.top_k_per_layer = used;
  return Ok();
}

// llama.cpp's Qwen loaders share the dense width among the experts used where no width is given.
Status ConfigReader::ReadWidth() {
  SHARD_TRY(out_.expert_intermediate_size, Largest(Key("expert_feed_forward_length"), kMaxWidth));
  if (out_.expert_intermediate_size != 0) return Ok();
  SHARD_TRY(out_.expert_intermediate_size, Largest(Key("feed_forward_length"), kMaxWidth));
  if (architecture_.starts_with("qwen") && out_.top_k > 0) {
    out_.expert_intermediate_size /= out_.top_k;
  }
  return Ok();
}

Status ConfigReader::ReadShared() {
  SHARD_TRY(out_.shared_experts, Largest(Key("expert_shared_count"), kMaxCount));
  SHARD_TRY(const uint32_t width, Largest(Key("expert_shared_feed_forward_length"), kMaxWidth));
  if (out_.shared_experts == 0 && width > 0) out_.shared_experts = 1;
  return Ok();
}

// GLM-4.7-Flash is a deepseek2 whose older files lack the key; llama.cpp knows it by its shape.
std::string ConfigReader::DefaultGating(const RoutingRow* row) const {
  constexpr uint32_t kFlashVocabulary = 154880;
  const uint32_t blocks = out_.layers + out_.mtp_layers;
  const bool flash = architecture_ == "deepseek2" && (blocks == 47 || blocks == 48) &&
                     out_.vocab_size == kFlashVocabulary;
  return flash ? "sigmoid" : row == nullptr ? "" : std::string(row->gating);
}

Status ConfigReader::ReadGating(const RoutingRow* row) {
  const std::string key = Key("expert_gating_func");
  SHARD_TRY(const uint32_t id, Number(key, std::size(kGatings) - 1));
  out_.gating = id == 0 ? DefaultGating(row) : kGatings[id];
  if (!out_.gating.empty()) return Ok();
  if (architecture_ == "minimax-m2") {
    // The model was made with sigmoid scores; without the key a runtime does not start.
    out_.gating = "sigmoid";
    warnings_.push_back(Cat(where_, ": key ", Quoted(key),
                            ": expected 2 (sigmoid), found none: llama.cpp aborts without it"));
    return Ok();
  }
  warnings_.push_back(Cat(where_, ": architecture ", Quoted(architecture_),
                          ": how it picks experts is not known here; softmax is assumed"));
  return Ok();
}

Status ConfigReader::ReadRouting() {
  SHARD_TRY(out_.expert_groups, Number(Key("expert_group_count"), kMaxCount));
  SHARD_TRY(out_.expert_groups_used, Number(Key("expert_group_used_count"), kMaxCount));
  const RoutingRow* row = FindRouting(architecture_);
  if (row != nullptr) out_.normalize = row->normalize;
  if (row != nullptr && !row->keys) {
    out_.gating = row->gating;
    return Ok();
  }
  SHARD_CHECK(ReadGating(row));
  if (const GgufValue* norm = metadata_.Find(Key("expert_weights_norm"))) {
    if (!norm->AsBool()) return Wrong(Key("expert_weights_norm"), "a bool");
    out_.normalize = norm->AsBool();
  }
  if (const GgufValue* scale = metadata_.Find(Key("expert_weights_scale"))) {
    const auto number = scale->AsFloat();
    if (!number || !(*number >= 0 && *number < 1e9)) {
      return Wrong(Key("expert_weights_scale"), "a number from 0 to 10^9");
    }
    if (*number != 0) out_.scale = number;
  }
  return Ok();
}

Result<ModelConfig> ConfigReader::Read() {
  architecture_ = metadata_.Architecture();
  if (architecture_.empty()) {
    return Error{Code::kCorrupt,
                 Cat(where_, ": key general.architecture: expected a name, found none"),
                 "a part of a set is opened by its first file or its directory"};
  }
  out_.architecture = architecture_;
  if (!IsMoeArchitecture(architecture_)) {
    warnings_.push_back(Cat(where_, ": architecture: expected one with experts that llama.cpp ",
                            "v0.5.0 has, found ", Quoted(architecture_),
                            ": its tensors can be listed and get other types, but not be split"));
  }
  SHARD_CHECK(ReadSizes());
  SHARD_CHECK(ReadExperts());
  SHARD_CHECK(ReadWidth());
  SHARD_CHECK(ReadShared());
  SHARD_CHECK(ReadRouting());
  return std::move(out_);
}

}  // namespace

Result<ModelConfig> ReadGgufConfig(const std::string& where, const GgufMetadata& metadata,
                                   std::vector<std::string>& warnings) {
  return ConfigReader(where, metadata, warnings).Read();
}

}  // namespace shard
