// Reads what the metadata of a GGUF model promises. Only llama.cpp keys that mean the same in every
// architecture are used.
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/check/promise.h"

namespace moepack {

ModelPromise ReadGgufPromise(const GgufMetadata& metadata, const ModelConfig& model) {
  const std::string prefix = metadata.Architecture() + ".";
  // This is also 0 if a list gives one number per layer.
  const auto number = [&](const char* key) { return metadata.Uint(prefix + key).value_or(0); };
  ModelPromise promise;
  promise.layers_key = prefix + "block_count";
  promise.layers.resize(model.layers);
  promise.mtp = model.mtp_layers;
  promise.mtp_key = prefix + "nextn_predict_layers";
  promise.hidden = model.hidden_size;
  promise.vocabulary = model.vocab_size;
  const uint64_t latent = number("moe_latent_size");
  promise.expert_input = latent > 0 ? latent : promise.hidden;
  promise.expert_width = number("expert_feed_forward_length");
  promise.dense_width = number("feed_forward_length");
  promise.shared_width = number("expert_shared_feed_forward_length");
  promise.moe_key = prefix + "leading_dense_block_count";
  const uint64_t dense = std::min<uint64_t>(number("leading_dense_block_count"), model.layers);
  for (uint64_t layer = 0; layer < dense; ++layer) promise.layers[layer].moe = false;
  return promise;
}

}  // namespace moepack
