// fixtures/tiny-moe split in three with an overlay, and refitted with a store made by a test.
#pragma once

#include "libshard/pack/refit_tensors.h"
#include "tests/libshard/refit/sample_store.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace tiny {

// The store beside a distribution.
inline fs::path StoreOf(const fs::path& out) { return out.string() + ".refit"; }

// Writes the store and the distribution, or these parts of it; `gguf` is the recipe, "" for
// safetensors.
inline moepack::Result<moepack::manifest::WriteReport> WriteRefitted(
    const fs::path& out, const moepack::StoreOptions& change, const std::string& gguf = "",
    const moepack::PlanOptions& plan_options = PlanOptions(),
    const std::vector<std::string>& parts = {}) {
  const moepack::MoeModel model = Model();
  const moepack::Plan plan = Plan(model, plan_options);
  moepack::WriteStore(StoreOf(out), model, plan, change);
  SHARD_TRY(const moepack::RefitStore opened, moepack::RefitStore::Open(StoreOf(out)));
  moepack::manifest::WriteOptions options = Only(parts);
  SHARD_TRY(const moepack::RefitTensors refit,
            moepack::RefitTensors::Of(opened, model, plan, options.slice.parts));
  options.slice.refit = &refit;
  if (!gguf.empty()) {
    options.gguf.emplace();
    options.gguf->recipe.recipe = gguf;
  }
  return moepack::manifest::WriteDistribution(model, plan, out.string(), options);
}

// Every expert and router row is changed, in all layers except layer 2 of group 1.
inline moepack::StoreOptions Changed() {
  moepack::StoreOptions options;
  options.change = [](moepack::RefittedExperts& experts) {
    for (const moepack::RefittedArray& array : moepack::RefittedArrays()) {
      uint32_t seed = 7;
      for (float& value : experts.*array.values) {
        seed = seed * 1664525u + 1013904223u;
        value *= 1 + 0.5f * (static_cast<float>(seed >> 8) / 16777216.f - 0.5f);
      }
    }
  };
  options.accept = [](uint32_t layer, uint32_t group) { return layer != 2 || group != 1; };
  return options;
}

}  // namespace tiny
