#include "libshard/convert/converter.h"

#include <algorithm>

namespace moepack {

const GgufConverter* FindConverter(std::string_view family) {
  const std::span<const GgufConverter> all = AllConverters();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& row) { return row.family == family; });
  return found == all.end() ? nullptr : &*found;
}

Status CheckByConversion(const MoeModel& model) {
  const GgufConverter* converter = FindConverter(model.family().name);
  if (converter == nullptr || model.checkpoint().names_only() || model.checkpoint().is_gguf()) {
    return Ok();
  }
  ConvertOptions options;
  options.part = ConvertOptions::Part::kTensors;
  const Result<GgufModel> view = converter->convert(model, options);
  if (view || view.error().code != Code::kCorrupt) return Ok();
  return view.error();
}

}  // namespace moepack
