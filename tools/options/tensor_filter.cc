#include "tools/options/tensor_filter.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "libshard/base/text/text.h"

namespace moepack::cli {
namespace {

constexpr uint32_t kMaxId = 1u << 20;

Result<std::optional<ExpertIds>> ParseRange(const char* option, const std::string& text) {
  if (text.empty()) return std::optional<ExpertIds>();
  auto ids = ParseIds(option, text, kMaxId);
  if (!ids) return Error{Code::kInvalidArgument, ids.error().message, "try 0-3,7"};
  return std::optional(std::move(ids).value());
}

}  // namespace

Result<TensorFilter> TensorFilter::Make(const FilterArguments& arguments) {
  TensorFilter filter;
  filter.parts_ = arguments.parts;
  SHARD_TRY(filter.layers_, ParseRange("--layer", arguments.layers));
  SHARD_TRY(filter.expert_ids_, ParseRange("--expert", arguments.expert_ids));
  if (arguments.regex.empty()) return filter;
  auto regex = Regex::Compile(arguments.regex);
  if (!regex) return std::move(regex).error().Within("--regex");
  filter.regex_ = *std::move(regex);
  return filter;
}

Result<bool> TensorFilter::Accepts(const MoeModel& model, const ModelTensor& tensor) const {
  if (!parts_.empty() &&
      std::find(parts_.begin(), parts_.end(), PartName(tensor.part)) == parts_.end())
    return false;
  if (layers_ && (!tensor.layer || !Contains(*layers_, *tensor.layer))) return false;
  if (expert_ids_ && !AcceptsExpert(model, tensor)) return false;
  return AcceptsName(model.entry(tensor).name);
}

Result<bool> TensorFilter::AcceptsName(const std::string& name) const {
  if (!regex_) return true;
  Result<bool> found = regex_->Search(name);
  if (!found) return std::move(found).error().Within("--regex");
  return found;
}

ExpertIds TensorFilter::MissingLayers(const MoeModel& model) const {
  if (!layers_) return {};
  std::set<uint32_t> layers;
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.layer) layers.insert(*tensor.layer);
  }
  ExpertIds missing;
  std::set_difference(layers_->begin(), layers_->end(), layers.begin(), layers.end(),
                      std::back_inserter(missing));
  return missing;
}

ExpertIds TensorFilter::MissingExperts(const MoeModel& model) const {
  if (!expert_ids_) return {};
  ExpertIds missing;
  std::copy_if(
      expert_ids_->begin(), expert_ids_->end(), std::back_inserter(missing), [&](uint32_t id) {
        return std::none_of(model.layers().begin(), model.layers().end(),
                            [&](const MoeLayer& layer) { return id < layer.expert_count; });
      });
  return missing;
}

bool TensorFilter::AcceptsExpert(const MoeModel& model, const ModelTensor& tensor) const {
  if (tensor.part != moepack::Part::kExpert || expert_ids_->empty()) return false;
  if (tensor.expert) return Contains(*expert_ids_, *tensor.expert);
  const MoeLayer* layer = model.FindLayer(tensor.layer);
  return layer != nullptr && expert_ids_->front() < layer->expert_count;
}

}  // namespace moepack::cli
