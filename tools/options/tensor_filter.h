// Which tensors list-tensors shows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/regex.h"
#include "libshard/model/model.h"

namespace moepack::cli {

struct FilterArguments {
  std::vector<std::string> parts;  // names of moepack::Part
  std::string layers, expert_ids;  // "0-3,7"
  std::string regex;
};

// A tensor must pass every given filter.
class TensorFilter {
 public:
  // kInvalidArgument names the option at fault.
  static Result<TensorFilter> Make(const FilterArguments& arguments);

  // A packed tensor holds all experts of its layer, so any id below their number accepts it.
  // kInvalidArgument for an expression that takes too long.
  Result<bool> Accepts(const MoeModel& model, const ModelTensor& tensor) const;

  // The requested layers that contain no tensor of the model.
  ExpertIds MissingLayers(const MoeModel& model) const;
  // The requested experts that no layer has.
  ExpertIds MissingExperts(const MoeModel& model) const;

 private:
  Result<bool> AcceptsName(const std::string& name) const;
  bool AcceptsExpert(const MoeModel& model, const ModelTensor& tensor) const;

  std::vector<std::string> parts_;
  std::optional<ExpertIds> layers_, expert_ids_;
  std::optional<Regex> regex_;
};

}  // namespace moepack::cli
