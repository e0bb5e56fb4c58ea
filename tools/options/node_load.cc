#include "tools/options/node_load.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/range_text.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

std::string HowText(const runtime::LoadedPart& part) {
  if (part.mapped == 0) return "read";
  if (part.mapped == part.bytes) return "mapped";
  return Cat(FormatBytes(part.mapped), " mapped, the rest read");
}

// "7" or "5 to 7".
std::string EligibleText(const LayerExperts& eligible) {
  size_t least = SIZE_MAX, most = 0;
  for (const auto& [layer, ids] : eligible) {
    least = std::min(least, ids.size());
    most = std::max(most, ids.size());
  }
  return eligible.empty() ? "no experts" : RangeText(least, most, "expert");
}

std::string VersionsText(const runtime::Weights& weights) {
  std::string text;
  const auto add = [&](const char* name, const std::string& version) {
    if (!version.empty()) text += Cat(text.empty() ? "" : ", ", name, " ", Shown(version));
  };
  add("model", weights.model_version);
  add("shard", weights.shard_version);
  add("replica", weights.replica_version);
  add("refit", weights.refit_version);
  return text.empty() ? "" : Cat("versions: ", text, "\n");
}

}  // namespace

Result<std::unique_ptr<runtime::Node>> OpenNode(const std::string& source,
                                                runtime::NodeOptions options) {
  Progress progress("loading");
  options.load.progress = progress.Shows();
  return runtime::Node::Open(source, options);
}

std::string LoadedText(const runtime::Node& node) {
  Table table({"part", ">tensors", ">bytes", "how"});
  for (const runtime::LoadedPart& part : node.weights().parts) {
    table.Row({part.label, FormatCount(part.tensors), FormatCount(part.bytes), HowText(part)});
  }
  return Cat(table.Render(), VersionsText(node.weights()), node.executor().name(), ": ",
             Shown(node.executor().description()), ", ", ExactBytes(node.model().device_bytes()),
             " of weights; routers pick among ", EligibleText(node.eligible()), " per layer\n");
}

Json LoadedJson(const runtime::Node& node) {
  Json parts = Json::array();
  for (const runtime::LoadedPart& part : node.weights().parts) {
    parts.push_back({{"part", part.label},
                     {"tensors", part.tensors},
                     {"bytes", part.bytes},
                     {"mapped", part.mapped}});
  }
  const auto text = [](const std::string& value) {
    return value.empty() ? Json(nullptr) : Json(value);
  };
  return {{"executor", node.executor().name()},
          {"device", node.executor().description()},
          {"device_bytes", node.model().device_bytes()},
          {"model_version", text(node.weights().model_version)},
          {"shard_version", text(node.weights().shard_version)},
          {"replica_version", text(node.weights().replica_version)},
          {"refit_version", text(node.weights().refit_version)},
          {"parts", std::move(parts)}};
}

}  // namespace moepack::cli
