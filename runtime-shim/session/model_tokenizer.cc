#include "runtime-shim/session/model_tokenizer.h"

namespace moepack::runtime {

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const std::string& path,
                                                 const GgufMetadata& metadata,
                                                 const std::optional<Error>& none) {
  if (none) return *none;
  return OpenTokenizer(path, metadata);
}

Result<std::unique_ptr<Tokenizer>> OpenTokenizer(const Weights& weights) {
  return OpenTokenizer(weights.path, weights.metadata, weights.no_tokenizer);
}

}  // namespace moepack::runtime
