#include "libshard/base/text/text.h"
#include "libshard/convert/families/qwen_rows.h"
#include "libshard/model/config_fields.h"

namespace moepack {

void AddQwenMoeRows(HfFamily& family, const std::string& at) {
  const std::string mlp = at + "mlp.", to = "blk.{L}.";
  const auto add = [&](const std::string& source, const std::string& target) {
    family.rows.push_back({mlp + source + ".weight", to + target + ".weight"});
  };
  add("gate", "ffn_gate_inp");
  AddExpertRows(family, (mlp + "experts.").c_str(), {"gate_proj", "up_proj", "down_proj"});
  AddFusedExpertRows(family, (mlp + "experts.").c_str());
  for (const char* name : {"gate", "up", "down"}) {
    add(Cat("shared_expert.", name, "_proj"), Cat("ffn_", name, "_shexp"));
  }
  add("shared_expert_gate", "ffn_gate_inp_shexp");
}

Status AddQwenMoeKeys(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const uint32_t width, config.U32(fields::kExpertWidth));
  SHARD_TRY(const uint32_t shared, config.U32(fields::kSharedWidth));
  keys.U32("expert_feed_forward_length", width);
  keys.U32("expert_shared_feed_forward_length", shared);
  return Ok();
}

}  // namespace moepack
