#include "manifest/document/describe_model.h"

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/base/tool_version.h"
#include "libshard/recipe/recipe_text.h"

namespace moepack::manifest {

TensorRecord DescribeTensor(OutputTensor tensor, std::string xxh3) {
  return {.name = std::move(tensor.entry.name),
          .dtype = std::move(tensor.entry.dtype),
          .shape = std::move(tensor.entry.shape),
          .offset = tensor.entry.offset,
          .bytes = tensor.entry.bytes,
          .xxh3 = std::move(xxh3),
          .layer = tensor.layer,
          .expert_ids = std::move(tensor.expert_ids),
          .derived = std::move(tensor.derived),
          .source = tensor.source_name ? *tensor.source_name : ""};
}

BundleRecord DescribeBundle(OutputFile file, const FileDigests& digests,
                            const std::string& format) {
  BundleRecord record;
  record.role = file.role;
  record.group = file.group;
  record.file = std::move(file.path);
  record.format = format;
  record.size = file.size;
  record.sha256 = digests.sha256;
  record.cells = digests.cells;
  std::string().swap(file.prefix);  // the header is as long as the names of all tensors
  record.tensors.reserve(file.tensors.size());
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    record.tensors.push_back(
        DescribeTensor(std::move(file.tensors[i]), std::string(digests.tensors[i])));
  }
  return record;
}

Result<uint64_t> SourceDateEpoch() {
  const char* text = std::getenv("SOURCE_DATE_EPOCH");
  if (text == nullptr) return uint64_t{0};
  const auto seconds = ParseUint(text);
  if (seconds) return *seconds;
  return Error{Code::kInvalidArgument,
               Cat("SOURCE_DATE_EPOCH: expected seconds since 1970, found ", Quoted(text))};
}

RecipeRecord DescribeRecipe(const QuantizeOptions& options, const TypedGguf& typed) {
  RecipeRecord record;
  record.name = RecipeText(options.recipe);
  if (!typed.imatrix) return record;
  record.imatrix_file = typed.imatrix->file;
  record.imatrix_sha256 = typed.imatrix->sha256;
  return record;
}

namespace {

// A single group means no grouping, and is only recorded if the config states it.
void SetGroups(const MoeModel& model, ModelRecord& record) {
  const Routing& routing = model.routing();
  if (routing.groups <= 1 && !model.config().routing.groups) return;
  record.expert_groups = routing.groups;
  record.expert_groups_used = routing.groups_used;
}

// What the plan expects, in the place where documents have what was measured. This version keeps
// both sections without using them.
std::shared_ptr<const Json> ExpectedSections(const PlanExpectation& expectation) {
  const Json expected = ExpectationToJson(expectation);
  auto sections = std::make_shared<Json>(Json::object());
  (*sections)["calibration"] = expected["calibration"];
  (*sections)["quality"] = Json{{"expected", expected["expected"]}};
  return sections;
}

}  // namespace

Manifest DescribeModel(const MoeModel& model, const Plan& plan, const std::string& model_id,
                       const std::string& revision) {
  const ModelConfig& config = model.config();
  const ParameterCount parameters = CountParameters(model);
  Manifest out;
  ModelRecord& record = out.model;
  record.id = model_id;
  record.revision = revision;
  record.family = model.family().name;
  record.architecture = config.architecture;
  record.source_format = model.checkpoint().is_gguf() ? "gguf" : "safetensors";
  for (const SourceFile& file : model.checkpoint().files()) {
    record.source.push_back({file.name, file.size, file.header_sha256, "", file.origin});
  }
  record.layers = config.layers;
  record.moe_layers = plan.layers;
  record.top_k = plan.top_k;
  for (const MoeLayer& layer : model.layers()) record.mtp_layers += layer.mtp ? 1 : 0;
  record.hidden_size = config.hidden_size;
  record.expert_intermediate_size = config.expert_intermediate_size;
  record.vocab_size = config.vocab_size;
  record.gating = GatingName(model.routing().gating);
  record.normalize = model.routing().normalize;
  record.scale = model.routing().scale;
  record.shared_experts = config.shared_experts;
  SetGroups(model, record);
  record.parameters_total = parameters.total;
  record.parameters_active = parameters.active;
  record.calibrated = FindCalibrationKeys(model.checkpoint().metadata());
  out.versions = ComputeVersions(model.Version(revision), plan);
  out.plan = plan;
  out.tool_version = ToolVersion();
  if (plan.expectation) out.original = ExpectedSections(*plan.expectation);
  return out;
}

}  // namespace moepack::manifest
