#include "manifest/describe_model.h"

#ifndef MOEPACK_VERSION
#error "CMake defines MOEPACK_VERSION"
#endif

namespace manifest {

Manifest DescribeModel(const shard::MoeModel& model, const shard::Plan& plan,
                       const std::string& model_id, const std::string& revision) {
  const shard::ModelConfig& config = model.config();
  const shard::ParameterCount parameters = shard::CountParameters(model);
  Manifest out;
  ModelRecord& record = out.model;
  record.id = model_id;
  record.revision = revision;
  record.family = model.family().name;
  record.architecture = config.architecture;
  record.source_format = "safetensors";
  for (const shard::SourceFile& file : model.checkpoint().files()) {
    record.source.push_back({file.name, file.size, file.header_sha256, ""});
  }
  record.layers = config.layers;
  record.moe_layers = plan.layers;
  record.top_k = plan.top_k;
  for (const shard::MoeLayer& layer : model.layers()) record.mtp_layers += layer.mtp ? 1 : 0;
  record.hidden_size = config.hidden_size;
  record.expert_intermediate_size = config.expert_intermediate_size;
  record.vocab_size = config.vocab_size;
  record.gating = model.gating();
  record.normalize = model.normalize();
  record.scale = config.scale;
  record.shared_experts = config.shared_experts;
  record.expert_groups = config.expert_groups;
  record.expert_groups_used = config.expert_groups_used;
  record.parameters_total = parameters.total;
  record.parameters_active = parameters.active;
  out.versions = ComputeVersions(model.Version(revision), plan);
  out.plan = plan;
  out.tool_version = MOEPACK_VERSION;
  return out;
}

}  // namespace manifest
