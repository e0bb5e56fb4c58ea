// gpt-oss: packed experts in MXFP4 with gate and up in alternating rows, biases everywhere, a
// learned sink per head. Models fine-tuned in BF16 store the experts transposed.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/convert/families/families.h"
#include "libshard/convert/families/windowed/windows.h"
#include "libshard/convert/hf_family.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

// The runtime derives head sizes if rope.dimension_count is absent, so that key is not written.
Status AddKeys(const HfConfig& config, const HfShape&, ArchKeys& keys) {
  SHARD_CHECK(AddWindowKey(config, keys));
  SHARD_TRY(const uint32_t width, config.U32(fields::ExpertWidth(config)));
  keys.U32("expert_feed_forward_length", width);
  return Ok();
}

void AddBlock(HfFamily& family) {
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({"layers.{L}." + source, "blk.{L}." + target});
  };
  add("input_layernorm.weight", "attn_norm.weight");
  add("post_attention_layernorm.weight", "post_attention_norm.weight");
  add("self_attn.sinks", "attn_sinks.weight");
  // The runtime refuses files that lack any of these biases.
  for (const char* leaf : {".weight", ".bias"}) {
    for (const char* part : {"q", "k", "v"}) {
      add(Cat("self_attn.", part, "_proj", leaf), Cat("attn_", part, leaf));
    }
    add(Cat("self_attn.o_proj", leaf), Cat("attn_output", leaf));
    add(Cat("mlp.router", leaf), Cat("ffn_gate_inp", leaf));
  }
}

void AddExperts(HfFamily& family, bool transposed) {
  const std::string from = "layers.{L}.mlp.experts.", to = "blk.{L}.ffn_";
  const auto add = [&](const char* source, const char* target, RowOrder order, ValueRule rule) {
    family.rows.push_back(
        {.source = from + source, .target = to + target, .order = order, .rule = rule});
  };
  if (transposed) {
    add("gate_up_proj", "gate_exps.weight", RowOrder::kAsIs, ValueRule::kTransposeEven);
    add("gate_up_proj", "up_exps.weight", RowOrder::kAsIs, ValueRule::kTransposeOdd);
    add("down_proj", "down_exps.weight", RowOrder::kAsIs, ValueRule::kTranspose);
  } else {
    add("gate_up_proj", "gate_exps.weight", RowOrder::kEvenRows, ValueRule::kNone);
    add("gate_up_proj", "up_exps.weight", RowOrder::kOddRows, ValueRule::kNone);
    add("down_proj", "down_exps.weight", RowOrder::kAsIs, ValueRule::kNone);
  }
  add("gate_up_proj_bias", "gate_exps.bias", RowOrder::kEvenRows, ValueRule::kNone);
  add("gate_up_proj_bias", "up_exps.bias", RowOrder::kOddRows, ValueRule::kNone);
  add("down_proj_bias", "down_exps.bias", RowOrder::kAsIs, ValueRule::kNone);
}

bool HasBlocks(const MoeModel& model) {
  const std::vector<ModelTensor>& tensors = model.tensors();
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const ModelTensor& tensor) { return tensor.leaf == "blocks"; });
}

}  // namespace

Result<GgufModel> ConvertGptOss(const MoeModel& model, const ConvertOptions& options) {
  HfFamily family;
  family.architecture = "gpt-oss";
  family.pre = "gpt-4o";
  family.needs_output = true;
  family.keys = AddKeys;
  AddModelRows(family);
  AddBlock(family);
  AddExperts(family, !HasBlocks(model));
  return ConvertHf(model, family, options);
}

}  // namespace moepack
