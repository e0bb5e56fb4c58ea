#include "manifest/write/front_matter.h"

#include <algorithm>
#include <utility>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/source_place.h"
#include "quant/format.h"

namespace moepack::manifest {
namespace {

constexpr std::string_view kFence = "---\n";

bool IsBlockType(const std::string& dtype) {
  const quant::Format* format = quant::FindFormat(dtype);
  return format != nullptr && format->block_values > 1;
}

// Copied bytes are the base model's, whatever their type; the Hub has no word for that.
bool IsQuantizedHere(const Manifest& manifest) {
  if (manifest.recipe.name.empty()) return false;
  return std::any_of(
      manifest.bundles.begin(), manifest.bundles.end(), [](const BundleRecord& bundle) {
        return std::any_of(bundle.tensors.begin(), bundle.tensors.end(),
                           [](const TensorRecord& tensor) { return IsBlockType(tensor.dtype); });
      });
}

std::string BaseModel(const ModelRecord& model) {
  return IsHubName(model.id) ? model.id : HubRepositoryOf(model);
}

}  // namespace

std::string YamlText(std::string_view text) {
  std::string out = "\"";
  for (const char c : Shown(text)) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string FrontMatter(const Manifest& manifest) {
  std::string out(kFence);
  if (const std::string base = BaseModel(manifest.model); !base.empty()) {
    out += Cat("base_model: ", YamlText(base), "\n");
    if (IsQuantizedHere(manifest)) out += "base_model_relation: quantized\n";
  }
  const ModelLicense& license = manifest.model.license;
  for (const auto& [key, text] :
       {std::pair("license", &license.id), std::pair("license_name", &license.name),
        std::pair("license_link", &license.link)}) {
    if (!text->empty()) out += Cat(key, ": ", YamlText(*text), "\n");
  }
  if (manifest.is_gguf()) out += "library_name: gguf\n";
  out += "tags:\n  - moe\n  - mixture-of-experts\n  - moepack\n";
  out += manifest.is_gguf() ? "  - gguf\n" : "  - safetensors\n";
  if (!manifest.model.family.empty()) out += Cat("  - ", YamlText(manifest.model.family), "\n");
  return out.append(kFence);
}

std::string WithFrontMatter(const Manifest& manifest, const std::string& readme) {
  const bool has = readme.starts_with(kFence) || readme.starts_with("---\r\n");
  return has ? readme : FrontMatter(manifest) + readme;
}

}  // namespace moepack::manifest
